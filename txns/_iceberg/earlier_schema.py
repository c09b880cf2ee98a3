"""An earlier schema of a table, for reads of the past; in memory alone, and pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._iceberg.fitting_defaults import fitting, is_of

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata


def with_schema(metadata: TableMetadata, schema_id: int) -> TableMetadata:
    """Give a table with one of its schemas, and a spec and an order of that."""
    return fitting(metadata.model_copy(update={"current_schema_id": schema_id}))


def schema_of(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """Give the current schema, or the newest one of a table that has all columns of a spec."""
    newest = sorted(metadata.schemas, key=lambda each: each.schema_id, reverse=True)
    known = (metadata.schema(), *newest)
    return next((each for each in known if is_of(spec, each)), metadata.schema())
