"""
Errors of transactions in Spark, and of setting them up.

::

    Exception
    ├── TransactionError
    │   ├── TransactionConflict   40001         not committed: run it again
    │   ├── CommitStateUnknown    08007         maybe committed: ask with the transaction id
    │   ├── InvalidUsage          25xxx, 42xxx  fix the call
    │   ├── Quarantined           55000         run the repair command that the message names
    │   ├── ForeignWrite          55000         run the repair command that the message names
    │   ├── CorruptLog            XX001         stop, the log cannot be trusted
    │   └── Unsupported           0A000         not offered, the message says what is
    └── ConfigurationError                      configure() or jar_path() refuses
        ├── JarNotFound
        ├── SessionAlreadyRunning
        └── UnsupportedVersion

Spark reports errors of a transaction as its own exceptions, whose class depends
on the way (spark.sql, a DataFrame write, Spark Connect). `translated` turns
them into the classes above; every other exception passes unchanged::

    with translated():
        spark.sql("COMMIT")

No message holds a secret that an option or a URI has brought.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from txns_spark._secrets import masked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "CommitStateUnknown",
    "ConfigurationError",
    "CorruptLog",
    "ForeignWrite",
    "InvalidUsage",
    "JarNotFound",
    "Quarantined",
    "SessionAlreadyRunning",
    "TransactionConflict",
    "TransactionError",
    "Unsupported",
    "UnsupportedVersion",
    "of_condition",
    "translated",
    "translation",
]

_CONDITION_PREFIX = "TXNS_"
_JAVA_PREFIX = "io.txns."
_STACK_TRACE = "\n\nJVM stacktrace:"
_TEXT_PREFIX = re.compile(r"^(?:\[[A-Z_.]+\]\s*)+")
_TEXT_PARAMETERS = re.compile(
    r"\b(table|txn|clashed_with|least_ts|other_engine|other_comment)=`([^`]*)`"
)
# A cycle in getCause() must not hang; real chains are far shorter.
_CAUSES_MAX = 64


class TransactionError(Exception):
    """
    A statement of a transaction, or its commit, was refused.

    Attributes:
        message: What happened and what to do.
        condition: The name of the error condition, "TXNS_..."; None if not known.
        sqlstate: Five characters of the SQL standard; None if not known.
        table: The table that it is about, with its namespace; None if about none.
        txn_id: The transaction that got the error; None if not known.
        other_txn_id: The transaction it clashed with; None if there is none.
        least_ts: The least read_ts, in ms since the epoch, that would not clash; None if
            there is none.
        other_engine: Who wrote the transaction it clashed with; None if not known.
        other_comment: The words of that transaction's user, in one line and without control
            characters, 200 characters at most; None if there are none.
    """

    def __init__(
        self,
        message: str,
        *,
        condition: str | None = None,
        sqlstate: str | None = None,
        table: str | None = None,
        txn_id: str | None = None,
        other_txn_id: str | None = None,
        least_ts: int | None = None,
        other_engine: str | None = None,
        other_comment: str | None = None,
    ) -> None:
        super().__init__(masked(message))
        self.message = masked(message)
        self.condition = condition
        self.sqlstate = sqlstate
        self.table = table
        self.txn_id = txn_id
        self.other_txn_id = other_txn_id
        self.least_ts = least_ts
        self.other_engine = other_engine
        self.other_comment = other_comment


class TransactionConflict(TransactionError):
    """The transaction lost a race and is not committed; run it again from BEGIN."""


class CommitStateUnknown(TransactionError):
    """The catalog did not answer; BEGIN with the same ID tells whether it is committed."""


class InvalidUsage(TransactionError):
    """The statement does not fit the state of the transaction; fix the call."""


class Quarantined(TransactionError):
    """The table cannot be written until the repair command that the message names has run."""


class ForeignWrite(TransactionError):
    """Somebody wrote the table outside the protocol; the message names the repair command."""


class CorruptLog(TransactionError):
    """The commit table contradicts itself or a data table; stop and look."""


class Unsupported(TransactionError):
    """The statement is not offered, here or at all; the message says what is."""


class ConfigurationError(Exception):
    """Spark cannot be configured like this; the message names the cure."""

    def __init__(self, message: str) -> None:
        super().__init__(masked(message))


class JarNotFound(ConfigurationError):
    """The package was installed without the Spark extension's jar."""


class SessionAlreadyRunning(ConfigurationError):
    """A Spark session or JVM without the extension runs in this process already."""


class UnsupportedVersion(ConfigurationError):
    """This version of Spark or Iceberg is not one that the jar was compiled for."""


_CLASSES: dict[str, type[TransactionError]] = {
    "TXNS_CONFLICT": TransactionConflict,
    "TXNS_COMMIT_STATE_UNKNOWN": CommitStateUnknown,
    "TXNS_INVALID_USAGE": InvalidUsage,
    "TXNS_QUARANTINED": Quarantined,
    "TXNS_FOREIGN_WRITE": ForeignWrite,
    "TXNS_CORRUPT_LOG": CorruptLog,
    "TXNS_UNSUPPORTED": Unsupported,
}

# For errors that carry no condition. 55000 has two classes; the broader one stands for both.
_CLASSES_BY_SQLSTATE: dict[str, type[TransactionError]] = {
    "40001": TransactionConflict,
    "08007": CommitStateUnknown,
    "55000": Quarantined,
    "XX001": CorruptLog,
    "0A000": Unsupported,
}


@contextmanager
def translated() -> Iterator[None]:
    """
    Re-raise a transaction's error inside the block as one of this module's classes.

    The original exception is the cause (`__cause__`). Exceptions that no transaction
    caused pass unchanged.

    Raises:
        TransactionError: In one of its classes, see the top of this module.
    """
    try:
        yield
    except Exception as error:
        found = translation(error)
        if found is None:
            raise
        raise found from error


def translation(error: BaseException) -> TransactionError | None:
    """Return what `error` means in this module's classes; None if no transaction caused it."""
    report = _spark_report(error) or _java_report(error)
    if report is None:
        return None
    parameters = report.parameters
    return _class_of(report)(
        report.message,
        condition=report.condition,
        sqlstate=report.sqlstate,
        table=parameters.get("table") or None,
        txn_id=parameters.get("txnId") or None,
        other_txn_id=parameters.get("otherTxnId") or None,
        least_ts=_as_ts(parameters.get("leastTs")),
        other_engine=parameters.get("otherEngine") or None,
        other_comment=parameters.get("otherComment") or None,
    )


def of_condition(
    message: str, sqlstate: str | None, condition: str | None
) -> TransactionError | None:
    """
    Return what a message means where its text is all that arrives (Thrift, JDBC).

    None if `condition` is no transaction's. Table, ids and timestamp are read from the text.
    """
    if condition is None or not condition.startswith(_CONDITION_PREFIX):
        return None
    text = _TEXT_PREFIX.sub("", message)
    named = dict(_TEXT_PARAMETERS.findall(text))
    return _class_of(_Report(text, condition, sqlstate, named))(
        text,
        condition=condition,
        sqlstate=sqlstate,
        table=named.get("table") or None,
        txn_id=named.get("txn") or None,
        other_txn_id=named.get("clashed_with") or None,
        least_ts=_as_ts(named.get("least_ts")),
        other_engine=named.get("other_engine") or None,
        other_comment=named.get("other_comment") or None,
    )


class _Report(NamedTuple):
    """What an exception of Spark or of Java says about a transaction."""

    message: str
    condition: str | None
    sqlstate: str | None
    parameters: Mapping[str, str]


def _class_of(report: _Report) -> type[TransactionError]:
    if report.condition in _CLASSES:
        return _CLASSES[report.condition]
    sqlstate = report.sqlstate or ""
    if sqlstate[:2] in {"25", "42", "3B"}:
        return InvalidUsage
    return _CLASSES_BY_SQLSTATE.get(sqlstate, TransactionError)


def _as_ts(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None


def _spark_report(error: BaseException) -> _Report | None:
    """Read an exception that pyspark has converted; follow its causes."""
    from pyspark.errors import PySparkException  # noqa: PLC0415  (errors work without pyspark)

    seen: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if seen is None:
            return None
        condition = seen.getCondition() if isinstance(seen, PySparkException) else None
        if condition is not None and condition.startswith(_CONDITION_PREFIX):
            assert isinstance(seen, PySparkException)
            # Not getMessage(): it looks for the condition in Spark's own list and fails.
            message = str(seen).partition(_STACK_TRACE)[0]
            parameters = seen.getMessageParameters() or {}
            return _Report(message, condition, seen.getSqlState(), parameters)
        # pyspark keeps Java's cause in _cause; Python's own chain is __cause__.
        seen = getattr(seen, "_cause", None) or seen.__cause__
    return None


def _java_report(error: BaseException) -> _Report | None:
    """Read an exception that pyspark could not convert, by its chain of Java causes."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(_CAUSES_MAX):
        if java is None:
            return None
        condition = _call(java, "getCondition", "condition")
        is_ours = java.getClass().getName().startswith(_JAVA_PREFIX)
        if is_ours or str(condition).startswith(_CONDITION_PREFIX):
            return _Report(
                str(java.getMessage() or java.toString()),
                condition,
                _call(java, "getSqlState", "sqlState"),
                dict(_call(java, "getMessageParameters", "parameters") or {}),
            )
        java = java.getCause()
    return None


def _call(java: Any, *methods: str) -> Any:
    """
    Call the first of the methods that a Java exception has; None if it has none.

    Spark's exceptions (TxnSqlException) are spelt with get, the protocol's (TxnException)
    without.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415  (errors work without pyspark)

    for method in methods:
        try:
            return getattr(java, method)()
        except Py4JError:
            continue
    return None
