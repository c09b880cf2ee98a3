"""The one rule that says whether an entry is applied; and what is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from txns._log.entry import Kind
from txns._logger import fields, logger
from txns._table.data_tables import LESS_THAN_ALL, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from txns._identifier import Identifier
    from txns._log.change import Change
    from txns._log.entry import Entry
    from txns._log.head import Head
    from txns._log.state import LogState
    from txns._table.data_tables import DataTables

_LOG = logger(__name__)


@dataclass(frozen=True, slots=True)
class AppliedTo:
    """
    Tells which tables show what; asks the catalog for each table once.

    Attributes:
        tables: The catalog's.
        state: Of the head whose entries are asked for.
    """

    tables: DataTables
    state: LogState
    _applied: dict[str, int] = field(default_factory=dict)

    def shows(self, entry: Entry, change: Change) -> bool:
        """Whether an entry's table shows its change, or nobody looks for it there any more."""
        if not entry.moved or self.state.forgotten_ts(change.uuid) > entry.commit_ts:
            return True
        if change.uuid not in self._applied:
            name = self.state.name_of(change)
            self._applied[change.uuid] = self._applied_ts(name, change.uuid)
        applied = self._applied[change.uuid]
        if entry.kind is Kind.FORGET and applied == LESS_THAN_ALL:
            return True  # its owner has dropped the table since, as they may
        return applied >= entry.commit_ts

    def _applied_ts(self, name: Identifier, uuid: str) -> int:
        """Ask a table; one that cannot be read shows nothing, and keeps nobody from the others."""
        try:
            return self.tables.applied_ts(name, uuid)
        except Exception:  # noqa: BLE001 -- whatever it was: what it has is not known
            _LOG.warning(
                "the table cannot be read: its entries stay in the head",
                exc_info=True,
                extra=fields(table=name),
            )
            return UNKNOWN

    def left(self, entry: Entry) -> Iterator[Identifier]:
        """Give the tables that do not show an entry, by their newest names; asked one by one."""
        for change in entry.moved:
            if not self.shows(entry, change):
                yield self.state.name_of(change)

    def everywhere(self, entry: Entry) -> bool:
        """Whether every table shows an entry."""
        return next(self.left(entry), None) is None


@dataclass(frozen=True, slots=True)
class Outstanding:
    """An entry that is not applied to some of its tables, by their newest names."""

    entry: Entry
    tables: tuple[Identifier, ...]


def outstanding(tables: DataTables, head: Head) -> list[Outstanding]:
    """Give the entries of a head that some table of theirs does not show, ascending."""
    applied = AppliedTo(tables, head.state)
    entries = head.state.entries if head.exists else ()
    found = ((entry, tuple(applied.left(entry))) for entry in entries)
    return [Outstanding(entry, left) for entry, left in found if left]
