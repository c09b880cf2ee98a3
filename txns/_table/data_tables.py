"""
Loads data tables from the catalog, and lays the log over them.

Docs/spec.md 11.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from txns._iceberg.known_tables import load_table
from txns._iceberg.snapshots import summary_value
from txns._iceberg.updates import laid_over
from txns._identifier import dotted_name
from txns._log.commit_log import LAG_MS
from txns._log.entry import Kind
from txns._table import mark as _mark
from txns._table import overlay, replay
from txns._table.complete_tables import CompleteTables
from txns._table.loaded import Forgotten, Loaded, Registered, SwitchedOff, Unregistered, seen
from txns._table.logged_state import (
    MARK_TAKEN,
    MISSING,
    NAME_TAKEN,
    NEVER_UNDER_CARE,
    Stranger,
    logged_state,
    shown_by,
    untouched,
)
from txns._table.overlay import TableView
from txns.errors import Conflict, CorruptLog, Quarantined, Unsupported

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from txns._clock import Clock
    from txns._identifier import Identifier
    from txns._log.change import Change
    from txns._log.commit_log import CommitLog
    from txns._log.entry import LoggedChange
    from txns._log.head import Head
    from txns._log.timeline import Timeline

LESS_THAN_ALL = -1
"""Less than every `commit_ts`."""
UNKNOWN = 0
"""Of a table that is there, perhaps, and cannot be read: less than every `commit_ts`, too."""


def _behind(created: Loaded, other: TableMetadata, read_ts: int) -> Loaded:
    """Give a table of the log whose name a stranger took before it was created: quarantine."""
    reason, cure = NAME_TAKEN
    stranger = Stranger(other.current_snapshot_id, (), adoptable=False, reason=reason, cure=cure)
    view = TableView(created.metadata, read_ts, stranger)
    return created.showing(view)


def _check_complete(loaded: Loaded, read_ts: int) -> None:
    """Refuse to read what was acknowledged from a table that somebody has set back."""
    stranger = loaded.stranger
    if stranger and stranger.lost and stranger.lost[0] < read_ts:
        raise replay.incomplete(loaded.identifier, stranger.reason)


def _live(loaded: Loaded, read_ts: int) -> Loaded:
    """Give what was loaded, where it is whole and not dropped."""
    _check_complete(loaded, read_ts)
    if loaded.registered and loaded.dropped:
        raise NoSuchTableError(f"Table does not exist: {dotted_name(loaded.identifier)}")
    return loaded


class DataTables:
    """The data tables of one catalog."""

    def __init__(self, catalog: Catalog, log: CommitLog, timeline: Timeline, clock: Clock) -> None:
        self.catalog = catalog
        self._log = log
        self._timeline = timeline
        self._clock = clock
        self._complete = CompleteTables(catalog, timeline, clock)

    def load(self, identifier: Identifier, head: Head, read_ts: int) -> Loaded:
        """
        Load a table as of `read_ts`.

        Args:
            identifier: Its name.
            head: Loaded before; `read_ts` is its upper or less.
            read_ts: In ms.

        Raises:
            NoSuchTableError: Neither the catalog nor the log has it, or it is dropped.
            Conflict: `read_ts` lies before all that is left of it.
            Quarantined: Its logged state cannot be rebuilt, or somebody has set it back.
            CorruptLog: Table and commit table do not belong together.
            Unsupported: Another commit table cares for it.
        """
        return _live(self.load_with_dropped(identifier, head, read_ts), read_ts)

    def load_in_transaction(self, identifier: Identifier, head: Head, read_ts: int) -> Loaded:
        """
        Load a table as of `read_ts`, or as it came under care since a transaction began.

        No change of it is logged before: that is what it was at `read_ts`, as far as anybody can
        tell, and what has been logged since clashes. Raises what `load` does.
        """
        try:
            return self.load(identifier, head, read_ts)
        except Conflict:
            metadata = load_table(self.catalog, identifier).metadata
            care_ts = _mark.care_ts(metadata) or 0
            if care_ts <= read_ts or self.forget_above(read_ts, str(metadata.table_uuid)):
                raise
            return self.load(identifier, self._log.load(), care_ts)

    def load_with_dropped(self, identifier: Identifier, head: Head, read_ts: int) -> Loaded:
        """Load a table, for a caller that wants to see a dropped one's marker; see `load`."""
        if not identifier[:-1]:  # pyiceberg's catalogs have no tables outside of namespaces
            raise NoSuchTableError(f"Table does not exist: {dotted_name(identifier)}")
        try:
            table, lost = self._complete.load(identifier, head)
        except NoSuchTableError:
            creation = head.state.creation(identifier, read_ts)
            if creation is None:
                raise
            return self._not_created_yet(identifier, creation, head, read_ts)
        return self._seen(identifier, table, head, read_ts, lost=lost)

    def live(self, identifier: Identifier, table: Table, head: Head) -> Loaded:
        """See a table as `seen`; raises what `load` does."""
        return _live(self.seen(identifier, table, head), head.upper)

    def seen(self, identifier: Identifier, table: Table, head: Head) -> Loaded:
        """See a table as of the head's upper that the catalog itself has given, not a replica."""
        lost = self._complete.lost(table.metadata, head)
        return self._seen(identifier, table, head, head.upper, lost=lost)

    def _seen(
        self,
        identifier: Identifier,
        table: Table,
        head: Head,
        read_ts: int,
        *,
        lost: Stranger | None,
    ) -> Loaded:
        mark = _mark.mark_of(table.metadata)
        if mark is None:
            creation = head.state.creation(identifier, read_ts)
            if creation and creation.change.uuid != str(table.metadata.table_uuid):
                hidden = self._not_created_yet(identifier, creation, head, read_ts)
                return _behind(hidden, table.metadata, read_ts)
            return self._without_mark(identifier, table, head, read_ts, lost=lost)
        self.check_mark(identifier, table.metadata, mark, head)
        leaving = None if lost else self._leaving(identifier, table, mark, head, read_ts)
        if leaving is not None:
            return leaving
        forget = self._forget_before_mark(table.metadata, read_ts)
        if forget is not None:
            view = overlay.before_forget(identifier, table.metadata, forget, read_ts)
            return Registered(identifier, table.io, table, view, mark)
        view = self._view(identifier, table.metadata, mark, head, read_ts, lost=lost)
        return seen(identifier, table.io, table, view)

    def load_plain(self, identifier: Identifier, head: Head) -> Loaded | None:
        """
        Load a table as the catalog has it, while transactions are off.

        That is one under care to which nothing of the log is left to apply, and that the log has
        not dropped; None for any other.
        """
        if not head.state.off:
            return None
        try:
            table = load_table(self.catalog, identifier)
        except NoSuchTableError:
            return None
        mark = _mark.mark_of(table.metadata)
        if mark is None or mark.commit_table != ".".join(self._log.identifier):
            return None
        uuid = str(table.metadata.table_uuid)
        outstanding = head.state.changes(uuid, after=mark.applied, upto=head.upper)
        if outstanding or _mark.is_dropped(logged_state(table.metadata, mark).snapshot):
            return None
        return SwitchedOff(identifier, table.io, table)

    def applied_ts(self, identifier: Identifier, uuid: str) -> int:
        """
        Give `txns.applied` in ms as the catalog has it now, of the table of that uuid.

        Of a table without a namespace, which Spark can make and pyiceberg cannot load, that is
        `UNKNOWN`.
        """
        if not identifier[:-1]:
            return UNKNOWN
        try:
            metadata = load_table(self.catalog, identifier).metadata
        except NoSuchTableError:
            return LESS_THAN_ALL
        return _mark.applied_ts(metadata) if str(metadata.table_uuid) == uuid else LESS_THAN_ALL

    def shows(self, identifier: Identifier, uuid: str, ts: int) -> bool:
        """
        Whether the table of that uuid shows what was logged at a `commit_ts` in ms.

        A replica that lags says less, and is asked again for about a second.
        """
        for wait_ms_max in LAG_MS:
            if self.applied_ts(identifier, uuid) >= ts:
                return True
            self._clock.back_off(wait_ms_max)
        return self.applied_ts(identifier, uuid) >= ts

    def whole(self, identifier: Identifier, head: Head) -> Table:
        """
        Give a table with all that the log has of it, for who takes care of it or applies to it.

        Raises:
            Quarantined: Somebody has set it back; with or without its mark.
        """
        table, lost = self._complete.load(identifier, head)
        if lost:
            raise replay.incomplete(identifier, lost.reason)
        return table

    def _view(
        self,
        identifier: Identifier,
        metadata: TableMetadata,
        mark: _mark.TableMark,
        head: Head,
        read_ts: int,
        *,
        lost: Stranger | None,
    ) -> TableView:
        uuid = str(metadata.table_uuid)
        if lost and mark.applied < read_ts:  # nothing of the log fits on it: it is as it stands
            return TableView(metadata, read_ts, lost)
        for change in head.state.changes(uuid, after=max(mark.applied, read_ts), upto=head.upper):
            if change.entry.kind is Kind.REPAIR:
                for adopting in replay.added_by(self._log.request(change)):
                    overlay.refuse_given_up(identifier, adopting, read_ts)
        run = head.state.changes(uuid, after=mark.applied, upto=read_ts)
        view = overlay.as_of(
            identifier,
            metadata,
            mark,
            run,
            self._log.request,
            read_ts=read_ts,
            now_ms=self._clock.now_ms(),
        )
        return replace(view, stranger=lost) if lost else view

    def _without_mark(
        self,
        identifier: Identifier,
        table: Table,
        head: Head,
        read_ts: int,
        *,
        lost: Stranger | None,
    ) -> Loaded:
        """
        Load a table that nobody registered.

        Or one that was forgotten above `read_ts`: it is read as it was then. Or one whose mark a
        stranger took while entries of it stand in the head: it is read as logged. Or one that was
        set back to before its registration.
        """
        metadata = table.metadata
        applied = _mark.applied_ts(metadata)
        uuid = str(metadata.table_uuid)
        taken = _mark.TableMark(".".join(self._log.identifier), head.log_id, 0, applied)
        leaving = None if lost else self._leaving(identifier, table, taken, head, read_ts)
        if leaving is not None:
            return leaving
        run = [] if lost else head.state.changes(uuid, after=applied, upto=head.upper)
        if not lost and not run:
            # A replica's, or one that was set back, does not show that it was under care once.
            past = max(applied, head.upper) > read_ts
            forget = self.forget_above(read_ts, uuid) if past else None
            if forget is None:
                return Unregistered(identifier, table.io, table)
            view = overlay.before_forget(identifier, metadata, forget, read_ts)
            return Registered(identifier, table.io, table, view, taken)
        if not lost and not _mark.was_under_care(metadata):
            # Whoever wrote that into the log need have no right to the table: none of it is shown.
            main, cure = metadata.current_snapshot_id, untouched(run[0].commit_ts)
            forged = Stranger(main, (), adoptable=False, reason=NEVER_UNDER_CARE, cure=cure)
            view = TableView(metadata, read_ts, forged)
            return Registered(identifier, table.io, table, view, taken)
        view = self._view(identifier, metadata, taken, head, read_ts, lost=lost)
        if lost or _mark.mark_of(view.metadata):  # or a repair has put the mark back
            return Registered(identifier, table.io, table, view, taken)
        main = metadata.current_snapshot_id
        stranger = Stranger(main, (), adoptable=False, reason=MARK_TAKEN)
        marked = TableView(view.metadata, read_ts, stranger)
        return Registered(identifier, table.io, table, marked, taken)

    @staticmethod
    def _leaving(
        identifier: Identifier, table: Table, mark: _mark.TableMark, head: Head, read_ts: int
    ) -> Loaded | None:
        """Load a table whose forget is all that is to be applied to it: it is its owner's since."""
        metadata = table.metadata
        run = head.state.changes(str(metadata.table_uuid), after=mark.applied, upto=head.upper)
        if not run or run[0].entry.kind is not Kind.FORGET or read_ts < mark.applied:
            return None
        forget = run[0]
        if read_ts < forget.commit_ts:
            view = overlay.before_forget(identifier, metadata, forget.change, read_ts)
            return Registered(identifier, table.io, table, view, mark)
        left = laid_over(metadata, _mark.leaving(metadata, forget.commit_ts))
        return Forgotten(identifier, table.io, table, TableView(left, read_ts))

    def _forget_before_mark(self, metadata: TableMetadata, read_ts: int) -> Change | None:
        """Give the change that took a table from care above `read_ts`, which a mark followed."""
        if _mark.applied_ts(metadata) <= read_ts or not _mark.marked_above(metadata, read_ts):
            return None
        return self.forget_above(read_ts, str(metadata.table_uuid))

    def forget_above(self, ts: int, uuid: str) -> Change | None:
        """Give the change that first took a table from care above a timestamp in ms."""
        newest = self._log.load_if_exists()
        for entry in self._timeline.above(newest.state, ts):
            for change in entry.changes if entry.kind is Kind.FORGET else ():
                if change.uuid == uuid:
                    return change
        return None

    def was_created(self, uuid: str, head: Head) -> bool:
        """Whether a table whose creation stands in the head has been there."""
        return self._complete.created_ts(uuid, head) is not None

    def _not_created_yet(
        self, identifier: Identifier, creation: LoggedChange, head: Head, read_ts: int
    ) -> Loaded:
        if self.was_created(creation.change.uuid, head):
            raise self._missing(identifier, creation, read_ts)
        run = head.state.changes(creation.change.uuid, after=0, upto=read_ts)
        first = self._log.request(run[0])
        if not replay.creates(first):
            raise self._missing(identifier, creation, read_ts)
        overlay.check_chain(identifier, run)
        now_ms = self._clock.now_ms()
        metadata = replay.create(run[0], first, now_ms)
        for change in run[1:]:
            metadata = replay.replay(
                metadata, change, self._log.request(change), now_ms, replay.renumber_in_memory
            )
        return seen(identifier, self.io_of(metadata), None, TableView(metadata, read_ts))

    def _missing(
        self, identifier: Identifier, creation: LoggedChange, read_ts: int
    ) -> Quarantined | NoSuchTableError:
        """Say what is wrong with a table that has been there; a head may be older than a purge."""
        newest = self._log.load_if_exists().state.creation(identifier, read_ts)
        if newest is None or newest.entry.commit_ts != creation.entry.commit_ts:
            return NoSuchTableError(f"Table does not exist: {dotted_name(identifier)}")
        return Quarantined(identifier, *MISSING)

    def io_of(self, metadata: TableMetadata) -> FileIO:
        """Give the files of a table that the catalog does not have yet."""
        return self.catalog._load_file_io(  # noqa: SLF001 -- no public way to a catalog's FileIO
            metadata.properties, metadata.location
        )

    def check_mark(
        self, identifier: Identifier, metadata: TableMetadata, mark: _mark.TableMark, head: Head
    ) -> None:
        """
        Check that a table's mark is of this log, and that the log has what the table shows.

        Raises:
            CorruptLog: The log was lost, or set back, or recovered without the table.
            Unsupported: Another commit table cares for it.
        """
        name = ".".join(self._log.identifier)
        if mark.commit_table != name:
            raise Unsupported(
                "the table is under the care of another commit table: open the catalog with"
                f" commit_table='{mark.commit_table}'; table=`{dotted_name(identifier)}`"
            )
        known = head.exists and mark.applied <= head.upper
        newer = head if known else self._log.load_at_least(mark.applied)
        if newer.log_id == mark.log_id and self._has_shown(metadata, mark, newer):
            return
        raise CorruptLog(
            "the log lacks what the table shows: one of the two was restored from a backup, or the"
            " log was lost; stop what writes the lake, and run `txns recover`;"
            f" table=`{dotted_name(identifier)}` applied=`{mark.applied}` upper=`{newer.upper}`"
            f" commit_table=`{name}` log_id=`{newer.log_id}` marked=`{mark.log_id}`"
        )

    def _has_shown(self, metadata: TableMetadata, mark: _mark.TableMark, head: Head) -> bool:
        """Whether the log has the newest change that a table shows, which tells of all before."""
        if mark.applied > head.upper:
            return False
        shown = shown_by(metadata, mark)
        if shown is None:
            return True
        txn_id = summary_value(shown, _mark.SNAPSHOT_TXN_ID) or ""
        return self._timeline.has(head, str(metadata.table_uuid), mark.applied, txn_id)
