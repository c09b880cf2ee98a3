"""
Brings together what was logged for a table and what strangers did to it since.

Base is what the change was staged on, ours is the change, theirs is the table as it stands. Readers
stay on ours; an applier puts ours on `main`, and keeps theirs where somebody can adopt it.
Docs/spec.md 8.1, 9.2. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    SetCurrentSchemaUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from txns._iceberg import fitting_defaults, requirements
from txns._iceberg.snapshots import branch_at
from txns._table import mark as _mark
from txns._table.logged_state import Stranger, kept_length, stranger_above
from txns._table.replay import (
    Renumber,
    added_by,
    by_ids_of,
    refuse_unfit,
    unfit,
    updates_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import CommitTableRequest
    from pyiceberg.table.metadata import TableMetadata

    from txns._log.entry import LoggedChange


@dataclass(frozen=True, slots=True)
class Plan:
    """
    What an applier swaps in.

    Attributes:
        updates: Ours, with branches on which theirs are kept.
        requirements: What must still hold of the table then: `main` is where it was looked at.
    """

    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]


_SHAPING = (AddPartitionSpecUpdate, AddSchemaUpdate, SetCurrentSchemaUpdate)


def for_applier(
    theirs: TableMetadata,
    ours: LoggedChange,
    request: CommitTableRequest,
    stranger: Stranger | None,
    *,
    repaired: bool,
    now_ms: int,
    renumber: Renumber,
    server: bool = False,
) -> Plan:
    """
    Plan how a change gets onto its table.

    Args:
        theirs: The table.
        ours: The change.
        request: Its payload.
        stranger: Who stands above what was logged, if anybody does.
        repaired: Whether a repair is logged after it: what strangers altered does not stand in
            the way then.
        now_ms: The wall clock's time in ms.
        renumber: For snapshots whose numbers are taken.
        server: Whether a server gives the ids of partition specs.

    Raises:
        Quarantined: It does not fit, or what it stands on is gone.
    """
    here = by_ids_of(theirs, ours, request)
    unmet = requirements.unmet(theirs, here.requirements)
    impossible = next(iter(unmet.values()), "") or fitting_defaults.misfit(theirs, here.updates)
    if impossible and not repaired:  # before a list is written that nobody would need
        raise unfit(ours, impossible)
    updates = updates_of(theirs, ours, request, now_ms, renumber, unmet, here)
    _refuse_other_specs(theirs, ours, updates, server=server)
    if repaired or any(isinstance(each, _SHAPING) for each in updates):
        made = refuse_unfit(theirs, ours, updates)  # catalogs ask less than those who load it
        if repaired and (why := fitting_defaults.unloadable(made)):
            raise unfit(ours, why)
    updates += foreign_branches(theirs, stranger, adopted_by(request), updates)
    return beside(theirs, here.requirements, updates)


def _refuse_other_specs(
    theirs: TableMetadata, ours: LoggedChange, updates: tuple[TableUpdate, ...], *, server: bool
) -> None:
    """
    Refuse a partition spec that cannot have its id in the table, which stands in manifests.

    A stranger has taken it, or the spec away, and a server gives no id but the next one.
    """
    taken = {spec.spec_id for spec in theirs.partition_specs}
    for update in updates:
        if isinstance(update, AddPartitionSpecUpdate):
            spec_id = update.spec.spec_id
            if spec_id in taken:
                raise unfit(ours, f"there is another partition spec {spec_id}")
            if server and spec_id != max(taken, default=-1) + 1:
                raise unfit(ours, f"the table lacks partition spec {spec_id} of the log")
            taken.add(spec_id)


def beside(
    theirs: TableMetadata,
    required: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
) -> Plan:
    """Plan a swap of updates that leave to strangers what is theirs: branches that they moved."""
    unmet = requirements.unmet(theirs, required)
    here = AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=theirs.current_snapshot_id)
    others = (
        each for each in required if each not in unmet and not requirements.is_about_main(each)
    )
    return Plan((*updates, *keep_foreign_refs(theirs, unmet)), (here, *others))


def for_reader(
    view: TableMetadata, ours: LoggedChange, request: CommitTableRequest
) -> tuple[TableMetadata, str]:
    """
    Give what a reader lays a change over: the state that it was staged on (I10).

    Args:
        view: The table with what was logged before.
        ours: The change.
        request: Its payload.

    Returns:
        With the reason, in words, why the change has become impossible; empty where it fits.

    Raises:
        Quarantined: The state cannot be rebuilt.
    """
    here = by_ids_of(view, ours, request)
    if unmet := requirements.unmet(view, here.requirements):
        before = requirements.rewound(view, unmet, here.updates)
        if before is None:
            raise unfit(ours, next(iter(unmet.values())))
        return before, next(iter(unmet.values()))
    return view, fitting_defaults.misfit(view, here.updates)


def altered(loaded: TableMetadata, stranger: Stranger | None, reason: str) -> Stranger:
    """
    Describe somebody who made a logged change impossible.

    Where they appended as well, to adopt the rows would not end that.
    """
    why = f"a logged change does not fit the table any more ({reason})"
    if stranger is None:
        return Stranger(loaded.current_snapshot_id, (), adoptable=False, reason=why)
    return replace(stranger, adoptable=False, reason=why) if stranger.adoptable else stranger


def adopted_by(request: CommitTableRequest) -> set[int]:
    """Give the strangers' snapshots that a change takes in."""
    return {one for snapshot in added_by(request) for one in _mark.adopted_by(snapshot)}


def foreign_branches(
    base: TableMetadata,
    stranger: Stranger | None,
    adopted: set[int],
    updates: tuple[TableUpdate, ...],
) -> tuple[TableUpdate, ...]:
    """
    Give the updates of the branches on which strangers' snapshots are open for adoption.

    Args:
        base: The table before the logged run is put on `main`.
        stranger: What stands there, if anything does.
        adopted: Snapshots that the run itself takes in: a branch of them, which somebody who did
            not know of the run has made, goes.
        updates: Those of the run, which may remove such a branch already.
    """
    removed = {each.ref_name for each in updates if isinstance(each, RemoveSnapshotRefUpdate)}
    gone = [
        RemoveSnapshotRefUpdate(ref_name=name)
        for name, ref in base.refs.items()
        if name.startswith(_mark.FOREIGN_BRANCH) and name not in removed and adopted
        if (kept := stranger_above(base, ref.snapshot_id)) is not None
        if adopted.issuperset(kept.snapshot_ids)
    ]
    return (*gone, *(keep_foreign(base, stranger, adopted) if stranger else ()))


def keep_foreign(
    base: TableMetadata, stranger: Stranger, adopted: set[int]
) -> tuple[TableUpdate, ...]:
    """
    Keep what a stranger put on `main` between swap and apply on a branch of its own.

    What stands above a registration's mark and below it is kept apart: a branch is theirs down to
    the first snapshot of ours.

    Args:
        base: The table before the logged run is put on `main`.
        stranger: What stands there.
        adopted: Snapshots that the run itself takes in, which need no branch.
    """
    if adopted.issuperset(stranger.snapshot_ids):
        return ()
    return _kept_branches(base, stranger.heads)


def keep_foreign_refs(
    base: TableMetadata, unmet: Iterable[TableRequirement]
) -> tuple[TableUpdate, ...]:
    """Keep where strangers left branches that a repaired change takes back from them."""
    moved = [
        base.refs[each.ref].snapshot_id
        for each in unmet
        if isinstance(each, AssertRefSnapshotId) and each.ref in base.refs
    ]
    return _kept_branches(base, moved)


def keeps_foreign(updates: Iterable[TableUpdate]) -> bool:
    """Whether updates put aside what strangers have."""
    return any(
        isinstance(each, SetSnapshotRefUpdate) and each.ref_name.startswith(_mark.FOREIGN_BRANCH)
        for each in updates
    )


def _kept_branches(base: TableMetadata, heads: Iterable[int]) -> tuple[TableUpdate, ...]:
    """Give branches of which an expiry takes nothing that tells whose rows they have."""
    return tuple(
        branch_at(
            f"{_mark.FOREIGN_BRANCH}{head}",
            head,
            min_snapshots_to_keep=kept_length(base, head),
            max_ref_age_ms=_mark.FOR_EVER_MS,
        )
        for head in dict.fromkeys(heads)
        if f"{_mark.FOREIGN_BRANCH}{head}" not in base.refs
    )
