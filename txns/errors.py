"""
Errors of the protocol: few kinds, each telling the caller what to do.

    TxnsError
    +-- Conflict             40001  definitely not committed: run the transaction again
    +-- CommitStateUnknown   08007  maybe committed: ask the log with the transaction id
    +-- InvalidUsage         25xxx  fix the call
    |   +-- NoNamespace      42602  the same, as pyiceberg raises it
    +-- Quarantined          55000  run the repair command in the message
    |   +-- ForeignWrite     55000  the same, for rows that can be adopted
    +-- CorruptLog           XX001  stop: what is stored contradicts docs/spec.md
    +-- Unsupported          0A000  not possible here; the message names the cure

A conflict says who came first, with the comment of its entry. That may be anybody's words: they are
shown in one line, without control characters, and not longer than `SHOWN_MAX`.

Names that do not exist give pyiceberg's own errors (`NoSuchTableError`, ...).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchNamespaceError

from txns import _message
from txns._identifier import dotted_name

if TYPE_CHECKING:
    from txns._identifier import Identifier

TOO_OLD = "25P04"
"""SQLSTATE of a transaction above the greatest age, PostgreSQL's for its transaction_timeout."""

TOO_MUCH = "54000"
"""SQLSTATE of what is above a limit of the log."""

SHOWN_MAX = 200
"""Characters of other people's words that a message shows."""


class TxnsError(Exception):
    """An error of the protocol; `sqlstate` says which kind, five characters."""

    sqlstate = "XX000"

    def __init__(self, message: str = "") -> None:
        """Keep a message: without secrets, and without what moves a terminal."""
        super().__init__(_message.message(message))


@dataclass(frozen=True, slots=True)
class Winner:
    """
    The transaction that came first.

    Attributes:
        txn_id: Its id; empty where it is not one.
        engine: Who wrote it.
        comment: The words of its user.
    """

    txn_id: str = ""
    engine: str = ""
    comment: str = ""


NOBODY = Winner()


class Conflict(TxnsError):
    """
    A lost race: the transaction has definitely not committed; run it again.

    Under the caller's own id, when a commit says so, no try under it that began before will commit,
    either.
    """

    sqlstate = "40001"

    def __init__(
        self,
        reason: str,
        *,
        table: Identifier | str = "",
        txn_id: str = "",
        winner: Winner = NOBODY,
        least_ts: int = 0,
        what: str = "transaction lost a race, run it again",
    ) -> None:
        """
        Describe a lost race.

        Args:
            reason: What clashed, lower case, without a full stop.
            table: The table it clashed on.
            txn_id: The transaction that lost.
            winner: The transaction that came first; its comment is kept as it is shown.
            least_ts: The least `read_ts` in ms at which it would not have clashed.
            what: What the message begins with: not every one is a race.
        """
        self.table = dotted_name(table)
        self.txn_id = txn_id
        self.other_txn_id = winner.txn_id
        self.other_engine = shown(winner.engine)
        self.other_comment = shown(winner.comment)
        self.least_ts = least_ts
        message = (
            f"{what}: {reason}; table=`{self.table}`"
            f" txn=`{txn_id}` clashed_with=`{winner.txn_id}` least_ts=`{least_ts}`"
        )
        if winner.txn_id:
            message += f" other_engine=`{self.other_engine}` other_comment=`{self.other_comment}`"
        super().__init__(message)


class CommitStateUnknown(TxnsError):
    """The catalog's answer was lost: ask with `begin(txn_id=...)`; nothing was cleaned up."""

    sqlstate = "08007"

    def __init__(self, txn_id: str) -> None:
        """Describe an outcome that the log does not tell yet."""
        self.txn_id = txn_id
        super().__init__(
            "it is not known whether the transaction committed: ask again with"
            f" begin(txn_id='{txn_id}') before running it again; nothing has been cleaned up;"
            f" txn=`{txn_id}`"
        )


class InvalidUsage(TxnsError):
    """A call that its caller has to change."""

    def __init__(self, sqlstate: str, message: str, *, least_ts: int | None = None) -> None:
        """
        Describe a wrong call.

        Args:
            sqlstate: Class 25 (transaction state), 3B (savepoint), 42 (names) or 54 (limits).
            message: What is wrong and what to do.
            least_ts: For `commit_at`: the least timestamp in ms that works.
        """
        self.sqlstate = sqlstate
        self.least_ts = least_ts
        super().__init__(message)


class NoNamespace(InvalidUsage, NoSuchNamespaceError):
    """A table's name has no namespace: pyiceberg's own catalogs raise the second of the two."""


class Quarantined(TxnsError):
    """A table whose logged changes cannot be applied; repair it, everything else goes on."""

    sqlstate = "55000"

    def __init__(self, table: Identifier | str, reason: str, cure: str = "") -> None:
        """Describe why the log and the table do not fit, and what ends it if no repair does."""
        self.table = dotted_name(table)
        self.reason = reason
        repair = (
            f"readers stay on the logged state; end it with `txns repair adopt {self.table}` or"
            f" `txns repair reject {self.table}`"
        )
        super().__init__(f"{reason}; {cure or repair}; table=`{self.table}`")


class ForeignWrite(Quarantined):
    """Somebody appended to a table outside the protocol; take it in or set it aside."""


class CorruptLog(TxnsError):
    """What is stored contradicts an invariant of docs/spec.md: stop, nothing was written."""

    sqlstate = "XX001"


class Unsupported(TxnsError):
    """Not possible here, or a version or feature that this program does not know."""

    sqlstate = "0A000"


def is_final(error: BaseException) -> bool:
    """
    Say whether an error of a commit is its outcome: not committed, and not by another try either.

    What a catalog or a storage says is none, nor is a call that can be changed.
    """
    if isinstance(error, InvalidUsage):
        return error.sqlstate in {TOO_OLD, TOO_MUCH}
    return isinstance(error, TxnsError) and not isinstance(error, CommitStateUnknown)


def refuse_without_namespace(table: Identifier) -> None:
    """
    Refuse a name that pyiceberg's catalogs cannot have.

    Raises:
        NoNamespace: 42602, it has none, or a part without a name.
    """
    if not table[:-1] or not all(table):
        raise NoNamespace(
            "42602",
            "a table needs a namespace: give its name as default.orders, say;"
            f" table=`{dotted_name(table)}`",
        )


def shown(words: str) -> str:
    """Give somebody's words as messages show them: in one line that is cut, without backticks."""
    safe = _message.message(words[: SHOWN_MAX + 1]).replace("`", "'")
    return safe if len(safe) <= SHOWN_MAX else safe[: SHOWN_MAX - 3] + "..."


def transactions_off() -> Unsupported:
    """Say that something needs the log, while it takes no writers."""
    return Unsupported(
        "transactions are off for this commit table: `txns on` or CALL system.on() lets writers in;"
        " until then single operations read and write, as plain Iceberg does, the tables to which"
        " everything is applied"
    )
