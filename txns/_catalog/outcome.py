"""What became of a transaction."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txns._identifier import Identifier
    from txns._log.entry import Entry
    from txns._services import Parts


class State(Enum):
    """Where a transaction is in its life."""

    ACTIVE = "active"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Applied:
    """
    What `Committed.apply` came to.

    Attributes:
        commit_ts: Of the entry, in ms.
        complete: Whether it is applied to all of its tables: then it may be tidied.
    """

    commit_ts: int
    complete: bool


@dataclass
class Committed:
    """
    A transaction that has committed: durable and visible to every reader of the protocol.

    Attributes:
        txn_id: Its id.
        commit_ts: Its timestamp, in ms; the `read_ts` for one that only read.
        read_ts: What it was read at, in ms.
        tables: What it wrote.
        applied: None before `apply`; else whether it is applied to all of its tables.
    """

    txn_id: str
    commit_ts: int
    read_ts: int
    tables: tuple[Identifier, ...]
    applied: bool | None = None
    _entry: Entry | None = field(default=None, repr=False)
    _parts: Parts | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def of(entry: Entry, parts: Parts) -> Committed:
        """Describe an entry."""
        tables = tuple(change.table for change in entry.changes)
        applied = None if entry.applies else True
        return Committed(
            entry.txn_id, entry.commit_ts, entry.read_ts, tables, applied, entry, parts
        )

    @staticmethod
    def of_nothing(txn_id: str, read_ts: int) -> Committed:
        """Describe a transaction that has written nothing, and so has no entry."""
        return Committed(txn_id, read_ts, read_ts, (), applied=True)

    def apply(self) -> Applied:
        """Carry the changes over to their tables; idempotent, and never undoes the commit."""
        if self.applied is not True and self._entry and self._parts:
            self.applied = self._parts.committer.apply(self._entry)
        elif self._parts:
            self._parts.committer.leave()
        return Applied(self.commit_ts, complete=bool(self.applied))
