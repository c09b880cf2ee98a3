"""
A branch that reaches the files of what cannot be applied, so that orphan removal leaves them.

Docs/spec.md 8.5. Pure.
"""

from __future__ import annotations

import hashlib
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
from txns._iceberg.snapshots import APPEND, History, branch_at, operation_of, summary_value
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


def copy_id(snapshot_id: int) -> int:
    """Give the id of a snapshot's copy, the same whoever makes it."""
    digest = hashlib.sha256(f"txns-outstanding-{snapshot_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def is_kept(base: TableMetadata, last: LoggedChange) -> bool:
    """
    Whether the branch reaches all that is outstanding of a table, as far as its newest copy tells.

    Args:
        base: The table.
        last: The newest change that is not applied to it. Who knows fewer changes than whoever put
            the branch leaves it.
    """
    ref = base.refs.get(BRANCH)
    history = History(base)
    tip = history.get(ref.snapshot_id) if ref else None
    newest = summary_value(tip, OUTSTANDING)
    if ref is None or newest is None or int(newest) < last.commit_ts:
        return False
    copies = takewhile(is_copy, history.ancestors(tip))
    return sum(1 for _ in copies) + _FOUNDATION == ref.min_snapshots_to_keep


def put(
    base: TableMetadata, staged: Sequence[tuple[int, Snapshot]], now_ms: int
) -> tuple[TableUpdate, ...]:
    """
    Give the updates that put the branch on copies of staged snapshots, in the place of others.

    A copy has the manifest list of its snapshot, and a number above it: whoever applies the
    snapshot gives it a list of its own then, so that an expiry of the copy takes nothing of it.

    Args:
        base: The table.
        staged: What is not applied, ascending, each with the `commit_ts` of its entry; not empty.
        now_ms: The wall clock's time in ms.
    """
    sequence_number = max(
        last_sequence_number(base), *(each.sequence_number or 0 for _, each in staged)
    )
    time_ms = timestamps.acceptable_ts(base, now_ms, now_ms)
    parent_id = _foundation(base, staged[0][1])
    copies: list[TableUpdate] = []
    for number, (commit_ts, snapshot) in enumerate(staged, sequence_number + 1):
        marks = {COPY_OF: str(snapshot.snapshot_id), OUTSTANDING: str(commit_ts)}
        copy = Snapshot(
            snapshot_id=copy_id(snapshot.snapshot_id),
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
        min_snapshots_to_keep=len(staged) + _FOUNDATION,
        max_ref_age_ms=_mark.FOR_EVER_MS,
    )
    return (*_removal(base), *copies, branch)


def _foundation(base: TableMetadata, first: Snapshot) -> int | None:
    """Give what the first change stands on, which an expiry would take: no repair mends that."""
    known = {each.snapshot_id for each in base.snapshots}
    return (
        first.parent_snapshot_id if first.parent_snapshot_id in known else base.current_snapshot_id
    )


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
    newest = [summary_value(each, OUTSTANDING) for each in base.snapshots]
    is_last = all(int(each) <= commit_ts for each in newest if each is not None)
    return _removal(base) if is_last else ()


def is_left_over(metadata: TableMetadata, head: Snapshot) -> bool:
    """Whether a branch of copies came late: all that it reaches is applied."""
    newest = summary_value(head, OUTSTANDING)
    return newest is not None and int(newest) <= _mark.applied_ts(metadata)


def _removal(base: TableMetadata) -> tuple[TableUpdate, ...]:
    """Give the removal of all copies from a table's metadata, and of the branch on them."""
    copies = sorted(each.snapshot_id for each in base.snapshots if is_copy(each))
    if not copies:
        return ()
    ref = base.refs.get(BRANCH)
    branch = (RemoveSnapshotRefUpdate(ref_name=BRANCH),)
    gone = RemoveSnapshotsUpdate(snapshot_ids=copies)
    return (*(branch if ref and ref.snapshot_id in copies else ()), gone)


def is_copy(snapshot: Snapshot) -> bool:
    """Whether a snapshot is a copy of one that could not be applied."""
    return summary_value(snapshot, OUTSTANDING) is not None
