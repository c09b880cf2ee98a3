"""Backups of a SQL catalog, restored in whole or in part: what a disaster leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.catalog.sql import SqlCatalog

LOG = "txns.commits"


def pointers(catalog: SqlCatalog) -> dict[str, str]:
    """Give each table's metadata file, as the catalog has it now."""
    query = "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"
    with catalog.engine.connect() as connection:
        return {f"{space}.{name}": at for space, name, at in connection.execute(text(query))}


def restore(catalog: SqlCatalog, backup: dict[str, str], names: Iterable[str] = ()) -> None:
    """Set tables back to what a backup says, all of them where none is named."""
    update = (
        "UPDATE iceberg_tables SET metadata_location = :at, previous_metadata_location = NULL"
        " WHERE table_namespace = :space AND table_name = :name"
    )
    with catalog.engine.begin() as connection:
        for full in names or backup:
            space, _, name = full.rpartition(".")
            connection.execute(text(update), {"at": backup[full], "space": space, "name": name})
