"""
Whether what others did to a table meets what a transaction read of it, file by file.

Reads are held against the snapshots since, one by one: a row that came, left or changed is in a
file that did, and a filter that no such file can match has seen nothing of it. Rules and
traps are in docs/isolation.md; `python -m tests.pairs` holds them against brute force over rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import ManifestGroupPlanner

from txns._iceberg import file_changes, snapshots
from txns._stage.restage import same_shape
from txns._table import mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata

    from txns._iceberg.file_changes import FileChanges
    from txns._identifier import Identifier
    from txns._log.change import Change
    from txns._log.entry import Entry
    from txns._stage.read_set import ReadSet, RowFilter
    from txns._table.loaded import Loaded

    Standing = Callable[[Identifier], Loaded]

ANYBODY = None
"""Who changed something, where no transaction of the log has."""


@dataclass(frozen=True)
class FileConflicts:
    """
    What others have done to the files that a transaction read, as of one head.

    Attributes:
        reads: What it read.
        others: The ids of the transactions that are held against it.
        standing: Gives a table as that head has it.
    """

    reads: ReadSet
    others: frozenset[str]
    standing: Standing
    _met: dict[str, dict[str | None, str]] = field(default_factory=dict)
    """By table and transaction, what of it has met which filter, in words."""

    def met(self, entry: Entry, change: Change) -> str | None:
        """
        Say which filter met which file of an entry; None where none did.

        Args:
            entry: It changed a table of which rows were read.
            change: What it did to that.
        """
        known = self._met.get(change.uuid)
        if known is None:
            known = self._met[change.uuid] = dict(self._meetings(change))
        return known.get(entry.txn_id) or known.get(ANYBODY)

    def _meetings(self, change: Change) -> Iterator[tuple[str | None, str]]:
        names = self.reads.known_as(change.table, change.uuid)
        filters = self.reads.filters_of(names)
        base = self.reads.bases.get(change.uuid)
        try:
            now = self.standing(change.table)
        except NoSuchTableError:
            yield ANYBODY, "the table is not there any more"
            return
        if base is None or not same_shape(base, now.metadata):
            yield ANYBODY, "the table has another schema or partitioning now"
            return
        filters = [each.within(base) for each in filters]
        found = _of_snapshots(now.io, now.metadata, base.current_snapshot_id, filters)
        for author, words in found:  # a stranger's snapshot may say anything
            yield author if author in self.others else ANYBODY, words


def _of_snapshots(
    io: FileIO, now: TableMetadata, before: int | None, filters: Iterable[RowFilter]
) -> Iterator[tuple[str | None, str]]:
    looks = [_Look(io, now, each) for each in filters]
    try:
        for snapshot, changes_of in file_changes.since(io, now, before):
            if snapshots.operation_of(snapshot) == snapshots.REPLACE:
                continue  # the same rows in other files
            changes = changes_of()
            for look in looks:
                path = look.first_met(changes)
                if path is not None:
                    words = f"filter {look.row_filter}, file {path}"
                    yield snapshots.summary_value(snapshot, mark.SNAPSHOT_TXN_ID), words
    except file_changes.HistoryGap:
        yield ANYBODY, "its snapshots since have been expired, or main was moved"


class _Look:
    """One filter under which rows of a table were read."""

    def __init__(self, io: FileIO, metadata: TableMetadata, row_filter: RowFilter) -> None:
        self.row_filter = row_filter
        self._specs = metadata.specs()
        # It plans scans by it: what it would open may have rows that match.
        self._planner = ManifestGroupPlanner(
            metadata, io, row_filter.expression, row_filter.case_sensitive
        )
        self._in_partition: dict[int, Callable[[DataFile], bool]] = {}

    def first_met(self, changes: FileChanges) -> str | None:
        """Give a file that came or left and may hold, or mark, a row that matches."""
        try:
            return next(self._met_by(changes), None)
        except ValueError:  # of a partition spec whose column has been dropped
            return next((file.file_path for file in (*changes.files, *changes.deletes)), None)

    def _met_by(self, changes: FileChanges) -> Iterator[str]:
        may_hold = self._planner._build_metrics_evaluator()  # noqa: SLF001 -- as scans do
        for file in changes.files:
            if self._may_be_in_partition(file) and may_hold(file):
                yield file.file_path
        for file in changes.deletes:  # whose statistics are of what they mark rows by
            if self._is_global(file) or self._may_be_in_partition(file):
                yield file.file_path

    def _is_global(self, deletes: DataFile) -> bool:
        equality = deletes.content == DataFileContent.EQUALITY_DELETES
        return equality and self._specs[deletes.spec_id].is_unpartitioned()

    def _may_be_in_partition(self, file: DataFile) -> bool:
        known = self._in_partition.get(file.spec_id)
        if known is None:
            known = self._planner._build_partition_evaluator(file.spec_id)  # noqa: SLF001
            self._in_partition[file.spec_id] = known
        return known(file)
