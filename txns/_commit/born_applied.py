"""
Carries a change out in the swap that logs it, on a table whose row is locked (docs/spec.md 11.3).

Nothing of it is left to an applier then. What only an applier can bring together, since others
stand in the way, goes into the entry's payload.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.table import StagedTable as PlannedTable
from pyiceberg.table.update import AssertCreate

from txns._commit.adoption import StrangerMet
from txns._log.entry import Entry, Kind, LoggedChange
from txns._log.settings import INLINE
from txns._logger import logger
from txns._stage import change_builder, kept_tags
from txns._table import mark as _mark
from txns._table import outstanding_branch, reconcile, replay
from txns._table.logged_state import MARK_TAKEN, MISSING, NAME_TAKEN, logged_state
from txns._table.swap import swap
from txns.errors import Conflict, Quarantined

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from pyiceberg.table import CommitTableRequest, Table
    from pyiceberg.table.metadata import TableMetadata

    from txns._clock import Clock
    from txns._commit.apply import Applier
    from txns._commit.group import Key
    from txns._config import Config
    from txns._iceberg.locked_rows import LockedRows, Ready, Rows
    from txns._identifier import Identifier
    from txns._log.change import Change
    from txns._log.commit_log import CommitLog
    from txns._log.head import Head
    from txns._stage.staged_table import Point, StagedTable
    from txns._table.allowed_places import AllowedPlaces
    from txns._table.data_tables import DataTables

_LOG = logger(__name__)


@dataclass(frozen=True, slots=True)
class Ahead:
    """
    What was written for a swap before it had its rows.

    Attributes:
        commit_ts: In ms, for which it was: it stands while the log's upper is below.
        tables: By their names.
        built: Each change, with what carries it out, and what was staged for it.
    """

    commit_ts: int
    tables: dict[Identifier, Ready]
    built: Mapping[Identifier, tuple[Point, Change, CommitTableRequest]]

    def change_of(
        self, staged: StagedTable, commit_ts: int
    ) -> tuple[Change, CommitTableRequest] | None:
        """Give what `build` has made of the same for the same `commit_ts` in ms; None for none."""
        built = self.built.get(staged.identifier)
        if built is None or commit_ts != self.commit_ts or staged.point is not built[0]:
            return None
        return built[1:]

    def end(self) -> None:
        """Remove what nobody has taken."""
        for ready in self.tables.values():
            if ready.take():
                with suppress(Exception):  # a file that stays harms nobody
                    ready.made.io.delete(ready.made.metadata_location)


@dataclass(frozen=True, slots=True)
class Births:
    """Moves tables together with the log; `rows` is None where each has a swap of its own."""

    rows: Rows | None
    config: Config
    log: CommitLog
    tables: DataTables
    places: AllowedPlaces
    applier: Applier
    clock: Clock
    _hurried: set[Identifier] = field(default_factory=set, init=False)

    def learn(self, staged: Mapping[Identifier, object], now: Mapping[Identifier, object]) -> None:
        """
        Learn which tables others have written between the first look at them and the lock.

        Next time nothing is written ahead for these: it would be made again under the lock, while
        the time of the processor is what those who have the lock wait for.

        Args:
            staged: What was staged for each table.
            now: What is to be written: the same, or what was staged anew.
        """
        for table, write in now.items():
            if write is staged.get(table):
                self._hurried.discard(table)
            else:
                self._hurried.add(table)

    def ahead(
        self, key: Key, writes: Mapping[Identifier, StagedTable], marks: Mapping[str, str]
    ) -> Ahead | None:
        """
        Write what a swap will need, as far as tables were last seen as they were staged on.

        Nobody is asked whether they are still so. What is wrong with it, its attempt under the lock
        tells.

        Args:
            key: The transaction's.
            writes: What was staged, by table.
            marks: Summary keys for the tables' snapshots.

        Returns:
            None where no swap moves several tables.
        """
        if self.rows is None:
            return None
        try:
            return self._ahead(self.rows, key, writes, marks)
        except Exception:  # noqa: BLE001 -- as it says
            _LOG.debug("nothing is written ahead", exc_info=True)
            return None

    def _ahead(
        self,
        rows: Rows,
        key: Key,
        writes: Mapping[Identifier, StagedTable],
        marks: Mapping[str, str],
    ) -> Ahead | None:
        head = self.log.newest
        tables = {table: each.real for table, each in writes.items() if each.real is not None}
        seen = {
            table: real.metadata_location
            for table, real in tables.items()
            if table not in self._hurried and _is_as_staged(real, writes[table], head)
        }
        if not (seen and head.exists and self._wanted(head)):
            return None
        known = rows.known(seen)
        commit_ts = key.commit_ts or max(self.clock.now_ms(), head.upper + 1)
        entry = Entry(Kind.COMMIT, key.txn_id, commit_ts, 0, commit_ts)
        changes: dict[Identifier, Hashable] = {}
        built: dict[Identifier, tuple[Point, Change, CommitTableRequest]] = {}
        for table in seen:
            staged = writes[table]
            point = staged.point
            change, carried = change_builder.build(staged, key.txn_id, commit_ts, marks)
            built[table] = point, change, carried
            with suppress(StrangerMet):
                if self.bear(known, head, LoggedChange(entry, change), carried):
                    changes[table] = _key(LoggedChange(entry, change))
        return Ahead(commit_ts, known.make_ready(changes), built)

    def bear(
        self,
        rows: LockedRows,
        head: Head,
        logged: LoggedChange,
        request: CommitTableRequest,
        ahead: Ahead | None = None,
    ) -> bool:
        """
        Say in locked rows what a change makes of its table, where nothing is in the way.

        Args:
            rows: Locked before the head was loaded.
            head: With the entries that stand before it in the same swap.
            logged: The change, which no head has yet.
            request: What carries it out.
            ahead: What was written before.

        Returns:
            False where an applier has to: something is to be applied before; its row is not locked,
            or may not be made; or the log leaves all of it to others.

        Raises:
            StrangerMet: Somebody has appended: else an applier has to bring both together.
            Conflict: It is to be created, and its name is taken.
            Quarantined: No applier could carry it out either: it does not fit on the table, or
                somebody has dropped or replaced that, or taken its mark.
            CorruptLog: The log lacks what the table shows.
            CommitFailedException: The table has moved.
        """
        change = logged.change
        if not self.shows(head):
            return False
        if not rows.has(change.table):
            return self._created(rows, head, logged, request)
        real = rows.load_table(change.table)
        base = real.metadata
        if self._waits(head, base, logged, request):
            return False
        is_locked = change.table not in rows.unlocked
        if ahead and is_locked and rows.take(ahead.tables.get(change.table), _key(logged)):
            return True
        mark = _mark.mark_of(base)
        if mark is None:
            raise Quarantined(change.table, MARK_TAKEN)
        self.tables.check_mark(change.table, base, mark, head)
        if stranger := logged_state(base, mark, [logged]).stranger:
            if not stranger.adoptable:
                raise Quarantined(change.table, stranger.reason)
            raise StrangerMet(change.table)
        self.places.refuse_to_apply(change.table, base, request.updates, logged.commit_ts)
        if is_locked:
            self._carry_out(rows, real, logged, request)
        return is_locked

    def shows(self, head: Head) -> bool:
        """Whether the swap of an entry looks at its tables as they are then, under a lock."""
        return self.rows is not None and self._wanted(head)

    def _wanted(self, head: Head) -> bool:
        """Whether the log does not leave it to the next writer, who may have other rights."""
        return self.config.within(head.state.settings).apply == INLINE

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
        if not replay.creates(request):
            self._refuse_lost(head, change, MISSING)
            return False
        if _outstanding(head, change.uuid, 0):
            return False
        self.places.refuse_to_apply(change.table, None, request.updates, logged.commit_ts)
        if not rows.may_create(change.table):
            return False
        now_ms = self.clock.now_ms()
        metadata = replay.create(logged, request, now_ms)
        io = self.tables.io_of(metadata)
        planned = PlannedTable(change.table, metadata, metadata.location, io, rows.catalog)
        updates = replay.creation_updates(logged, request, now_ms)
        swap(rows, planned, (AssertCreate(),), updates, self.clock)
        return True

    def _waits(
        self,
        head: Head,
        base: TableMetadata,
        logged: LoggedChange,
        request: CommitTableRequest,
    ) -> bool:
        """Whether something is to be applied before, or the table itself to be made."""
        uuid = str(base.table_uuid)
        if uuid == logged.change.uuid:
            return _outstanding(head, uuid, _mark.applied_ts(base))
        if replay.creates(request):
            raise Conflict(
                "somebody has made another table of that name",
                table=logged.change.table,
                txn_id=logged.entry.txn_id,
                least_ts=head.upper,
            )
        self._refuse_lost(head, logged.change, NAME_TAKEN)
        return True

    def _refuse_lost(self, head: Head, change: Change, why: tuple[str, str]) -> None:
        """Refuse a change of a table that is not there, unless an applier has yet to make it."""
        creation = head.state.creation(change.table, head.upper)
        expected = creation is not None and creation.change.uuid == change.uuid
        if not expected or self.tables.was_created(change.uuid, head):
            raise Quarantined(change.table, *why)


def _key(logged: LoggedChange) -> Hashable:
    """Give what tells a change from all others that may be made of what was staged."""
    return logged.entry.txn_id, logged.commit_ts, logged.change.to_snapshot_id


def _is_as_staged(real: Table, staged: StagedTable, head: Head) -> bool:
    """Whether a table as it was read is what was staged on, and a head has no more of it."""
    metadata = real.metadata
    if _mark_and_main(metadata) != _mark_and_main(staged.base):
        return False
    return head.state.born_ts(str(metadata.table_uuid)) <= _mark.applied_ts(metadata)


def _mark_and_main(metadata: TableMetadata) -> Hashable:
    """Give what a table is to who has staged on it."""
    return str(metadata.table_uuid), _mark.applied_ts(metadata), metadata.current_snapshot_id


def _outstanding(head: Head, uuid: str, applied: int) -> bool:
    return bool(head.state.changes(uuid, after=applied, upto=head.upper))
