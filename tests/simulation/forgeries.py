"""What a forger puts into the log: of each kind that docs/security.md says others are safe from."""

from __future__ import annotations

import copy
import json
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.snapshots import MetadataLogEntry
from pyiceberg.table.update import (
    RemoveSnapshotsUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
)

from tests.fuzz import inputs, mutation
from tests.fuzz.more_updates import MORE_UPDATES
from tests.simulation.forged_archive import files_of_others, rows_of_others
from tests.simulation.forger import Forger, Json, main_at
from tests.simulation.guard import PROMISE
from tests.simulation.scheduler import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.worker import Worker

_TRIES = 3
_CODE_ALONE = 0.3
"""How many changes that nobody writes name code, and do nothing else amiss."""
_KINDS = ("commit", "repair", "forget", "adopt")
_EMPTY_SHA256 = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
"""Of `{}`."""


def forge(name: str) -> Callable[[Worker], None]:
    """Give the action that puts something into the log, or takes something out."""
    return partial(_forge, name=name)


def _forge(worker: Worker, name: str) -> None:
    worker.lake.world.sleep(worker.rng.choice((1, 20, 200, 2000)))
    for _ in range(_TRIES):
        try:
            FORGERIES[name](Forger(worker.lake, worker.process))
        except CommitFailedException:  # somebody else was first
            continue
        worker.lake.world.note(f"forged {name}")
        return


class Code:
    """Code that a property of the commit table names."""

    def __init__(self, *_given: object) -> None:
        """Tell that it has been run."""
        raise Violation(PROMISE, "somebody has run what a property of the commit table names")


CODE = f"{__name__}.Code"
CODE_OF_JAVA = "io.txns.iceberg.simulation.ForgedCode"
_CODE_PROPERTIES = {
    "write.py-location-provider.impl": CODE,
    "write.location-provider.impl": CODE_OF_JAVA,
}


def _change(forger: Forger, kind: str, element: tuple[Json, Json]) -> None:
    said, change = element
    forger.put(forger.record(kind, [said], [change]))


def not_in_care(forger: Forger) -> None:
    """Change a table that was never in this log's care, or is another log's."""
    name, kind = forger.one_of_others(), forger.rng.choice((*_KINDS, "register"))
    if kind == "register":
        _register(forger, name)
        return
    updates: list[Json] = []
    uuid = str(forger.metadata(name).table_uuid)
    mark = {"txns.commit-table": "txns.commits", "txns.table-uuid": uuid}
    if kind == "repair" and forger.rng.random() < 0.5:
        updates = [{"action": "set-properties", "updates": mark}]
    operation = forger.rng.choice(("append", "overwrite", "alter", "drop"))
    _change(forger, kind, forger.element(name, operation, updates))


def named_otherwise(forger: Forger) -> None:
    """Name one table, and another one's uuid."""
    said, change = forger.element(forger.any_table(), forger.rng.choice(("append", "alter")))
    name = forger.rng.choice((forger.one_of_others(), forger.one_in_care(), ("lake", "free")))
    for each in (said, change) if forger.rng.random() < 0.7 else (said,):
        each["identifier"] = {"namespace": list(name[:-1]), "name": name[-1]}
    _change(forger, forger.rng.choice(_KINDS), (said, change))


_UPDATES: list[Json] = [
    *(each for each in MORE_UPDATES if "action" in each),
    {"action": "set-properties", "updates": {"txns.applied": "9223372036854775807"}},
    {"action": "set-properties", "updates": {"txns.purging": "somebody"}},
    {"action": "set-properties", "updates": {"txns.commit-table": "other.commits"}},
    {"action": "set-properties", "updates": {"txns.created": "1"}},
    {"action": "set-properties", "updates": _CODE_PROPERTIES},
    {"action": "set-properties", "updates": {"py-io-impl": CODE, "s3.endpoint": "http://x"}},
    {"action": "remove-properties", "removals": ["txns.applied", "txns.table-uuid"]},
    {"action": "remove-snapshots", "snapshot-ids": [1, 2]},
    {"action": "remove-snapshot-ref", "ref-name": "main"},
    {"action": "remove-snapshot-ref", "ref-name": "txns-outstanding"},
]


def update_not_written(forger: Forger) -> None:
    """Change a table in care by updates that no writer of the protocol logs."""
    updates = [copy.deepcopy(forger.rng.choice(_UPDATES)) for _ in range(forger.rng.randint(1, 2))]
    if forger.rng.random() < _CODE_ALONE:
        updates = [{"action": "set-properties", "updates": dict(_CODE_PROPERTIES)}]
    branch = {"action": "set-snapshot-ref", "type": "branch", "snapshot-id": 1}
    if forger.rng.random() < 0.2:
        updates.append({**branch, "ref-name": forger.rng.choice(("txns-foreign-1", "users"))})
    operation = forger.rng.choice(("append", "alter", "overwrite", "replace"))
    element = forger.element(forger.one_in_care(), operation, updates)
    _change(forger, forger.rng.choice(_KINDS), element)


def manifests_of_others(forger: Forger) -> None:
    """Have a table in care read what another one's manifests list."""
    stolen = forger.metadata(forger.one_of_others()).current_snapshot()
    path = stolen.manifest_list if stolen else "memory://lake/secret/x.avro"
    own = forger.metadata(name := forger.one_in_care()).location
    path = forger.rng.choice((path, path, f"{own}/metadata/../../../{path[len('memory://') :]}"))
    _change(forger, forger.rng.choice(_KINDS), forger.element(name, manifest_list=path))


def lists_not_there(forger: Forger) -> None:
    """Have a table in care read a list of its own that nobody has written."""
    own = forger.metadata(name := forger.one_in_care()).location
    path = f"{own}/metadata/snap-{forger.number()}-0-nothing.avro"
    _change(forger, forger.rng.choice(_KINDS), forger.element(name, manifest_list=path))


def created(forger: Forger) -> None:
    """Create a table: at its own place, at others', under their names."""
    rng, ts = forger.rng, forger.upper + 1
    others = [location for _name, location in forger.guard.others.values()]
    free = ("lake", f"x{forger.lake.new_row()}")
    name = rng.choice((free, free, forger.any_table(), ("secret", "x"), ("txns", "commits")))
    own = f"memory://lake/{'/'.join(name)}"
    place = rng.choice(
        (own, own, *others, f"{rng.choice(others)}/in", "memory://lake/secret", forger.folder)
    )
    uuid = str(UUID(int=rng.getrandbits(128)))
    golden = next(each for each in inputs.golden("valid") if each["name"] == "create")
    change = json.loads(golden["summary"]["txns.payload"])["table-changes"][0]
    to = forger.number()
    for update in change["updates"]:
        if update["action"] == "assign-uuid":
            update["uuid"] = uuid
        elif update["action"] == "set-location":
            update["location"] = place
        elif update["action"] == "set-properties":
            update["updates"] = _mark(forger, uuid, ts, place)
        elif update["action"] == "add-snapshot":
            snapshot = update["snapshot"]
            snapshot |= {"snapshot-id": to, "timestamp-ms": ts}
            snapshot["summary"] |= {"txns.commit-ts": str(ts), "txns.txn-id": forger.txn_id}
            snapshot["manifest-list"] = _list_of_creation(forger, place)
        elif update["action"] == "set-snapshot-ref":
            update.update(main_at(to))
    said = forger.said(name, uuid, "create", None, to)
    change["identifier"] = said["identifier"]
    _change(forger, "commit", (said, change))


def _mark(forger: Forger, uuid: str, ts: int, place: str) -> dict[str, str]:
    log_id = forger.log.properties.get("txns.log-id", str(forger.log.table_uuid))
    mark = {
        "txns.commit-table": "txns.commits",
        "txns.log-id": log_id,
        "txns.table-uuid": uuid,
        "txns.created": str(ts),
    }
    elsewhere = {"write.metadata.path": forger.rng.choice((f"{place}/metadata", "memory://x"))}
    return mark | (elsewhere if forger.rng.random() < 0.2 else {})


def _list_of_creation(forger: Forger, place: str) -> str:
    """Give a manifest list for a new table: one that lies at its place, if there is one."""
    there = [
        path
        for path in forger.lake.observer.registry.storage.below(f"{place}/metadata")
        if "/snap-" in path
    ]
    return forger.rng.choice((*there, f"{place}/metadata/snap-1.avro"))


def moved(forger: Forger) -> None:
    """Let a table in care stand elsewhere, or write its metadata or data there."""
    place = forger.metadata(forger.any_table()).location
    key = forger.rng.choice(("write.metadata.path", "write.data.path", "write.object-storage.path"))
    update: Json = forger.rng.choice(
        (
            {"action": "set-location", "location": place},
            {"action": "set-properties", "updates": {key: f"{place}/metadata"}},
        )
    )
    _change(forger, "commit", forger.element(forger.one_in_care(), "alter", [update]))


def state(forger: Forger) -> None:
    """Turn writers off or on, set the log, move the upper, bar somebody's id."""
    rng = forger.rng
    kind = rng.choice(("off", "on", "settings", "settings", "advance", "abort"))
    keys: dict[str, str] = {}
    if kind == "settings":
        settings = rng.choice(
            (
                {"max-age-ms": 1000, "id-retention-ms": 1000, "apply": "inline"},
                {"max-age-ms": 0},
                {"max-age-ms": 2**63, "apply": "never"},
                {"id-retention-ms": 3153600000000, "apply": "next"},
            )
        )
        keys["settings"] = json.dumps(settings)
    if kind == "advance":
        ts = str(rng.choice((forger.upper + 10**6, 253402300799999, 2**63 - 1, 2**63)))
        keys |= {"commit_ts": ts, "upper": ts}
    if kind == "abort":
        keys["txn_id"] = f"job-{rng.choice('abc')}.{rng.randint(0, 9)}.bystander-transaction"
    forger.put(forger.record(kind, **keys))


def care(forger: Forger) -> None:
    """Register, forget, adopt or repair a table in care, as the protocol writes it."""
    name, kind = forger.one_in_care(), forger.rng.choice(("register", *_KINDS))
    if kind == "register":
        _register(forger, name)
        return
    mark = ["txns.commit-table", "txns.log-id", "txns.table-uuid", "txns.created"]
    leaves = [{"action": "remove-properties", "removals": mark}]
    operation = forger.rng.choice(("alter", "append"))
    _change(forger, kind, forger.element(name, operation, leaves if kind == "forget" else ()))


def _register(forger: Forger, name: tuple[str, ...]) -> None:
    metadata = forger.metadata(name)
    uuid, main = str(metadata.table_uuid), metadata.current_snapshot_id
    to = forger.rng.choice((main, forger.number()))
    forger.put(forger.record("register", [forger.said(name, uuid, "alter", None, to)]))


def stamps(forger: Forger) -> None:
    """Let a snapshot carry stamps that others go by."""
    rng = forger.rng
    summary = rng.choice(
        (
            {"commit_ts": str(forger.upper + 1000)},
            {"commit_ts": "x"},
            {"txn_id": "another"},
            {"adopted": f"{forger.number()},x"},
            {"restored": "-1", "lost_above": "1"},
            {"dropped": "true", "passing": "true"},
            {"copy_of": "1", "outstanding": "2"},
        )
    )
    _change(forger, rng.choice(_KINDS), forger.element(forger.one_in_care(), **summary))


def claimed(forger: Forger) -> None:
    """Drop a table, and claim it to be purged."""
    name = forger.rng.choice((forger.one_in_care(), forger.one_in_care(), forger.one_of_others()))
    claim = {"action": "set-properties", "updates": {"txns.purging": forger.txn_id}}
    updates = [claim] if forger.rng.random() < 0.5 else []
    _change(forger, "commit", forger.element(name, "drop", updates, dropped="true"))


def tidied(forger: Forger) -> None:
    """Say of the head what is not so."""
    upper, rng = forger.upper, forger.rng
    keys = rng.choice(
        (
            {"upper": str(upper), "tidied_upto": str(upper)},
            {"upper": str(upper), "tidied_upto": "0"},
            {"upper": "0", "tidied_upto": "0"},
            {"upper": str(upper + 10**9), "tidied_upto": str(upper + 10**9)},
            {"upper": str(upper), "tidied_upto": str(upper + 1)},
            {"upper": str(2**63 - 1), "tidied_upto": str(2**63 - 1)},
        )
    )
    record = forger.record("tidy", **keys)
    for key in ("commit-ts", "prev-ts", "read-ts", "isolation", "tables"):
        del record[f"txns.{key}"]
    forger.put(record)


def removed(forger: Forger) -> None:
    """Take records out of the head."""
    main = forger.log.current_snapshot_id
    others = [each.snapshot_id for each in forger.log.snapshots if each.snapshot_id != main]
    if others:
        taken = forger.rng.sample(others, forger.rng.randint(1, min(2, len(others))))
        forger.change(RemoveSnapshotsUpdate(snapshot_ids=taken))


def another_epoch(forger: Forger) -> None:
    """Give the log another id, as a recovery does."""
    uuid = forger.log.table_uuid
    log_id = forger.rng.choice((f"{uuid}-0123abcd", f"{uuid}-", "x", str(UUID(int=1))))
    forger.change(SetPropertiesUpdate(updates={"txns.log-id": log_id}))


def moved_log(forger: Forger) -> None:
    """Let the commit table itself stand elsewhere, or write there."""
    place = forger.metadata(forger.any_table()).location
    key = forger.rng.choice(("write.metadata.path", "write.data.path"))
    forger.change(
        forger.rng.choice(
            (
                SetLocationUpdate(location=place),
                SetPropertiesUpdate(updates={key: f"{place}/metadata"}),
            )
        )
    )


def code(forger: Forger) -> None:
    """Let the commit table name code that a library loads: pyiceberg's, and Iceberg's."""
    forger.change(SetPropertiesUpdate(updates=_CODE_PROPERTIES))


def versions_of_others(forger: Forger) -> None:
    """Let the commit table call other tables' metadata its own of before, to be removed."""
    others = (forger.one_of_others(), forger.any_table())
    files = [forger.lake.observer.registry.pointers[name] for name in others]
    said = [MetadataLogEntry(metadata_file=each, timestamp_ms=1) for each in files]
    removal = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    properties = forger.log.properties | forger.rng.choice(({}, removal, removal))
    update: Json = {"metadata_log": [*said, *forger.log.metadata_log], "properties": properties}
    forger.point_to(forger.log.model_copy(update=update))


def payload_elsewhere(forger: Forger) -> None:
    """Say that a payload lies at another's place."""
    said, _ = forger.element(forger.one_in_care())
    others = forger.metadata(forger.any_table())
    main = others.current_snapshot()
    location = forger.rng.choice(
        (
            f"{others.location}/metadata/txns-payload-0a-1b.json",
            main.manifest_list if main else others.location,
            f"{forger.folder}/metadata/../../../lake/u0/x.json",
            f"{forger.folder}x/metadata/txns-payload-0a-1b.json",
            f"{forger.folder}/metadata/txns-payload-0a-1b.json",
        )
    )
    where = {"payload_location": location, "payload_sha256": _EMPTY_SHA256}
    forger.put(forger.record("commit", [said], **where))


def payload_file(forger: Forger) -> None:
    """Write a payload's file at its place: a right one, or with what nobody can read."""
    said, change = forger.element(forger.one_in_care())
    right = json.dumps({"table-changes": [change]}).encode()
    content = forger.rng.choice(
        (
            right,
            b"[" * 100_000,
            b'{"a":' * 1000 + b"1" + b"}" * 1000,
            right[:-3],
            b"\xff\xfe",
            b'{"table-changes":[]}',
            b'{"table-changes":[' + b"{}," * 100_000 + b"{}]}",
        )
    )
    location, sha256 = forger.payload_file(content)
    if forger.rng.random() < 0.2:
        sha256 = _EMPTY_SHA256
    where = {"payload_location": location, "payload_sha256": sha256}
    forger.put(forger.record("commit", [said], **where))


def payload_too_large(forger: Forger) -> None:
    """Write a payload's file that is larger than any may be."""
    said, _ = forger.element(forger.one_in_care())
    # The pipe to a JVM holds less than what is too large.
    size = (8 if forger.lake.has_java else 64) * 1024 * 1024 + 1
    location, sha256 = forger.payload_file(b" " * size)
    where = {"payload_location": location, "payload_sha256": sha256}
    forger.put(forger.record("commit", [said], **where))


def hostile_payload(forger: Forger) -> None:
    """Let a payload be anything."""
    said, change = forger.element(forger.any_table())
    hostile: Any = mutation.mutated(forger.rng, {"table-changes": [change]}, MORE_UPDATES)
    record = forger.record(forger.rng.choice(_KINDS), [said])
    record["txns.payload"] = mutation.dump(hostile)[:60_000]
    forger.put(record)


def hostile_record(forger: Forger) -> None:
    """Let keys of a record be anything."""
    said, change = forger.element(forger.any_table())
    record = forger.record(forger.rng.choice(_KINDS), [said], [change])
    for _ in range(forger.rng.randint(1, 3)):
        key = forger.rng.choice(sorted(record))
        record[key] = forger.rng.choice(
            (
                mutation.mutated_text(forger.rng, record[key]),
                forger.rng.choice(mutation.NUMBERS),
                forger.rng.choice(mutation.TEXTS),
            )
        )[:60_000]
    forger.put(record)


def words(forger: Forger) -> None:
    """Say to people what their terminals would carry out."""
    text = forger.rng.choice(("\x1b[2J\r\n\x07 gone", "\u202eevil\u2028", "x" * 100_000, "\ud800"))
    said, change = forger.element(forger.one_in_care())
    keys = {forger.rng.choice(("comment", "engine", "txn_id")): text}
    forger.put(forger.record("commit", [said], [change], **keys))


def archive_rows(forger: Forger) -> None:
    """Let the archive say of others' tables, and of ours, what nobody has committed."""
    record = _tidy(forger)
    forger.put(record, manifest_list=rows_of_others(forger))


def archive_of_others(forger: Forger) -> None:
    """Let the archive be another table's files."""
    main = forger.metadata(forger.any_table()).current_snapshot()
    path = main.manifest_list if main else ""
    forger.put(_tidy(forger), manifest_list=forger.rng.choice((path, files_of_others(forger))))


def _tidy(forger: Forger) -> dict[str, str]:
    record = forger.record("tidy", upper=str(forger.upper))
    for key in ("commit-ts", "prev-ts", "read-ts", "isolation", "tables"):
        del record[f"txns.{key}"]
    return record


def points_elsewhere(forger: Forger) -> None:
    """Let the commit table's name point to another table's metadata, another log's perhaps."""
    pointers = forger.lake.observer.registry.pointers
    other = pointers["other", "commits"]
    forger.point_at(forger.rng.choice((other, other, pointers[forger.any_table()])))


FORGERIES: dict[str, Callable[[Forger], None]] = {
    "not-in-care": not_in_care,
    "named-otherwise": named_otherwise,
    "update-not-written": update_not_written,
    "manifests-of-others": manifests_of_others,
    "lists-not-there": lists_not_there,
    "created": created,
    "moved": moved,
    "state": state,
    "care": care,
    "stamps": stamps,
    "claimed": claimed,
    "tidied": tidied,
    "removed": removed,
    "another-epoch": another_epoch,
    "moved-log": moved_log,
    "code": code,
    "versions-of-others": versions_of_others,
    "payload-elsewhere": payload_elsewhere,
    "payload-file": payload_file,
    "payload-too-large": payload_too_large,
    "hostile-payload": hostile_payload,
    "hostile-record": hostile_record,
    "words": words,
    "archive-rows": archive_rows,
    "archive-of-others": archive_of_others,
    "points-elsewhere": points_elsewhere,
}
