"""What has committed: entries with the tables that do not show them yet, and rows of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from txns._commit.outstanding import AppliedTo
from txns._log.archive import Wanted, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from txns._identifier import Identifier
    from txns._log.entry import Entry
    from txns._log.head import Head
    from txns._services import Parts


@dataclass(frozen=True, slots=True)
class Past:
    """
    One entry, and what became of it.

    Attributes:
        entry: The entry; of one in the archive the payload is gone.
        in_head: Whether it stands in the head yet.
        left: The tables that do not show it, by their newest names.
    """

    entry: Entry
    in_head: bool
    left: tuple[Identifier, ...]


def newest_first(parts: Parts, head: Head, wanted: Wanted) -> Iterator[Past]:
    """Give entries from the newest on; who stops has read no more than that."""
    return _pasts(parts, head, parts.timeline.newest_first(head, wanted))


def oldest_first(parts: Parts, head: Head, wanted: Wanted) -> Iterator[Past]:
    """Give entries from the oldest on, in memory that does not grow with their number."""
    return _pasts(parts, head, parts.timeline.oldest_first(head, wanted))


def newest(parts: Parts, head: Head, wanted: Wanted, count: int) -> list[Past]:
    """Give the newest entries, so many at most, ascending."""
    return [*islice(newest_first(parts, head, wanted), count)][::-1]


def _pasts(parts: Parts, head: Head, entries: Iterable[Entry]) -> Iterator[Past]:
    standing = {entry.commit_ts for entry in head.state.entries}
    applied = AppliedTo(parts.tables, head.state)  # asks each table once, if at all
    for entry in entries:
        in_head = entry.commit_ts in standing
        yield Past(entry, in_head, tuple(applied.left(entry)) if in_head else ())


def transactions(parts: Parts, after: int, count: int | None) -> list[dict[str, Any]]:
    """
    Give a row per entry and table, ascending by `commit_ts`, with a column `applied`.

    Args:
        parts: Of the handle.
        after: Exclusive bound in ms.
        count: The newest entries, so many at most; None for all.
    """
    head, wanted = parts.log.load(), Wanted(after)
    if count is None:
        found: Iterable[Past] = oldest_first(parts, head, wanted)
    else:
        found = newest(parts, head, wanted, count)
    return [
        {**row, "applied": name not in each.left}
        for each in found
        for row, name in zip(rows_of(each.entry), _names(head, each.entry), strict=True)
    ]


def _names(head: Head, entry: Entry) -> list[Identifier | None]:
    """Give the newest names of an entry's tables; None where it names none."""
    return [head.state.name_of(change) for change in entry.changes] or [None]
