"""What makes a later version of a table of an earlier one, as the updates of one swap. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    UpgradeFormatVersionUpdate,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate


def is_of_one_line(base: TableMetadata, later: TableMetadata) -> bool:
    """
    Whether a version has what an earlier one has, under the ids that it has there.

    Who has written the earlier one since gave the next free ids to something else. What a branch
    has that was written since, the later one does not know.
    """
    schemas = {each.schema_id: each for each in later.schemas}
    specs = {each.spec_id: each for each in later.partition_specs}
    orders = {each.order_id: each for each in later.sort_orders}
    snapshots = {each.snapshot_id for each in later.snapshots}
    return (
        all(schemas.get(each.schema_id, each) == each for each in base.schemas)
        and all(specs.get(each.spec_id, each) == each for each in base.partition_specs)
        and all(orders.get(each.order_id, each) == each for each in base.sort_orders)
        and all(ref.snapshot_id in snapshots for ref in base.refs.values())
    )


def updates_to(base: TableMetadata, later: TableMetadata) -> tuple[TableUpdate, ...]:
    """
    Give what makes a version of a table what a later one is, of the same line.

    What the later one has no more, of snapshots, schemas and specs, stays where nothing leads to
    it. Statistics are not taken along: whoever has written them writes them again.
    """
    return (*_format(base, later), *_shape(base, later), *_rows(base, later), *_keys(base, later))


def _format(base: TableMetadata, later: TableMetadata) -> Iterator[TableUpdate]:
    if later.format_version > base.format_version:
        yield UpgradeFormatVersionUpdate(format_version=later.format_version)


def _shape(base: TableMetadata, later: TableMetadata) -> Iterator[TableUpdate]:
    """Give schemas, specs and sort orders, under the ids that they have."""
    schema_ids = {each.schema_id for each in base.schemas}
    for schema in later.schemas:
        if schema.schema_id not in schema_ids:
            yield AddSchemaUpdate(schema_=schema)
    if later.current_schema_id != base.current_schema_id:
        yield SetCurrentSchemaUpdate(schema_id=later.current_schema_id)
    spec_ids = {each.spec_id for each in base.partition_specs}
    for spec in later.partition_specs:
        if spec.spec_id not in spec_ids:
            yield AddPartitionSpecUpdate(spec=spec)
    if later.default_spec_id != base.default_spec_id:
        yield SetDefaultSpecUpdate(spec_id=later.default_spec_id)
    order_ids = {each.order_id for each in base.sort_orders}
    for order in later.sort_orders:
        if order.order_id not in order_ids:
            yield AddSortOrderUpdate(sort_order=order)
    if later.default_sort_order_id != base.default_sort_order_id:
        yield SetDefaultSortOrderUpdate(sort_order_id=later.default_sort_order_id)


def _rows(base: TableMetadata, later: TableMetadata) -> Iterator[TableUpdate]:
    """Give snapshots in the order of their sequence numbers, and what leads to them."""
    known = {each.snapshot_id for each in base.snapshots}
    added = [each for each in later.snapshots if each.snapshot_id not in known]
    for snapshot in sorted(added, key=lambda each: each.sequence_number or 0):
        yield AddSnapshotUpdate(snapshot=snapshot)
    for name, ref in later.refs.items():
        if base.refs.get(name) != ref:
            yield SetSnapshotRefUpdate(
                ref_name=name,
                type=ref.snapshot_ref_type,
                snapshot_id=ref.snapshot_id,
                max_ref_age_ms=ref.max_ref_age_ms,
                max_snapshot_age_ms=ref.max_snapshot_age_ms,
                min_snapshots_to_keep=ref.min_snapshots_to_keep,
            )
    for name in base.refs.keys() - later.refs.keys():
        yield RemoveSnapshotRefUpdate(ref_name=name)


def _keys(base: TableMetadata, later: TableMetadata) -> Iterator[TableUpdate]:
    changed = {
        key: value for key, value in later.properties.items() if base.properties.get(key) != value
    }
    if changed:
        yield SetPropertiesUpdate(updates=changed)
    if gone := sorted(base.properties.keys() - later.properties.keys()):
        yield RemovePropertiesUpdate(removals=gone)
