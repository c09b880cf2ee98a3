"""
Hostile records in a real lake, read, applied and tidied: what stays as it was.

Who may write the commit table alone has no right to anything else. So whatever a record says, no
file outside the commit table and the tables under care is changed or removed, nor is a table that
was never under care changed in the catalog. A table under care may be told to write its new files
elsewhere, as by everybody who may write it.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import random
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

from tests.fuzz import inputs, mutation
from tests.fuzz.more_updates import MORE_UPDATES
from tests.txns.lake import Lake, lake_catalog, rows
from txns import errors
from txns._admin import orphans
from txns._log import change as _change
from txns._log import entry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import txns

_LATE_MS = 61 * 60_000
_HOUR_MS = 3_600_000
_TOLD = (errors.TxnsError, NoSuchTableError, CommitFailedException, OSError, EOFError)
"""What callers are told: pyiceberg's own for what it retries, too, and for lists that are none."""


@dataclass
class Report:
    """What has come of records in a lake; `opened` says how many a log was read with."""

    inputs: int = 0
    opened: int = 0
    crashes: int = 0
    touched: int = 0
    told: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Give the figures, as the last line of a run has them."""
        counts = f"inputs={self.inputs} opened={self.opened} crashes={self.crashes}"
        return f"{counts} touched={self.touched}"


def run(folder: Path, seed: int, count: int) -> Report:
    """Put one record after the other into a lake, each into the same one."""
    report = Report()
    folder.mkdir(exist_ok=True)
    logging.disable()  # each of them is a reason to warn
    lake = _made(folder)
    shutil.copytree(folder, folder.parent / f"{folder.name}-kept")
    kept = folder.parent / f"{folder.name}-kept"
    before = _outside(lake)
    for number in range(count):
        _put_back(kept, folder)
        again = Lake(folder, lake_catalog(folder), lake.clock)
        _one(again, random.Random(f"{seed}:{number}"), report, number)
        after = _outside(again)
        changed = sorted(key for key, _ in before.items() - after.items())
        if changed:
            report.touched += 1
            report.told.append(f"input={number} has changed what is outside the care: {changed}")
        again.catalog.engine.dispose()  # type: ignore[attr-defined]
        report.inputs += 1
    shutil.rmtree(kept)
    logging.disable(logging.NOTSET)
    return report


def _made(folder: Path) -> Lake:
    """Make a lake with an entry that is not applied, a table of somebody else, and other files."""
    lake = Lake(folder, lake_catalog(folder))
    lake.catalog.create_namespace("shop")
    lake.table("a", [1])
    lake.table("c", [1])
    lake.table("b", [1], register=False)
    (folder / "warehouse" / "txns" / "commits2").mkdir(parents=True)
    for victim in ("victim.json", "warehouse/victim.avro", "warehouse/txns/commits2/victim.json"):
        (folder / victim).write_text("{}")
    handle = lake.open(apply="next")
    handle.catalog().load_table("shop.a").append(rows(2))
    handle.catalog().load_table("shop.c").append(rows(2))
    lake.catalog.engine.dispose()  # type: ignore[attr-defined]
    return lake


def _put_back(kept: Path, folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(kept, folder)


def _outside(lake: Lake) -> dict[str, str]:
    """Give the bytes of all that is neither the log's nor of a table under care."""
    ours = ("warehouse/txns/commits/", "warehouse/shop/a/", "warehouse/shop/c/", "catalog.db")
    found = {
        str(path.relative_to(lake.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(lake.folder.rglob("*"))
        if path.is_file() and not str(path.relative_to(lake.folder)).startswith(ours)
    }
    found["shop.b"] = lake.catalog.load_table("shop.b").metadata_location
    found["tables"] = str(sorted(lake.catalog.list_tables("shop")))
    return found


def _one(lake: Lake, rng: random.Random, report: Report, number: int) -> None:
    """Forge a record, and do with it what readers, appliers, tidiers and operators do."""
    _forge(lake, rng)
    lake.clock.ahead_ms += _HOUR_MS
    try:
        handle = lake.open(apply="next")
    except errors.TxnsError:  # nobody reads such a log
        return
    report.opened += 1
    for name, deed in _deeds(handle, lake):
        try:
            deed()
        except _TOLD:
            pass
        except Exception as error:  # noqa: BLE001 -- this is what is looked for
            report.crashes += 1
            report.told.append(f"input={number} {name}: {type(error).__name__}: {error!s:.300}")


def _deeds(handle: txns.Handle, lake: Lake) -> list[tuple[str, Callable[[], object]]]:
    def late() -> object:
        lake.clock.ahead_ms += _LATE_MS
        return handle.advance(handle.upper + 1)

    return [
        ("read a", lambda: handle.snapshot().load_table("shop.a").scan().to_arrow()),
        ("read b", lambda: handle.snapshot().load_table("shop.b").scan().to_arrow()),
        ("write a", lambda: handle.catalog().load_table("shop.a").append(rows(3))),
        ("apply", handle.apply_le),
        ("tidy", handle.tidy),
        ("what is superseded", late),
        ("transactions", handle.transactions),
        ("unused files", lambda: orphans.remove(handle.parts)),
        ("repair a", lambda: handle.repair_reject("shop.a")),
    ]


def _forge(lake: Lake, rng: random.Random) -> None:
    """Put a record on top of the log that nobody of the protocol wrote."""
    table = lake.catalog.load_table("txns.commits")
    newest = table.current_snapshot()
    assert newest is not None
    summary = _summary(lake, rng, newest)
    snapshot = Snapshot(
        snapshot_id=rng.randrange(1, 2**62),
        parent_snapshot_id=newest.snapshot_id,
        sequence_number=table.metadata.last_sequence_number + 1,
        timestamp_ms=table.metadata.last_updated_ms + 1,
        manifest_list=rng.choice([newest.manifest_list] * 9 + [str(lake.folder / "victim.json")]),
        summary=Summary(Operation.APPEND, **summary),
        schema_id=table.metadata.current_schema_id,
    )
    main = SetSnapshotRefUpdate(
        ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=snapshot.snapshot_id
    )
    lake.catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=snapshot), main))


def _summary(lake: Lake, rng: random.Random, newest: Snapshot) -> dict[str, str]:
    assert newest.summary is not None
    summary = dict(newest.summary.additional_properties)
    upper = int(summary["txns.upper"])
    target = lake.catalog.load_table(rng.choice(["shop.a", "shop.b", "shop.b", "shop.c"])).metadata
    name = rng.choice(["a", "b", "b", "c", "../../victim", "new"])
    uuid = rng.choice([str(target.table_uuid)] * 4 + [inputs.UUID])
    stands_on = _logged(lake).get(uuid, target.current_snapshot_id)
    main = rng.choice([stands_on, stands_on, stands_on, None, 77])
    kind = rng.choice(["commit", "commit", "repair", "forget", "adopt", "register"])
    change = {
        "identifier": {"namespace": ["shop"], "name": name},
        "uuid": uuid,
        "operation": rng.choice(["append", "overwrite", "create", "drop", "alter"]),
        "to-snapshot-id": 78,
        "added-records": 0,
        "deleted-records": 0,
        **({} if main is None else {"from-snapshot-id": main}),
    }
    summary.update(
        {
            "txns.kind": kind,
            "txns.commit-ts": str(upper + 1),
            "txns.upper": str(upper + 1),
            "txns.prev-ts": str(upper),
            "txns.read-ts": str(upper),
            "txns.isolation": "snapshot",
            "txns.txn-id": f"forged-{rng.randrange(10**9)}",
            "txns.tables": json.dumps([change]),
        }
    )
    for key in (entry.PAYLOAD, entry.PAYLOAD_LOCATION, entry.PAYLOAD_SHA256):
        summary.pop(key, None)
    if kind != "register":
        summary.update(_payload(lake, rng, change, str(target.table_uuid), upper + 1))
    return summary


def _logged(lake: Lake) -> dict[str, int]:
    """Give where the log leaves each table that it names."""
    left: dict[str, int] = {}
    for snapshot in lake.catalog.load_table("txns.commits").snapshots():
        assert snapshot.summary is not None
        for change in json.loads(snapshot.summary.additional_properties.get(_change.TABLES, "[]")):
            left[change["uuid"]] = change["to-snapshot-id"]
    return left


def _payload(
    lake: Lake, rng: random.Random, change: dict[str, Any], uuid: str, ts: int
) -> dict[str, str]:
    victim = (lake.folder / rng.choice(["victim.json", "warehouse/victim.avro"])).as_uri()
    log = f"{(lake.folder / 'warehouse/txns/commits').as_uri()}/metadata"
    if rng.random() < 0.2:
        location = rng.choice(
            [
                victim,
                f"{log}/../../../../victim.json",
                f"{log}/txns-payload-0a-1b.json/../../../../../victim.json",
                f"{log}2/victim.json",
                f"{log}/txns-payload-0a-1b.json",
            ]
        )
        sha256 = hashlib.sha256(b"{}").hexdigest()
        return {entry.PAYLOAD_LOCATION: location, entry.PAYLOAD_SHA256: sha256}
    request = {
        "identifier": change["identifier"],
        "requirements": [{"type": "assert-table-uuid", "uuid": uuid}],
        "updates": _updates(lake, rng, change, victim, ts),
    }
    if change["operation"] == "create" and rng.random() < 0.7:
        created = next(each for each in inputs.golden("valid") if each["name"] == "create")
        request = json.loads(created["summary"][entry.PAYLOAD])["table-changes"][0]
    return {entry.PAYLOAD: mutation.dump({"table-changes": [inputs.changed(rng, request)]})}


def _updates(
    lake: Lake, rng: random.Random, change: dict[str, Any], victim: str, ts: int
) -> list[Any]:
    """Give updates that name other places."""
    b = str(lake.folder / "warehouse/shop/b")
    snapshot = {
        "snapshot-id": 78,
        "parent-snapshot-id": change.get("from-snapshot-id", 1),
        "sequence-number": rng.choice([0, 1, 9]),
        "timestamp-ms": ts,
        "manifest-list": rng.choice([victim, f"{b}/metadata/x.avro"]),
        "summary": {"operation": "append", "txns.commit-ts": str(ts), "txns.txn-id": "forged"},
        "schema-id": 0,
    }
    more: list[Any] = [
        {"action": "set-location", "location": rng.choice([b, str(lake.folder)])},
        {
            "action": "set-properties",
            "updates": {"write.metadata.path": b, "write.data.path": b, "gc.enabled": "true"},
        },
        {
            "action": "set-properties",
            "updates": {
                "write.metadata.delete-after-commit.enabled": "true",
                "write.metadata.previous-versions-max": "1",
            },
        },
        {"action": "remove-snapshots", "snapshot-ids": [change.get("from-snapshot-id", 1)]},
        copy.deepcopy(rng.choice(MORE_UPDATES[:20])),
    ]
    return [
        *(rng.sample(more, rng.choice([0, 1, 2]))),
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 78},
    ]
