"""
What a log has of tables that show something else: an entry that it lacked, and went on without.

Docs/spec.md 9.6. To carry it out would write over what a table shows; or it counts as applied, and
was not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from txns._log import archive
from txns._log.archive_scan import ArchiveScan
from txns._log.head import head_of
from txns._log.limits import is_late

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table import Table

    from txns._admin.line import Line
    from txns._admin.log_versions import EntryId
    from txns._admin.shown import ShownTable
    from txns._log.change import Change
    from txns._log.entry import Entry


def passed_over(
    tables: Iterable[ShownTable], version: Table, moved_to: dict[EntryId, int]
) -> list[Entry]:
    """
    Give what a version of the log has of tables that went on without it.

    What a table shows does not pass it over, be it at an earlier `commit_ts`; what it shows at a
    later one does: it was not there yet.

    Args:
        tables: Which ones.
        version: The commit table as that version is.
        moved_to: Where in the log that stands what they show, in ms, if elsewhere.

    Returns:
        Ascending; each with the changes alone that are passed over. What stands on one of these
        changes is not told.
    """
    by_uuid = {each.line.uuid: each for each in tables}
    shown_at = {uuid: _shown_at(each, moved_to) for uuid, each in by_uuid.items()}

    def lacks(uuid: str, entry: Entry, change: Change) -> bool:
        shown_ts = shown_at[uuid].get((entry.commit_ts, entry.txn_id))
        if shown_ts is None:
            return by_uuid[uuid].line.passes_over(entry, change)
        return entry.commit_ts < shown_ts and not by_uuid[uuid].line.has_given_up(entry.commit_ts)

    found = []
    for entry in _entries(version, [each.line for each in by_uuid.values()]):
        changes = tuple(
            each for each in entry.changes if each.uuid in by_uuid and lacks(each.uuid, entry, each)
        )
        if changes:
            found.append(replace(entry, changes=changes))
    return sorted(found, key=lambda one: one.commit_ts)


def _shown_at(table: ShownTable, moved_to: dict[EntryId, int]) -> dict[EntryId, int]:
    """Give at which `commit_ts` in ms a table shows what the log has, first."""
    found: dict[EntryId, int] = {}
    for ts, txn_id in sorted(table.entries, reverse=True):
        shown_ts = 0 if is_late(ts) else ts  # it has moved back, to where it is shown
        found[moved_to.get((ts, txn_id), ts), txn_id] = shown_ts
    return found


def _entries(version: Table, lines: list[Line]) -> Iterator[Entry]:
    if not lines:
        return
    yield from head_of(version).state.entries
    scan = ArchiveScan(version, least_ts=min(each.oldest_ts for each in lines) + 1)
    try:
        for window in scan.oldest_first():
            yield from archive.entries_of(window.to_pylist())
    except FileNotFoundError:  # who looks at the archive says so, where it is to stand
        return
