"""
A purger's claim on a dropped table, as the table's metadata shows it.

Docs/spec.md 6.8. Pure.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH

from txns._iceberg import snapshots
from txns._iceberg.snapshots import History
from txns._identifier import dotted_name
from txns._table import mark as _mark
from txns._table import outstanding_branch
from txns._table.logged_state import is_cut_off, logged_state, stranger_above
from txns.errors import Conflict

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from txns._identifier import Identifier

CLAIM_MS = 10 * 60 * 1000
"""For so long nobody takes over another purger's claim, in ms."""

_LATE_MS = 60 * 1000
"""By so much Iceberg lets a snapshot be older than its table's last update, in ms."""


def dropped_ts(metadata: TableMetadata) -> int:
    """Give the `commit_ts` in ms of a table's drop: of the oldest marker that `main` ends in."""
    found = 0
    for at in History(metadata).ancestors(metadata.current_snapshot()):
        if not _mark.is_dropped(at):
            break
        found = _mark.commit_ts_of(at)
    return found


def claimed_ts(metadata: TableMetadata) -> int | None:
    """Give the `commit_ts` in ms of a table's claim; None for a table without one."""
    claim_id = metadata.properties.get(_mark.PURGING)
    if claim_id is None:
        return None
    for at in metadata.snapshots:
        if snapshots.summary_value(at, _mark.SNAPSHOT_TXN_ID) == claim_id:
            return _mark.commit_ts_of(at)
    return 0  # expired: it is old


def foreign_branch(metadata: TableMetadata) -> str | None:
    """
    Name a branch with rows of strangers that no entry has taken in.

    One that apply has made for them, or one that they have written since the drop, by a clock
    that may be late.
    """
    since = dropped_ts(metadata) - _LATE_MS
    for name, ref in metadata.refs.items():
        head = metadata.snapshot_by_id(ref.snapshot_id)
        if name == MAIN_BRANCH or head is None or _mark.is_ours(head):
            continue
        if name.startswith(_mark.KEPT_TAG) or outstanding_branch.is_left_over(metadata, head):
            continue  # what came back is on main, and what was copied has been applied
        kept = name.startswith(_mark.FOREIGN_BRANCH) or head.timestamp_ms >= since
        above = stranger_above(metadata, ref.snapshot_id) or is_cut_off(metadata, ref.snapshot_id)
        if kept and above:
            return name
    return None


def is_claimed(metadata: TableMetadata) -> bool:
    """Whether a table is what a purger has claimed, and nobody has written it since."""
    mark = _mark.mark_of(metadata)
    if mark is None or _mark.PURGING not in metadata.properties:
        return False
    logged = logged_state(metadata, mark)
    dropped = _mark.is_dropped(metadata.current_snapshot())
    return dropped and logged.stranger is None and foreign_branch(metadata) is None


def refuse_claimed(table: Identifier, metadata: TableMetadata) -> None:
    """
    Refuse to use a dropped table that is being purged.

    Raises:
        Conflict: With what to do when nobody purges it any more.
    """
    since = claimed_ts(metadata)
    if since is not None:
        raise being_purged(table, since)


def being_purged(table: Identifier, since: int) -> Conflict:
    """Give the error for a table that somebody purges, since a timestamp in ms."""
    return Conflict(
        f"the dropped table of this name is being purged since {time_of(since)}; a purge that died"
        f" is gone on with by `txns purge {dotted_name(table)}`, possible from"
        f" {time_of(since + CLAIM_MS)} on",
        what="table is not free yet, try again",
        table=table,
        least_ts=since + CLAIM_MS,
    )


def time_of(ts: int) -> str:
    """Give a timestamp in ms as people read it."""
    return f"{ts} ({datetime.fromtimestamp(ts / 1000, UTC).isoformat(timespec='seconds')})"
