"""
The rows of a SQL catalog, moved together in one transaction of its database (docs/spec.md 11.3).

pyiceberg's `SqlCatalog` and Iceberg's `JdbcCatalog` keep one row a table in `iceberg_tables`. Who
holds the lock of a row knows that the table stands still, and that whoever held it before is done.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import singledispatch
from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from sqlalchemy import bindparam, insert, select, tuple_, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from txns._iceberg.database_answer import codes_of
from txns._iceberg.known_tables import key_of, known_tables
from txns._iceberg.locked_rows import LockedRows, Rows, RowsBusy
from txns._identifier import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from sqlalchemy import Connection

    from txns._identifier import Identifier

_BEGIN = {
    "postgresql": (
        "BEGIN ISOLATION LEVEL READ COMMITTED",
        "SET LOCAL lock_timeout = '10s'",
        "SET LOCAL idle_in_transaction_session_timeout = '8s'",
    ),
    "sqlite": ("BEGIN IMMEDIATE",),
}
"""SQLite has one lock for all: who takes it later, to write, may find that somebody has written."""

_MOVE = (
    update(IcebergTables)
    .where(
        IcebergTables.catalog_name == bindparam("of_catalog"),
        IcebergTables.table_namespace == bindparam("of_namespace"),
        IcebergTables.table_name == bindparam("of_name"),
        IcebergTables.metadata_location == bindparam("here"),
    )
    .values(metadata_location=bindparam("there"), previous_metadata_location=bindparam("here"))
)

_BUSY = ("55P03", "40P01", "SQLITE_BUSY")
"""What a database says of a lock that is not to be had: it has undone what it was asked for."""


@dataclass
class _LockedSqlRows(LockedRows):
    """Of one connection, in a transaction of its database."""

    catalog: SqlCatalog
    connection: Connection = field(kw_only=True)

    def _read(self, identifier: Identifier, location: str) -> Table:
        return known_tables(self.catalog).read(identifier, location)

    def _write(self, made: Table) -> None:
        known_tables(self.catalog).text.write(made.io, made.metadata_location, made.metadata)

    def _move(self, identifier: Identifier, base: Table | None, made: Table) -> None:
        namespace, name = key_of(identifier)
        location = made.metadata_location
        if base is None:
            row = self.catalog._create_table_row(namespace, name, location)  # noqa: SLF001 -- same
            try:
                self.connection.execute(insert(IcebergTables).values(**row))
            except IntegrityError as error:
                raise CommitFailedException(
                    f"somebody has taken the name: {dotted_name(identifier)}"
                ) from error
            return
        key = {"of_catalog": self.catalog.name, "of_namespace": namespace, "of_name": name}
        moved = self.connection.execute(
            _MOVE, {**key, "there": location, "here": base.metadata_location}
        )
        if moved.rowcount != 1:
            raise CommitFailedException(f"the table has moved: {dotted_name(identifier)}")

    def _commit(self) -> None:
        self.connection.exec_driver_sql("COMMIT")
        for table in self._sent:
            known_tables(self.catalog).remember(table)


@dataclass
class SqlRows(Rows):
    """The rows of one catalog, whose database changes several in one transaction."""

    catalog: SqlCatalog

    @contextmanager
    def locked(self, first: Identifier, others: Iterable[Identifier]) -> Iterator[LockedRows]:
        engine = self.catalog.engine
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            try:
                for statement in _BEGIN[engine.dialect.name]:
                    connection.exec_driver_sql(statement)
                locations = self._locations(connection, [first])
                locations |= self._locations(connection, set(others) - {first})
            except DBAPIError as error:
                _roll_back(connection)
                if any(told in _BUSY for told in codes_of(error)):
                    raise RowsBusy(f"others hold the rows of {dotted_name(first)}") from error
                raise
            rows = _LockedSqlRows(self.catalog, locations, connection=connection)
            try:
                yield rows
            finally:
                _roll_back(connection)
                rows.undo()

    def looked_at(self, tables: Iterable[Identifier]) -> LockedRows:
        with self.catalog.engine.connect() as connection:
            locations = self._locations(connection, tables, lock=False)
            return _LockedSqlRows(self.catalog, locations, connection=connection)

    def _locations(
        self, connection: Connection, identifiers: Iterable[Identifier], *, lock: bool = True
    ) -> dict[Identifier, str]:
        """Lock the rows of tables that there are, in the order of their names; give their files."""
        keys = {key_of(identifier): identifier for identifier in identifiers}
        if not keys:
            return {}
        columns = (IcebergTables.table_namespace, IcebergTables.table_name)
        wanted = (
            select(*columns, IcebergTables.metadata_location)
            .where(IcebergTables.catalog_name == self.catalog.name, tuple_(*columns).in_(keys))
            .order_by(*columns)
        )
        wanted = wanted.with_for_update() if lock else wanted
        condition = self.catalog._iceberg_type_filter()  # noqa: SLF001 -- views are no tables
        if condition is not None:
            wanted = wanted.where(condition)
        rows = connection.execute(wanted).all()
        return {keys[namespace, name]: location for namespace, name, location in rows if location}


def _roll_back(connection: Connection) -> None:
    """End what was begun; where it has been committed, or is lost, there is nothing to end."""
    with suppress(Exception):
        connection.exec_driver_sql("ROLLBACK")


@singledispatch
def rows_of(catalog: Catalog) -> Rows | None:
    """Give the rows of a catalog; None for one that cannot move several at once."""
    del catalog
    return None


@rows_of.register
def _rows_of_sql(catalog: SqlCatalog) -> Rows | None:
    engine = catalog.engine
    if engine.dialect.name not in _BEGIN:
        return None
    if engine.dialect.name == "sqlite" and engine.url.database in {None, "", ":memory:"}:
        return None  # its connections are one, or have a database each
    return SqlRows(catalog)
