"""Tables of format 3, which pyiceberg reads, before what is logged of them is applied."""

from __future__ import annotations

import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, TableIdentifier
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.snapshots import Operation as SnapshotOperation
from pyiceberg.table.snapshots import Snapshot, Summary
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertCreate,
    AssignUUIDUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)
from pyiceberg.types import LongType, NestedField

from txns._iceberg.snapshots import branch_at
from txns._iceberg.updates import laid_over
from txns._log.change import Change, Operation
from txns._log.entry import Entry, Kind, LoggedChange
from txns._table import replay
from txns.errors import CorruptLog

UUID = "c8f2a7e4-5b19-4f63-a0d2-6e4b8c1f9d03"
NOW_MS = 1767265380100


def snapshot(snapshot_id: int, number: int, first_row_id: int | None) -> Snapshot:
    return Snapshot(
        snapshot_id=snapshot_id,
        sequence_number=number,
        timestamp_ms=NOW_MS,
        manifest_list=f"file:///lake/shop/a/metadata/snap-{snapshot_id}.avro",
        summary=Summary(SnapshotOperation.APPEND),
        schema_id=0,
        first_row_id=first_row_id,
        added_rows=None if first_row_id is None else 5,
    )


def creation(version: int) -> tuple[TableUpdate, ...]:
    """What an engine on the JVM logs of CREATE TABLE."""
    schema = Schema(NestedField(1, "id", LongType()), schema_id=0)
    return (
        AssignUUIDUpdate(uuid=UUID),
        UpgradeFormatVersionUpdate(format_version=version),
        AddSchemaUpdate(schema_=schema),
        SetCurrentSchemaUpdate(schema_id=-1),
        AddPartitionSpecUpdate(spec=PartitionSpec()),
        SetDefaultSpecUpdate(spec_id=-1),
        AddSortOrderUpdate(sort_order=SortOrder()),
        SetDefaultSortOrderUpdate(sort_order_id=-1),
        SetLocationUpdate(location="file:///lake/shop/a"),
    )


def with_main(first_row_id: int | None, snapshot_id: int = 1) -> tuple[TableUpdate, ...]:
    added = AddSnapshotUpdate(snapshot=snapshot(snapshot_id, 1, first_row_id))
    return (added, branch_at("main", snapshot_id))


def logged(commit_ts: int, updates: tuple[TableUpdate, ...], *, creates: bool = False):
    change = Change(("shop", "a"), UUID, Operation.CREATE, None, 1)
    entry = Entry(Kind.COMMIT, "id", commit_ts=commit_ts, upper=commit_ts, tidied_upto=0)
    request = CommitTableRequest(
        identifier=TableIdentifier(namespace=("shop",), name="a"),
        requirements=(AssertCreate(),) if creates else (),
        updates=updates,
    )
    return LoggedChange(entry, change), request


def test_a_table_that_is_created_in_format_3_is_read_before_it_is_applied():
    change, request = logged(NOW_MS, (*creation(3), *with_main(0)), creates=True)
    metadata = replay.create(change, request, NOW_MS)
    assert isinstance(metadata, TableMetadataV3)
    assert (5, 1) == (metadata.next_row_id, metadata.last_sequence_number)
    assert metadata.current_snapshot().snapshot_id == 1


def test_an_upgrade_to_format_3_is_read_before_it_is_applied():
    change, request = logged(NOW_MS, (*creation(2), *with_main(None)), creates=True)
    base = replay.create(change, request, NOW_MS)
    updates = (UpgradeFormatVersionUpdate(format_version=3),)
    metadata = laid_over(base, updates)
    assert (3, 0) == (metadata.format_version, metadata.next_row_id)
    assert metadata.snapshots == base.snapshots
    assert laid_over(metadata, updates) is metadata


def test_what_was_staged_before_an_upgrade_is_read_on_the_upgraded_table():
    change, request = logged(NOW_MS, (*creation(2), *with_main(None)), creates=True)
    upgraded = laid_over(
        replay.create(change, request, NOW_MS), (UpgradeFormatVersionUpdate(format_version=3),)
    )
    staged, request = logged(NOW_MS + 1, with_main(None, snapshot_id=2))
    metadata = replay.replay(upgraded, staged, request, NOW_MS, replay.renumber_in_memory)
    assert metadata.current_snapshot().first_row_id == 0


def test_a_later_format_is_refused():
    change, request = logged(NOW_MS, creation(4), creates=True)
    with pytest.raises(CorruptLog, match="version: 4"):
        replay.create(change, request, NOW_MS)
