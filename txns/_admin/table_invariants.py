"""The invariants that one data table shows, held against its metadata and the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from txns._admin.findings import Violation
from txns._iceberg import snapshots
from txns._iceberg.snapshots import REPLACE
from txns._identifier import dotted_name
from txns._log.entry import APPLIED_KINDS, Entry, Kind, derived_id
from txns._log.limits import is_late
from txns._message import said
from txns._table import mark as _mark
from txns._table import outstanding_branch
from txns._table.logged_state import LoggedHistory, effective_ts, logged_state
from txns._table.purge_name import is_apart, name_before
from txns.errors import Conflict, Quarantined, TxnsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from txns._admin.inventory import Surveyed
    from txns._log.change import Change
    from txns._log.head import Head
    from txns._services import Parts


@dataclass(frozen=True)
class LoggedTables:
    """
    What the log says of each table, archive and head together: as far as the checks ask for it.

    Attributes:
        least_ts: By a table's uuid the least `commit_ts` in ms that a snapshot of its carries.
        stamps: Every `commit_ts` in ms that a snapshot of some table carries.
        ids: Every transaction id that one carries.
        of_uuid: Entries of a table above that, ascending.
        by_ts: Entries with such a `commit_ts`.
        committed_ts: Of the ids that snapshots of some table carry the newest entry's, in ms.
        newest: The newest entry of each table that the log names.
        archived_ts: The newest `commit_ts` in ms of what was applied to it and is archived.
    """

    least_ts: dict[str, int]
    stamps: frozenset[int]
    ids: frozenset[str]
    of_uuid: dict[str, list[Entry]] = field(default_factory=dict)
    by_ts: dict[int, Entry] = field(default_factory=dict)
    committed_ts: dict[str, int] = field(default_factory=dict)
    newest: dict[str, Entry] = field(default_factory=dict)
    archived_ts: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(tables: Iterable[TableMetadata | None]) -> LoggedTables:
        """Say what is asked for: what snapshots of these tables carry."""
        present = [metadata for metadata in tables if metadata is not None]
        stamps = {
            str(metadata.table_uuid): {
                ts for each in metadata.snapshots if (ts := _stamp(each)) is not None
            }
            for metadata in present
        }
        carried = (
            snapshots.summary_value(each, _mark.SNAPSHOT_TXN_ID)
            for metadata in present
            for each in metadata.snapshots
        )
        ids = frozenset(each for each in carried if each is not None)
        least_ts = {uuid: min(each) for uuid, each in stamps.items() if each}
        return LoggedTables(least_ts, frozenset().union(*stamps.values()), ids)

    def add(self, entry: Entry, *, archived: bool) -> None:
        """Note the next entry, ascending by `commit_ts`."""
        if entry.commit_ts in self.stamps:
            self.by_ts[entry.commit_ts] = entry
        if entry.txn_id in self.ids:
            self.committed_ts[entry.txn_id] = entry.commit_ts
        for change in entry.changes:
            uuid = change.uuid
            self.newest[uuid] = entry
            if archived and entry.kind in APPLIED_KINDS:
                self.archived_ts[uuid] = entry.commit_ts
            if entry.commit_ts > self.least_ts.get(uuid, entry.commit_ts):
                self.of_uuid.setdefault(uuid, []).append(entry)

    def changes(self, uuid: str, after: int, upto: int) -> list[tuple[Entry, Change]]:
        """Give what has to be applied to a table above one timestamp and not above another."""
        return [
            (entry, change)
            for entry in self.of_uuid.get(uuid, ())
            if entry.kind in APPLIED_KINDS and after < entry.commit_ts <= upto
            for change in entry.changes
            if change.uuid == uuid
        ]


def _stamp(snapshot: Snapshot) -> int | None:
    """Give the `commit_ts` in ms that a snapshot carries; a check says it of one that is none."""
    try:
        return _mark.commit_ts_of(snapshot) if _mark.is_ours(snapshot) else None
    except TxnsError:
        return None


def check_table(
    parts: Parts,
    head: Head,
    each: Surveyed,
    metadata: TableMetadata | None,
    logged: LoggedTables,
) -> list[Violation]:
    """Check one table under care, whose metadata is what the catalog has of it (`stored`)."""
    name = dotted_name(each.identifier)
    found = []
    if each.error is not None:
        found.append(_of_error(name, each.error))
    elif each.loaded and each.loaded.stranger:
        stranger = each.loaded.stranger
        cure = stranger.ended_by(name)
        words = f"{stranger.reason}: {cure}"
        found.append(Violation("stranger", name, words))
    if metadata is None:
        return found  # logged and not created yet, or unreadable
    check = _TableCheck(parts, head, each, logged, metadata)
    problems = [check.lists(), check.snapshots(), check.order(), check.claim()]
    if each.loaded is not None:
        problems.append(check.reads())
    found += [Violation(invariant, name, words) for group in problems for invariant, words in group]
    return found


def stored(parts: Parts, each: Surveyed) -> TableMetadata | None:
    """Give a table's metadata as the catalog has it; None where it has none that can be read."""
    if each.loaded is not None:
        return each.loaded.table.metadata if each.loaded.table else None
    try:
        return parts.catalog.load_table(each.identifier).metadata
    except Exception:  # noqa: BLE001 -- the survey has said why
        return None


def _of_error(name: str, error: Exception | None) -> Violation:
    message = said(error)
    if isinstance(error, Quarantined):
        return Violation("I5", name, message)
    if isinstance(error, TxnsError) and error.sqlstate == "XX001":
        invariant = "I3" if "I3" in message else "I4"
        return Violation(invariant, name, message)
    return Violation("unreadable", name, f"{type(error).__name__}: {message}")


Problem = tuple[str, str]


class _TableCheck:
    """The checks of one table that can be loaded."""

    def __init__(
        self,
        parts: Parts,
        head: Head,
        each: Surveyed,
        logged: LoggedTables,
        metadata: TableMetadata,
    ) -> None:
        self._parts = parts
        self._head = head
        self._name = each.identifier
        self._logged = logged
        self._metadata = metadata
        self._uuid = str(metadata.table_uuid)
        self._history = LoggedHistory(metadata)
        mark = _mark.mark_of(metadata)
        self._mark = mark or _mark.TableMark("", "", 0, _mark.applied_ts(metadata))
        self._main = logged_state(metadata, self._mark).snapshot
        line = self._history.ancestors(self._main)
        self._ours = [each for each in line if _mark.is_ours(each)]
        self._given_up = [
            (above, _mark.commit_ts_of(each))
            for each in self._ours
            if (above := _mark.lost_above(each)) is not None
        ]

    def lists(self) -> Iterator[Problem]:
        """Check I2: no two snapshots share a manifest list, and the lists are there."""
        owners: dict[str, int] = {}
        for snapshot in self._metadata.snapshots:
            if outstanding_branch.is_copy(snapshot):
                continue
            other = owners.setdefault(snapshot.manifest_list, snapshot.snapshot_id)
            if other != snapshot.snapshot_id:
                yield "I2", f"snapshots {other} and {snapshot.snapshot_id} share a manifest list"
        if self._main is not None:
            io = self._parts.tables.io_of(self._metadata)
            if not io.new_input(self._main.manifest_list).exists():
                yield "I2", f"the manifest list of snapshot {self._main.snapshot_id} is gone"

    def snapshots(self) -> Iterator[Problem]:
        """Check I7 and I9: each snapshot of ours, on any branch, carries an entry's stamp."""
        ours = _mark.since_registration(self._metadata)
        footed = {
            snapshots.summary_value(each, _mark.SNAPSHOT_TXN_ID)
            for each in ours
            if snapshots.summary_value(each, _mark.SNAPSHOT_RESTORED) is not None
        }
        for snapshot in ours:
            at = f"snapshot {snapshot.snapshot_id}"
            txn_id = snapshots.summary_value(snapshot, _mark.SNAPSHOT_TXN_ID)
            if txn_id is None:
                yield "I7", f"{at} has no {_mark.SNAPSHOT_TXN_ID}"
                continue
            if txn_id == self._registration_id(snapshot):
                continue  # the mark's snapshot: the exception of 6.2
            commit_ts = _mark.commit_ts_of(snapshot)
            if commit_ts > self._head.upper:
                continue  # committed since the head was loaded
            entry = self._logged.by_ts.get(commit_ts)
            log_ts = self._logged.committed_ts.get(txn_id)
            if log_ts is not None and (entry is None or entry.txn_id != txn_id):
                # A recovery has moved it, since the log has another entry there, or has it at
                # another time (9.6).
                moved = txn_id in footed or log_ts > commit_ts or self._has_given_up(commit_ts)
                if entry or moved:
                    continue
            if entry is None or entry.txn_id != txn_id:
                yield "I9", f"{at} is of {txn_id} at {commit_ts}, which has not committed"
            elif all(change.uuid != self._uuid for change in entry.changes):
                yield "I9", f"{at} is of {txn_id}, which did not write this table"
            if not self._acceptable(snapshot, commit_ts):
                yield "I7", f"{at} is of {snapshot.timestamp_ms}, its commit_ts is {commit_ts}"

    def _has_given_up(self, ts: int) -> bool:
        """Whether nothing is left of what the table was at a `commit_ts` in ms."""
        return any(above < ts < adopted for above, adopted in self._given_up)

    def _registration_id(self, snapshot: Snapshot) -> str:
        return derived_id("register", self._uuid, snapshot.snapshot_id)

    def _acceptable(self, snapshot: Snapshot, commit_ts: int) -> bool:
        """Whether a snapshot's time is its `commit_ts`, or what spec 8.3 makes of it."""
        at_ms = snapshot.timestamp_ms
        if at_ms <= commit_ts:
            return True  # below: the clock of whoever applied it was behind
        others = {
            entry.timestamp_ms
            for entry in self._metadata.snapshot_log
            if entry.snapshot_id != snapshot.snapshot_id
        }
        others.update(entry.timestamp_ms for entry in self._metadata.metadata_log)
        return at_ms - 1 in others or not others

    def order(self) -> Iterator[Problem]:
        """Check I4 and I5: `main` went through every change in order, up to `txns.applied`."""
        ours = self._ours
        for newer, older in pairwise(ours):
            if _mark.marks(self._metadata, newer):
                continue  # below it another log may have cared for the table, or one set back since
            if is_late(_mark.commit_ts_of(older)) and not is_late(_mark.commit_ts_of(newer)):
                continue  # the log's time was taken back
            if _mark.commit_ts_of(older) > _mark.commit_ts_of(newer):
                words = f"snapshot {newer.snapshot_id} of {_mark.commit_ts_of(newer)} stands on"
                words += f" {older.snapshot_id} of {_mark.commit_ts_of(older)}"
                yield "I5", words
        if ours and _mark.commit_ts_of(ours[0]) > self._mark.applied:
            yield (
                "I4",
                f"main shows {_mark.commit_ts_of(ours[0])}, txns.applied is {self._mark.applied}",
            )
        oldest = _mark.commit_ts_of(ours[-1]) if ours else self._mark.applied
        present = {each.snapshot_id for each in ours}
        for entry, change in self._logged.changes(self._uuid, oldest, self._mark.applied):
            if self._has_given_up(entry.commit_ts):
                continue
            if change.to_snapshot_id not in present:
                words = f"the change at {entry.commit_ts} (snapshot {change.to_snapshot_id})"
                yield "I5", f"{words} is not in the history of main"

    def claim(self) -> Iterator[Problem]:
        """Check 6.8: only a dropped table is claimed, and none is left where a purger put it."""
        if _mark.PURGING in self._metadata.properties and not _mark.is_dropped(self._main):
            yield "6.8", f"{_mark.PURGING} is set, and the table is not dropped"
        if is_apart(self._name):
            before = dotted_name(name_before(self._name))
            yield "6.8", f"a purge that died has left {before} here: `txns purge {before}`"

    def reads(self) -> Iterator[Problem]:
        """Check I10 and I11 by reading: each entry of the head, and below all that is left."""
        for entry in self._head.state.entries:
            change = next((c for c in entry.changes if c.uuid == self._uuid), None)
            if change is None or entry.kind not in APPLIED_KINDS or entry.kind is Kind.FORGET:
                continue
            try:
                seen = self._main_at(entry.commit_ts)
            except (Conflict, NoSuchTableError):
                continue  # expired, dropped or of an earlier incarnation: an error, as it must be
            except (TxnsError, ValueError) as error:
                yield "I10", f"it cannot be read at {entry.commit_ts}: {said(error)}"
                continue
            if not self._shows(seen, change):
                words = f"a reader at {entry.commit_ts} sees snapshot {seen}"
                yield "I10", f"{words}, the entry says {change.to_snapshot_id}"
        # The mark's snapshot stands for the upper of its registration, which may lie before the
        # times of the snapshots below it.
        least_ts = min(
            (
                effective_ts(self._history, self._mark, at)
                for at in self._history.ancestors(self._main)
            ),
            default=0,
        )
        if least_ts > 0:
            yield from self._read_below(least_ts)

    def _read_below(self, least_ts: int) -> Iterator[Problem]:
        try:
            seen = self._main_at(least_ts - 1)
        except (TxnsError, NoSuchTableError):
            return
        yield "I11", f"a read below {least_ts}, before all that is left, sees snapshot {seen}"

    def _main_at(self, read_ts: int) -> int | None:
        loaded = self._parts.tables.load(self._name, self._head, read_ts)
        return loaded.metadata.current_snapshot_id

    def _shows(self, seen: int | None, change: Change) -> bool:
        """Whether a snapshot is a change's, or a stranger's compaction of it."""
        at = self._history.get(seen)
        while (
            at and at.snapshot_id != change.to_snapshot_id and snapshots.operation_of(at) == REPLACE
        ):
            at = self._history.parent(at)
        if at and _mark.marks(self._metadata, at):
            # Who set it did not know of a forget that was lost with the log (9.6): what was under
            # care before is read as it was then.
            below = {each.snapshot_id for each in self._history.ancestors(at)}
            return change.to_snapshot_id in below
        return seen == change.to_snapshot_id or (
            at is not None and at.snapshot_id == change.to_snapshot_id
        )
