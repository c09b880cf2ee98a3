"""Plain orphan removal of a table leaves what cannot be applied (docs/spec.md 8.5)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AssertRefSnapshotId,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
)
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, StringType

from tests.txns.lake import SCHEMA, ids, rows
from txns._iceberg.manifests import manifests_of
from txns._iceberg.snapshots import History, summary_value
from txns._table import mark as _mark
from txns._table import outstanding_branch
from txns._table.logged_state import logged_state
from txns._table.swap import swap

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

BRANCH = outstanding_branch.BRANCH


def with_ours(value: int) -> pa.Table:
    """Give a row with a value in a column that is logged, and not applied."""
    schema = SCHEMA.append(pa.field("ours", pa.string()))
    return pa.table({"id": [value], "name": ["n"], "ours": ["o"]}, schema=schema)


def quarantined(lake, later, meanwhile=lambda _name: None) -> str:
    """
    Leave two entries that cannot be applied.

    1. A column and a row, then another row, are logged. 2. Something else happens. 3. A stranger
    takes the column's id.
    """
    a = lake.table("a", [1])
    for value in (2, 3):
        with later.begin() as txn:
            table = txn.load_table(a)
            if value == 2:
                with table.update_schema() as update:
                    update.add_column("ours", StringType())
            table.append(with_ours(value))
    meanwhile(a)
    with lake.catalog.load_table(a).update_schema() as update:
        update.add_column("theirs", LongType())
    return a


def copies(lake, name: str) -> list[Snapshot]:
    snapshots = lake.catalog.load_table(name).metadata.snapshots
    return [each for each in snapshots if summary_value(each, outstanding_branch.COPY_OF)]


def remove_orphans(lake, name: str) -> int:
    """Remove the files of a table that its metadata does not lead to, as an engine does."""
    table = lake.catalog.load_table(name)
    reached = {table.metadata_location, *(one.metadata_file for one in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        reached.add(snapshot.manifest_list)
        for manifest in manifests_of(table.io, snapshot.manifest_list):
            reached.add(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                reached.add(entry.data_file.file_path)
    kept = {path.removeprefix("file://") for path in reached}
    found = Path(table.location().removeprefix("file://")).rglob("*")
    orphans = [path for path in found if path.is_file() and str(path) not in kept]
    for path in orphans:
        path.unlink()
    return len(orphans)


def test_what_cannot_be_applied_is_no_orphan(lake, later):
    """It is read and applied after an orphan removal; without an applier before it is lost."""
    a = quarantined(lake, later)
    assert [("shop", "a")] == later.apply_le()
    remove_orphans(lake, a)
    assert [1, 2, 3] == ids(later.snapshot().load_table(a))
    later.repair_reject(a)
    assert [] == later.apply_le()
    assert [1, 2, 3] == lake.plain_ids(a)


def test_branch_and_copies_go_with_what_is_applied(lake, later):
    """What is left has lists of its own."""
    a = quarantined(lake, later)
    later.apply_le()
    lists = {each.manifest_list for each in copies(lake, a)}
    assert len(lists) == 2
    later.repair_reject(a)
    later.apply_le()
    metadata = lake.catalog.load_table(a).metadata
    assert BRANCH not in metadata.refs
    assert not lists & {each.manifest_list for each in metadata.snapshots}
    assert [] == copies(lake, a)


def test_appliers_put_the_branch_once(lake, later):
    """Whoever meets the quarantine again leaves the table as it is."""
    a = quarantined(lake, later)
    later.apply_le()
    before = lake.catalog.load_table(a)
    assert BRANCH in before.metadata.refs
    lake.open().apply_le()
    assert before.metadata_location == lake.catalog.load_table(a).metadata_location


def test_a_branch_that_somebody_broke_is_put_again(lake, later):
    """
    A plain expiry of pyiceberg's keeps the heads of refs alone, whatever their retention says.

    1. The lower copy is gone. 2. An applier comes by. 3. Orphan removal.
    """
    a = quarantined(lake, later)
    later.apply_le()
    lower = min(copies(lake, a), key=lambda each: each.sequence_number)
    table = lake.catalog.load_table(a)
    table.maintenance.expire_snapshots().by_id(lower.snapshot_id).commit()
    assert len(copies(lake, a)) == 1
    later.apply_le()
    assert len(copies(lake, a)) == 2
    remove_orphans(lake, a)
    assert [1, 2, 3] == ids(later.snapshot().load_table(a))
    later.repair_reject(a)
    later.apply_le()
    assert [1, 2, 3] == lake.plain_ids(a)


def test_a_branch_that_somebody_dropped_is_put_again(lake, later):
    a = quarantined(lake, later)
    later.apply_le()
    with lake.catalog.load_table(a).manage_snapshots() as update:
        update.remove_branch(BRANCH)
    later.apply_le()
    assert BRANCH in lake.catalog.load_table(a).metadata.refs
    assert len(copies(lake, a)) == 2


def test_who_knows_less_leaves_the_branch(lake, later):
    """An apply up to a timestamp does not set it back."""
    a = quarantined(lake, later)
    first = sorted(each["commit_ts"] for each in later.transactions())[-2]
    later.apply_le()
    location = lake.catalog.load_table(a).metadata_location
    later.apply_le(first)
    assert location == lake.catalog.load_table(a).metadata_location


def test_an_apply_up_to_a_timestamp_protects_all(lake, later):
    a = quarantined(lake, later)
    later.apply_le(sorted(each["commit_ts"] for each in later.transactions())[-2])
    assert len(copies(lake, a)) == 2


def test_a_branch_that_comes_late_is_refused(lake, later, monkeypatch):
    """
    A swap that puts it asserts where `main` stands.

    1. An applier has found a quarantine. 2. It is ended, and applied. 3. The swap arrives.
    """
    a = quarantined(lake, later)
    late = []
    with monkeypatch.context() as patch:
        patch.setattr("txns._commit.apply.swap", lambda *call: late.append(call))
        later.apply_le()
    assert len(late) == 1
    main = lake.catalog.load_table(a).metadata.current_snapshot_id
    assert AssertRefSnapshotId(ref="main", snapshot_id=main) in late[0][2]
    later.repair_reject(a)
    later.apply_le()
    with pytest.raises(CommitFailedException):
        swap(*late[0])


@pytest.mark.parametrize("forgets", [True, False])
def test_copies_of_what_was_applied_with_its_list_go(lake, later, *, forgets: bool):
    """A swap of a server's client may come so late: it asserts the branch's place alone there."""
    a = lake.table("a", [1])
    later.catalog().load_table(a).append(rows(2))
    later.apply_le()
    table = lake.catalog.load_table(a)
    main = table.current_snapshot()
    left = outstanding_branch.Left(main.parent_snapshot_id, [(1, main)])
    updates = outstanding_branch.put(table.metadata, left, lake.clock.now_ms())
    swap(lake.catalog, table, outstanding_branch.here(table.metadata), updates, lake.clock)
    if forgets:
        later.forget(a)
    else:
        later.catalog().load_table(a).append(rows(3))
    later.apply_le()
    assert [] == copies(lake, a)
    assert ([1, 2] if forgets else [1, 2, 3]) == lake.plain_ids(a)


def test_a_partition_spec_whose_id_a_stranger_took(lake, later):
    """
    No repair ends that (spec 7), so the branch has to stand.

    1. A spec and a row are logged. 2. A stranger's other spec of earlier fields takes the id, and
    is the default no more.
    """
    a = lake.table("a", [1])
    for field, width in (("id", 4), ("name", 8)):
        with later.catalog().load_table(a).update_spec() as update:
            update.add_field(field, BucketTransform(width), f"{field}_bucket")
    later.apply_le()
    with later.begin() as txn:
        table = txn.load_table(a)
        with table.update_spec() as update:
            update.remove_field("id_bucket")
        table.append(rows(2))
    default = lake.catalog.load_table(a).metadata.default_spec_id
    outside = lake.catalog.load_table(a)
    logged = later.snapshot().load_table(a).spec()
    fields = reversed(outside.spec().fields)
    theirs = AddPartitionSpecUpdate(spec=PartitionSpec(*fields, spec_id=logged.spec_id))
    lake.catalog.commit_table(outside, (), (theirs,))
    assert lake.catalog.load_table(a).metadata.default_spec_id == default
    assert [("shop", "a")] == later.apply_le()
    assert BRANCH in lake.catalog.load_table(a).metadata.refs


def test_the_branch_says_nothing_of_main(lake, later):
    """
    It leads to all that `main` had: which of a transaction's snapshots that was, other refs tell.

    1. A transaction writes `main` and `audit`. 2. The branch is put. 3. `main` is rolled back, and
    its history does not show it any more.
    """
    a = lake.table("a", [1])
    first = lake.catalog.load_table(a).metadata.current_snapshot_id
    with lake.catalog.load_table(a).manage_snapshots() as update:
        update.create_branch(first, "audit")
    with later.begin() as txn:
        txn.load_table(a).append(rows(2))
        txn.load_table(a).append(rows(50), branch="audit")
    later.apply_le()
    main = lake.catalog.load_table(a).metadata.current_snapshot_id
    later.catalog().load_table(a).append(rows(3))
    lake.catalog.load_table(a).overwrite(rows(9))
    later.apply_le()
    metadata = lake.catalog.load_table(a).metadata
    assert BRANCH in metadata.refs
    back = metadata.refs["main"].model_copy(update={"snapshot_id": first})
    rolled_back = metadata.model_copy(
        update={
            "refs": {**metadata.refs, "main": back},
            "current_snapshot_id": first,
            "snapshot_log": [one for one in metadata.snapshot_log if one.snapshot_id == first],
        }
    )
    mark = _mark.mark_of(rolled_back)
    assert logged_state(rolled_back, mark).snapshot.snapshot_id == main


def expire(lake, name: str) -> None:
    """Expire what no branch keeps, by count alone, as engines do with everything older than now."""
    metadata, kept = lake.catalog.load_table(name).metadata, set()
    history = History(metadata)
    for ref in metadata.refs.values():
        line = [each.snapshot_id for each in history.ancestors(history.get(ref.snapshot_id))]
        kept.update(line[: ref.min_snapshots_to_keep or 1])
    gone = [each.snapshot_id for each in metadata.snapshots if each.snapshot_id not in kept]
    updates = (RemoveSnapshotsUpdate(snapshot_ids=gone),)
    lake.catalog.commit_table(lake.catalog.load_table(name), (), updates)


def test_the_branch_stands_on_what_main_was_though_another_branch_comes_first(lake, later):
    """1. One transaction appends to `audit`, then to `main`. 2. A stranger overwrites, expires."""
    a = lake.table("a", [1])
    first = lake.catalog.load_table(a).metadata.current_snapshot_id
    with lake.catalog.load_table(a).manage_snapshots() as update:
        update.create_branch(first, "audit")
    lake.open().catalog().load_table(a).append(rows(2))
    with later.begin() as txn:
        txn.load_table(a).append(rows(50), branch="audit")
        txn.load_table(a).append(rows(3))
    lake.catalog.load_table(a).overwrite(rows(9))
    later.apply_le()
    expire(lake, a)
    assert [1, 2, 3] == ids(later.snapshot().load_table(a))
    later.repair_reject(a)
    assert [] == later.apply_le()
    assert [1, 2, 3] == lake.plain_ids(a)


def test_the_branch_stands_on_what_was_applied_since(lake, later):
    """
    What the second change stands on is no copy any more.

    1. The branch is put for two. 2. The stranger's change is taken back. 3. An applier gets no
    further than the first. 4. A stranger overwrites, and expires.
    """
    a = lake.table("a", [1])
    before = lake.catalog.load_table(a).metadata.current_snapshot_id
    for value in (2, 3):
        later.catalog().load_table(a).append(rows(value))
    lake.catalog.load_table(a).overwrite(rows(9))
    later.apply_le()
    with lake.catalog.load_table(a).manage_snapshots() as update:
        update.set_current_snapshot(before)
    later.apply_le(sorted(each["commit_ts"] for each in later.transactions())[-2])
    assert [1, 2] == lake.plain_ids(a)
    lake.catalog.load_table(a).overwrite(rows(10))
    later.apply_le()
    expire(lake, a)
    assert [1, 2, 3] == ids(later.snapshot().load_table(a))
    later.repair_reject(a)
    assert [] == later.apply_le()
    assert [1, 2, 3] == lake.plain_ids(a)


@pytest.mark.parametrize("ref", ["main", "a tag", "a branch"])
def test_a_copy_that_another_ref_leads_to_stays(lake, later, ref):
    """1. Somebody puts a ref on the branch's head. 2. More is logged. 3. The branch is put anew."""
    begun = []

    def stage(name: str) -> None:
        begun.append(later.begin())
        begun[0].load_table(name).append(with_ours(4))

    a = quarantined(lake, later, stage)
    later.apply_le()
    table = lake.catalog.load_table(a)
    head = table.metadata.refs[BRANCH].snapshot_id
    with table.manage_snapshots() as update:
        if ref == "main":
            update.set_current_snapshot(head)
        elif ref == "a tag":
            update.create_tag(head, "theirs")
        else:
            update.create_branch(head, "theirs")
    begun[0].commit()
    later.apply_le()
    refs = lake.catalog.load_table(a).metadata.refs
    assert refs["main" if ref == "main" else "theirs"].snapshot_id == head
    assert refs[BRANCH].snapshot_id != head
    assert len(copies(lake, a)) == 2 + 3
    remove_orphans(lake, a)
    assert [1, 2, 3, 4] == ids(later.snapshot().load_table(a))
    later.repair_reject(a)
    assert [] == later.apply_le()
    assert [1, 2, 3, 4] == lake.plain_ids(a)


def test_what_the_catalog_refuses_is_no_orphan(lake, later, monkeypatch):
    """A server may refuse with 400 what a client's own look finds no fault with."""
    a = lake.table("a", [1])
    later.catalog().load_table(a).append(rows(2))

    def refused(*_call: object) -> None:
        raise BadRequestError("no such change today")

    with monkeypatch.context() as patch:
        patch.setattr(
            "txns._commit.apply.swap",
            lambda *call: swap(*call) if _puts_the_branch(call[3]) else refused(),
        )
        assert [("shop", "a")] == later.apply_le()
        assert [] == copies(lake, a)
        lake.clock.ahead_ms += 2 * 3_600_000
        assert [("shop", "a")] == later.apply_le()
    remove_orphans(lake, a)
    assert [] == later.apply_le()
    assert [1, 2] == lake.plain_ids(a)


def _puts_the_branch(updates: tuple[object, ...]) -> bool:
    return any(
        isinstance(each, SetSnapshotRefUpdate) and each.ref_name == BRANCH for each in updates
    )
