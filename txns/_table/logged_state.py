"""
Where the protocol left `main` of a data table, and who has been there since.

Docs/spec.md 9.1. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from txns._iceberg import snapshots
from txns._iceberg.manifests import last_sequence_number
from txns._iceberg.snapshots import APPEND, REPLACE, History
from txns._table import mark as _mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from txns._log.entry import LoggedChange


MISSING = (
    "a table of the log is not in the catalog: somebody dropped it, or renamed it",
    (
        "bring it back under this name with the catalog's own rename or register_table, of its"
        " newest metadata"
    ),
)
"""A reason of quarantine, and what ends it."""

NAME_TAKEN = (
    "another table stands under the name of a logged one",
    (
        "no repair ends that: rename that one away with plain Iceberg, and the logged one back"
        " where somebody has moved it, then `txns apply`"
    ),
)
"""The same."""

MARK_TAKEN = "somebody took the protocol's mark from the table"
"""A reason of quarantine, which a repair ends."""

NEVER_UNDER_CARE = "the log has a change of a table that was never under this commit table's care"
"""A reason of quarantine; `untouched` says what ends it."""

_MOVED = "somebody moved main off the protocol's last snapshot"


def untouched(commit_ts: int) -> str:
    """Say how an entry goes that names a table which was never under care."""
    return (
        f"nothing is applied to it; `txns recover --void {commit_ts}` takes the entry out of the"
        " log; look who has written the commit table: whoever may is trusted"
    )


@dataclass(frozen=True, slots=True)
class Stranger:
    """
    What somebody did to a table outside the protocol.

    Attributes:
        head_snapshot_id: Where they left `main`, or their branch; None where they took `main` away.
        snapshot_ids: Their snapshots that changed rows, newest first.
        adoptable: Whether they only appended.
        reason: The same in words, for messages.
        lost: What of the log the table lacks, where somebody has set it back: above one `commit_ts`
            in ms, above which nothing can be read, and up to another.
        below: Where they left `main` besides, before a registration marked the table again; newest
            first.
        cure: What ends it, where no repair does.
    """

    head_snapshot_id: int | None
    snapshot_ids: tuple[int, ...]
    adoptable: bool
    reason: str
    lost: tuple[int, int] | None = None
    below: tuple[int, ...] = ()
    cure: str = ""

    def ended_by(self, name: str) -> str:
        """Say what ends it, for the table of a name; no reject brings back what a table lacks."""
        adopt = f"`txns repair adopt {name}`"
        if self.lost:
            cure = (
                f"register its newest metadata in the catalog again, or take it as it is: {adopt}"
            )
        else:
            cure = f"{adopt} or `txns repair reject {name}`"
        return self.cure or cure

    @property
    def heads(self) -> tuple[int, ...]:
        """Give the snapshots that show all that strangers did, each the newest of a stretch."""
        return self.below if self.head_snapshot_id is None else (self.head_snapshot_id, *self.below)

    @property
    def taken_in(self) -> tuple[int, ...]:
        """Give the snapshots that an adoption names: those with rows, or where `main` stands."""
        head = self.head_snapshot_id
        return self.snapshot_ids or (() if head is None else (head,))

    def without(self, adopted: set[int]) -> Stranger | None:
        """Give what is left of them when some of their snapshots have been taken in."""
        left = tuple(one for one in self.snapshot_ids if one not in adopted)
        # A rollback has no snapshots, and nothing takes it in.
        return replace(self, snapshot_ids=left) if left or not self.snapshot_ids else None


@dataclass(frozen=True, slots=True)
class LoggedState:
    """
    The logged state of a table.

    Attributes:
        snapshot: The newest snapshot with the rows that the log knows: the last one that the
            protocol put there, or a stranger's compaction of it; None where it has been expired.
        stranger: What strangers did above it.
    """

    snapshot: Snapshot | None
    stranger: Stranger | None = None


class LoggedHistory(History):
    """The snapshots of a table in our care, with the entries that put them there."""

    def __init__(self, metadata: TableMetadata) -> None:
        super().__init__(metadata)
        self._ours_ts: dict[int, int] = {}

    def ours_below(self, snapshot: Snapshot) -> int:
        """Give the `commit_ts` in ms of the newest ancestor of ours; 0 where there is none."""
        above: list[int] = []
        found = 0
        for at in self.ancestors(snapshot):
            known = self._ours_ts.get(at.snapshot_id)
            if known is not None or _mark.is_ours(at):
                found = _mark.commit_ts_of(at) if known is None else known
                break
            above.append(at.snapshot_id)
        # One walk for all that is asked of a long history.
        self._ours_ts.update(dict.fromkeys(above, found))
        return found


def logged_state(
    metadata: TableMetadata, mark: _mark.TableMark, run: Sequence[LoggedChange] = ()
) -> LoggedState:
    """
    Find the logged state of a registered table.

    A stranger's `replace` holds the same rows and is tolerated. Expiry may have cut the
    ancestry below a run of such replaces: then the run's rows are those of `txns.applied`.

    Args:
        metadata: The table's.
        mark: Its mark.
        run: What was logged and is not applied to it, ascending: strangers may stand between what
            it was staged on and a mark that somebody has put there since.
    """
    main = snapshots.main_of(metadata)
    newest, was_main = _newest(metadata, mark.applied)
    if main is None:  # the protocol puts a snapshot there before it marks a table
        reason = "somebody replaced the table by an empty one outside the protocol"
        return LoggedState(newest, Stranger(None, (), adoptable=False, reason=reason))
    same_rows: Snapshot | None = None
    foreign: list[Snapshot] = []
    rolled_back = False
    for at in History(metadata).ancestors(main):
        if _mark.is_ours(at):
            if _mark.commit_ts_of(at) > mark.applied or at is newest:
                stranger = _found(main, foreign, _below_mark(metadata, at, run))
                # What was made of a marker holds its rows, none, but says nothing of the drop.
                logged = at if _mark.is_dropped(at) else same_rows or at
                return LoggedState(logged, stranger)
            rolled_back = True  # an older one of ours, or one inside the newest transaction
            break
        if snapshots.operation_of(at) == REPLACE:
            same_rows = same_rows or at
        else:
            same_rows = None
            foreign.append(at)
    if not rolled_back and not was_main and same_rows is not None:
        stranger = stranger_of(main.snapshot_id, foreign) if foreign else None
        return LoggedState(same_rows, stranger)
    # A rollback to before the registration stands on what main's history holds already.
    ours = {snapshot.snapshot_id for snapshot in History(metadata).ancestors(newest)}
    ids = tuple(each.snapshot_id for each in foreign if each.snapshot_id not in ours)
    return LoggedState(newest, Stranger(main.snapshot_id, ids, adoptable=False, reason=_MOVED))


@dataclass(frozen=True, slots=True)
class _Below:
    """
    What strangers did below the mark of a registration, since a run was staged.

    Attributes:
        stretches: Their snapshots that changed rows, newest first; apart where one of ours stands
            between.
        moved: Whether they took `main` off what the run was staged on, and rows with it.
    """

    stretches: list[list[Snapshot]]
    moved: bool = False


def _below_mark(metadata: TableMetadata, mark: Snapshot, run: Sequence[LoggedChange]) -> _Below:
    """
    Give what strangers did between what a run was staged on and the mark of a registration above.

    They took the mark from before, and somebody registered the table again, while a transaction
    was open. What is staged on the mark, or above it, has nothing of them in between.
    """
    history = History(metadata)
    source = history.get(run[0].change.from_snapshot_id) if run else None
    if source is None or not _mark.marks(metadata, mark):
        return _Below([])
    line = {at.snapshot_id for at in history.ancestors(mark)}
    left = list(takewhile(lambda at: at.snapshot_id not in line, history.ancestors(source)))
    meeting = history.parent(left[-1]) if left else source
    stretches: list[list[Snapshot]] = [[]]
    for at in history.ancestors(mark):
        if meeting and at.snapshot_id == meeting.snapshot_id:
            break
        if _mark.is_ours(at):
            stretches.append([])
        elif snapshots.operation_of(at) != REPLACE:
            stretches[-1].append(at)
    above = meeting is not None and meeting.snapshot_id == mark.snapshot_id
    same = all(snapshots.operation_of(at) == REPLACE or _mark.marks(metadata, at) for at in left)
    moved = meeting is None or not (above or same)
    return _Below([stretch for stretch in stretches if stretch], moved)


def _found(main: Snapshot, above: list[Snapshot], below: _Below) -> Stranger | None:
    """Describe what strangers did above the protocol's last snapshot, and below its mark."""
    stretches = [stretch for stretch in (above, *below.stretches) if stretch]
    if not stretches and not below.moved:
        return None
    ids = tuple(at.snapshot_id for stretch in stretches for at in stretch)
    heads = [stretch[0].snapshot_id for stretch in stretches]
    if above or not heads:
        heads = [main.snapshot_id, *heads[1:]]
    if below.moved:
        return Stranger(heads[0], ids, adoptable=False, reason=_MOVED, below=tuple(heads[1:]))
    stranger = stranger_of(heads[0], [at for stretch in stretches for at in stretch])
    return replace(stranger, below=tuple(heads[1:]))


def strangers_line(metadata: TableMetadata) -> set[int]:
    """Give what is open on `main`, and what it stands on: the newest of ours; empty for nothing."""
    mark = _mark.mark_of(metadata)
    if mark is None or logged_state(metadata, mark).stranger is None:
        return set()
    line: set[int] = set()
    for at in History(metadata).ancestors(snapshots.main_of(metadata)):
        line.add(at.snapshot_id)
        if _mark.is_ours(at):
            break
    return line


def stranger_above(metadata: TableMetadata, head_snapshot_id: int) -> Stranger | None:
    """
    Give what stands between a branch's head and the history of `main`, and was not adopted.

    Returns:
        None for no rows.
    """
    adopted = {one for at in metadata.snapshots for one in _mark.adopted_by(at)}
    foreign = [
        at
        for at in branch_line(metadata, head_snapshot_id).theirs
        if snapshots.operation_of(at) != REPLACE and at.snapshot_id not in adopted
    ]
    return stranger_of(head_snapshot_id, foreign) if foreign else None


def is_cut_off(metadata: TableMetadata, head_snapshot_id: int) -> bool:
    """Whether a branch stands on nothing that is known: whose rows it has nobody can tell."""
    return branch_line(metadata, head_snapshot_id).stands_on is None


def is_of_dropped(metadata: TableMetadata, head_snapshot_id: int) -> bool:
    """Whether a branch stands on a table that was dropped before it was created again."""
    mark = _mark.mark_of(metadata)
    stands_on = branch_line(metadata, head_snapshot_id).stands_on
    if mark is None or stands_on is None:
        return False
    return effective_ts(LoggedHistory(metadata), mark, stands_on) < mark.created


class BranchLine(NamedTuple):
    """
    The snapshots of strangers on a branch, newest first, and what they stand on.

    Attributes:
        stands_on: The first one that is ours or `main`'s; None where they replaced the table, or an
            expiry has taken it.
    """

    theirs: list[Snapshot]
    stands_on: Snapshot | None


def branch_line(metadata: TableMetadata, head_snapshot_id: int) -> BranchLine:
    """Walk a branch down to what is known."""
    history = History(metadata)
    main = {at.snapshot_id for at in history.ancestors(snapshots.main_of(metadata))}
    theirs: list[Snapshot] = []
    for at in history.ancestors(history.get(head_snapshot_id)):
        if _mark.is_ours(at) or at.snapshot_id in main:
            return BranchLine(theirs, at)
        theirs.append(at)
    return BranchLine(theirs, None)


def kept_length(metadata: TableMetadata, head_snapshot_id: int) -> int:
    """Give how many snapshots of a branch tell whose rows it has: down to what we stand on, too."""
    history = History(metadata)
    logged: set[int] = set()
    for ours in filter(_mark.is_ours, metadata.snapshots):
        below = takewhile(lambda at: at.snapshot_id not in logged, history.ancestors(ours))
        logged.update([at.snapshot_id for at in below])
    head = history.get(head_snapshot_id)
    theirs = takewhile(lambda at: at.snapshot_id not in logged, history.ancestors(head))
    return 1 + sum(1 for _ in theirs)


def stranger_of(head_snapshot_id: int, foreign: list[Snapshot]) -> Stranger:
    """Describe strangers' snapshots that changed rows, newest first."""
    newest = foreign[0]
    return Stranger(
        head_snapshot_id,
        tuple(snapshot.snapshot_id for snapshot in foreign),
        all(snapshots.operation_of(snapshot) == APPEND for snapshot in foreign),
        "somebody wrote the table outside the protocol"
        f" ({snapshots.operation_of(newest)} by snapshot {newest.snapshot_id})",
    )


def last_on_main(base: TableMetadata, now: TableMetadata) -> Snapshot | None:
    """
    Give the snapshot since which what came on `main` has changed the rows that a state has.

    The state's own. Or, where others' commits have left that off `main`, the one below, as far as
    only strangers' compactions lie between, which hold its rows (docs/spec.md 9.2).

    Args:
        base: The state, as it was read.
        now: The table as it is now.

    Returns:
        The state's own as well where `main` stands on neither: nobody knows what came since.
    """
    newest = snapshots.main_of(base)
    if newest is None or not _is_strangers_compaction(newest):
        return newest
    on_main = {each.snapshot_id for each in History(now).ancestors(snapshots.main_of(now))}
    for at in History(base).ancestors(newest):
        if at.snapshot_id in on_main:
            return at
        if not _is_strangers_compaction(at):
            break
    return newest


def _is_strangers_compaction(snapshot: Snapshot) -> bool:
    return snapshots.operation_of(snapshot) == REPLACE and not _mark.is_ours(snapshot)


def effective_ts(history: LoggedHistory, mark: _mark.TableMark, snapshot: Snapshot) -> int:
    """
    Give the `commit_ts` in ms that a snapshot of the logged ancestry stands for.

    Its own mark, a compaction's parent's, or the wall clock's for one from before the
    registration: but not before that of ours which it stands on, from an earlier registration,
    since the clock of its writer may be late.
    """
    for at in history.ancestors(snapshot):
        if _mark.is_ours(at):
            return _mark.commit_ts_of(at)
        if snapshots.operation_of(at) != REPLACE:
            return max(at.timestamp_ms, history.ours_below(at))
    # Its parents have been expired; pyiceberg's expiry leaves no trace of them (schedule 19).
    return mark.applied


def shown_by(metadata: TableMetadata, mark: _mark.TableMark) -> Snapshot | None:
    """
    Give the snapshot on which the newest change that a table shows left `main`.

    None where the table shows none: it was registered since, or that snapshot is gone.
    """
    newest, _ = _newest(metadata, mark.applied)
    return None if newest is None or _mark.marks(metadata, newest) else newest


def _newest(metadata: TableMetadata, ts: int) -> tuple[Snapshot | None, bool]:
    """
    Give the snapshot on which the entry at `ts` left `main`, whether it is still there or not.

    And whether the history of `main` shows it: what it tells of an expiry is told of `main` then.

    A change of several statements is a chain of snapshots, and may hold some of branches: a
    stranger may put `main` on any of them, and expire the one that it was left on. Forget and
    register may share a timestamp: the later one counts.
    """
    last = snapshots.main_of(metadata)
    # Numbers only grow: of the newest snapshot nobody has to ask for a later one.
    is_newest = last is not None and last.sequence_number == last_sequence_number(metadata) > 0
    if last is None or not (is_newest and _leaves_main(last, ts)):
        left_on = (each for each in metadata.snapshots if _leaves_main(each, ts))
        last = max(left_on, key=lambda one: one.sequence_number or 0, default=None)
    shown = last is not None and any(
        entry.snapshot_id == last.snapshot_id for entry in reversed(metadata.snapshot_log)
    )
    return last, shown


def _leaves_main(snapshot: Snapshot, ts: int) -> bool:
    """Whether the entry at a timestamp in ms left `main` on a snapshot."""
    ours = _mark.is_ours(snapshot) and not _mark.is_passing(snapshot)
    return ours and _mark.commit_ts_of(snapshot) == ts
