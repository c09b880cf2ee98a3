"""Protections of tables that move together with the log (docs/spec.md 11.3), taken away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from txns._commit import born_applied, validation
from txns._iceberg import locked_rows

Patch = tuple[Any, str, Any]


def born_over_what_is_outstanding() -> list[Patch]:
    """Move a table with the log, though older entries are to be applied to it (I5)."""
    return [(born_applied, "_outstanding", lambda _head, _uuid, _applied: False)]


def born_over_strangers() -> list[Patch]:
    """Move a table with the log, whatever strangers have made of it."""

    def as_logged(_base: Any, _mark: Any, _changes: Any) -> Any:
        return SimpleNamespace(stranger=None)

    return [(born_applied, "logged_state", as_logged)]


def born_in_word_only() -> list[Patch]:
    """Say of each table that the swap moves it, and move none."""
    return [(validation.Validation, "_is_born", lambda *_a: True)]


def ahead_taken_for_another_time() -> list[Patch]:
    """Take what was written ahead, whatever `commit_ts` it was written for."""
    return [(born_applied, "_key", lambda logged: logged.entry.txn_id)]


def written_removed_after_a_maybe() -> list[Patch]:
    """Remove the new metadata of a swap whose answer was lost."""

    def commit(self: Any) -> None:
        self._commit()
        self._sent, self._written = self._written, []
        for table in self._sent:
            self._moved[table.name()] = locked_rows._Moved(table, table)

    return [(locked_rows.LockedRows, "commit", commit)]
