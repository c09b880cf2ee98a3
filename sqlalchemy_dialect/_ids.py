"""
Ids that clients make.

A process takes a random place among the 63-bit numbers and counts on from there. Two of n
processes that make k ids each meet with a chance of about n² k / 2⁶³: for a million ids in
each of a thousand processes one in ten million.

The process that created a table counts from 1 instead, as tutorials and tests expect; all
others stay above 2³². That it was this process that created it, is a token among the table's
properties: the CREATE may have been rolled back, and another one may have come first. Tables in
schemas that a `schema_translate_map` chooses have no such count.
"""

from __future__ import annotations

import os
import random  # noqa: TID251  (ids of users' rows; no protocol depends on them)
import threading
import uuid
from typing import Any

TOKEN = "sqlalchemy.created-by"  # noqa: S105  (a property's name)
_BITS = 63
_SMALL_BITS = 32
_LOCK = threading.Lock()
_SYSTEM = random.SystemRandom()


class _Place:
    """Where this process counts."""

    process = -1
    next_id = 0


def new_id() -> int:
    """Return a positive id of at most 63 bits that ascends within the process."""
    with _LOCK:
        # A forked process would go on where its parent does.
        if _Place.process != os.getpid() or _Place.next_id >= 2**_BITS:
            _Place.process = os.getpid()
            _Place.next_id = _SYSTEM.getrandbits(_BITS - 1) + 2**_SMALL_BITS
        _Place.next_id += 1
        return _Place.next_id - 1


class Ids:
    """The ids of one engine's tables; tables are named by schema and name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[tuple[str | None, str], str] = {}
        self._counts: dict[tuple[str | None, str], int] = {}
        self._process = os.getpid()
        # What has been found out in transactions that are still open, by their connection.
        self._found: dict[int, dict[tuple[str | None, str], str]] = {}

    def token(self, table: Any) -> str:
        """Return a new token for a table that is about to be created."""
        key = (table.schema, table.name)
        with self._lock:
            self._counts.pop(key, None)
            self._tokens[key] = str(uuid.UUID(int=_SYSTEM.getrandbits(128)))
            return self._tokens[key]

    def prepare(self, connection: Any, table: Any, column: Any) -> None:
        """Find out, once for each creation, whether this process has created the table."""
        key = (table.schema, table.name)
        if connection.schema_for_object(table) != table.schema:
            return
        with self._lock:
            token = self._tokens.get(key)
        if token is None or self._process != os.getpid():
            return
        preparer = connection.dialect.identifier_preparer
        name = preparer.format_table(table)
        found = connection.exec_driver_sql(f"SHOW TBLPROPERTIES {name} ('{TOKEN}')").fetchone()
        if found is None or found[-1] != token:
            with self._lock:
                if self._tokens.get(key) == token:
                    del self._tokens[key]
                    self._counts.pop(key, None)
            return
        # The caller may have given ids of its own before. Those of other processes are not to be
        # counted on from: the next ones are theirs.
        key_name = preparer.format_column(column)
        last = connection.exec_driver_sql(
            f"SELECT max({key_name}) FROM {name} WHERE {key_name} < {2**_SMALL_BITS}"
        ).scalar()
        with self._lock:
            if self._tokens.get(key, token) != token:  # it has been created again meanwhile
                return
            self._tokens.pop(key, None)
            self._counts[key] = max(self._counts.get(key, 1), (last or 0) + 1)
            holder = id(connection.connection.dbapi_connection)
            self._found.setdefault(holder, {})[key] = token

    def new_id(self, schema: str | None, name: str) -> int:
        """Return the next id of a table."""
        with self._lock:
            count = self._counts.get((schema, name))
            # While it is being asked whose the table is, nobody counts: it may be another's.
            is_asked = (schema, name) in self._tokens
            if count is not None and not is_asked and self._process == os.getpid():
                self._counts[schema, name] = count + 1
                return count
        return new_id()

    def committed(self, dbapi_connection: Any) -> None:
        """Keep what a transaction of a driver's connection, not of the pool's, has found out."""
        with self._lock:
            self._found.pop(id(dbapi_connection), None)

    def rolled_back(self, dbapi_connection: Any) -> None:
        """Ask again: the CREATE TABLE may have been part of the transaction."""
        with self._lock:
            self._tokens |= self._found.pop(id(dbapi_connection), {})

    def note(self, table: Any, given: int) -> None:
        """Count on behind an id that the caller gave."""
        key = (table.schema, table.name)
        with self._lock:
            if given < 2**_SMALL_BITS and key in self._counts:
                self._counts[key] = max(self._counts[key], given + 1)
