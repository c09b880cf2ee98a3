"""
Moves applied entries out of the head into the commit table's rows, in one swap.

Docs/spec.md 10. It is a swap of its own, or that of whoever commits, where writers wait for each
other. A lost one is left to whoever commits next: nothing depends on it now. What it has written
goes once a newer head tells that it is lost, and stays until then.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table
from pyiceberg.table.update import AddSnapshotUpdate

from txns._commit import small_files
from txns._commit.dropped_files import dropped
from txns._commit.outstanding import AppliedTo
from txns._iceberg import timestamps
from txns._iceberg.light_transaction import LightTransaction
from txns._iceberg.locked_rows import RowsBusy
from txns._iceberg.recorded_io import RecordedIO
from txns._iceberg.snapshots import summary_value
from txns._log import archive, commit_table
from txns._log import entry as _entry
from txns._log.archive_scan import readable, rows_of_files
from txns._log.entry import THIS_ENGINE, Entry, Kind
from txns._log.swap import Outcome
from txns._logger import logger
from txns._metrics import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.io import FileIO, InputFile, OutputFile
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

    from txns._clock import Clock
    from txns._config import Config
    from txns._iceberg.locked_rows import Rows
    from txns._identifier import Identifier
    from txns._log.commit_log import CommitLog
    from txns._log.head import Head
    from txns._log.swap import Swap
    from txns._metrics import Metrics
    from txns._table.data_tables import DataTables

_LOG = logger(__name__)

_UNTIDIED = "the log stays untidied, the next committer tries again"

LARGE_HEAD_BYTES = 512 * 1024
"""Records of so much, which each swap writes again, are tidied twice as early, and none stay."""


@dataclass(frozen=True)
class Tidied:
    """
    What one tidy has written, before anybody knows what becomes of it.

    Attributes:
        head: What it stands on.
        io: Its files.
        snapshot: The record that its swap puts behind the head's.
        upto: The greatest `commit_ts` in ms of what leaves the head, now or before.
        removed: Snapshots of the head that the swap takes out.
        done: The entries that leave it.
        upper: What the swap makes the log's, in ms.
    """

    head: Head
    io: RecordedIO
    snapshot: Snapshot
    upto: int
    removed: list[int]
    done: list[Entry]
    upper: int

    def superseded(self) -> list[str]:
        """
        Give the files that it leaves behind once it has landed, and that no kept version names.

        Readers of older heads have a grace period. Nobody waits for it: the rows are free by then.
        """
        left = set(self.removed)
        live = [each for each in self.head.metadata.snapshots if each.snapshot_id not in left]
        return dropped(self.head, self.io, self.done, [*live, self.snapshot], self.upper)


class _FilesUnderLock(RecordedIO):
    """Those that a tidy reads and writes: with each it says that work goes on."""

    def __init__(self, head: Head, io: FileIO) -> None:
        super().__init__(io)
        self._head = head

    def new_input(self, location: str) -> InputFile:
        self._head.at_work()
        return super().new_input(location)

    def new_output(self, location: str) -> OutputFile:
        self._head.at_work()
        return super().new_output(location)


class Tidier:
    """Archives what is applied."""

    def __init__(
        self,
        config: Config,
        log: CommitLog,
        tables: DataTables,
        clock: Clock,
        metrics: Metrics,
        rows: Rows | None = None,
    ) -> None:
        """`rows` are the catalog's, where writers wait for each other's swaps."""
        self._rows = rows
        self._metrics = metrics
        self._config = config
        self._log = log
        self._tables = tables
        self._clock = clock
        self._kept_by_last = 0
        """Entries that the last tidy had to leave: they are no reason for another one."""
        self._turn = threading.Lock()
        """One thread tidies when it is due: the others would lose their swaps to it."""
        self._unsettled: deque[Tidied] = deque()
        """Those that may still land, or have landed without an answer; each is one thread's."""

    def tidy_when_due(self, head: Head) -> None:
        """
        Tidy when more than `tidy_after` new entries stand in the head; errors are logged.

        Where writers wait for each other, whoever commits next does it in the same swap: it would
        wait once more for what another one has done by then.
        """
        if self._rows or self._beyond(head) <= 0 or not self._turn.acquire(blocking=False):
            return
        with self._metrics.phase(Phase.TIDY):
            try:
                self._left(self._sent(head, self._older(head)))
            except Exception:  # noqa: BLE001 -- nothing depends on a tidy
                _LOG.warning(_UNTIDIED, exc_info=True)
            finally:
                self._turn.release()

    def within(self, head: Head, adding: int, upper: int) -> Tidied | None:
        """
        Write what the swap of entries needs to tidy a head as well, if that is due.

        Args:
            head: Which nobody replaces meanwhile.
            adding: How many entries it has.
            upper: What it makes the log's, in ms.

        Returns:
            What that swap is to have, and `ended` to be told of; None for nothing. Errors are
            logged.
        """
        if self._beyond(head, adding) <= 0:
            return None
        with self._metrics.phase(Phase.TIDY):
            try:
                return self._prepared(head, self._older(head, adding), upper)
            except Exception:  # noqa: BLE001 -- nothing depends on a tidy
                _LOG.warning(_UNTIDIED, exc_info=True)
                self._kept_by_last = len(head.state.entries)  # nor does the next attempt
        return None

    def ended(self, tidied: Tidied, outcome: Outcome) -> None:
        """Learn what became of a swap, as far as that is known."""
        match outcome:
            case Outcome.WON:
                self._log.supersede(*tidied.superseded())
            case Outcome.NOT_SENT:
                tidied.io.delete_created()
                # It may be why: the database ends what takes too long under its locks.
                self._kept_by_last = len(tidied.head.state.entries)
            case _:
                self._unsettled.append(tidied)

    def _beyond(self, head: Head, adding: int = 0) -> int:
        """Give how many entries stand in a head, or will, beyond those at which no tidy is due."""
        may_stand, standing = self._config.tidy_after, len(head.state.entries)
        if _is_large(head):
            may_stand //= 2
        # Where fewer stand, another one has moved some of them.
        self._kept_by_last = min(self._kept_by_last, standing)
        return standing + adding - self._kept_by_last - may_stand

    def _older(self, head: Head, adding: int = 0) -> int:
        """
        Give how many entries are to leave a head: the older half of those that may stand stays.

        What has been committed since its BEGIN a short transaction finds in the head then: it would
        read the archive for that, under the lock that others wait for.
        """
        stays = 0 if _is_large(head) else self._config.tidy_after // 2
        standing = len(head.state.entries)
        return min(standing, standing + adding - stays)

    def tidy(self) -> int:
        """
        Archive every entry that is applied everywhere; give how many left the head.

        Nothing does where the swap is lost, or the lock before it: the next committer tries again.
        """
        with self._metrics.phase(Phase.TIDY):
            head = self._log.load_if_exists()
            return self._on_newest(head) if head.exists else 0

    def due(self, head: Head) -> int:
        """Give how many entries of a head a tidy would archive."""
        return len(self._done(head))

    def _on_newest(self, head: Head) -> int:
        """Tidy a head, or the newest one, which nobody replaces where writers wait for a lock."""
        if self._rows is None:
            return self._left(self._sent(head))
        try:
            with self._rows.locked(self._log.identifier, ()) as rows:
                sent = self._sent(replace(self._log.load(rows), rows=rows))
        except RowsBusy as busy:
            _LOG.warning("%s: %s", _UNTIDIED, busy)
            return 0
        return self._left(sent)  # who holds the lock sees what he has not committed, too

    def _sent(self, head: Head, older: int | None = None) -> tuple[Tidied, Outcome] | None:
        """Archive what is applied of the first entries of a head, or of all; None for nothing."""
        tidied = self._prepared(head, older, head.upper)
        if tidied is None:
            return None
        swap = self._log.append(head, (), tidied.removed, behind=tidied.snapshot)
        self.ended(tidied, swap.outcome)
        if swap.outcome is not Outcome.WON:
            _LOG.info("the swap of a tidy was not won: %s", swap.outcome.name)
            _LOG.debug("why: %s", swap.cause, exc_info=swap.cause)
        return tidied, swap.outcome

    def _left(self, sent: tuple[Tidied, Outcome] | None) -> int:
        """Give how many entries have left the head by what was sent; a newer head may tell."""
        if sent is None or sent[1] is Outcome.NOT_SENT:
            return 0
        tidied, outcome = sent
        if outcome is not Outcome.WON:
            try:
                landed = self._settle(self._log.load())
            except Exception:  # noqa: BLE001 -- the next tidy asks again
                _LOG.debug("the log cannot be asked what became of a tidy", exc_info=True)
                return 0
            if tidied not in landed:
                return 0
        return len(tidied.done)

    def _prepared(self, head: Head, older: int | None, upper: int) -> Tidied | None:
        """
        Write what a swap needs to archive what is applied of the first entries, or of all.

        `upper` is what the swap makes the log's.
        """
        self._settle(head)
        done = self._done(head, older)
        self._kept_by_last = (len(head.state.entries) if older is None else older) - len(done)
        if not done:
            return None
        head.check_writable()
        return self._written(head, done, upper)

    def _written(self, head: Head, done: list[Entry], upper: int) -> Tidied:
        """Write what the swap needs; what was written goes if that fails."""
        assert head.table is not None
        known = head.table
        io = _FilesUnderLock(head, known.io)
        table = Table(
            known.name(), known.metadata, known.metadata_location, io, known.catalog, known.config
        )
        record = self._record(head, max(head.state.tidied_upto, done[-1].commit_ts))
        try:
            with readable():
                small = small_files.to_merge(table)
                rows = rows_of_files(table, small)
            for entry in done:
                rows.extend(archive.rows_of(entry))
            replaced = [task.file for task in small]
            snapshot, _ = _rewritten(table, rows, replaced, record)
        except BaseException:  # a commit's thread may be stopped in it
            io.delete_created()
            raise
        removed = {head.snapshot_ids[entry.commit_ts] for entry in done}
        removed |= {each.snapshot_id for each in table.metadata.snapshots if is_tidy(each)}
        return Tidied(head, io, snapshot, record.tidied_upto, sorted(removed), done, upper)

    def move_head(self, head: Head) -> Swap:
        """
        Put a record on `main` that archives nothing: no swap that stands on the head is won then.

        Whatever becomes of it, a newer head tells whether `main` has moved.
        """
        record = self._record(head, head.state.tidied_upto)
        older = [each.snapshot_id for each in head.metadata.snapshots if is_tidy(each)]
        return self._log.append(head, [record], without=older)

    def _record(self, head: Head, tidied_upto: int) -> Entry:
        return Entry(
            Kind.TIDY,
            self._clock.new_txn_id(),
            upper=head.state.upper,
            tidied_upto=tidied_upto,
            engine=THIS_ENGINE,
            reserved=head.state.reserved,
        )

    def _settle(self, head: Head) -> list[Tidied]:
        """Learn from a head what became of earlier attempts; give those that have landed."""
        landed = []
        for _ in range(len(self._unsettled)):
            try:
                attempt = self._unsettled.popleft()
            except IndexError:
                break  # another thread has taken the rest
            snapshot_id = attempt.snapshot.snapshot_id
            if head.metadata.snapshot_by_id(snapshot_id):
                landed.append(attempt)
                self._log.supersede(*attempt.superseded())
            elif head.has_other_than(snapshot_id, after=attempt.head):
                attempt.io.delete_created()
            elif not head.is_past(attempt.head):
                self._unsettled.append(attempt)  # it may still land
            # else: so much has been tidied since that nobody can tell, and its files stay
        return landed

    def _done(self, head: Head, older: int | None = None) -> list[Entry]:
        """Give the entries that every table of theirs shows; an open `off` and settings stay."""
        state = head.state
        applied = AppliedTo(self._tables, state)
        done: list[Entry] = []
        known: dict[str, Identifier] = {}  # by those that stay, their tables' names by uuid
        for entry in state.entries[:older]:
            lasts = (state.off and entry.kind is Kind.OFF) or entry is state.settings_entry
            shown = applied.everywhere(entry)
            if shown and not lasts and not _is_needed(entry, known):
                done.append(entry)
            else:
                known |= {change.uuid: change.table for change in entry.changes}
        return done


def _is_large(head: Head) -> bool:
    return head.record_bytes > LARGE_HEAD_BYTES


def archived(
    table: Table, entries: list[Entry], record: Entry, *, instead_of: Sequence[DataFile] = ()
) -> tuple[Snapshot, list[TableUpdate]]:
    """
    Write rows of entries to an archive, for those of some files, if any.

    Returns:
        The record that is its snapshot, and updates.
    """
    rows = [row for one in entries for row in archive.rows_of(one)]
    return _rewritten(table, rows, list(instead_of), record)


def _rewritten(
    table: Table, rows: list[dict[str, Any]], small: list[DataFile], record: Entry
) -> tuple[Snapshot, list[TableUpdate]]:
    """Write rows, if any, as one file; give its snapshot and what puts that on main."""
    transaction = LightTransaction(table)
    update = transaction.update_snapshot(snapshot_properties=_entry.to_summary(record))
    with update.overwrite() if small else update.fast_append() as producer:
        arrow = archive.to_arrow(rows)
        new = _dataframe_to_data_files(table.metadata, arrow, table.io) if rows else ()
        for file in new:
            producer.append_data_file(file)
        for file in small:
            producer.delete_data_file(file)
    added = [
        each
        for each in transaction._updates  # noqa: SLF001 -- the swap is ours, not the producer's
        if isinstance(each, AddSnapshotUpdate)
    ]
    time_ms = timestamps.newest_ms(table.metadata) + 1  # not the clock's, which may be late
    snapshot = added[0].snapshot.model_copy(update={"timestamp_ms": time_ms})
    return snapshot, [
        AddSnapshotUpdate(snapshot=snapshot),
        commit_table.main_at(snapshot.snapshot_id),
    ]


def _is_needed(entry: Entry, known: Mapping[str, Identifier]) -> bool:
    """
    Say whether older entries that stay need one: a forget of a table of theirs, or its new name.

    Args:
        entry: What might leave otherwise.
        known: By which names older entries that stay know their tables, by uuid.
    """
    return any(
        change.uuid in known and (entry.kind is Kind.FORGET or known[change.uuid] != change.table)
        for change in entry.changes
    )


def is_tidy(snapshot: Snapshot) -> bool:
    return summary_value(snapshot, _entry.KIND) == Kind.TIDY.value
