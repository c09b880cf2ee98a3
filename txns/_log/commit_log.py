"""
The commit table: load its head, and replace it by the next one if nobody else did.

Docs/spec.md 3 to 5. The one retry loop over it is `_commit/group_commit`'s.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    RemoveSnapshotsUpdate,
)

from txns._iceberg import timestamps
from txns._iceberg.known_tables import load_table
from txns._iceberg.locked_rows import RowsBusy
from txns._iceberg.manifests import last_sequence_number
from txns._iceberg.metadata_files import is_unwritten
from txns._identifier import dotted_name
from txns._log import commit_table, limits, payload, permitted
from txns._log import entry as _entry
from txns._log.head import (
    NO_HEAD,
    Head,
    Record,
    head_and_records,
    log_id_of,
    newest_record,
    record_of,
)
from txns._log.own_place import OwnPlace
from txns._log.superseded import SupersededFiles, ends_minute
from txns._log.swap import Outcome, Swap, is_denied, is_full, is_refusal, may_not_write
from txns._logger import logger
from txns.errors import InvalidUsage, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import CommitTableRequest
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from txns._clock import Clock
    from txns._iceberg.locked_rows import LockedRows
    from txns._identifier import Identifier
    from txns._log.entry import Entry, LoggedChange

_LOG = logger(__name__)

LOADS = 3
"""How often the head is loaded until it is as new as one that was seen."""

BACK_OFF_MAX_MS = 5

_IS_OLDER = "gives an older head than it gave before"

LAG_MS = (5, 50, 500, 500)
"""How long at most a replica that lags is waited for, each time, in ms."""


class CommitLog:
    """The log over one catalog. Threads may share it."""

    def __init__(
        self,
        catalog: Catalog,
        identifier: Identifier,
        clock: Clock,
        allowed_places: Sequence[str] = (),
    ) -> None:
        """
        Make it over a catalog.

        Args:
            catalog: Any.
            identifier: The commit table.
            clock: Proposes.
            allowed_places: Folders below which the commit table may stand, beside its catalog's own
                place for its name: elsewhere nothing is removed.
        """
        self.catalog = catalog
        self.identifier = identifier
        self._clock = clock
        self._payloads = payload.Payloads()
        self._records: dict[int, Record] = {}
        self._last = NO_HEAD
        self.place = OwnPlace(catalog, identifier, clock, allowed_places, lambda: self._last.uuid)
        self._superseded = SupersededFiles(clock, self.place.has)
        self._seen = threading.Lock()

    @property
    def newest(self) -> Head:
        """The newest head that this log has given or made; `NO_HEAD` before the first."""
        return self._last

    def load_if_exists(self, rows: LockedRows | None = None) -> Head:
        """
        Load the head past every cache; `NO_HEAD` where there is no commit table.

        Of rows that are locked it is the one that nobody can replace meanwhile.

        Never older than one that this log has given or made: a catalog that answers from an older
        state, a replica or a cache, is asked again, and then what was seen stands. Rows that
        were looked at may have moved since, and say the same again. Rows that should be locked
        cannot: the lock was lost, and the tables among them are as old. A newer head beside them
        would have them set back.

        Raises:
            CorruptLog: An invariant does not hold.
            InvalidUsage: 55000, another commit table stands under the name.
            RowsBusy: The rows are not locked any more, or the catalog was set back.
            Unsupported: A version or feature that this program does not know.
        """
        for _ in range(LOADS):
            try:
                table = self.load_table(rows)
            except NoSuchTableError:
                return NO_HEAD
            is_older = self._is_older(table)
            if is_older and rows is None:
                self._clock.back_off(BACK_OFF_MAX_MS)
                continue
            # Another thread may have seen a newer one meanwhile.
            head = self._last if is_older else self._remember(table)
            if rows and rows.held and head.main_id != table.metadata.current_snapshot_id:
                raise RowsBusy(f"the catalog {_IS_OLDER}")
            return head
        _LOG.warning("the catalog %s; the newest one stands", _IS_OLDER)
        return self._last

    def _is_older(self, table: Table) -> bool:
        last = self._last
        if last.table is None:
            return False
        older = last_sequence_number(table.metadata) < last.sequence_number
        found = log_id_of(table.metadata)
        same_table = table.metadata.table_uuid == last.metadata.table_uuid
        if found == last.log_id or (same_table and older):
            return older
        raise InvalidUsage(
            "55000",
            "another commit table stands where one was when this catalog was opened, or it has been"
            " recovered since, and may not hold what was committed there: restore the old one, or"
            " open the catalog again and run the transaction again;"
            f" commit_table=`{dotted_name(self.identifier)}` log_id=`{found}`"
            f" expected=`{last.log_id}`",
        )

    def load_table(self, rows: LockedRows | None = None) -> Table:
        """Load the commit table, whatever its records say, and whatever has been seen of it."""
        load = rows.load_table if rows else partial(load_table, self.catalog)
        with suppress(FileNotFoundError):
            return load(self.identifier)
        # Its metadata file was removed after the catalog named it: there is a newer one.
        try:
            return load(self.identifier)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                "the metadata file that the catalog names for the commit table is gone: stop what"
                " writes the lake, and run `txns recover`;"
                f" commit_table=`{dotted_name(self.identifier)}`; {error}"
            ) from error

    def load(self, rows: LockedRows | None = None) -> Head:
        """
        Load the head past every cache; see `load_if_exists`.

        Raises:
            InvalidUsage: 55000, there is no commit table.
        """
        head = self.load_if_exists(rows)
        if not head.exists:
            raise InvalidUsage(
                "55000",
                "the commit table is missing: open the catalog with the commit_table that cares for"
                " the table, or run `txns recover`, which restores it;"
                f" commit_table=`{dotted_name(self.identifier)}`",
            )
        return head

    def load_at_least(self, ts: int) -> Head:
        """
        Load a head whose upper is at a timestamp in ms or above, or the newest that there is.

        A replica that lags behind says less: it is asked again, for about half a second.

        Raises:
            InvalidUsage: 55000, there is no commit table.
        """
        head = self.load()
        for wait_ms_max in LAG_MS:
            if head.upper >= ts:
                break
            self._clock.back_off(wait_ms_max)
            head = self.load()
        return head

    def load_if_ever(self) -> Head:
        """
        Load the head past every cache; `NO_HEAD` where no commit table has been seen.

        Raises:
            InvalidUsage: 55000, there was one.
        """
        head = self.load_if_exists()
        return head if head.exists or not self._last.exists else self.load()

    def load_or_create(self) -> Head:
        """
        Load the head; create the commit table first where none has been seen.

        Raises:
            InvalidUsage: 55000, there was one.
        """
        head = self.load_if_ever()
        if head.exists:
            return head
        commit_table.create(self.catalog, self.identifier, self._clock)
        return self.load()

    def append(
        self,
        head: Head,
        entries: Sequence[Entry],
        without: Sequence[int] = (),
        *,
        behind: Snapshot | None = None,
    ) -> Swap:
        """
        Append entries to the head, without some of its snapshots, in one compare-and-swap.

        Args:
            head: What is replaced.
            entries: In their order.
            without: Ids of the snapshots that go.
            behind: A record that was made to follow the head's own: they follow that.
        """
        base = head.metadata
        parent = behind or base.current_snapshot()
        assert parent is not None
        updates: list[TableUpdate] = [AddSnapshotUpdate(snapshot=behind)] if behind else []
        made: dict[int, Record] = {}
        time_ms = behind.timestamp_ms if behind else timestamps.newest_ms(base)
        last = behind.sequence_number if behind else last_sequence_number(base)
        assert last is not None
        for number, entry in enumerate(entries, last + 1):
            time_ms += 1  # no clock, which may be fast: the times of the log never go back
            summary = _entry.to_summary(entry)
            parent = Snapshot(
                snapshot_id=self._clock.new_snapshot_id(),
                parent_snapshot_id=parent.snapshot_id,
                sequence_number=number,
                timestamp_ms=time_ms,
                manifest_list=parent.manifest_list,
                summary=Summary(Operation.APPEND, **summary),
                schema_id=base.current_schema_id,
            )
            made[parent.snapshot_id] = Record(entry, limits.record_bytes(summary))
            updates.append(AddSnapshotUpdate(snapshot=parent))
        updates.append(commit_table.main_at(parent.snapshot_id))
        if without:
            updates.append(RemoveSnapshotsUpdate(snapshot_ids=list(without)))
        return self.replace(head, updates, made)

    def replace(
        self,
        head: Head,
        updates: Sequence[TableUpdate],
        made: Mapping[int, Record] = MappingProxyType({}),
    ) -> Swap:
        """
        Replace the head by what updates make of it, in one compare-and-swap.

        An error says that nothing has been sent.

        Args:
            head: What is replaced.
            updates: Of the commit table.
            made: The records that they add, by the ids of their snapshots, where these are known.

        Raises:
            Unsupported: As for `Head.check_writable`.
        """
        assert head.table is not None
        head.check_writable()
        requirements: tuple[TableRequirement, ...] = (
            permitted.AssertNotSteered(uuid=head.metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=head.main_id),
        )
        if head.rows:
            return self._with_rows(head, head.rows, requirements, tuple(updates), made)
        try:
            won = self.catalog.commit_table(head.table, requirements, tuple(updates))
        except CommitFailedException as error:
            return Swap(Outcome.LOST, error)
        except Unsupported:
            raise
        except Exception as error:
            if is_unwritten(error):
                return _not_sent(error)
            if is_denied(error):
                raise
            if is_full(error):
                return Swap(Outcome.NOT_SENT, error)
            return Swap(Outcome.REFUSED if is_refusal(error) else Outcome.MAYBE, error)
        self._made(head, won, made)
        return Swap(Outcome.WON)

    def _with_rows(
        self,
        head: Head,
        rows: LockedRows,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
        made: Mapping[int, Record],
    ) -> Swap:
        """Replace the head together with what was said of other rows: nothing lands before."""
        assert head.table is not None
        try:
            rows.commit_table(head.table, requirements, updates)
            rows.prepare()
        except CommitFailedException as error:
            return Swap(Outcome.LOST, error)
        except Unsupported:
            raise
        except Exception as error:  # noqa: BLE001 -- nothing lands before the rows are committed
            return _not_sent(error)
        try:
            rows.commit()
        except Exception as error:
            if not (is_denied(error) or is_full(error)):
                return Swap(Outcome.MAYBE, error)
            rows.refused()
            if is_denied(error):
                raise
            return Swap(Outcome.NOT_SENT, error)
        won = rows.made(self.identifier)
        self._made(
            head,
            CommitTableResponse(metadata=won.metadata, metadata_location=won.metadata_location),
            made,
        )
        return Swap(Outcome.WON)

    def _made(self, before: Head, won: CommitTableResponse, records: Mapping[int, Record]) -> None:
        """
        Remember the head that a swap has made: what is loaded later is not older.

        The swap has been won, whatever can be made of it here.
        """
        table = before.table
        assert table is not None
        try:
            made = Table(
                table.name(),
                won.metadata,
                won.metadata_location,
                table.io,
                self.catalog,
                table.config,
            )
            self._remember(made, records)
            newest = newest_record(won.metadata)
            known = self._records.get(newest.snapshot_id)
            upper = (known.entry if known else record_of(newest)).upper
            is_kept = ends_minute(before.upper, upper)
            self.supersede(*(() if is_kept else (table.metadata_location,)))
        except Exception:  # noqa: BLE001 -- an error would say that nothing has been sent
            _LOG.warning("the log was written, and cannot be read", exc_info=True)

    def requests(self, entry: Entry) -> tuple[CommitTableRequest, ...]:
        """Give the requests of an entry's payload; see `Payloads.requests`."""
        table = self._last.table or self.load_table()
        return self._payloads.requests(entry, table.io, table.metadata.location)

    def request(self, logged: LoggedChange) -> CommitTableRequest:
        """
        Give the request that carries a logged change out; CorruptLog for a forbidden one.

        A mark that it sets names this log as it is now: a recovery may have begun a new epoch since
        it was logged.
        """
        index = logged.entry.carried.index(logged.change)
        request = self.requests(logged.entry)[index]
        permitted.refuse_forbidden(logged, request, self.identifier)
        updates = tuple(commit_table.in_epoch(each, self._log_id) for each in request.updates)
        return request.model_copy(update={"updates": updates})

    def _log_id(self) -> str:
        return (self._last if self._last.exists else self.load()).log_id

    @property
    def io(self) -> FileIO:
        """The commit table's files."""
        table = self._last.table or self.load_table()
        return table.io

    def supersede(self, *locations: str) -> None:
        """
        Note files that no kept version names, if any; remove some whose time has come.

        Cleaning never decides an answer: what fails in it is only reported.
        """
        try:
            self._superseded.add(self.io, locations)
        except Exception:  # noqa: BLE001 -- files that stay harm nobody
            _LOG.warning("superseded files stay: %s", locations, exc_info=True)

    def _remember(self, table: Table, made: Mapping[int, Record] = MappingProxyType({})) -> Head:
        """Give the head that a version of the table is; the newest one is kept."""
        with self._seen:
            last = self._last
            if last.table and last.table.metadata_location == table.metadata_location:
                return last
            head, records = head_and_records(table, {**self._records, **made})
            if last.table is None or head.sequence_number >= last.sequence_number:
                self._records = records
                self._last = head
            return self._last


def _not_sent(error: Exception) -> Swap:
    """Give what an error comes to before anything was asked for; a refusal is raised again."""
    if is_refusal(error) or may_not_write(error):
        raise error
    return Swap(Outcome.NOT_SENT, error)
