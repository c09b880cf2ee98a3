"""
Whether what others did to a table meets what a transaction read of it, file by file.

Reads are held against the snapshots since, one by one: a row that came, left or changed is in a
file that did, and a filter that no such file can match has seen nothing of it. Rules and
traps are in docs/isolation.md; `python -m tests.pairs` holds them against brute force over rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import ManifestGroupPlanner

from txns._iceberg import file_changes, marked_files, snapshots
from txns._iceberg.file_changes import marked_file
from txns._stage.restage import same_shape
from txns._table import mark
from txns._table.logged_state import last_on_main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from txns._iceberg.file_changes import FileChanges
    from txns._identifier import Identifier
    from txns._log.change import Change
    from txns._log.entry import Entry
    from txns._stage.read_set import ReadSet, RowFilter
    from txns._table.loaded import Loaded

    Standing = Callable[[Identifier], Loaded]

ANYBODY = None
"""Who changed something, where no transaction of the log has."""


class Meeting(NamedTuple):
    """
    What a filter has met of a snapshot that names a transaction, if any, as its author.

    Without a filter everything has met: what was read cannot be held against files.
    """

    author: str | None
    words: str
    row_filter: RowFilter | None = None


@dataclass
class Meetings:
    """
    What of others has met the reads of one transaction, as far as it was looked at.

    Whoever looks again, at a later attempt or under a lock, hands it on: what a snapshot has
    changed stays as it is, and its manifests are not read again.
    """

    _of: dict[str, tuple[list[RowFilter], dict[int, list[Meeting]]]] = field(default_factory=dict)

    def of(self, uuid: str, filters: list[RowFilter]) -> dict[int, list[Meeting]]:
        """Give what is known of a table, by the newest snapshot of a state of it."""
        known = self._of.get(uuid)
        if known is None or known[0] != filters:  # it has read more since
            known = self._of[uuid] = (filters, {})
        return known[1]


@dataclass(frozen=True)
class FileConflicts:
    """
    What others have done to the files that a transaction read, as of one head.

    Attributes:
        reads: What it read.
        others: The ids of the transactions that are held against it.
        standing: Gives a table as that head has it.
        known: What was found out before.
    """

    reads: ReadSet
    others: frozenset[str]
    standing: Standing
    known: Meetings
    _met: dict[str, dict[str | None, Meeting]] = field(default_factory=dict)
    """By table and transaction, what of it has met which filter."""

    def met(self, entry: Entry, change: Change) -> Meeting | None:
        """
        Say which filter met which file of an entry; None where none did.

        Args:
            entry: It changed a table of which rows were read.
            change: What it did to that.
        """
        known = self._met.get(change.uuid)
        if known is None:
            known = {each.author: each for each in self._meetings(change)}
            self._met[change.uuid] = known
        return known.get(entry.txn_id) or known.get(ANYBODY)

    def met_anybodys(self, entry: Entry, change: Change) -> bool:
        """Whether `met` has found something of a table of which it is not known whose it is."""
        known = self._met.get(change.uuid, {})
        return ANYBODY in known and entry.txn_id not in known

    def _meetings(self, change: Change) -> Iterator[Meeting]:
        names = self.reads.known_as(change.table, change.uuid)
        filters = self.reads.filters_of(names)
        base = self.reads.bases.get(change.uuid)
        try:
            now = self.standing(change.table)
        except NoSuchTableError:
            yield Meeting(ANYBODY, "the table is not there any more")
            return
        if base is None or not same_shape(base, now.metadata):
            yield Meeting(ANYBODY, "the table has another schema or partitioning now")
            return
        filters = [each.within(base) for each in filters]
        known = self.known.of(change.uuid, filters)
        try:
            before = last_on_main(base, now.metadata)
            found = _of_snapshots(now.io, now.metadata, before, filters, known)
        except file_changes.HistoryGap:
            yield Meeting(ANYBODY, "its snapshots since have been expired, or main was moved")
            return
        for each in found:  # a stranger's snapshot may say anything
            yield each if each.author in self.others else each._replace(author=ANYBODY)


def _of_snapshots(
    io: FileIO,
    now: TableMetadata,
    before: Snapshot | None,
    filters: Iterable[RowFilter],
    known: dict[int, list[Meeting]],
) -> list[Meeting]:
    before_id = None if before is None else before.snapshot_id
    looks = [_Look(io, now, each) for each in filters]
    found: list[Meeting] = []
    marks: list[_Marks] = []
    for snapshot, changes_of in file_changes.since(io, now, before_id):
        if (earlier := known.get(snapshot.snapshot_id)) is not None:
            break
        if snapshots.operation_of(snapshot) == snapshots.REPLACE:
            continue  # the same rows in other files
        changes = changes_of()
        author = snapshots.summary_value(snapshot, mark.SNAPSHOT_TXN_ID)
        for look in looks:
            file, perhaps = look.first_met(changes)
            marks += [_Marks(author, look, each) for each in perhaps]
            if file is not None:
                found.append(look.meeting(author, file))
    else:
        earlier = []
    told = {each.author for each in found}
    found += _of_marks(io, now, before, [each for each in marks if each.author not in told])
    found += earlier
    if now.current_snapshot_id is not None:
        known[now.current_snapshot_id] = found
    return found


def _of_marks(
    io: FileIO, now: TableMetadata, before: Snapshot | None, marks: list[_Marks]
) -> list[Meeting]:
    """Look up what was marked, once for all: where it is not found, it may hold anything."""
    if not marks:
        return []
    deletes = [each.deletes for each in marks]
    files = marked_files.looked_up(io, now, deletes, [snapshots.main_of(now), before])
    return [
        look.meeting(author, each)
        for author, look, each in marks
        if (file := files.get(marked_file(each) or "")) is None or look.may_hold(file)
    ]


class _Marks(NamedTuple):
    """What clashes with a filter where the one data file may that it marks rows of."""

    author: str | None
    look: _Look
    deletes: DataFile


class _Look:
    """One filter under which rows of a table were read."""

    def __init__(self, io: FileIO, metadata: TableMetadata, row_filter: RowFilter) -> None:
        self._filter = row_filter
        self._specs = metadata.specs()
        # It plans scans by it: what it would open may have rows that match.
        self._planner = ManifestGroupPlanner(
            metadata, io, row_filter.expression, row_filter.case_sensitive
        )
        self._in_partition: dict[int, Callable[[DataFile], bool]] = {}

    def meeting(self, author: str | None, file: DataFile) -> Meeting:
        """Say that it has met a file."""
        return Meeting(author, f"filter {self._filter}, file {file.file_path}", self._filter)

    def first_met(self, changes: FileChanges) -> tuple[DataFile | None, list[DataFile]]:
        """
        Hold it against what a snapshot changed.

        Returns:
            A file that came or left and may hold, or mark, a row that matches. Where there is
            none, delete files that mark one if the data file that each of them is of may hold one.
        """
        try:
            return self._first_met(changes)
        except ValueError:  # of a partition spec whose column has been dropped
            return next(iter([*changes.files, *changes.deletes]), None), []

    def _first_met(self, changes: FileChanges) -> tuple[DataFile | None, list[DataFile]]:
        met = next(filter(self._holds, changes.files), None)
        if met is not None:
            return met, []
        # The statistics of a delete file are of what it marks rows by.
        marks = [
            each
            for each in changes.deletes
            if self._is_global(each) or self._may_be_in_partition(each)
        ]
        of_several = next((each for each in marks if marked_file(each) is None), None)
        if of_several is not None:
            return of_several, []
        held = {file.file_path for file in changes.files}  # none of which it has met
        return None, [each for each in marks if marked_file(each) not in held]

    def may_hold(self, file: DataFile) -> bool:
        """Whether a data file may hold a row that matches."""
        try:
            return self._holds(file)
        except ValueError:
            return True

    def _holds(self, file: DataFile) -> bool:
        return self._may_be_in_partition(file) and self._may_have_values(file)

    @cached_property
    def _may_have_values(self) -> Callable[[DataFile], bool]:
        return self._planner._build_metrics_evaluator()  # noqa: SLF001 -- as scans do

    def _is_global(self, deletes: DataFile) -> bool:
        equality = deletes.content == DataFileContent.EQUALITY_DELETES
        return equality and self._specs[deletes.spec_id].is_unpartitioned()

    def _may_be_in_partition(self, file: DataFile) -> bool:
        known = self._in_partition.get(file.spec_id)
        if known is None:
            known = self._planner._build_partition_evaluator(file.spec_id)  # noqa: SLF001
            self._in_partition[file.spec_id] = known
        return known(file)
