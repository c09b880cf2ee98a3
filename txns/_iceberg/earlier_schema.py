"""
An earlier schema of a table, with a partition spec and a sort order of its columns.

Which ones were the table's then Iceberg does not keep, and nothing can be planned or checked by
those of columns that the schema has not. In memory alone; pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata


def with_schema(metadata: TableMetadata, schema_id: int) -> TableMetadata:
    """Give a table with one of its schemas, and a spec and an order of that."""
    return fitting(metadata.model_copy(update={"current_schema_id": schema_id}))


def fitting(metadata: TableMetadata) -> TableMetadata:
    """Give a table with the newest spec and order that its schema has all columns of."""
    schema = metadata.schema()
    said: dict[str, object] = {}
    if not is_of(metadata.spec(), schema):
        specs = metadata.partition_specs
        own = [each for each in specs if is_of(each, schema)]
        if not own:
            own = [PartitionSpec(spec_id=1 + max(each.spec_id for each in specs))]
            said["partition_specs"] = [*specs, *own]
        said["default_spec_id"] = max(each.spec_id for each in own)
    if not is_of(metadata.sort_order(), schema):
        orders = metadata.sort_orders
        sorting = [each for each in orders if is_of(each, schema)]
        if not sorting:
            sorting = [UNSORTED_SORT_ORDER]
            said["sort_orders"] = [*orders, *sorting]
        said["default_sort_order_id"] = max(each.order_id for each in sorting)
    return metadata.model_copy(update=said) if said else metadata


def schema_of(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """Give the current schema, or the newest one of a table that has all columns of a spec."""
    newest = sorted(metadata.schemas, key=lambda each: each.schema_id, reverse=True)
    known = (metadata.schema(), *newest)
    return next((each for each in known if is_of(spec, each)), metadata.schema())


def is_of(what: PartitionSpec | SortOrder, schema: Schema) -> bool:
    """Whether a schema has all columns of a spec or an order, of types that it takes."""
    try:
        what.check_compatible(schema)
    except ValidationError:
        return False
    return True
