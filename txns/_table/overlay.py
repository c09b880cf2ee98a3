"""
Table metadata plus logged changes: what readers see before apply, and what apply commits.

Docs/spec.md 8.1 to 8.3, 9.1 and 11.2. One function serves both, so that a reader sees
what will be there. Pure: who commits passes a `Renumber` that writes files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from pyiceberg.exceptions import ValidationError
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCreate,
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    update_table_metadata,
)

from txns._iceberg import requirements, timestamps
from txns._iceberg.manifests import empty_metadata, last_sequence_number
from txns._iceberg.snapshots import History, branch_at
from txns._iceberg.updates import laid_over, with_known_references
from txns._identifier import dotted_name
from txns._log.entry import Kind
from txns._table import mark as _mark
from txns._table.logged_state import (
    LoggedHistory,
    Stranger,
    effective_ts,
    kept_length,
    logged_state,
    stranger_above,
)
from txns.errors import Conflict, CorruptLog, Quarantined

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.table import CommitTableRequest
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from txns._identifier import Identifier
    from txns._log.entry import Change, LoggedChange

Requests = Callable[["LoggedChange"], "CommitTableRequest"]
"""Where the request of a logged change comes from: the entry's payload."""

Renumber = Callable[["Snapshot", int, "int | None"], "Snapshot"]
"""A staged snapshot, with a new sequence number and first row id (format 3, else None)."""


@dataclass(frozen=True, slots=True)
class TableView:
    """
    A data table as of a timestamp.

    Attributes:
        metadata: In memory only.
        read_ts: In ms.
        stranger: What strangers did to the table that the view leaves out.
    """

    metadata: TableMetadata
    read_ts: int
    stranger: Stranger | None = None

    @property
    def dropped(self) -> bool:
        """Whether the table does not exist at `read_ts`."""
        return _mark.is_dropped(self.metadata.current_snapshot())


def renumber_in_memory(
    staged: Snapshot, sequence_number: int, first_row_id: int | None
) -> Snapshot:
    """Give a staged snapshot its new numbers; readers see the same rows."""
    numbers: dict[str, int] = {"sequence_number": sequence_number}
    if first_row_id is not None:
        numbers["first_row_id"] = first_row_id
        numbers["added_rows"] = staged.added_rows or 0
    return staged.model_copy(update=numbers)


def as_of(
    table: Identifier,
    loaded: TableMetadata,
    mark: _mark.TableMark,
    run: list[LoggedChange],
    requests: Requests,
    *,
    read_ts: int,
    now_ms: int,
) -> TableView:
    """
    Give the metadata of a registered data table as of `read_ts`.

    Args:
        table: Its identifier, for messages.
        loaded: Its metadata, loaded after the head that `run` is from.
        mark: Its mark.
        run: What was logged and is not applied to it, up to `read_ts`, ascending.
        requests: The request of a logged change.
        read_ts: In ms.
        now_ms: The wall clock's time in ms.

    Raises:
        Conflict: `read_ts` lies before all that is left of the table ("too old").
        Quarantined: The logged state cannot be rebuilt.
    """
    logged = logged_state(loaded, mark, run)
    if mark.created > read_ts:
        raise too_old(table, mark.created, read_ts, "the table was created later")
    if logged.snapshot is None and not run:
        raise Quarantined(
            table,
            "the logged state of the table has been expired",
            "nobody can bring it back: unset the table's property txns.commit-table outside the"
            " protocol, which keeps it as the catalog has it, then register it",
        )
    if mark.applied <= read_ts:
        view = _with_main(loaded, logged.snapshot)
    else:
        view = _earlier(table, loaded, mark, logged.snapshot, read_ts)
    check_chain(table, run)
    stranger = logged.stranger
    for change in run:
        request = requests(change)
        unmet = requirements.unmet(view, request.requirements)
        if unmet:
            stranger = stranger or _altered(loaded, unmet)
            view = _before_strangers(view, change, unmet)
        view = replay(view, change, request, now_ms, renumber_in_memory)
        # It is ended when it is applied.
        if change.entry.kind is Kind.REPAIR:
            stranger = None
        elif change.entry.kind is Kind.ADOPT and stranger:
            stranger = stranger.without(adopted_by(request))
    return TableView(view, read_ts, stranger)


def before_forget(
    table: Identifier, loaded: TableMetadata, forget: Change, read_ts: int
) -> TableView:
    """
    Give a table that has left care as of a `read_ts` in ms at which it was under care.

    Args:
        table: Its identifier, for messages.
        loaded: Its metadata; strangers may have written it since.
        forget: The change that took it from care.
        read_ts: Below the forget's `commit_ts`.

    Raises:
        Conflict: What it was has been expired ("too old").
    """
    mark = _mark.TableMark("", "", 0, _mark.applied_ts(loaded))
    history = History(loaded)
    logged = history.get(forget.to_snapshot_id) or history.get(forget.from_snapshot_id)
    return TableView(_earlier(table, loaded, mark, logged, read_ts), read_ts)


def replay(
    base: TableMetadata,
    logged: LoggedChange,
    request: CommitTableRequest,
    now_ms: int,
    renumber: Renumber,
) -> TableMetadata:
    """
    Lay one logged change over a table, with `txns.applied` set to its `commit_ts`.

    Raises:
        Quarantined: A requirement other than `main`'s place does not hold.
    """
    updates = updates_of(base, logged, request, now_ms, renumber)
    try:
        return laid_over(base, updates)
    except (ValueError, ValidationError) as error:
        raise _unfit(logged, error) from error


def updates_of(
    base: TableMetadata,
    logged: LoggedChange,
    request: CommitTableRequest,
    now_ms: int,
    renumber: Renumber,
    *,
    repaired: bool = False,
) -> tuple[TableUpdate, ...]:
    """
    Give the updates that carry a logged change out on a table; `replay` without the result.

    Args:
        base: The table.
        logged: The change.
        request: Its payload.
        now_ms: The wall clock's time in ms.
        renumber: For snapshots whose numbers are taken.
        repaired: Whether a repair is logged after it: what strangers altered does not stand in
            the way then.

    Raises:
        Quarantined: A requirement other than `main`'s place does not hold.
    """
    source = logged.change.from_snapshot_id
    unmet = requirements.unmet(base, request.requirements)
    if unmet and not repaired:
        raise _unfit(logged, next(iter(unmet.values())))
    if source is not None and base.snapshot_by_id(source) is None:
        raise incomplete(
            logged.change.table,
            "the table lacks the snapshot that a logged change stands on: it has been expired, or"
            " the table was set back outside the protocol",
        )
    updates = fitted(base, request.updates, now_ms, renumber)
    return (*updates, SetPropertiesUpdate(updates={_mark.APPLIED: str(logged.commit_ts)}))


def create(logged: LoggedChange, request: CommitTableRequest, now_ms: int) -> TableMetadata:
    """Make a new table's metadata from the change that creates it."""
    updates = creation_updates(logged, request, now_ms)
    return update_table_metadata(empty_metadata(), updates, enforce_validation=True)


def creation_updates(
    logged: LoggedChange, request: CommitTableRequest, now_ms: int
) -> tuple[TableUpdate, ...]:
    """Give the updates that create a table, with `txns.applied` set to the `commit_ts`."""
    updates = fitted(None, request.updates, now_ms, renumber_in_memory)
    return (*updates, SetPropertiesUpdate(updates={_mark.APPLIED: str(logged.commit_ts)}))


def creates(request: CommitTableRequest) -> bool:
    """Whether a request makes a new table."""
    return any(isinstance(requirement, AssertCreate) for requirement in request.requirements)


def check_chain(table: Identifier, run: list[LoggedChange]) -> None:
    """
    Check invariant I3: unapplied changes of one table are a chain.

    Raises:
        CorruptLog: Naming the change that stands on another snapshot.
    """
    for before, after in pairwise(run):
        if before.change.to_snapshot_id != after.change.from_snapshot_id:
            raise CorruptLog(
                f"invariant I3 does not hold: the change at {after.commit_ts} stands on snapshot"
                f" {after.change.from_snapshot_id}, not on {before.change.to_snapshot_id};"
                f" table=`{dotted_name(table)}`"
            )


def too_old(table: Identifier, least_ts: int, read_ts: int, reason: str) -> Conflict:
    """Describe a read before all that is left of a table (I11)."""
    return Conflict(
        f"the table cannot be read at {read_ts}: {reason}",
        table=table,
        least_ts=least_ts,
        what="too old, read at a newer timestamp",
    )


def refuse_given_up(table: Identifier, adopting: Snapshot, read_ts: int) -> None:
    """
    Refuse to read what an adoption of ours has given up, of a table that was set back.

    Args:
        table: Its identifier, for messages.
        adopting: A snapshot of ours, above `read_ts`; of any kind.
        read_ts: In ms.

    Raises:
        Conflict: "Too old": what was acknowledged at `read_ts` is in no snapshot of the table.
    """
    above = _mark.lost_above(adopting)
    if above is not None and read_ts > above:
        reason = f"it was set back to {above}, and what it lacked above that was given up"
        raise too_old(table, _mark.commit_ts_of(adopting), read_ts, reason)


def incomplete(table: Identifier, reason: str) -> Quarantined:
    """Describe a table that lacks what the log has of it: readers have nothing to stay on."""
    cure = (
        "register its newest metadata in the catalog again, or take it as it stands with `txns"
        f" repair adopt {dotted_name(table)}`"
    )
    return Quarantined(table, reason, cure)


def fitted(
    base: TableMetadata | None,
    updates: tuple[TableUpdate, ...],
    now_ms: int,
    renumber: Renumber,
) -> tuple[TableUpdate, ...]:
    """Give the same updates, their snapshots with numbers and times that `base` takes."""
    sequence_number = last_sequence_number(base) if base else 0
    next_row_id = (base.next_row_id or 0) if isinstance(base, TableMetadataV3) else 0
    taken: list[TableUpdate] = []
    for update in with_known_references(base, updates):
        if not isinstance(update, AddSnapshotUpdate):
            taken.append(update)
            continue
        snapshot = update.snapshot
        first_row_id = snapshot.first_row_id
        stale_rows = first_row_id is not None and first_row_id < next_row_id
        if base and ((snapshot.sequence_number or 0) <= sequence_number or stale_rows):
            renumbered_rows = None if first_row_id is None else next_row_id
            snapshot = renumber(snapshot, sequence_number + 1, renumbered_rows)
        timestamp_ms = timestamps.acceptable_ts(base, snapshot.timestamp_ms, now_ms)
        snapshot = snapshot.model_copy(update={"timestamp_ms": timestamp_ms})
        taken.append(AddSnapshotUpdate(snapshot=snapshot))
        sequence_number = snapshot.sequence_number or 0
        next_row_id += snapshot.added_rows or 0
    return tuple(taken)


def _earlier(
    table: Identifier,
    loaded: TableMetadata,
    mark: _mark.TableMark,
    logged: Snapshot | None,
    read_ts: int,
) -> TableMetadata:
    """Put main where it was at `read_ts`, with the schema of that time."""
    history = LoggedHistory(loaded)
    for at in history.ancestors(logged):
        if effective_ts(history, mark, at) <= read_ts:
            view = _with_main(loaded, at)
            known = {schema.schema_id for schema in loaded.schemas}
            if at.schema_id not in known or at.schema_id == view.current_schema_id:
                return view
            return view.model_copy(update={"current_schema_id": at.schema_id})
        refuse_given_up(table, at, read_ts)
    raise too_old(table, mark.applied, read_ts, "its older snapshots have been expired")


def _with_main(metadata: TableMetadata, snapshot: Snapshot | None) -> TableMetadata:
    """Put main on a snapshot that the table has."""
    if snapshot is None or metadata.current_snapshot_id == snapshot.snapshot_id:
        return metadata
    here = {"snapshot_id": snapshot.snapshot_id}
    main = metadata.refs.get(MAIN_BRANCH) or SnapshotRef(
        **here, snapshot_ref_type=SnapshotRefType.BRANCH
    )
    refs = {**metadata.refs, MAIN_BRANCH: main.model_copy(update=here)}
    log = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= snapshot.timestamp_ms]
    return metadata.model_copy(
        update={"current_snapshot_id": snapshot.snapshot_id, "refs": refs, "snapshot_log": log}
    )


def adopted_by(request: CommitTableRequest) -> set[int]:
    """Give the strangers' snapshots that a change takes in."""
    return {one for snapshot in added_by(request) for one in _mark.adopted_by(snapshot)}


def added_by(request: CommitTableRequest) -> list[Snapshot]:
    """Give the snapshots that a change adds."""
    return [each.snapshot for each in request.updates if isinstance(each, AddSnapshotUpdate)]


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


def _altered(loaded: TableMetadata, unmet: Mapping[TableRequirement, str]) -> Stranger:
    """Describe somebody who made a logged change impossible, without a snapshot of their own."""
    reason = f"a logged change does not fit the table any more ({next(iter(unmet.values()))})"
    return Stranger(loaded.current_snapshot_id, (), adoptable=False, reason=reason)


def _before_strangers(
    view: TableMetadata, logged: LoggedChange, unmet: Mapping[TableRequirement, str]
) -> TableMetadata:
    """Give the table as a change was staged on it: readers stay on the logged state (I10)."""
    earlier = requirements.rewound(view, unmet)
    if earlier is None:
        raise _unfit(logged, next(iter(unmet.values())))
    return earlier


def _unfit(logged: LoggedChange, reason: object) -> Quarantined:
    return Quarantined(
        logged.change.table, f"a logged change does not fit the table any more ({reason})"
    )
