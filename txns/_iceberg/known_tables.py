"""
Tables of a SQL catalog, of which no version is read twice.

Its rows name files of metadata, which never change: who has read one, or written it, knows it.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock, local
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from cachetools import LRUCache
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import load_file_io
from pyiceberg.table import Table
from sqlalchemy import bindparam, select
from sqlalchemy.exc import SQLAlchemyError

from txns._iceberg.metadata_text import MetadataText
from txns._identifier import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from sqlalchemy import Connection

    from txns._identifier import Identifier

_LOAD_TABLE = SqlCatalog.load_table
_SNAPSHOTS = 10_000
"""How many snapshots the versions that are kept have together: each is some 3 KB."""


@dataclass(frozen=True, slots=True)
class _Version:
    """What a file of metadata says, and how files of its table are reached."""

    metadata: TableMetadata
    io: FileIO

    @property
    def size(self) -> int:
        """What it counts for, in snapshots; a column of a schema is as large, or larger."""
        metadata = self.metadata
        return 1 + len(metadata.snapshots) + len(metadata.schemas) * metadata.last_column_id

    def is_of(self, catalog: SqlCatalog) -> bool:
        """Whether files are reached with what the catalog has now: secrets may be renewed."""
        own, has = self.metadata.properties, self.io.properties
        return all(own.get(key, each) == has.get(key) for key, each in catalog.properties.items())


class KnownTables:
    """The newest versions that were read or written. Threads may share it."""

    def __init__(self, catalog: SqlCatalog) -> None:
        """Begin with none; the catalog is left to whoever has it."""
        self._of = ref(catalog)
        wanted = select(IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == bindparam("of_catalog"),
            IcebergTables.table_namespace == bindparam("of_namespace"),
            IcebergTables.table_name == bindparam("of_name"),
        )
        condition = catalog._iceberg_type_filter()  # noqa: SLF001 -- views are no tables
        self._wanted = wanted if condition is None else wanted.where(condition)
        self._known: LRUCache[str, _Version] = LRUCache(_SNAPSHOTS, getsizeof=lambda it: it.size)
        self._lock = Lock()
        self._asked = local()
        self.text = MetadataText()

    @property
    def _catalog(self) -> SqlCatalog:
        catalog = self._of()
        assert catalog is not None
        return catalog

    def load(self, identifier: Identifier) -> Table:
        """
        Load a table as its row has it now.

        Raises:
            NoSuchTableError: There is none.
        """
        catalog = self._catalog
        namespace, name = key_of(identifier)
        key = {"of_catalog": catalog.name, "of_namespace": namespace, "of_name": name}
        location = self._location(catalog, key)
        if location is None:
            raise NoSuchTableError(f"Table does not exist: {dotted_name(identifier)}")
        return self.read(identifier, location)

    def _location(self, catalog: SqlCatalog, key: dict[str, str]) -> str | None:
        asked: Connection | None = getattr(self._asked, "connection", None)
        if asked is not None:
            with suppress(SQLAlchemyError):  # who holds the lock learns that it is lost
                return asked.execute(self._wanted, key).scalar()
        with catalog.engine.connect() as connection:
            return connection.execute(self._wanted, key).scalar()

    @contextmanager
    def asked_by(self, connection: Connection) -> Iterator[None]:
        """
        Have this thread ask by a connection that it holds a lock with.

        Another one might not be had: others that wait for the lock keep those of a pool.
        """
        self._asked.connection = connection
        try:
            yield
        finally:
            self._asked.connection = None

    def read(self, identifier: Identifier, location: str) -> Table:
        """Give the table that a file of metadata is; a new object, which its owner may change."""
        catalog = self._catalog
        with self._lock:
            known = self._known.get(location)
        if known is None or not known.is_of(catalog):
            metadata = known.metadata if known else self._read(location)
            io = catalog._load_file_io(metadata.properties, location)  # noqa: SLF001 -- its own way
            known = self._keep(location, _Version(metadata, io))
        return Table(identifier, _own(known.metadata), location, known.io, catalog)

    def _read(self, location: str) -> TableMetadata:
        """Read a file of metadata, as the catalog's own `load_table` does."""
        return self.text.read(load_file_io(self._catalog.properties, location), location)

    def remember(self, table: Table) -> None:
        """Know a version that was written."""
        self._keep(table.metadata_location, _Version(_own(table.metadata), table.io))

    def _keep(self, location: str, version: _Version) -> _Version:
        if version.size <= self._known.maxsize:
            with self._lock:
                self._known[location] = version
        return version


def _own(metadata: TableMetadata) -> TableMetadata:
    """Copy what a library's owner of a table may change of it: its dictionaries."""
    own = {"properties": dict(metadata.properties), "refs": dict(metadata.refs)}
    return metadata.model_copy(update=own)


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
