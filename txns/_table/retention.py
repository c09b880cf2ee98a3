"""
What expiry must leave: the snapshots that a running transaction can still need.

Docs/spec.md 6.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.update import RemoveSnapshotsUpdate, TableUpdate

from txns._logger import logger
from txns._table import mark as _mark
from txns._table.logged_state import LoggedHistory, branch_line, effective_ts, logged_state

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

_LOG = logger(__name__)


def kept_by_expiry(
    metadata: TableMetadata, updates: tuple[TableUpdate, ...], since_ts: int
) -> tuple[TableUpdate, ...]:
    """
    Give updates without the removal of snapshots that a running transaction can need.

    Args:
        metadata: The table's, before them.
        updates: Anybody's.
        since_ts: When the oldest running transaction can have begun, in ms.
    """
    needed = needed_since(metadata, since_ts)
    kept: list[TableUpdate] = []
    for update in updates:
        if not isinstance(update, RemoveSnapshotsUpdate):
            kept.append(update)
            continue
        ids = [each for each in update.snapshot_ids if each not in needed]
        if len(ids) < len(update.snapshot_ids):
            _LOG.info("snapshots that a transaction may still need are kept: %s", needed)
        if ids:
            kept.append(RemoveSnapshotsUpdate(snapshot_ids=ids))
    return tuple(kept)


def needed_since(metadata: TableMetadata, ts: int) -> set[int]:
    """
    Give the snapshots that a read at a timestamp in ms, or above it, can need.

    And those that tell what is open on strangers' branches: pyiceberg's expiry leaves their heads
    alone, whatever they are to keep.
    """
    mark = _mark.mark_of(metadata)
    needed: set[int] = set()
    history = LoggedHistory(metadata)
    main = metadata.current_snapshot()
    if main is None and mark is not None:
        main = logged_state(metadata, mark).snapshot
    for name, ref in metadata.refs.items():
        if name.startswith(_mark.FOREIGN_BRANCH):
            theirs, stands_on = branch_line(metadata, ref.snapshot_id)
            needed.update(at.snapshot_id for at in (*theirs, stands_on) if at)
    for at in history.ancestors(main):
        needed.add(at.snapshot_id)
        if mark is None:
            break
        # Below a forget, reads start from what it was staged on: what others wrote in between
        # does not end the walk.
        foreign = not _mark.is_ours(at) and history.ours_below(at) > 0
        if effective_ts(history, mark, at) <= ts and not foreign:
            break
    return needed
