"""
The head: one version of the commit table, and the records that it has.

Docs/spec.md 3 and 4. Of its bytes alone; `commit_log` loads it, and replaces it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from txns._iceberg.manifests import last_sequence_number
from txns._iceberg.snapshots import REPLACE, History, operation_of, summary_value
from txns._log import commit_table, limits, permitted
from txns._log import entry as _entry
from txns._log.state import EMPTY, LogState
from txns.errors import CorruptLog, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from txns._iceberg.locked_rows import LockedRows
    from txns._log.entry import Entry


@dataclass(frozen=True)
class Head:
    """
    One version of the commit table, and what follows from it.

    Attributes:
        table: None where there is no commit table.
        state: What it says.
        snapshot_ids: The commit table's snapshot that an entry is, by its `commit_ts` in ms.
        sizes: What each record counts for (docs/spec.md 4.7), by its snapshot. A record does not
            change, so it is counted once, and not for each head that has it.
        rows: Those that are locked while it is looked at (docs/spec.md 11.3); None where nothing
            keeps others from replacing it.
        beside: Tables as they were when it was loaded, for who reads them as of then; None where
            nobody has asked for any.
    """

    table: Table | None
    state: LogState
    snapshot_ids: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    rows: LockedRows | None = None
    beside: LockedRows | None = None

    @property
    def exists(self) -> bool:
        """Whether there is a commit table."""
        return self.table is not None

    @property
    def upper(self) -> int:
        """The greatest `commit_ts`, in ms."""
        return self.state.upper

    @property
    def metadata(self) -> TableMetadata:
        """The commit table's metadata; it must exist."""
        assert self.table is not None
        return self.table.metadata

    @property
    def uuid(self) -> str:
        """The commit table's uuid; empty where there is none."""
        return str(self.table.metadata.table_uuid) if self.table else ""

    @cached_property
    def record_bytes(self) -> int:
        """What its records count for (docs/spec.md 4.7)."""
        return sum(self.sizes.values())

    def at_work(self) -> None:
        """Say that work goes on, where others wait for the rows of it."""
        if self.rows:
            self.rows.at_work()

    @property
    def _snapshots(self) -> Sequence[Snapshot]:
        return self.table.metadata.snapshots if self.table else ()

    @property
    def log_id(self) -> str:
        """What marks name the log by (`commit_table.log_id`); empty where there is none."""
        return log_id_of(self.table.metadata) if self.table else ""

    @property
    def archive_version(self) -> str | None:
        """What changes with the archive's rows and with nothing else; None without a table."""
        snapshot = self.table.metadata.current_snapshot() if self.table else None
        return snapshot.manifest_list if snapshot else None

    @property
    def sequence_number(self) -> int:
        """The greatest one of the commit table's snapshots: it tells newer from older."""
        return last_sequence_number(self.metadata)

    def is_past(self, other: Head) -> bool:
        """Whether no swap that asserted where `main` of the other one stood can be won any more."""
        return self.sequence_number > other.sequence_number and self.main_id != other.main_id

    def has_other_than(self, snapshot_id: int, *, after: Head) -> bool:
        """
        Whether another snapshot than one that was to follow a head stands in its place.

        Then no version of the table has that one: its swap asserted where `main` stood, and asked
        for the number that the other one has got.
        """
        place = after.sequence_number + 1
        return self.is_past(after) and any(
            each.sequence_number == place and each.snapshot_id != snapshot_id
            for each in self.metadata.snapshots
        )

    @property
    def main_id(self) -> int | None:
        """Where the commit table's `main` stands: what a swap is guarded by."""
        return self.table.metadata.current_snapshot_id if self.table else None

    def check_writable(self) -> None:
        """
        Check that this program may write the log.

        Raises:
            Unsupported: It asks for a writer feature that this program does not know, or its table
                has a property that no commit table has.
        """
        permitted.refuse_steered(self.metadata.properties)
        for snapshot in filter(_has_kind, self._snapshots):
            try:
                _entry.check_writable(summary_value(snapshot, _entry.WRITER_FEATURES))
            except Unsupported as error:  # which one, as in `record_of`
                raise Unsupported(f"{error} snapshot=`{snapshot.snapshot_id}`") from error


NO_HEAD = Head(None, EMPTY)


def head_of(table: Table) -> Head:
    """
    Give the head that a version of a commit table is, whatever has been seen of the log.

    Raises:
        CorruptLog: An invariant does not hold.
        Unsupported: A version or feature that this program does not know.
    """
    return head_and_records(table, {})[0]


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a head, and what it counts for (docs/spec.md 4.7)."""

    entry: Entry
    size: int

    @staticmethod
    def of(snapshot: Snapshot) -> Record:
        """Read it; raises what `record_of` does."""
        return Record(record_of(snapshot), limits.record_bytes(_summary(snapshot)))


def head_and_records(table: Table, known: Mapping[int, Record]) -> tuple[Head, dict[int, Record]]:
    """
    Give the head that a version of a commit table is, and its records by their snapshots' ids.

    Args:
        table: The version.
        known: Records that have been read before, by the same ids: they are not read again.

    Raises:
        CorruptLog: An invariant does not hold.
        Unsupported: A version or feature that this program does not know.
    """
    records = {
        each.snapshot_id: known.get(each.snapshot_id) or Record.of(each)
        for each in table.metadata.snapshots
        if _has_kind(each)
    }
    entries = {snapshot_id: record.entry for snapshot_id, record in records.items()}
    newest = entries[newest_record(table.metadata).snapshot_id]
    ids = {entry.commit_ts: snapshot_id for snapshot_id, entry in entries.items()}
    sizes = {snapshot_id: record.size for snapshot_id, record in records.items()}
    return Head(table, LogState.of(entries, newest), ids, sizes), records


def record_of(snapshot: Snapshot) -> Entry:
    """
    Decode the record that a snapshot of a commit table is.

    Raises:
        CorruptLog: It cannot be read; with the command that goes on without it.
        Unsupported: An unknown format version or reader feature.
    """
    try:
        return _entry.from_summary(_summary(snapshot))
    except CorruptLog as error:
        raise CorruptLog(
            f"{error}; `txns recover --void {snapshot.snapshot_id}` goes on without that record"
        ) from error
    except Unsupported as error:  # which one, since somebody may have forged it
        raise Unsupported(f"{error} snapshot=`{snapshot.snapshot_id}`") from error


def newest_record(metadata: TableMetadata) -> Snapshot:
    """Give the newest record of `main`; a stranger's compaction of the archive is stepped over."""
    _refuse_without_records(metadata)
    history = History(metadata)
    for snapshot in history.ancestors(metadata.current_snapshot()):
        if _has_kind(snapshot):
            return snapshot
        if operation_of(snapshot) != REPLACE:
            raise CorruptLog(
                "somebody wrote to the commit table;"
                f" snapshot=`{snapshot.snapshot_id}` operation=`{operation_of(snapshot)}`"
            )
    raise CorruptLog(f"the commit table has no record on main; uuid=`{metadata.table_uuid}`")


def _refuse_without_records(metadata: TableMetadata) -> None:
    """Refuse what is no commit table, as one that an option names by mistake."""
    if not any(map(_has_kind, metadata.snapshots)):
        raise CorruptLog(
            "the table has no record, so it is no commit table, or no more: look at the option"
            " commit_table, and who has written the table; nothing of it is a log's;"
            f" uuid=`{metadata.table_uuid}` location=`{metadata.location}`"
        )


def log_id_of(metadata: TableMetadata) -> str:
    """Give what marks name the log by: see `commit_table.log_id`."""
    return commit_table.log_id(str(metadata.table_uuid), metadata.properties)


def _has_kind(snapshot: Snapshot) -> bool:
    return summary_value(snapshot, _entry.KIND) is not None


def _summary(snapshot: Snapshot) -> dict[str, str]:
    assert snapshot.summary is not None
    summary = snapshot.summary.additional_properties
    return {key: summary_value(snapshot, key) or "" for key in summary}
