"""
Lays one logged change over a table: for readers in memory, for an applier as updates.

The same function makes both (docs/spec.md 8.1, 11.2). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import ValidationError
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV3
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCreate,
    SetPropertiesUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)

from txns._iceberg import fitting_defaults, free_ids, requirements, timestamps
from txns._iceberg.manifests import WRITABLE_FORMAT, empty_metadata, last_sequence_number
from txns._iceberg.places import misplaced_files
from txns._iceberg.snapshot_numbers import far_ahead
from txns._iceberg.snapshots import find
from txns._iceberg.updates import (
    laid_over,
    with_known_references,
    with_removals_that_can_be,
)
from txns._identifier import Identifier, dotted_name
from txns._log.permitted import way_out
from txns._table import mark as _mark
from txns._table.retention import leaving_open
from txns.errors import CorruptLog, Quarantined

if TYPE_CHECKING:
    from pyiceberg.table import CommitTableRequest
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement

    from txns._log.entry import LoggedChange

Requests = Callable[["LoggedChange"], "CommitTableRequest"]
"""Where the request of a logged change comes from: the entry's payload."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """
    What a staged snapshot takes, because the table's numbers have moved on.

    Attributes:
        sequence_number: One more than the table's last.
        first_row_id: Its own, or the table's next where that is greater; None below format 3.
    """

    sequence_number: int
    first_row_id: int | None


Renumber = Callable[["Snapshot", Numbers], "Snapshot"]
"""A staged snapshot with its numbers and, where the caller writes files, a list of its own."""


def renumber_in_memory(staged: Snapshot, numbers: Numbers) -> Snapshot:
    """Give a staged snapshot its new numbers; readers see the same rows."""
    fields: dict[str, int] = {"sequence_number": numbers.sequence_number}
    if numbers.first_row_id is not None:
        fields["first_row_id"] = numbers.first_row_id
        fields["added_rows"] = staged.added_rows or 0
    return staged.model_copy(update=fields)


def replay(
    base: TableMetadata,
    logged: LoggedChange,
    request: CommitTableRequest,
    now_ms: int,
    renumber: Renumber,
) -> TableMetadata:
    """
    Lay one logged change over a table, with `txns.applied` set to its `commit_ts`.

    What the change requires of the table its caller asks.

    Raises:
        Quarantined: The table takes no such updates, or lacks what the change stands on.
    """
    updates = updates_of(base, logged, request, now_ms, renumber)
    return refuse_unfit(base, logged, updates)


def refuse_unfit(
    base: TableMetadata, logged: LoggedChange, updates: tuple[TableUpdate, ...]
) -> TableMetadata:
    """
    Give what the updates of a logged change make of a table.

    Raises:
        Quarantined: The table takes no such updates.
    """
    try:
        return laid_over(base, updates)
    except (KeyError, ValueError, ValidationError) as error:
        raise unfit(logged, error) from error


def updates_of(
    base: TableMetadata,
    logged: LoggedChange,
    request: CommitTableRequest,
    now_ms: int,
    renumber: Renumber,
    unmet: Collection[TableRequirement] = (),
    here: CommitTableRequest | None = None,
) -> tuple[TableUpdate, ...]:
    """
    Give the updates that carry a logged change out on a table; `replay` without the result.

    Args:
        base: The table.
        logged: The change.
        request: Its payload.
        now_ms: The wall clock's time in ms.
        renumber: For snapshots whose numbers are taken.
        unmet: What the change requires, by the table's ids, and does not find: the table is to go
            by that again.
        here: The payload by the table's ids, where that is known.

    Raises:
        Quarantined: The table lacks what the change stands on.
    """
    refuse_not_its_own(base, logged, request)
    source_id = logged.change.from_snapshot_id
    if source_id is not None and find(base, source_id) is None:
        raise incomplete(
            logged.change.table,
            "the table lacks the snapshot that a logged change stands on: it has been expired, or"
            " the table was set back outside the protocol",
        )
    updates = (here or by_ids_of(base, logged, request)).updates
    restored = requirements.restored(base, unmet, updates) if unmet else base
    standing = fitting_defaults.fitting_change(restored, updates)
    # It may have a schema by now that the change adds.
    updates = updates if standing is base else by_ids_of(standing, logged, request).updates
    updates = leaving_open(base, updates)
    return (
        *fitting_defaults.changes(base, standing),
        *fitted(standing, with_removals_that_can_be(standing, updates), now_ms, renumber),
        SetPropertiesUpdate(updates={_mark.APPLIED: str(logged.commit_ts)}),
    )


def by_ids_of(
    base: TableMetadata, logged: LoggedChange, request: CommitTableRequest
) -> CommitTableRequest:
    """Give a logged change's request by a table's ids of schemas and sort orders."""
    source = logged.change.from_snapshot_id
    return free_ids.by_ids_of(base, request, None if source is None else find(base, source))


def create(logged: LoggedChange, request: CommitTableRequest, now_ms: int) -> TableMetadata:
    """
    Make a new table's metadata from the change that creates it.

    Raises:
        CorruptLog: The change makes none, of which no table is the reason.
    """
    try:
        updates = creation_updates(logged, request, now_ms)
        made = TableMetadataUtil.parse_obj(laid_over(empty_metadata(), updates).model_dump())
    except (KeyError, ValueError, ValidationError) as error:
        raise CorruptLog(
            f"a logged change creates no table; table=`{dotted_name(logged.change.table)}`"
            f" txn=`{logged.entry.txn_id}`: {error}; {way_out(logged.commit_ts)}"
        ) from error
    if made.current_snapshot() is None:
        raise CorruptLog(
            "a logged change creates a table without a snapshot on main;"
            f" table=`{dotted_name(logged.change.table)}` txn=`{logged.entry.txn_id}`;"
            f" {way_out(logged.commit_ts)}"
        )
    return made


def creation_updates(
    logged: LoggedChange, request: CommitTableRequest, now_ms: int
) -> tuple[TableUpdate, ...]:
    """Give the updates that create a table, with `txns.applied` set to the `commit_ts`."""
    refuse_not_its_own(None, logged, request)
    known = with_known_references(None, request.updates)
    updates = fitted(None, known, now_ms, renumber_in_memory)
    return (*updates, SetPropertiesUpdate(updates={_mark.APPLIED: str(logged.commit_ts)}))


def refuse_not_its_own(
    base: TableMetadata | None, logged: LoggedChange, request: CommitTableRequest
) -> None:
    """
    Refuse a change whose files, or numbers, are not the table's own.

    Whoever lays it over the table may have more rights than who has written the log.

    Args:
        base: The table; None for a new one.
        logged: The change.
        request: Its payload.

    Raises:
        Quarantined: A file lies elsewhere, or a number is far above the table's; with the command
            that takes the entry away.
    """
    for path in misplaced_files(base, request.updates):
        raise _not_its_own(
            logged,
            "a logged change names a manifest list or statistics that do not lie below the table's"
            f" metadata location, and is not carried out; file=`{path}`",
        )
    if number := far_ahead(base, request.updates):
        raise _not_its_own(
            logged,
            "a logged change has a number that nobody has given, so far above the table's that it"
            " would use up what there is, or that of a snapshot which stands on itself, and is not"
            f" carried out; number=`{number}`",
        )


def _not_its_own(logged: LoggedChange, reason: str) -> Quarantined:
    name = dotted_name(logged.change.table)
    return Quarantined(
        logged.change.table,
        reason,
        f"`txns recover --void {logged.commit_ts}` takes the entry out of the log, then"
        f" `txns repair adopt {name}` takes the table as it stands;"
        " look who has written the commit table: whoever may is trusted",
    )


def creates(request: CommitTableRequest) -> bool:
    """Whether a request makes a new table."""
    return any(isinstance(requirement, AssertCreate) for requirement in request.requirements)


def incomplete(table: Identifier, reason: str) -> Quarantined:
    """Describe a table that lacks what the log has of it: readers have nothing to stay on."""
    cure = (
        "register its newest metadata in the catalog again, or take it as it stands with `txns"
        f" repair adopt {dotted_name(table)}`"
    )
    return Quarantined(table, reason, cure)


def fitted(
    base: TableMetadata | None,
    updates: Iterable[TableUpdate],
    now_ms: int,
    renumber: Renumber,
) -> tuple[TableUpdate, ...]:
    """Give the same updates, their snapshots with numbers and times that `base` takes."""
    fits = _Fits(base)
    taken: list[TableUpdate] = []
    for update in updates:
        if isinstance(update, UpgradeFormatVersionUpdate):
            fits.format_version = max(fits.format_version, update.format_version)
        if not isinstance(update, AddSnapshotUpdate):
            taken.append(update)
            continue
        snapshot = update.snapshot
        if base and fits.is_stale(snapshot):
            snapshot = renumber(snapshot, fits.numbers(snapshot))
        if base:
            snapshot = fits.without_gap(snapshot)
        timestamp_ms = timestamps.acceptable_ts(base, snapshot.timestamp_ms, now_ms)
        snapshot = snapshot.model_copy(update={"timestamp_ms": timestamp_ms})
        taken.append(AddSnapshotUpdate(snapshot=snapshot))
        fits.add(snapshot)
    return tuple(taken)


class _Fits:
    """The numbers of a table while snapshots are added to it."""

    def __init__(self, base: TableMetadata | None) -> None:
        self.format_version: int = base.format_version if base else 1
        self._sequence_number = last_sequence_number(base) if base else 0
        self._next_row_id = (base.next_row_id or 0) if isinstance(base, TableMetadataV3) else 0

    @property
    def _has_row_ids(self) -> bool:
        return self.format_version > WRITABLE_FORMAT

    def is_stale(self, staged: Snapshot) -> bool:
        """Whether it needs other numbers; what was staged before an upgrade has no row ids."""
        first = staged.first_row_id
        taken = (staged.sequence_number or 0) <= self._sequence_number
        return taken or (self._has_row_ids and (first is None or first < self._next_row_id))

    def numbers(self, staged: Snapshot) -> Numbers:
        first = max(self._next_row_id, staged.first_row_id or 0) if self._has_row_ids else None
        return Numbers(self._sequence_number + 1, first)

    def without_gap(self, snapshot: Snapshot) -> Snapshot:
        """Let a snapshot span ids that nobody took: a table's next one grows by what it added."""
        gap = (snapshot.first_row_id or 0) - self._next_row_id
        if gap <= 0 or not self._has_row_ids:
            return snapshot
        return snapshot.model_copy(update={"added_rows": gap + (snapshot.added_rows or 0)})

    def add(self, snapshot: Snapshot) -> None:
        self._sequence_number = snapshot.sequence_number or 0
        self._next_row_id += snapshot.added_rows or 0


def added_by(request: CommitTableRequest) -> list[Snapshot]:
    """Give the snapshots that a change adds."""
    return [each.snapshot for each in request.updates if isinstance(each, AddSnapshotUpdate)]


def unfit(logged: LoggedChange, reason: object) -> Quarantined:
    """Describe a change that does not fit its table any more, or never did: nobody can tell."""
    name = dotted_name(logged.change.table)
    return Quarantined(
        logged.change.table,
        f"a logged change does not fit the table any more ({reason})",
        f"end it with `txns repair adopt {name}` or `txns repair reject {name}`; where both are"
        f" refused, {way_out(logged.commit_ts)}",
    )
