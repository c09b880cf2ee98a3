"""
What expiry must leave: the snapshots that a running transaction can still need.

Docs/spec.md 6.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.update import (
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    TableUpdate,
)

from txns._logger import logger
from txns._table import mark as _mark
from txns._table.logged_state import (
    LoggedHistory,
    branch_line,
    effective_ts,
    logged_state,
    strangers_line,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyiceberg.table.metadata import TableMetadata

_LOG = logger(__name__)


def kept_by_expiry(
    metadata: TableMetadata,
    real: TableMetadata | None,
    updates: tuple[TableUpdate, ...],
    since_ts: int,
) -> tuple[TableUpdate, ...]:
    """
    Give updates without the removal of snapshots that somebody can still need.

    That is a running transaction, or who adopts what strangers have appended: a view of the log
    shows their snapshots on no branch.

    Args:
        metadata: The table's, before them, as the log has it.
        real: The same as the catalog has it; None where it has none.
        updates: Anybody's.
        since_ts: When the oldest running transaction can have begun, in ms.
    """
    needed = needed_since(metadata, since_ts) | (strangers_line(real) if real else set())
    kept = _without_removal_of(updates, needed)
    if kept != updates:
        _LOG.info("snapshots that somebody may still need are kept: %s", needed)
    return kept


def leaving_open(
    metadata: TableMetadata, updates: tuple[TableUpdate, ...]
) -> tuple[TableUpdate, ...]:
    """
    Give the updates of a logged change, which expire nothing of what strangers have open.

    It may have come to `main`, or to a branch, since they were staged, or others have staged them.

    Args:
        metadata: The table's, before them.
        updates: The change's.
    """
    if not any(isinstance(update, RemoveSnapshotsUpdate) for update in updates):
        return updates
    gone = {each.ref_name for each in updates if isinstance(each, RemoveSnapshotRefUpdate)}
    refs = {name: ref for name, ref in metadata.refs.items() if name not in gone}
    held = _open_on_branches(metadata.model_copy(update={"refs": refs}))
    return _without_removal_of(updates, held | strangers_line(metadata))


def _without_removal_of(
    updates: tuple[TableUpdate, ...], held: Collection[int]
) -> tuple[TableUpdate, ...]:
    """Give the same updates, which leave some snapshots where they are."""
    kept: list[TableUpdate] = []
    for update in updates:
        if not isinstance(update, RemoveSnapshotsUpdate):
            kept.append(update)
            continue
        ids = [each for each in update.snapshot_ids if each not in held]
        if ids:
            kept.append(RemoveSnapshotsUpdate(snapshot_ids=ids))
    return tuple(kept)


def _open_on_branches(metadata: TableMetadata) -> set[int]:
    """Give the snapshots that tell what is open on strangers' branches."""
    held: set[int] = set()
    for name, ref in metadata.refs.items():
        if name.startswith(_mark.FOREIGN_BRANCH):
            theirs, stands_on = branch_line(metadata, ref.snapshot_id)
            held.update(at.snapshot_id for at in (*theirs, stands_on) if at)
    return held


def needed_since(metadata: TableMetadata, ts: int) -> set[int]:
    """
    Give the snapshots that a read at a timestamp in ms, or above it, can need.

    And those that tell what is open on strangers' branches: pyiceberg's expiry leaves their heads
    alone, whatever they are to keep.
    """
    mark = _mark.mark_of(metadata)
    needed = _open_on_branches(metadata)
    history = LoggedHistory(metadata)
    main = metadata.current_snapshot()
    if main is None and mark is not None:
        main = logged_state(metadata, mark).snapshot
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
