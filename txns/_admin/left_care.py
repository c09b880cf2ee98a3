"""
What a table tells of the forget that has taken it from care.

Docs/spec.md 9.6. It has no mark any more, but its earlier metadata files have one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.serializers import FromInputFile

from txns._table import mark as _mark
from txns._table.logged_state import shown_by

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata


def mark_before_forget(table: Table) -> _mark.TableMark | None:
    """
    Give the mark that a forget has taken from a table, with what is applied since.

    The forget's swap has taken it and put a snapshot there: in the metadata after that the table
    has no mark, in that before it has. So who took the mark from a table later was a stranger.

    Returns:
        None for a table that was never in care, or whose metadata files of then are gone.
    """
    after = table.metadata
    applied = _mark.applied_ts(after)
    newest = shown_by(after, _mark.TableMark("", "", 0, applied)) if applied else None
    if newest is None:
        return None
    for each in reversed(after.metadata_log):
        before = _read(table, each.metadata_file)
        if before is None:
            return None
        if before.snapshot_by_id(newest.snapshot_id) is None:
            mark = _mark.mark_of(before)
            left = mark is not None and _mark.mark_of(after) is None
            return replace(mark, applied=applied) if mark and left else None
        after = before
    return None


def _read(table: Table, path: str) -> TableMetadata | None:
    try:
        return FromInputFile.table_metadata(table.io.new_input(path))
    except (OSError, ValueError):  # it is gone, or none that can be read: it tells nothing
        return None
