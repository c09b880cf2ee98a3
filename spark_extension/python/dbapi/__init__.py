"""
PEP 249 over a Spark session, with transactions that commit or do not.

::

    from txns_spark import dbapi

    with dbapi.connect() as connection:                    # commits at the end
        cursor = connection.cursor()
        cursor.execute("DELETE FROM flights WHERE day = ?", [5])
        cursor.executemany("INSERT INTO flights VALUES (?, ?)", rows)

`connect` works in this process, `connect_remote` through Spark Connect, `connect_thrift`
through a Thrift server. docs/sqlalchemy.md has the guide.
"""

from __future__ import annotations

import datetime as dt

from txns_spark.dbapi._alike import alike
from txns_spark.dbapi._connect import connect, connect_remote, connect_thrift
from txns_spark.dbapi._connection import LEVELS, Connection, Status
from txns_spark.dbapi._cursor import Column, Cursor
from txns_spark.dbapi._literals import Struct, literal
from txns_spark.dbapi._markers import fill_markers, insert_rows
from txns_spark.dbapi._types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    TypeText,
    parse_type,
)
from txns_spark.dbapi.errors import (
    CommitStateUnknown,
    ConnectionLost,
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    TransactionConflict,
    Warning,  # noqa: A004  (PEP 249 names it)
)

__all__ = [
    "BINARY",
    "DATETIME",
    "LEVELS",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Column",
    "CommitStateUnknown",
    "Connection",
    "ConnectionLost",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Status",
    "Struct",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TransactionConflict",
    "TypeText",
    "Warning",
    "alike",
    "apilevel",
    "connect",
    "connect_remote",
    "connect_thrift",
    "fill_markers",
    "insert_rows",
    "literal",
    "paramstyle",
    "parse_type",
    "threadsafety",
]

apilevel = "2.0"
# Threads may share the module, not a connection: a transaction belongs to one session.
threadsafety = 1
paramstyle = "qmark"

Date = dt.date
Time = dt.time
Timestamp = dt.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> dt.date:  # noqa: N802  (PEP 249 names it)
    """Return the local date of a number of seconds since the epoch."""
    return dt.date.fromtimestamp(ticks)  # noqa: DTZ012  (PEP 249 means local time)


def TimeFromTicks(ticks: float) -> dt.time:  # noqa: N802  (PEP 249 names it)
    """Return the local time of day of a number of seconds since the epoch."""
    return dt.datetime.fromtimestamp(ticks).time()  # noqa: DTZ006  (PEP 249 means local time)


def TimestampFromTicks(ticks: float) -> dt.datetime:  # noqa: N802  (PEP 249 names it)
    """Return the local date and time of a number of seconds since the epoch."""
    return dt.datetime.fromtimestamp(ticks)  # noqa: DTZ006  (PEP 249 means local time)
