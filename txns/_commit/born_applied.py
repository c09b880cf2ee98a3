"""
Carries a change out in the swap that logs it, on a table whose row is locked (docs/spec.md 11.3).

Nothing of it is left to an applier then. What only an applier can bring together, since others
stand in the way, goes into the entry's payload.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table import StagedTable as PlannedTable
from pyiceberg.table.update import AssertCreate

from txns._stage import kept_tags
from txns._table import mark as _mark
from txns._table import outstanding_branch, reconcile, replay
from txns._table.logged_state import logged_state
from txns._table.swap import swap
from txns.errors import Quarantined

if TYPE_CHECKING:
    from pyiceberg.table import CommitTableRequest, Table

    from txns._clock import Clock
    from txns._commit.apply import Applier
    from txns._iceberg.locked_rows import LockedRows
    from txns._log.entry import LoggedChange
    from txns._log.head import Head
    from txns._table.allowed_places import AllowedPlaces
    from txns._table.data_tables import DataTables


@dataclass(frozen=True, slots=True)
class Births:
    """Moves tables together with the log."""

    tables: DataTables
    places: AllowedPlaces
    applier: Applier
    clock: Clock

    def bear(
        self, rows: LockedRows, head: Head, logged: LoggedChange, request: CommitTableRequest
    ) -> bool:
        """
        Say in locked rows what a change makes of its table, where nothing is in the way.

        Args:
            rows: Locked before the head was loaded.
            head: With the entries that stand before it in the same swap.
            logged: The change, which no head has yet.
            request: What carries it out.

        Returns:
            False where an applier has to: something is to be applied before, or somebody has
            appended.

        Raises:
            Quarantined: It does not fit on the table, and no applier could carry it out either.
            CorruptLog: The log lacks what the table shows.
            CommitFailedException: The table has moved.
        """
        change = logged.change
        if not rows.has(change.table):
            return self._created(rows, head, logged, request)
        real = rows.load_table(change.table)
        base = real.metadata
        mark = _mark.mark_of(base)
        uuid = str(base.table_uuid)
        if uuid != change.uuid or mark is None or _outstanding(head, uuid, mark.applied):
            return False
        self.tables.check_mark(change.table, base, mark, head)
        if stranger := logged_state(base, mark, [logged]).stranger:
            if not stranger.adoptable:
                raise Quarantined(change.table, stranger.reason)
            return False
        self.places.refuse_to_apply(change.table, base, request.updates, logged.commit_ts)
        self._carry_out(rows, real, logged, request)
        return True

    def _carry_out(
        self, rows: LockedRows, real: Table, logged: LoggedChange, request: CommitTableRequest
    ) -> None:
        base = real.metadata
        plan = reconcile.for_applier(
            base,
            logged,
            request,
            None,
            repaired=False,
            now_ms=self.clock.now_ms(),
            renumber=self.applier.renumber_on_storage(real),
        )
        updates = (
            *plan.updates,
            *kept_tags.done(base, plan.updates),
            *outstanding_branch.done(base, logged.commit_ts),
        )
        swap(rows, real, plan.requirements, updates, self.clock)

    def _created(
        self, rows: LockedRows, head: Head, logged: LoggedChange, request: CommitTableRequest
    ) -> bool:
        """Create a table that neither the catalog nor the log has."""
        change = logged.change
        if not replay.creates(request) or _outstanding(head, change.uuid, 0):
            return False
        self.places.refuse_to_apply(change.table, None, request.updates, logged.commit_ts)
        now_ms = self.clock.now_ms()
        metadata = replay.create(logged, request, now_ms)
        io = self.tables.io_of(metadata)
        planned = PlannedTable(change.table, metadata, metadata.location, io, rows.catalog)
        updates = replay.creation_updates(logged, request, now_ms)
        swap(rows, planned, (AssertCreate(),), updates, self.clock)
        return True


def _outstanding(head: Head, uuid: str, applied: int) -> bool:
    return bool(head.state.changes(uuid, after=applied, upto=head.upper))
