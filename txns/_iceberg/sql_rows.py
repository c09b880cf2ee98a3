"""
The rows of a SQL catalog, moved together in one transaction of its database (docs/spec.md 11.3).

pyiceberg's `SqlCatalog` and Iceberg's `JdbcCatalog` keep one row a table in `iceberg_tables`. Who
holds the lock of a row knows that the table stands still, and that whoever held it before is done.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, singledispatch
from hashlib import sha256
from threading import get_ident
from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from sqlalchemy import TextClause, bindparam, insert, select, text, tuple_
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from txns._clock import SystemClock
from txns._iceberg.collection import collected_later
from txns._iceberg.database_answer import codes_of
from txns._iceberg.known_tables import key_of, known_tables
from txns._iceberg.locked_rows import LockedRows, Rows, RowsBusy
from txns._identifier import dotted_name
from txns._logger import logger
from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from sqlalchemy import URL, Connection, Select

    from txns._identifier import Identifier

_BEGIN = {
    "postgresql": "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '10s';"
    " SET LOCAL idle_in_transaction_session_timeout = '8s'",
    "sqlite": "BEGIN IMMEDIATE",
}
"""SQLite has one lock for all: who takes it later, to write, may find that somebody has written."""

_BY_ROW = ("postgresql",)
"""What locks each row by itself."""

_NAMES = (IcebergTables.table_namespace, IcebergTables.table_name)
"""What a row has of a table's name."""

_SILENT_MS = 2_000
"""After how long it says so who is at work under a lock: slow storage ends no attempt."""
_CLOCK = SystemClock()

_BUSY = ("55P03", "40P01", "57014", "SQLITE_BUSY")
"""
What a database says of a lock that is not to be had: it has undone what it was asked for.

57014 comes of a role's time-out of statements, or of somebody who cancels.
"""

_LOG = logger(__name__)

_NO_RIGHT = "42501"
"""What PostgreSQL says to who may not do something."""


@dataclass
class _LockedSqlRows(LockedRows):
    """Of one connection, in a transaction of its database; of none where nobody holds them."""

    catalog: SqlCatalog
    connection: Connection | None = field(default=None, kw_only=True)
    is_over: bool = field(default=False, kw_only=True)
    _said_at_ms: int = field(default_factory=_CLOCK.elapsed_ms, kw_only=True)
    _thread: int = field(default_factory=get_ident, kw_only=True)

    def at_work(self) -> None:
        if self.connection is None or self.is_over or get_ident() != self._thread:
            return  # nobody waits; or files are opened by others for it
        now_ms = _CLOCK.elapsed_ms()
        if now_ms - self._said_at_ms < _SILENT_MS:
            return
        with suppress(SQLAlchemyError):  # the next request tells
            self.connection.exec_driver_sql("SELECT 1")
        self._said_at_ms = now_ms

    def may_create(self, identifier: Identifier) -> bool:
        """
        Try it, and take it back: of a policy nothing else tells.

        PostgreSQL ends a transaction that it has refused something, unless it goes back.
        """
        if self.connection is None or self.connection.dialect.name not in _BY_ROW:
            return True
        row = self.catalog._create_table_row(*key_of(identifier), "")  # noqa: SLF001 -- see _move
        self.connection.exec_driver_sql("SAVEPOINT creation")
        try:
            self.connection.execute(insert(IcebergTables).values(**row))
        except DBAPIError as error:
            return _NO_RIGHT not in codes_of(error)
        finally:
            self.connection.exec_driver_sql("ROLLBACK TO SAVEPOINT creation")
        return True

    def _read(self, identifier: Identifier, location: str) -> Table:
        return known_tables(self.catalog).read(identifier, location)

    def _write(self, made: Table) -> None:
        known_tables(self.catalog).text.write(made.io, made.metadata_location, made.metadata)

    def _move(self, moves: Sequence[tuple[Table | None, Table]]) -> None:
        assert self.connection is not None
        for made in (made for base, made in moves if base is None):
            row = self.catalog._create_table_row(  # noqa: SLF001 -- as create_table does
                *key_of(made.name()), made.metadata_location
            )
            try:
                self.connection.execute(insert(IcebergTables).values(**row))
            except IntegrityError as error:
                raise CommitFailedException(
                    f"somebody has taken the name: {dotted_name(made.name())}"
                ) from error
        there = [(base, made) for base, made in moves if base is not None]
        # One question for all: who is asked has to be waited for, and others wait meanwhile.
        together = len(there) if self.connection.dialect.name == "postgresql" else 1
        for start in range(0, len(there), together):
            self._update(self.connection, there[start : start + together])

    def _update(self, connection: Connection, moves: Sequence[tuple[Table, Table]]) -> None:
        values: dict[str, str] = {"catalog": self.catalog.name}
        for number, (base, made) in enumerate(moves):
            namespace, name = key_of(made.name())
            values |= {f"namespace{number}": namespace, f"name{number}": name}
            values |= {
                f"here{number}": base.metadata_location,
                f"there{number}": made.metadata_location,
            }
        moved = connection.execute(_update_of(len(moves)), values)
        if moved.rowcount != len(moves):
            names = ", ".join(dotted_name(made.name()) for _, made in moves)
            raise CommitFailedException(f"a table has moved: {names}")

    def _commit(self) -> None:
        assert self.connection is not None
        self.connection.exec_driver_sql("COMMIT")
        self.is_over = True
        for table in self._sent:
            known_tables(self.catalog).remember(table)


@dataclass
class SqlRows(Rows):
    """The rows of one catalog, whose database changes several in one transaction."""

    catalog: SqlCatalog
    _may_queue: bool = field(default=True, init=False)
    """Whether the database has a queue that we may wait in, as far as it has said."""

    @contextmanager
    def locked(self, first: Identifier, others: Iterable[Identifier]) -> Iterator[LockedRows]:
        engine = self.catalog.engine
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            try:
                self._begin(connection, first)
                locations, unlocked = self._lock(connection, {*others, first}, first)
            except DBAPIError as error:
                _roll_back(connection)
                if _is_busy(error):
                    raise RowsBusy(f"others hold the rows of {dotted_name(first)}") from error
                if error.connection_invalidated:  # a pooler, a fail-over, an administrator
                    raise RowsBusy(f"cut off from the rows of {dotted_name(first)}") from error
                raise
            except BaseException:  # its thread is stopped; what it has begun, the pool does not end
                _roll_back(connection)
                raise
            rows = _LockedSqlRows(self.catalog, locations, connection=connection, unlocked=unlocked)
            try:
                with known_tables(self.catalog).asked_by(connection), collected_later():
                    yield rows
            finally:
                if not rows.is_over:
                    _roll_back(connection)
                rows.undo()

    def _begin(self, connection: Connection, first: Identifier) -> None:
        """
        Begin, and wait in the queue of a row where the database has such a thing.

        Nothing rests on the queue: who may not wait in it, or waits for too long, goes without, and
        so do all where the database has no such lock. Else anybody who may connect could keep
        writers out.
        """
        database = connection.dialect.name
        if database in _BY_ROW and self._may_queue:
            wait = f"SELECT pg_advisory_xact_lock({queue_of(self.catalog.name, first)})"
            try:
                connection.exec_driver_sql(f"{_BEGIN[database]}; {wait}")
            except DBAPIError as error:
                if error.connection_invalidated:
                    raise
                _LOG.info("no turn in the queue of writers: %s", error.orig)
                connection.exec_driver_sql("ROLLBACK")
                self._may_queue = _is_busy(error)
            else:
                return
        connection.exec_driver_sql(_BEGIN[database])

    def known(self, locations: Mapping[Identifier, str]) -> LockedRows:
        return _LockedSqlRows(self.catalog, locations, held=False)

    def looked_at(self, tables: Iterable[Identifier]) -> LockedRows:
        with self.catalog.engine.connect() as connection:
            return _LockedSqlRows(self.catalog, self._locations(connection, tables), held=False)

    def _lock(
        self, connection: Connection, tables: set[Identifier], first: Identifier
    ) -> tuple[dict[Identifier, str], frozenset[Identifier]]:
        """
        Lock rows; give the files of tables that there are, and those whose rows are not locked.

        PostgreSQL locks no row that a policy lets somebody read and not write, and is silent on it.
        """
        locations = self._locations(connection, tables, first)
        missing = tables - locations.keys()
        if not missing or connection.dialect.name not in _BY_ROW:
            return locations, frozenset()
        unlocked = self._locations(connection, missing)
        if first in unlocked:
            raise InvalidUsage(
                "42501",
                "the catalog's database lets you read the commit table's row, and not write it:"
                " nothing was committed; a policy on `iceberg_tables` has to let you, then COMMIT"
                f" again, or ROLLBACK; table=`{dotted_name(first)}`",
            )
        return locations | unlocked, frozenset(unlocked)

    def _locations(
        self,
        connection: Connection,
        identifiers: Iterable[Identifier],
        first: Identifier | None = None,
    ) -> dict[Identifier, str]:
        """Give the files of tables that there are; lock their rows, one first, then by name."""
        keys = {identifier: key_of(identifier) for identifier in identifiers}
        of_tables = list(dict.fromkeys(keys.values()))  # one table may be called by two names
        values: dict[str, object] = {"of_catalog": self.catalog.name, "of_tables": of_tables}
        if first is None:
            wanted = self._wanted
        else:
            wanted = self._locking
            values["first_namespace"], values["first_name"] = key_of(first)
        rows = connection.execute(wanted, values).all()
        found = {(namespace, name): location for namespace, name, location in rows if location}
        return {identifier: found[key] for identifier, key in keys.items() if key in found}

    @cached_property
    def _wanted(self) -> Select[str, str, str | None]:
        """What asks for the files of tables, made once: to make it costs more than to ask."""
        wanted = select(*_NAMES, IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == bindparam("of_catalog"),
            tuple_(*_NAMES).in_(bindparam("of_tables", expanding=True)),
        )
        condition = self.catalog._iceberg_type_filter()  # noqa: SLF001 -- views are no tables
        return wanted if condition is None else wanted.where(condition)

    @cached_property
    def _locking(self) -> Select[str, str, str | None]:
        """The same, which locks their rows: one of a name first, then by name."""
        others = tuple_(*_NAMES) != tuple_(bindparam("first_namespace"), bindparam("first_name"))
        return self._wanted.order_by(others, *_NAMES).with_for_update()


@cache
def queue_of(catalog: str, table: Identifier) -> int:
    """
    Give the key of the lock that writers of a table wait for, one after the other (spec.md 11.3).

    Who waits for a row that changes may be overtaken each time by who has come later.
    """
    named = "\n".join(("txns", catalog, *key_of(table)))
    return int.from_bytes(sha256(named.encode()).digest()[:8], "big", signed=True)


@cache
def _update_of(count: int) -> TextClause:
    """Give the statement that moves some rows, each if it names what it did."""
    if count == 1:
        values, names = "", {each: f":{each}0" for each in ("namespace", "name", "here", "there")}
    else:
        every = (
            f"(:namespace{each}, :name{each}, :here{each}, :there{each})" for each in range(count)
        )
        values = f" FROM (VALUES {', '.join(every)}) AS moved (namespace, name, here, there)"
        names = {each: f"moved.{each}" for each in ("namespace", "name", "here", "there")}
    table = IcebergTables.__tablename__
    return text(
        f"UPDATE {table} SET metadata_location = {names['there']},"  # noqa: S608 -- nobody's words
        f" previous_metadata_location = {names['here']}{values}"
        f" WHERE catalog_name = :catalog AND table_namespace = {names['namespace']}"
        f" AND table_name = {names['name']} AND metadata_location = {names['here']}"
    )


def _is_busy(error: DBAPIError) -> bool:
    """Whether a lock is not to be had."""
    return any(told in _BUSY for told in codes_of(error))


def _roll_back(connection: Connection) -> None:
    """End what was begun; where it has been committed, or is lost, there is nothing to end."""
    with suppress(Exception):
        connection.exec_driver_sql("ROLLBACK")


def _is_in_memory(url: URL) -> bool:
    database = url.database or ":memory:"
    mode = url.query.get("mode")
    return url.get_backend_name() == "sqlite" and (":memory:" in database or mode == "memory")


@singledispatch
def rows_of(catalog: Catalog) -> Rows | None:
    """Give the rows of a catalog; None for one that cannot move several at once."""
    del catalog
    return None


@rows_of.register
def _rows_of_sql(catalog: SqlCatalog) -> Rows | None:
    for own, plain in (
        (catalog.commit_table, SqlCatalog.commit_table),
        (catalog.load_table, SqlCatalog.load_table),
    ):
        if getattr(own, "__func__", None) is not plain:
            return None  # what else somebody has it do there would not be done
    engine = catalog.engine
    if engine.dialect.name not in _BEGIN:
        return None
    if isinstance(engine.pool, StaticPool) or _is_in_memory(engine.url):
        return None  # its connections are one, have a database each, or share what nobody locks
    return SqlRows(catalog)
