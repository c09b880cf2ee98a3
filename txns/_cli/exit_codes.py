"""Exit codes, and errors in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._message import message
from txns.errors import (
    CommitStateUnknown,
    Conflict,
    CorruptLog,
    InvalidUsage,
    Quarantined,
    TxnsError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

FINE = 0
VIOLATION = 1
"""What was asked does not hold: an invariant, a table in quarantine, something left over."""
USAGE = 2
"""The command could not be carried out: fix the call, the configuration or the catalog."""
CONFLICT = 3
UNKNOWN = 4
CORRUPT = 5
STOPPED = 130
"""Ctrl-C, as shells count it."""

_CODES: tuple[tuple[type[Exception], int], ...] = (
    (Quarantined, VIOLATION),
    (Conflict, CONFLICT),
    (CommitStateUnknown, UNKNOWN),
    (CorruptLog, CORRUPT),
)

_NOT_THERE = (
    ": create it with `txns init`; where there was one, --catalog must be the name that the tables"
    " were made under, and `txns recover` makes a log again of what is left of one that is lost"
)


def code(error: BaseException) -> int:
    """Give the exit code that an error ends the command line with."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), USAGE)


def line(error: BaseException, other_names: Callable[[], list[str]] = list) -> str:
    """
    Say in one line what went wrong and what to do.

    Args:
        error: What went wrong.
        other_names: Gives the names of catalogs that hold the commit table that one has not.
    """
    if isinstance(error, CommitStateUnknown):
        return (
            "it is not known whether the entry was written: ask with `txns show"
            f" {error.txn_id}` before running the command again (SQLSTATE {error.sqlstate})"
        )
    if isinstance(error, InvalidUsage) and error.sqlstate == "55000":
        names = ", ".join(other_names())
        there = f": it is there with --catalog {names}" if names else _NOT_THERE
        return f"{flat(str(error))}{there} (SQLSTATE 55000)"
    if isinstance(error, TxnsError):
        return f"{flat(str(error))} (SQLSTATE {error.sqlstate})"
    words = flat(str(error)) or "no words"
    if words.startswith("No default path is set"):
        words = "nobody says where to put the commit table: give --warehouse"
    return f"{words} ({type(error).__name__}; --debug shows where)"


def flat(words: str) -> str:
    """Put a text on one line, as it may stand in a message."""
    return message(" ".join(words.split()))
