"""
Tables of a SQL catalog, of which no version is read twice.

Its rows name files of metadata, which never change: who has read one, or written it, knows it.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from cachetools import LRUCache
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import load_file_io
from pyiceberg.table import Table
from sqlalchemy import bindparam, select

from txns._iceberg.metadata_text import MetadataText
from txns._identifier import dotted_name

if TYPE_CHECKING:
    from txns._identifier import Identifier

_LOAD_TABLE = SqlCatalog.load_table
_SNAPSHOTS = 10_000
"""How many snapshots the versions that are kept have together: each is some 3 KB."""


def _size(table: Table) -> int:
    return 1 + len(table.metadata.snapshots)


class KnownTables:
    """The newest versions that were read or written. Threads may share it."""

    def __init__(self, catalog: SqlCatalog) -> None:
        """Begin with none."""
        self._catalog = catalog
        wanted = select(IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == bindparam("of_catalog"),
            IcebergTables.table_namespace == bindparam("of_namespace"),
            IcebergTables.table_name == bindparam("of_name"),
        )
        condition = catalog._iceberg_type_filter()  # noqa: SLF001 -- views are no tables
        self._wanted = wanted if condition is None else wanted.where(condition)
        self._known: LRUCache[str, Table] = LRUCache(_SNAPSHOTS, getsizeof=_size)
        self._lock = Lock()
        self.text = MetadataText()

    def load(self, identifier: Identifier) -> Table:
        """
        Load a table as its row has it now.

        Raises:
            NoSuchTableError: There is none.
        """
        namespace, name = key_of(identifier)
        key = {"of_catalog": self._catalog.name, "of_namespace": namespace, "of_name": name}
        with self._catalog.engine.connect() as connection:
            location = connection.execute(self._wanted, key).scalar()
        if location is None:
            raise NoSuchTableError(f"Table does not exist: {dotted_name(identifier)}")
        return self.read(identifier, location)

    def read(self, identifier: Identifier, location: str) -> Table:
        """Give the table that a file of metadata is; a new object, which its owner may change."""
        with self._lock:
            known = self._known.get(location)
        if known is None:
            known = self._read(identifier, location)
            self.remember(known)
        return Table(identifier, known.metadata, location, known.io, self._catalog)

    def _read(self, identifier: Identifier, location: str) -> Table:
        """Read a file of metadata, as the catalog's own `load_table` does."""
        catalog = self._catalog
        metadata = self.text.read(load_file_io(catalog.properties, location), location)
        io = load_file_io({**catalog.properties, **metadata.properties}, location)
        return Table(identifier, metadata, location, io, catalog)

    def remember(self, table: Table) -> None:
        """Know a version that was written."""
        kept = Table(table.name(), table.metadata, table.metadata_location, table.io, self._catalog)
        if _size(kept) <= self._known.maxsize:
            with self._lock:
                self._known[table.metadata_location] = kept


_OF: WeakKeyDictionary[SqlCatalog, KnownTables] = WeakKeyDictionary()


def known_tables(catalog: SqlCatalog) -> KnownTables:
    """Give what is known of the tables of a catalog."""
    known = _OF.get(catalog)
    return _OF.setdefault(catalog, KnownTables(catalog)) if known is None else known


def load_table(catalog: Catalog, identifier: Identifier) -> Table:
    """
    Load a table as the catalog has it now.

    Raises:
        NoSuchTableError: There is none.
    """
    own = getattr(catalog.load_table, "__func__", None)  # who has another one, has a reason
    if isinstance(catalog, SqlCatalog) and own is _LOAD_TABLE:
        return known_tables(catalog).load(identifier)
    return catalog.load_table(identifier)


def key_of(identifier: str | Identifier) -> tuple[str, str]:
    """Give what a catalog's row has of a table's name: its namespace, and the name."""
    space = Catalog.namespace_from(identifier)
    return Catalog.namespace_to_string(space), Catalog.table_name_from(identifier)
