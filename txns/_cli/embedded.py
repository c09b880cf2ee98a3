"""
Which catalog is meant where none is named: the embedded default, and a database's own name.

The embedded default is the one that `txns_spark.configure` makes without arguments: a catalog
`lake` in SQLite, and files below ./txns-warehouse.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.catalog import URI, WAREHOUSE_LOCATION
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from sqlalchemy import select
from sqlalchemy.orm import Session

from txns._log.stored import table_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

NAME = "lake"
NAMESPACE = "default"
_FOLDER = "txns-warehouse"
_DATABASE = "catalog.db"


def folder(warehouse: str | None) -> Path | None:
    """Give the folder of the embedded catalog; None where the warehouse is on no local disk."""
    if warehouse is not None and "://" in warehouse.removeprefix("file://"):
        return None
    path = Path((warehouse or _FOLDER).removeprefix("file:").replace("///", "/"))
    return path.expanduser().absolute()


def is_in(place: Path) -> bool:
    """Say whether a folder holds an embedded catalog."""
    return (place / _DATABASE).is_file()


def properties(place: Path) -> dict[str, str]:
    """Give pyiceberg's properties of the embedded catalog in a folder."""
    # 30 s: writers queue, as in Spark.
    uri = f"sqlite:///{place / _DATABASE}?timeout=30"
    return {URI: uri, WAREHOUSE_LOCATION: str(place)}


def make(catalog: Catalog) -> None:
    """Make of a new catalog in SQLite what Spark's sessions find in theirs."""
    assert isinstance(catalog, SqlCatalog)
    catalog.create_namespace_if_not_exists(NAMESPACE)
    # Readers and the one writer do not lock each other out; SQLite keeps it in its file.
    with catalog.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")


def names(catalog: Catalog, commit_table: str) -> list[str]:
    """Give the catalogs of a database that hold a commit table; none where there is no database."""
    if not isinstance(catalog, SqlCatalog):
        return []
    *namespace, name = table_of(commit_table)
    wanted = select(IcebergTables.catalog_name).where(
        IcebergTables.table_namespace == ".".join(namespace), IcebergTables.table_name == name
    )
    with Session(catalog.engine) as session:
        return sorted(session.scalars(wanted))


def all_names(catalog: Catalog) -> list[str]:
    """Give the catalogs of a database that hold any table; none where there is no database."""
    if not isinstance(catalog, SqlCatalog):
        return []
    with Session(catalog.engine) as session:
        return sorted(session.scalars(select(IcebergTables.catalog_name).distinct()))
