"""A stranger who replaces a table by an empty one: `main` is gone (docs/spec.md 9.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
)

import txns
from tests.txns.lake import SCHEMA, SteppingClock, ids, rows
from txns._iceberg.snapshots import branch_at
from txns._table import mark
from txns._table.logged_state import logged_state
from txns._table.retention import needed_since

if TYPE_CHECKING:
    from pyiceberg.table.update import TableUpdate

    from tests.txns.lake import Lake

REASON = "somebody replaced the table by an empty one"


def _change(lake: Lake, name: str, *updates: TableUpdate) -> None:
    plain = lake.catalog.load_table(name)
    lake.catalog.commit_table(
        plain, (AssertTableUUID(uuid=plain.metadata.table_uuid),), tuple(updates)
    )


def _replace(lake: Lake, name: str) -> None:
    """What Iceberg's CREATE OR REPLACE TABLE without rows does to the snapshots of a table."""
    _change(lake, name, RemoveSnapshotRefUpdate(ref_name=MAIN_BRANCH))
    assert [] == lake.plain_ids(name)


def test_the_logged_rows_are_read_until_it_is_rejected(lake, handle):
    """Writers, and who would forget the table, get the cure; then main is back."""
    a = lake.table("a", [1])
    handle.catalog().load_table(a).append(rows(2))
    _replace(lake, a)
    assert [1, 2] == ids(handle.snapshot().load_table(a))
    with pytest.raises(txns.Quarantined, match=rf"{REASON}.*txns repair reject shop\.a"):
        handle.catalog().load_table(a).append(rows(3))
    with pytest.raises(txns.ForeignWrite, match=REASON):
        handle.forget(a)
    handle.repair_reject(a)
    assert [1, 2] == lake.plain_ids(a)
    refs = lake.catalog.load_table(a).refs()
    assert [MAIN_BRANCH] == list(refs)
    assert mark.MIN_SNAPSHOTS_TO_KEEP == refs[MAIN_BRANCH].min_snapshots_to_keep
    handle.catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == lake.plain_ids(a)
    _replace(lake, a)  # the same deed again is another entry
    handle.repair_reject(a)
    assert [1, 2, 3] == lake.plain_ids(a)


def test_a_read_of_before_finds_its_rows(lake, handle):
    """All that main's history held is there, but for its name."""
    a = lake.table("a", [1])
    before = handle.upper
    handle.catalog().load_table(a).append(rows(2))
    _replace(lake, a)
    assert [1] == ids(handle.snapshot(before).load_table(a))


def test_it_is_adopted_as_an_entry_without_rows(lake, handle):
    """Of a stranger who does more than append, the state becomes the table's."""
    a = lake.table("a", [1])
    _replace(lake, a)
    ts = handle.repair_adopt(a)
    assert [1] == ids(handle.snapshot(ts - 1).load_table(a))
    assert [] == ids(handle.snapshot(ts).load_table(a)) == lake.plain_ids(a)
    with pytest.raises(txns.Unsupported, match="nothing to repair"):
        handle.repair_adopt(a)
    handle.catalog().load_table(a).append(rows(3))
    assert [3] == lake.plain_ids(a)


def test_two_who_reject_it_write_one_entry(lake, handle):
    """Its id is derived, though there is no snapshot to derive it from."""
    a = lake.table("a", [1])
    _replace(lake, a)
    later = lake.open(apply="next")
    with mock.patch.object(later.parts.applier, "apply", return_value=False):
        first = later.repair_reject(a)
        assert [] == lake.plain_ids(a)
        [entry] = [e for e in later.parts.log.load().state.entries if e.commit_ts == first]
    applied, uuid = (
        lake.catalog.load_table(a).properties[mark.APPLIED],
        lake.catalog.load_table(a).metadata.table_uuid,
    )
    assert txns._log.entry.derived_id("reject", str(uuid), 0, applied) == entry.txn_id
    assert [] == handle.apply_le()
    assert [1] == lake.plain_ids(a)


def test_between_swap_and_apply(lake):
    """What has committed is not lost: it is read as logged, and applied with the rejection."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    handle = lake.open(apply="next")
    with handle.begin() as txn:
        for name in (a, b):
            txn.load_table(name).append(rows(2))
    _replace(lake, a)
    assert [("shop", "a")] == handle.apply_le()
    assert [[1, 2], [1, 2]] == [ids(handle.snapshot().load_table(name)) for name in (a, b)]
    assert ([], [1, 2]) == (lake.plain_ids(a), lake.plain_ids(b))
    with pytest.raises(txns.Unsupported, match="reject"):
        handle.repair_adopt(a)
    handle.repair_reject(a)
    assert [] == handle.apply_le()
    assert [1, 2] == lake.plain_ids(a)


def test_what_comes_between_its_rejection_and_the_apply_is_kept(lake, handle):
    """A stranger who writes on the empty table meanwhile finds the rows on a branch."""
    a = lake.table("a", [1])
    _replace(lake, a)
    with mock.patch.object(handle.parts.applier, "apply", return_value=False):
        handle.repair_reject(a)
    lake.catalog.load_table(a).append(rows(50))
    foreign = lake.catalog.load_table(a).metadata.current_snapshot_id
    assert [] == handle.apply_le()
    assert [1] == lake.plain_ids(a)
    assert {MAIN_BRANCH, f"txns-foreign-{foreign}"} == set(lake.catalog.load_table(a).refs())


def test_a_dropped_table_stays_dropped(lake, handle):
    """The marker is the logged state; to create the name again waits for the rejection."""
    a = lake.table("a", [1])
    handle.catalog().drop_table(a)
    _replace(lake, a)
    with pytest.raises(NoSuchTableError):
        handle.catalog().load_table(a)
    with pytest.raises(txns.Quarantined, match=REASON):
        handle.catalog().create_table(a, SCHEMA)
    with pytest.raises(txns.Quarantined, match=REASON):
        handle.purge(a)
    with pytest.raises(txns.Unsupported, match="dropped"):
        handle.repair_adopt(a)
    handle.repair_reject(a)
    with pytest.raises(NoSuchTableError):
        handle.catalog().load_table(a)
    handle.catalog().create_table(a, SCHEMA).append(rows(5))
    assert [5] == lake.plain_ids(a)


def test_a_dropped_table_that_is_compacted_stays_dropped(lake, handle):
    """A stranger's `replace` holds the rows of the marker: none, of no table."""
    a = lake.table("a", [1])
    handle.catalog().drop_table(a)
    marker = lake.catalog.load_table(a).current_snapshot()
    compaction = marker.model_copy(
        update={
            "snapshot_id": 77,
            "parent_snapshot_id": marker.snapshot_id,
            "sequence_number": marker.sequence_number + 1,
            "summary": Summary(Operation.REPLACE),
        }
    )
    _change(lake, a, AddSnapshotUpdate(snapshot=compaction), branch_at(MAIN_BRANCH, 77))
    with pytest.raises(NoSuchTableError):
        handle.catalog().load_table(a)
    handle.catalog().create_table(a, SCHEMA).append(rows(5))
    assert [5] == ids(handle.snapshot().load_table(a)) == lake.plain_ids(a)


def test_a_forget_is_applied_all_the_same(lake):
    """Who replaces a table after it was forgotten is no stranger; what it was can be read."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    with mock.patch.object(handle.parts.applier, "apply", return_value=False):
        ts = handle.forget(a)
    _replace(lake, a)
    assert [] == handle.apply_le()
    assert [] == ids(handle.snapshot().load_table(a)) == lake.plain_ids(a)
    assert [1] == ids(handle.snapshot(ts - 1).load_table(a))


def test_without_the_mark_the_logged_rows_are_read_too(lake):
    """Entries that are not applied tell whose the table is."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    with handle.begin() as txn:
        txn.load_table(a).append(rows(2))
    _change(
        lake,
        a,
        RemoveSnapshotRefUpdate(ref_name=MAIN_BRANCH),
        RemovePropertiesUpdate(removals=[mark.COMMIT_TABLE]),
    )
    assert [1, 2] == ids(handle.snapshot().load_table(a))
    handle.repair_reject(a)
    handle.apply_le()
    assert [1, 2] == lake.plain_ids(a)


def test_once_the_rows_are_expired_nobody_reads_an_empty_table(lake, handle):
    """An error, as wherever the logged state is gone; with what helps then."""
    a = lake.table("a", [1])
    _replace(lake, a)
    gone = [one.snapshot_id for one in lake.catalog.load_table(a).snapshots()]
    _change(lake, a, RemoveSnapshotsUpdate(snapshot_ids=gone))
    with pytest.raises(txns.Quarantined, match=r"expired.*then register it; table=`shop\.a`"):
        handle.snapshot().load_table(a)
    _change(lake, a, RemovePropertiesUpdate(removals=[mark.COMMIT_TABLE]))  # the cure
    handle.register(a)
    handle.catalog().load_table(a).append(rows(2))
    assert [2] == ids(handle.snapshot().load_table(a)) == lake.plain_ids(a)


def test_while_transactions_are_off_it_is_a_plain_table(lake, handle):
    """And is adopted when they are on again; a dropped one is none."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    handle.catalog().drop_table(b)
    handle.off()
    for name in (a, b):
        _replace(lake, name)
    assert [] == ids(handle.catalog().load_table(a))
    with pytest.raises(NoSuchTableError):
        handle.catalog().load_table(b)
    assert [("shop", "b")] == handle.on()
    assert [] == ids(handle.snapshot().load_table(a))
    handle.catalog().load_table(a).append(rows(2))
    assert [2] == lake.plain_ids(a)


def test_the_history_of_main_is_not_needed(lake, handle):
    """Some clear it with the ref, some leave it: the logged state is the same."""
    a = lake.table("a", [1])
    handle.catalog().load_table(a).append(rows(2))
    main = lake.catalog.load_table(a).metadata.current_snapshot_id
    _replace(lake, a)
    metadata = lake.catalog.load_table(a).metadata
    for log in (metadata.snapshot_log, []):
        logged = logged_state(
            metadata.model_copy(update={"snapshot_log": log}), mark.mark_of(metadata)
        )
        assert main == logged.snapshot.snapshot_id
        assert (None, (), False) == (
            logged.stranger.head_snapshot_id,
            logged.stranger.snapshot_ids,
            logged.stranger.adoptable,
        )
    assert main in needed_since(metadata, SteppingClock().now_ms())
