"""The first metadata of a new table, as the catalog itself would make it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, RESTError
from pyiceberg.table import StagedTable
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSortOrderUpdate,
    AssignUUIDUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)
from pyiceberg.typedef import EMPTY_DICT
from sqlalchemy import select
from sqlalchemy.orm import Session

from txns.errors import refuse_without_namespace

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.typedef import Properties

    from txns._identifier import Identifier


def plan(
    catalog: Catalog,
    identifier: Identifier,
    schema: Schema | pa.Schema,
    location: str | None,
    spec: PartitionSpec,
    sort_order: SortOrder,
    properties: Properties = EMPTY_DICT,
) -> StagedTable:
    """
    Plan a table that is not created yet.

    Args:
        catalog: The catalog that it will live in.
        identifier: Its name.
        schema: Its columns.
        location: Where its files go; None for the catalog's own choice.
        spec: Its partitioning.
        sort_order: Its sort order.
        properties: Its properties.

    Raises:
        NoSuchNamespaceError: The namespace does not exist.
        InvalidUsage: 42602, the name has none.
    """
    refuse_without_namespace(identifier)
    if not isinstance(catalog, MetastoreCatalog):
        transaction = catalog.create_table_transaction(
            identifier, schema, location, spec, sort_order, dict(properties)
        )
        table = transaction._table  # noqa: SLF001 -- what the server planned is nowhere else
        assert isinstance(table, StagedTable)
        if not table.metadata_location:  # a server need not say where it will put the file
            table.metadata_location = _metadata_file(table.metadata.location, table.properties)
        return table
    # pyiceberg's own planning takes names of two parts only.
    namespace = identifier[:-1]
    if not catalog.namespace_exists(namespace):
        raise NoSuchNamespaceError(f"Namespace does not exist: {namespace}")
    version = int(properties.get("format-version", 2))
    converted = catalog._convert_schema_if_needed(schema, version)  # type: ignore[arg-type]  # noqa: SLF001
    base = catalog._resolve_table_location(  # noqa: SLF001 -- its rules for locations are private
        location, Catalog.namespace_to_string(namespace), identifier[-1]
    )
    metadata = new_table_metadata(
        location=base,
        schema=converted,
        partition_spec=spec,
        sort_order=sort_order,
        properties=dict(properties),
    )
    path = _metadata_file(base, metadata.properties)
    io = catalog._load_file_io(metadata.properties, path)  # noqa: SLF001 -- the same
    return StagedTable(identifier, metadata, path, io, catalog)


def has_view(catalog: Catalog, identifier: Identifier) -> bool:
    """
    Whether a view has a name that no table has, as far as the catalog tells.

    pyiceberg's SQL catalog has no views, but Java's JDBC catalog has, in the same database.
    """
    if isinstance(catalog, SqlCatalog):
        query = select(IcebergTables.table_name).where(
            IcebergTables.catalog_name == catalog.name,
            IcebergTables.table_namespace == Catalog.namespace_to_string(identifier[:-1]),
            IcebergTables.table_name == identifier[-1],
        )
        with Session(catalog.engine) as session:
            return session.scalar(query) is not None
    try:
        return catalog.view_exists(identifier)
    except (NotImplementedError, RESTError):
        return False  # it has none, or none that we may see


def _metadata_file(location: str, properties: Properties) -> str:
    return load_location_provider(location, properties).new_table_metadata_file_location()


def creating_updates(first: TableMetadata) -> tuple[TableUpdate, ...]:
    """
    Give the updates that make a new table.

    They say what is current, also where Iceberg's defaults would do, so that every
    implementation replays them alike.
    """
    return (
        AssignUUIDUpdate(uuid=first.table_uuid),
        UpgradeFormatVersionUpdate(format_version=first.format_version),
        AddSchemaUpdate(schema_=first.schema()),
        SetCurrentSchemaUpdate(schema_id=-1),
        AddPartitionSpecUpdate(spec=first.spec()),
        SetDefaultSpecUpdate(spec_id=-1),
        AddSortOrderUpdate(sort_order=first.sort_order()),
        SetDefaultSortOrderUpdate(sort_order_id=-1),
        SetLocationUpdate(location=first.location),
        SetPropertiesUpdate(updates=first.properties),
    )
