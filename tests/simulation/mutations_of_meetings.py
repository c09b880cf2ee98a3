"""Protections of two transactions that meet in one table, file by file, taken away (isolation)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from txns import _handle
from txns._commit import file_conflicts, turns
from txns._config import FILE
from txns._iceberg import deletes
from txns._stage import restage_as_one

Patch = tuple[Any, str, Any]


def removed_files_passed_over() -> list[Patch]:
    """Take away what others have taken away already, and bring rows of it back."""

    def marked_alone(own: Any, theirs: Any, newer: Any) -> set[str]:
        return touched(own, theirs, newer) - theirs.removed.keys()

    def unasked(_self: Any, _deleted: Any) -> None:
        pass

    touched = restage_as_one._touched
    # pyiceberg looks itself whether files that it is told to remove are there.
    return [
        (restage_as_one, "_touched", marked_alone),
        (deletes.Overwrites, "_validate_required_deletes", unasked),
    ]


def delete_marks_passed_over() -> list[Patch]:
    """Rewrite files of which others have marked rows since, and bring these back."""

    def removed_alone(own: Any, theirs: Any, _newer: Any) -> set[str]:
        return own.removed.keys() & theirs.removed.keys()

    return [(restage_as_one, "_touched", removed_alone)]


def added_files_unread() -> list[Patch]:
    """Hold what was read against no file that came since."""
    return _met_without(added=[])


def removed_files_unread() -> list[Patch]:
    """Hold what was read against no file that has left since."""
    return _met_without(removed={})


def delete_marks_unread() -> list[Patch]:
    """Hold what was read against no file that marks rows, or has marked some."""
    return _met_without(added_deletes=[], removed_deletes=[])


def _met_without(**nothing: Any) -> list[Patch]:
    def careless(self: Any, changes: Any) -> Any:
        return first_met(self, replace(changes, **nothing))

    first_met = file_conflicts._Look.first_met
    return [(file_conflicts._Look, "first_met", careless)]


def tables_go_by_files() -> list[Patch]:
    """Let files decide, whatever a user has asked for."""
    return [(_handle, "check_conflicts", lambda _wanted: FILE)]


def waits_without_end() -> list[Patch]:
    """Wait for who has reserved a table for as long as that stands in the log."""

    def all_of_them(self: Any, reserved: Any) -> Any:
        standing(self, reserved)  # which it has seen
        return tuple(sorted(reserved, key=lambda one: one.age))

    standing = turns.Turns._standing
    return [(turns.Turns, "_standing", all_of_them)]
