"""
New tables inside the protocol: staged in memory, created by apply.

Docs/spec.md 6.4 and 6.5: a name that was dropped is created again on its physical table.
Imports: _change, _claim, _manifests, _mark, _new_table, _parts, _staged, errors. Used by:
_staging, _autocommit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import StagedTable as PlannedTable
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssignUUIDUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)

from txns import _manifests, _mark
from txns._change import main_at
from txns._claim import refuse_claimed
from txns._new_table import plan
from txns._parts import check_writable
from txns._staged import Point, StagedTable
from txns.errors import Unsupported, text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate
    from pyiceberg.typedef import Properties

    from txns._clock import Clock
    from txns._parts import Parts
    from txns._tables import Loaded
    from txns.errors import Identifier


def planned_table(
    parts: Parts,
    catalog: Catalog,
    identifier: Identifier,
    schema: Schema | pa.Schema,
    location: str | None,
    spec: PartitionSpec,
    sort_order: SortOrder,
    properties: Properties,
) -> PlannedTable:
    """
    Plan a new table that comes under care, for pyiceberg's `CreateTableTransaction`.

    Raises:
        Unsupported: New tables do not come under care here, or format 3 is asked for.
    """
    if parts.config.register == "none":
        raise Unsupported(
            "a table created inside a transaction comes under care: open the catalog with"
            f" register='created', or create it outside; table=`{text(identifier)}`"
        )
    users = _mark.without_reserved(properties)
    planned = plan(parts.catalog, identifier, schema, location, spec, sort_order, users)
    _manifests.check_writable(planned.metadata, text(identifier))
    head = parts.log.load_or_create()
    mark = _mark.mark_properties(parts.log.identifier, head.uuid, str(planned.metadata.table_uuid))
    own = planned.metadata.properties
    properties = {**own, **_mark.retention_properties(own), **mark}
    metadata = planned.metadata.model_copy(update={"properties": properties})
    return PlannedTable(identifier, metadata, planned.metadata_location, planned.io, catalog)


def staged_creation(
    identifier: Identifier, io: FileIO, updates: tuple[TableUpdate, ...]
) -> StagedTable:
    """Stage the updates that make a new table."""
    empty = _manifests.empty_metadata()
    first = update_table_metadata(empty, updates, enforce_validation=True)
    staged = StagedTable(identifier, io, first, create=True)
    staged.point = Point(first, updates, appended=False)
    return staged


def stage_recreation(staged: StagedTable, updates: tuple[TableUpdate, ...], clock: Clock) -> None:
    """
    Stage the updates that make a new table on the physical one of a dropped table.

    Its uuid, format and place stay; what belonged to the old table is not reachable from main.
    """
    base = staged.current
    gone = list(_mark.without_reserved(base.properties))
    taken: list[TableUpdate] = [RemoveSnapshotRefUpdate(ref_name=MAIN_BRANCH)]
    if gone:
        taken.append(RemovePropertiesUpdate(removals=gone))
    for update in updates:
        taken.extend(_taken_over(base, update))
    staged.stage(tuple(each for each in taken if not isinstance(each, AddSnapshotUpdate)))
    _stage_snapshots(staged, [each for each in taken if isinstance(each, AddSnapshotUpdate)], clock)


def _stage_snapshots(staged: StagedTable, snapshots: list[AddSnapshotUpdate], clock: Clock) -> None:
    """Stage a new table's snapshots, with the numbers and the schema of the physical one."""
    base = staged.current
    number = _manifests.last_sequence_number(base)
    again: list[TableUpdate] = []
    for update in snapshots:
        number += 1
        snapshot_id = update.snapshot.snapshot_id
        path = staged.metadata_path(f"snap-{snapshot_id}-{number}-{clock.new_uuid()}.avro")
        snapshot = _manifests.renumbered(staged.io, base, update.snapshot, path, number)
        snapshot = snapshot.model_copy(update={"schema_id": base.current_schema_id})
        again.append(AddSnapshotUpdate(snapshot=snapshot))
    if again:
        again.append(main_at(base, snapshots[-1].snapshot.snapshot_id))
        staged.stage(tuple(again))


def _taken_over(base: TableMetadata, update: TableUpdate) -> tuple[TableUpdate, ...]:
    """Give what an update of a new table is on the physical one of a dropped table."""
    match update:
        case (
            AssignUUIDUpdate()
            | UpgradeFormatVersionUpdate()
            | SetLocationUpdate()
            | SetDefaultSpecUpdate()
            | SetDefaultSortOrderUpdate()
            | SetCurrentSchemaUpdate()
            | SetSnapshotRefUpdate()
        ):
            return ()
        case AddSchemaUpdate():
            return _schema(base, update)
        case AddPartitionSpecUpdate():
            return _spec(base, update)
        case AddSortOrderUpdate():
            return _sort_order(base, update)
        case SetPropertiesUpdate():
            own = _mark.without_reserved(update.updates)
            return (SetPropertiesUpdate(updates=own),) if own else ()
    return (update,)


def dropped_table(loaded: Loaded) -> StagedTable:
    """
    Give a dropped table's physical one, to be created again.

    Raises:
        Conflict: It is being purged.
        Quarantined: Strangers have written it since the drop; the message has the cure.
    """
    refuse_claimed(loaded.identifier, loaded.metadata)
    check_writable(loaded)
    applied = _mark.applied_ts(loaded.table.metadata) if loaded.table else 0
    return StagedTable(loaded.identifier, loaded.io, loaded.metadata, applied_ts=applied)


def _schema(base: TableMetadata, update: AddSchemaUpdate) -> tuple[TableUpdate, ...]:
    """Add a schema under a number of its own, or take the table's equal one."""
    for schema in base.schemas:
        if schema == update.schema_:
            return (SetCurrentSchemaUpdate(schema_id=schema.schema_id),)
    number = max(schema.schema_id for schema in base.schemas) + 1
    again = update.schema_.model_copy(update={"schema_id": number})
    return AddSchemaUpdate(schema_=again), SetCurrentSchemaUpdate(schema_id=-1)


def _spec(base: TableMetadata, update: AddPartitionSpecUpdate) -> tuple[TableUpdate, ...]:
    """Add a spec under a number of its own, or take the table's equal one."""
    for spec in base.partition_specs:
        if spec.fields == update.spec.fields:
            return (SetDefaultSpecUpdate(spec_id=spec.spec_id),)
    number = max(spec.spec_id for spec in base.partition_specs) + 1
    again = PartitionSpec(*update.spec.fields, spec_id=number)
    return AddPartitionSpecUpdate(spec=again), SetDefaultSpecUpdate(spec_id=-1)


def _sort_order(base: TableMetadata, update: AddSortOrderUpdate) -> tuple[TableUpdate, ...]:
    """Add a sort order under a number of its own, or take the table's equal one."""
    for order in base.sort_orders:
        if order.fields == update.sort_order.fields:
            return (SetDefaultSortOrderUpdate(sort_order_id=order.order_id),)
    number = max(order.order_id for order in base.sort_orders) + 1
    again = SortOrder(*update.sort_order.fields, order_id=number)
    return AddSortOrderUpdate(sort_order=again), SetDefaultSortOrderUpdate(sort_order_id=-1)
