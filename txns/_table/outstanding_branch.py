"""
A branch that reaches the files of what cannot be applied, so that orphan removal leaves them.

Docs/spec.md 8.5. Pure.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
)

from txns._iceberg import timestamps
from txns._iceberg.manifests import last_sequence_number
from txns._iceberg.snapshot_index import index_of
from txns._iceberg.snapshots import (
    APPEND,
    History,
    branch_at,
    operation_of,
    summary_value,
)
from txns._log import stored
from txns._table import mark as _mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from txns._log.entry import LoggedChange

BRANCH = f"{_mark.REF_PREFIX}outstanding"
"""What the branch is named."""

_FOUNDATION = 1
"""How many snapshots the branch keeps besides the copies: what the first change stands on."""

COPY_OF = "txns.copy-of"
"""On a copy: the snapshot whose manifest list it has."""

OUTSTANDING = "txns.outstanding"
"""On a copy: the `commit_ts` in ms of the entry that is not applied."""


@dataclass(frozen=True, slots=True)
class Left:
    """
    What is not applied to a table.

    Attributes:
        from_snapshot_id: What the first change stands on.
        staged: The snapshots of all changes, ascending, each with the `commit_ts` in ms of its
            entry; not empty.
    """

    from_snapshot_id: int | None
    staged: Sequence[tuple[int, Snapshot]]


def copy_id(snapshot_id: int, sequence_number: int) -> int:
    """Give the id of a snapshot's copy, the same whoever makes it."""
    text = f"txns-outstanding-{snapshot_id}-{sequence_number}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def is_kept(base: TableMetadata, changes: Sequence[LoggedChange]) -> bool:
    """
    Whether the branch reaches all that is outstanding of a table, and what that stands on.

    Args:
        base: The table.
        changes: Those that are not applied to it, ascending; not empty. Who knows fewer than
            whoever put the branch leaves it.
    """
    ref = base.refs.get(BRANCH)
    history = History(base)
    tip = history.get(ref.snapshot_id) if ref else None
    if ref is None or tip is None or not is_copy(tip) or _of(tip) < changes[-1].commit_ts:
        return False
    if _of(tip) > changes[-1].commit_ts:
        return True
    applied = _mark.applied_ts(base)
    copies = [*takewhile(lambda one: is_copy(one) and _of(one) > applied, history.ancestors(tip))]
    stands_on = changes[0].change.from_snapshot_id
    below = copies[-1].parent_snapshot_id if copies else None
    reached = history.get(stands_on) is None or below == stands_on
    return reached and len(copies) + _FOUNDATION == ref.min_snapshots_to_keep


def put(base: TableMetadata, left: Left, now_ms: int) -> tuple[TableUpdate, ...]:
    """
    Give the updates that put the branch on copies of staged snapshots, in the place of others.

    A copy has the manifest list of its snapshot, and no smaller number: whoever applies that gives
    it a list of its own then, so that an expiry of the copy takes nothing of it. Nor a greater one
    without need: a server takes none from who has loaded an older table.

    Args:
        base: The table.
        left: What is not applied to it.
        now_ms: The wall clock's time in ms.
    """
    numbers = _numbers(base, [each.sequence_number or 0 for _, each in left.staged])
    time_ms = timestamps.acceptable_ts(base, now_ms, now_ms)
    parent_id = _foundation(base, left.from_snapshot_id)
    copies: list[TableUpdate] = []
    for number, (commit_ts, snapshot) in zip(numbers, left.staged, strict=True):
        marks = {COPY_OF: str(snapshot.snapshot_id), OUTSTANDING: str(commit_ts)}
        copy = Snapshot(
            snapshot_id=copy_id(snapshot.snapshot_id, number),
            parent_snapshot_id=parent_id,
            sequence_number=number,
            timestamp_ms=time_ms,
            manifest_list=snapshot.manifest_list,
            summary=Summary(Operation(operation_of(snapshot) or APPEND), **marks),
            schema_id=base.current_schema_id,
        )
        copies.append(AddSnapshotUpdate(snapshot=copy))
        parent_id = copy.snapshot_id
    assert parent_id is not None
    branch = branch_at(
        BRANCH,
        parent_id,
        min_snapshots_to_keep=len(copies) + _FOUNDATION,
        max_ref_age_ms=_mark.FOR_EVER_MS,
    )
    earlier = [each for each in base.snapshots if is_copy(each)]
    return (*_removal(base, earlier), *copies, branch)


def _numbers(base: TableMetadata, staged: Sequence[int]) -> list[int]:
    """Give ascending numbers, each the next one, or the staged one where that is greater."""
    last = last_sequence_number(base)
    return [last := max(last + 1, number) for number in staged]


def _foundation(base: TableMetadata, from_snapshot_id: int | None) -> int | None:
    """Give what the first change stands on, which an expiry would take: no repair mends that."""
    known = History(base).get(from_snapshot_id)
    return from_snapshot_id if known else base.current_snapshot_id


def here(base: TableMetadata) -> tuple[TableRequirement, ...]:
    """Give what a swap that puts the branch asserts: nobody has applied or put anything since."""
    ref = base.refs.get(BRANCH)
    return (
        AssertTableUUID(uuid=base.table_uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=base.current_snapshot_id),
        AssertRefSnapshotId(ref=BRANCH, snapshot_id=ref.snapshot_id if ref else None),
    )


def done(base: TableMetadata, commit_ts: int) -> tuple[TableUpdate, ...]:
    """
    Give the removal of branch and copies in the swap that applies the last entry that they are of.

    An expiry would take the copies' lists along, which whoever reads the table may still have.
    """
    copies = [each for each in index_of(base).with_key(OUTSTANDING) if is_copy(each)]
    is_last = all(_of(each) <= commit_ts for each in copies)
    return _removal(base, copies) if is_last else ()


def is_left_over(metadata: TableMetadata, head: Snapshot) -> bool:
    """Whether a branch of copies came late: all that it reaches is applied."""
    return is_copy(head) and _of(head) <= _mark.applied_ts(metadata)


def _removal(base: TableMetadata, found: Sequence[Snapshot]) -> tuple[TableUpdate, ...]:
    """Give the removal of the branch, and of the copies found that no other ref leads to."""
    copies = {each.snapshot_id for each in found}
    if not copies:
        return ()
    ref = base.refs.get(BRANCH)
    branch = (
        (RemoveSnapshotRefUpdate(ref_name=BRANCH),) if ref and ref.snapshot_id in copies else ()
    )
    history = History(base)
    for name, other in base.refs.items():
        if name != BRANCH:  # somebody's own, or `main`, that was put on one by hand
            led_to = history.ancestors(history.get(other.snapshot_id))
            copies.difference_update(each.snapshot_id for each in led_to)
    gone = (RemoveSnapshotsUpdate(snapshot_ids=sorted(copies)),) if copies else ()
    return (*branch, *gone)


def is_copy(snapshot: Snapshot) -> bool:
    """Whether a snapshot is a copy of one that could not be applied."""
    return summary_value(snapshot, OUTSTANDING) is not None


def _of(copy: Snapshot) -> int:
    """Give the `commit_ts` in ms of the entry that a copy is of."""
    return stored.number(summary_value(copy, OUTSTANDING) or "", OUTSTANDING)
