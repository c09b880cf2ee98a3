"""
The exceptions of PEP 249, and which of them an error of Spark is.

::

Error:
    ├── InterfaceError                          the call does not fit the connection or cursor
    └── DatabaseError
        ├── DataError            22xxx, 21xxx   a value does not fit
        ├── OperationalError     40xxx, 08xxx, 53xxx-58xxx, HYxxx
        │   ├── TransactionConflict      40001  not committed: run the transaction again
        │   ├── CommitStateUnknown       08007  maybe committed: ask with the transaction id
        │   └── ConnectionLost           08xxx  the session is gone, and its transaction with it
        ├── IntegrityError       23xxx          also NULL in a column that is NOT NULL
        ├── InternalError        XXxxx          stop, or report it
        ├── ProgrammingError     42xxx, 25xxx, 3xxxx  fix the call
        └── NotSupportedError    0Axxx          not offered

An error of a transaction is a class of `txns_spark.errors` as well: whoever catches
`txns_spark.errors.TransactionConflict` catches it here, too.
"""

from __future__ import annotations

import re
from typing import Any

from txns_spark import errors as txns
from txns_spark._secrets import masked

__all__ = [
    "CommitStateUnknown",
    "ConnectionLost",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "TransactionConflict",
    "Warning",
    "of_spark",
    "of_sqlstate",
]

_STACK_TRACE = "\n\nJVM stacktrace:"
_NOT_NULL = frozenset({"NOT_NULL_ASSERT_VIOLATION", "NULL_VALUE_SIGNALED"})
# What pyspark, py4j, gRPC and Spark say when the other side, or the session there, is gone.
_LOST_CONDITIONS = frozenset(
    {
        "INVALID_HANDLE.SESSION_CHANGED",
        "INVALID_HANDLE.SESSION_CLOSED",
        "INVALID_HANDLE.SESSION_NOT_FOUND",
        "NO_ACTIVE_SESSION",
        "SESSION_ALREADY_EXIST",
    }
)
_LOST_CLASSES = frozenset(
    {
        "ConnectionRefusedError",
        "ConnectionResetError",
        "BrokenPipeError",
        "Py4JNetworkError",
        "RetriesExceeded",
        "TTransportException",
    }
)
_LOST_GRPC_STATUS = "UNAVAILABLE"
# How the text of an error begins that has no more than a text. What stands behind may be a user's.
_LOST_TEXT = re.compile(
    r"(?:An error occurred while calling \S+\n: )?(?:\([\w.$]+\) |[\w.$]+(?:Exception|Error): )*"
    r"(?:Invalid SessionHandle|Job \d+ cancelled because SparkContext was shut down"
    r"|Cannot call methods on a stopped SparkContext"
    r"|<\w+ of RPC that terminated with:\s+status = StatusCode\.UNAVAILABLE\b)"
)
_MISSING = frozenset({"42P01", "42704"})
_MISSING_WORDS = "not found"
_LOST_SQLSTATE = "08006"
# A cycle in a chain of causes must not hang; real chains are far shorter.
_CAUSES_MAX = 64


class Warning(Exception):  # noqa: A001  (PEP 249 names it)
    """Something to note; this module raises none."""


class Error(Exception):
    """
    Any error of this module.

    Attributes:
        sqlstate: Five characters of the SQL standard; None if Spark named none.
        condition: Spark's or ours name of the error; None if it has none.
    """

    sqlstate: str | None = None
    condition: str | None = None

    def __init__(
        self, message: str = "", *, sqlstate: str | None = None, condition: str | None = None
    ) -> None:
        super().__init__(masked(message))
        self.sqlstate = sqlstate if sqlstate is not None else type(self).sqlstate
        self.condition = condition

    @property
    def pgcode(self) -> str | None:
        """The SQLSTATE under the name that psycopg2 has for it, where retry libraries look."""
        return self.sqlstate


class InterfaceError(Error):
    """The call does not fit the connection or the cursor: closed, or nothing to fetch."""


class DatabaseError(Error):
    """Spark, or a transaction, has refused something."""


class DataError(DatabaseError):
    """A value does not fit: out of range, not a number, division by zero."""


class OperationalError(DatabaseError):
    """Not the caller's fault: a conflict, a lost session, a failed job."""


class IntegrityError(DatabaseError):
    """A constraint that Iceberg keeps does not hold: NOT NULL."""


class InternalError(DatabaseError):
    """Spark or the log is in a state that it should not be in."""


class ProgrammingError(DatabaseError):
    """The statement or the call is wrong: syntax, no such table, no transaction."""


class NotSupportedError(DatabaseError):
    """Not offered, here or at all; the message says what is."""


class ConnectionLost(OperationalError):
    """The session is gone, and with it the transaction that was open; connect again."""

    sqlstate = _LOST_SQLSTATE


class _Ours(txns.TransactionError):
    """What both hierarchies share: the message, and the attributes of a transaction's error."""

    @property
    def pgcode(self) -> str | None:
        return self.sqlstate


class TransactionConflict(txns.TransactionConflict, _Ours, OperationalError):
    """The transaction lost a race and is not committed; run it again from its beginning."""


class CommitStateUnknown(txns.CommitStateUnknown, _Ours, OperationalError):
    """The transaction may have committed; `Connection.outcome(txn_id)` tells."""


class _InvalidUsage(txns.InvalidUsage, _Ours, ProgrammingError):
    """The statement does not fit the state of the transaction; fix the call."""


class _Quarantined(txns.Quarantined, _Ours, OperationalError):
    """The table cannot be written until the repair command in the message has run."""


class _ForeignWrite(txns.ForeignWrite, _Ours, OperationalError):
    """Somebody wrote the table outside the protocol; the message names the repair command."""


class _CorruptLog(txns.CorruptLog, _Ours, InternalError):
    """The commit table contradicts itself or a data table; stop and look."""


class _Unsupported(txns.Unsupported, _Ours, NotSupportedError):
    """Not offered, here or at all; the message says what is."""


_OURS: dict[type[txns.TransactionError], type[Error]] = {
    txns.TransactionConflict: TransactionConflict,
    txns.CommitStateUnknown: CommitStateUnknown,
    txns.InvalidUsage: _InvalidUsage,
    txns.Quarantined: _Quarantined,
    txns.ForeignWrite: _ForeignWrite,
    txns.CorruptLog: _CorruptLog,
    txns.Unsupported: _Unsupported,
}

_BY_SQLSTATE_CLASS: dict[str, type[DatabaseError]] = {
    "08": OperationalError,
    "0A": NotSupportedError,
    "21": DataError,
    "22": DataError,
    "23": IntegrityError,
    "25": ProgrammingError,
    "3B": ProgrammingError,
    "3D": ProgrammingError,
    "3F": ProgrammingError,
    "40": OperationalError,
    "42": ProgrammingError,
    "53": OperationalError,
    "54": OperationalError,
    "55": OperationalError,
    "57": OperationalError,
    "58": OperationalError,
    "HY": OperationalError,
    "KD": OperationalError,
    "XX": InternalError,
}


def of_spark(error: BaseException) -> Error:
    """Return what an exception of pyspark, py4j or gRPC means in this module's classes."""
    ours = txns.translation(error)
    if ours is not None:
        return of_transaction(ours)
    for cause in _causes(error):
        if _has_lost_type(cause):
            return ConnectionLost(_first_lines(cause))
        # Who names a condition has answered: the causes behind it are not looked at, because the
        # text of a Java exception is its whole stack, which takes py4j longer than most statements.
        condition, sqlstate = _condition(cause), _sqlstate(cause)
        if condition is not None or sqlstate is not None:
            return of_sqlstate(_first_lines(error), sqlstate, condition)
        if is_lost_text(str(cause)):
            return ConnectionLost(_first_lines(cause))
    return _by_text(_first_lines(error))


def of_transaction(error: txns.TransactionError) -> Error:
    """Return an error of a transaction as one that is both its own class and PEP 249's."""
    made = _OURS.get(type(error))
    if made is None:
        return of_sqlstate(error.message, error.sqlstate, error.condition)
    arguments: dict[str, Any] = vars(error).copy()
    return made(arguments.pop("message"), **arguments)


def of_sqlstate(message: str, sqlstate: str | None, condition: str | None = None) -> Error:
    """Return the exception for a SQLSTATE; DatabaseError for one that means nothing here."""
    if condition in _LOST_CONDITIONS:
        return ConnectionLost(message, condition=condition)
    if (condition or "").partition(".")[0] in _NOT_NULL:
        return IntegrityError(message, sqlstate=sqlstate, condition=condition)
    if sqlstate in _MISSING and _MISSING_WORDS not in message:
        # Loaders (dlt) know by these words that they have to create what is missing.
        message = f"{_MISSING_WORDS}: {message}"
    made = _BY_SQLSTATE_CLASS.get((sqlstate or "")[:2], DatabaseError)
    return made(message, sqlstate=sqlstate, condition=condition)


def _by_text(message: str) -> Error:
    """Classify what arrived as text only: Connect wraps a job's failure, its cause in the text."""
    for condition in _NOT_NULL:
        if f"[{condition}" in message:
            return IntegrityError(message, sqlstate="23502", condition=condition)
    _, found, rest = message.rpartition("SQLSTATE: ")
    if found and rest[:5].isalnum():
        return of_sqlstate(message, rest[:5])
    return OperationalError(message)


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    seen: BaseException | None = error
    while seen is not None and len(found) < _CAUSES_MAX:
        found.append(seen)
        seen = getattr(seen, "_cause", None) or seen.__cause__ or seen.__context__
    return found


def _has_lost_type(error: BaseException) -> bool:
    """Tell by its classes, and by gRPC's status, whether the other side has not answered."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & _LOST_CLASSES:
        return True
    ask = getattr(error, "code" if "RpcError" in kinds else "getGrpcStatusCode", lambda: None)
    return getattr(ask(), "name", None) == _LOST_GRPC_STATUS


def is_lost_text(text: str) -> bool:
    """Tell whether an error's text, which is all that there is, says that the session is gone."""
    return _LOST_TEXT.match(text) is not None


def _condition(error: BaseException) -> str | None:
    found = getattr(error, "getCondition", lambda: None)()
    return str(found) if found else None


def _sqlstate(error: BaseException) -> str | None:
    found = getattr(error, "getSqlState", lambda: None)()
    return str(found) if found else None


def _first_lines(error: BaseException) -> str:
    return str(error).partition(_STACK_TRACE)[0].strip()


def of_named(message: str, sqlstate: str | None, condition: str | None) -> Error:
    """Return the exception for what Thrift tells: text, SQLSTATE and the condition's name."""
    ours = txns.of_condition(message, sqlstate, condition)
    return of_sqlstate(message, sqlstate, condition) if ours is None else of_transaction(ours)


def of_startup(error: Exception) -> Error:
    """Return what an error means that comes before there is a session."""
    if isinstance(error, Error):
        return error
    if isinstance(error, txns.ConfigurationError):
        return OperationalError(str(error), sqlstate="08001")
    found = of_spark(error)
    return OperationalError(f"Spark cannot be reached: {found}", sqlstate="08001")
