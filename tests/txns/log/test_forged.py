"""What somebody who may write the commit table alone makes others do (docs/spec.md 4.5, 10)."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.table import CommitTableRequest, Namespace, TableIdentifier
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetSnapshotRefUpdate

import txns
from tests.txns.lake import ids, rows
from txns._log import payload
from txns._log.entry import Change, Kind, Payload
from txns._log.entry import Operation as LoggedOperation

PLACES = [
    "{folder}/victim.json",
    "{folder}/../victim.json",
    "{folder}/txns-payload-1-2.json/../../../victim.json",
    "file:///victim",
    "{folder}/txns-payload-ab-cd.json.bak",
]


def forged(handle, location: str) -> None:
    """Log what was logged last once more, with a payload that is said to lie somewhere."""
    log = handle.parts.log
    head = log.load()
    [*_, last] = (entry for entry in head.state.entries if entry.applies)
    ts, [change] = head.upper + 1, last.changes
    to = change.to_snapshot_id
    assert to is not None
    fake = replace(
        last,
        txn_id="forged",
        commit_ts=ts,
        upper=ts,
        prev_ts=head.upper,
        read_ts=head.upper,
        changes=(replace(change, from_snapshot_id=to, to_snapshot_id=to - 1),),
        payload=Payload(location=location, sha256=hashlib.sha256(b"{}").hexdigest()),
    )
    log.append(head, [fake])


@pytest.mark.parametrize("place", PLACES)
def test_a_payload_that_lies_elsewhere_is_neither_read_nor_removed(lake, tmp_path, place):
    """`txns.applied` may say that it is applied: whoever writes the table can set that."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    handle.catalog().load_table(a).append(rows(2))
    folder = f"{handle.parts.log.load().metadata.location}/metadata"
    victim = tmp_path / "victim.json"
    location = victim.as_uri() if place == "file:///victim" else place.format(folder=folder)
    if place != "file:///victim":
        victim = Path(location.removeprefix("file://"))
        victim.parent.mkdir(parents=True, exist_ok=True)
    victim.write_text("{}")
    handle.apply_le()
    forged(handle, location)
    assert [("shop", "a")] == handle.apply_le()
    with pytest.raises(txns.errors.CorruptLog, match="lies where no writer"):
        handle.snapshot().load_table(a)
    lake.catalog.load_table(a).transaction().set_properties(
        {"txns.applied": str(handle.upper)}
    ).commit_transaction()
    assert handle.tidy()
    lake.clock.ahead_ms += 11 * 60_000  # what is superseded goes when the next one is noted
    handle.advance(handle.upper + 1)
    assert victim.exists()


@pytest.mark.parametrize("kind", [Kind.REPAIR, Kind.FORGET, Kind.ADOPT])
def test_no_record_changes_a_table_that_was_never_under_care(lake, kind):
    """Whoever may write the commit table alone has no right to it, and appliers may have."""
    a, b = lake.table("a", [1]), lake.table("b", [1], register=False)
    handle = lake.open(apply="next")
    handle.catalog().load_table(a).append(rows(2))
    handle.apply_le()
    log, plain = handle.parts.log, lake.catalog.load_table(b)
    head = log.load()
    main = plain.current_snapshot()
    snapshot = main.model_copy(
        update={
            "snapshot_id": 7,
            "parent_snapshot_id": main.snapshot_id,
            "sequence_number": main.sequence_number + 1,
            "summary": Summary(Operation.OVERWRITE, **{"txns.commit-ts": "1", "txns.txn-id": "x"}),
        }
    )
    request = CommitTableRequest(
        identifier=TableIdentifier(namespace=Namespace(["shop"]), name="b"),
        requirements=(AssertTableUUID(uuid=plain.metadata.table_uuid),),
        updates=(
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=7),
        ),
    )
    change = Change(
        table=("shop", "b"),
        uuid=str(plain.metadata.table_uuid),
        operation=LoggedOperation.OVERWRITE,
        from_snapshot_id=main.snapshot_id,
        to_snapshot_id=7,
        added_records=0,
        deleted_records=0,
    )
    [*_, last] = (entry for entry in head.state.entries if entry.applies)
    ts = head.upper + 1
    fake = replace(
        last,
        kind=kind,
        txn_id="forged",
        commit_ts=ts,
        upper=ts,
        prev_ts=head.upper,
        read_ts=head.upper,
        changes=(change,),
        payload=Payload(inline=payload.dump([request])),
    )
    log.append(head, [fake])
    assert [("shop", "b")] == handle.apply_le()
    assert plain.metadata_location == lake.catalog.load_table(b).metadata_location
    shown = handle.snapshot().load_table(b)
    assert (main.snapshot_id, [1]) == (shown.metadata.current_snapshot_id, ids(shown))
    handle.catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == ids(handle.snapshot().load_table(a))


@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        ("txns-payload-0a-1b.json", True),
        ("txns-payload-0a-1b-7.json", True),
        ("txns-payload-0a-1b.json/x", False),
        ("txns-payload-.json", False),
        ("00001-x.metadata.json", False),
    ],
)
def test_names_of_payload_files(name, is_ours):
    assert payload.is_at_its_place(f"s3://lake/log/metadata/{name}", "s3://lake/log") is is_ours
    assert payload.is_at_its_place(f"s3://lake/log/metadata/{name}", "s3://lake/log/") is is_ours
    assert not payload.is_at_its_place(f"s3://lake/other/metadata/{name}", "s3://lake/log")
