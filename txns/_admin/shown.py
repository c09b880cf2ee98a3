"""What data tables themselves show of a log: all that is left of one that is lost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation as SnapshotOperation

from txns._admin.inventory import namespaces
from txns._admin.known import by_id
from txns._admin.left_care import mark_before_forget
from txns._admin.line import Line
from txns._iceberg.snapshots import History, operation_of, summary_value
from txns._identifier import dotted_name
from txns._log import storage_time
from txns._log.change import Change, Operation
from txns._log.entry import THIS_ENGINE, Entry, Kind
from txns._log.limits import is_late
from txns._message import said_by
from txns._table import mark as _mark

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from txns._admin.known import Known
    from txns._admin.log_versions import EntryId
    from txns._identifier import Identifier
    from txns._services import Parts

_OPERATIONS = {
    each.value: Operation(each.value)
    for each in (SnapshotOperation.APPEND, SnapshotOperation.DELETE, SnapshotOperation.REPLACE)
}


@dataclass(frozen=True)
class ShownTable:
    """
    A table that is marked by a log of one name.

    Attributes:
        identifier: Its name.
        mark: Which log it means.
        entries: What each entry that it shows has made of it.
        line: What its `main` has gone through.
        moves: Where earlier recoveries have moved what it shows: their footings' `commit_ts` in ms.
        forget: What has taken it from care; None for a table under care.
    """

    identifier: Identifier
    mark: _mark.TableMark
    entries: dict[EntryId, Change]
    line: Line
    moves: dict[EntryId, int]
    forget: EntryId | None = None

    @property
    def name(self) -> str:
        """Its name, for people."""
        return dotted_name(self.identifier)

    @property
    def newest_entry(self) -> EntryId | None:
        """What was applied to it last; None where its snapshot is gone, or a registration's."""
        return next((key for key in self.entries if key[0] == self.mark.applied), None)

    @property
    def newest(self) -> int:
        """The greatest `commit_ts` that it shows, in ms, but for those of the last year of all."""
        shown = (self.mark.applied, *(ts for ts, _ in self.entries))
        return max((ts for ts in shown if not is_late(ts)), default=0)


@dataclass(frozen=True)
class Shown:
    """
    What the tables of a catalog show of a log.

    Attributes:
        tables: Those that a log of this name has marked.
        forgotten: Those that one has marked, and that a forget of it has taken from care.
        unread: Those that cannot be read, and why.
        forgotten_ts: The greatest `commit_ts` in ms at which any was taken from care; not of a
            clock that was fast, which may be another log's.
    """

    tables: list[ShownTable]
    forgotten: list[ShownTable]
    unread: dict[Identifier, str]
    forgotten_ts: int

    @property
    def newest(self) -> int:
        """The greatest `commit_ts` that a table shows, in ms."""
        return max([self.forgotten_ts, *(each.newest for each in (*self.tables, *self.forgotten))])


def shown_tables(parts: Parts) -> Shown:
    """Look at all tables of a catalog."""
    found: list[ShownTable] = []
    forgotten: list[ShownTable] = []
    unread: dict[Identifier, str] = {}
    forgotten_ts, most_ts = 0, parts.clock.now_ms() + storage_time.SKEW_MS_MAX
    names = [
        name for space in namespaces(parts.catalog) for name in parts.catalog.list_tables(space)
    ]
    for name in sorted(set(names) - {parts.log.identifier}):
        try:
            table = parts.catalog.load_table(name)
            metadata, mark = table.metadata, _mark.mark_of(table.metadata)
            if mark is None and forgotten_ts < _mark.applied_ts(metadata) <= most_ts:
                forgotten_ts = _mark.applied_ts(metadata)
            forget = None if mark else mark_before_forget(table)
            mark = mark or forget
            if mark and mark.commit_table == ".".join(parts.log.identifier):
                (forgotten if forget else found).append(_shown(name, metadata, mark, forget))
        except Exception as error:  # noqa: BLE001 -- one table that is broken hides no other
            unread[name] = f"it cannot be read: {said_by(error)}"
    return Shown(found, forgotten, unread, forgotten_ts)


def _shown(
    name: Identifier, metadata: TableMetadata, mark: _mark.TableMark, left: _mark.TableMark | None
) -> ShownTable:
    entries, moves = _entries(name, metadata)
    shown = ShownTable(name, mark, entries, Line.of(metadata, mark), moves)
    forget = shown.newest_entry if left else None
    if forget is None:
        return shown
    changed = replace(entries[forget], operation=Operation.ALTER)
    return replace(shown, entries={**entries, forget: changed}, forget=forget)


def moved(tables: list[ShownTable], known: Known, above: int) -> dict[EntryId, int]:
    """
    Give where entries stand from now on which tables show where the log does not have them.

    The log has others there, or these at another `commit_ts`: of one transaction it has one entry.

    Args:
        tables: What they show.
        known: What the log has at the `commit_ts` of that, and under its ids.
        above: What the new ones are above, in ms.

    Returns:
        By entry, its `commit_ts` in ms in the log: that at which it has it, an earlier recovery has
        moved it to, or other tables show it, newer; else one above all. Those of the last year of
        all go down, whose time was taken back.
    """
    shown = {key for table in tables for key in table.entries}
    shown -= known.tables.keys()
    free = _free(tables, shown, known)
    placed = by_id(free)
    found = {}
    for key in sorted(shown):
        ts, txn_id = key
        # What moves may stand far above; two uses of one id are as far from each other.
        most = (ts + known.id_retention_ms,) if key in free else ()
        stands_at = known.stands_at(key, *most)
        if stands_at is None:
            stands_at = known.same(placed, key, *most)
        if stands_at is None:
            above += 1
            placed.setdefault(txn_id, []).append(above)
            stands_at = above
        if stands_at != ts:
            found[key] = stands_at
    return found


def _free(tables: list[ShownTable], shown: set[EntryId], known: Known) -> set[EntryId]:
    """Give the entries that may stand where tables show them: no log has another one there."""
    before = {key for table in tables for key in table.moves}
    return {
        key
        for key in shown - before
        if key[0] not in known.taken and not is_late(key[0]) and not known.aborted_above(key)
    }


def told_by(tables: list[ShownTable], known: Known, moved_to: dict[EntryId, int]) -> list[Entry]:
    """
    Make entries, for the archive, of what tables show and no log has of them; ascending.

    Of two at one `commit_ts` that of the log stands there, since no archive has both.
    """
    changes: dict[EntryId, list[Change]] = {}
    forgets: set[EntryId] = set()
    for table in tables:
        newest = {txn_id: ts for ts, txn_id in sorted(table.entries)}
        for (ts, txn_id), change in table.entries.items():
            stands = (moved_to.get((ts, txn_id), ts), txn_id)
            uuids = known.tables.get(stands, frozenset())
            if uuids is None or change.uuid in uuids or (stands[0] in known.taken and not uuids):
                continue
            if stands[0] > ts and newest[txn_id] > ts:
                continue  # an earlier recovery has moved it here
            if stands[0] < ts and stands in table.entries:
                continue  # the same, of one that was late
            changes.setdefault(stands, []).append(change)
            forgets.update([stands] if (ts, txn_id) == table.forget else [])
    return [
        Entry(
            Kind.FORGET if (ts, txn_id) in forgets else Kind.COMMIT,
            txn_id,
            upper=ts,
            tidied_upto=0,
            commit_ts=ts,
            read_ts=ts - 1,
            engine=THIS_ENGINE,
            comment="told by its tables alone: a recovery has archived it",
            changes=tuple(of_tables),
        )
        for (ts, txn_id), of_tables in sorted(changes.items())
    ]


def _entries(
    name: Identifier, metadata: TableMetadata
) -> tuple[dict[EntryId, Change], dict[EntryId, int]]:
    """
    Give what entries have made of a table, and where those stand that a recovery has moved.

    A footing that carries one of these stands for what that has made, and not for its own copy.
    """
    history = History(metadata)
    entries: dict[EntryId, Change] = {}
    moves: dict[EntryId, int] = {}
    for at in _mark.since_registration(metadata):
        if _mark.is_passing(at) or _mark.marks(metadata, at):
            continue
        own, is_top = _own(history, at)
        change = _change(name, metadata, history, own)
        if own is not at:
            moves[_entry_id(own)] = max(moves.get(_entry_id(own), 0), _mark.commit_ts_of(at))
            # With what came in between it has more, which is delivered by itself.
            change = replace(change, to_snapshot_id=at.snapshot_id) if is_top else change
        entries[_entry_id(at)] = change
    return entries, moves


def _own(history: History, at: Snapshot) -> tuple[Snapshot, bool]:
    """Give what an entry left, of a footing that it has moved to; and whether that was the top."""
    own, is_top, others = at, True, False
    if summary_value(at, _mark.SNAPSHOT_RESTORED) is None:
        return own, is_top
    for below in history.ancestors(at):
        if not _mark.is_ours(below) or _mark.is_passing(below):
            continue
        if _entry_id(below)[1] == _entry_id(at)[1]:
            own, is_top = below, not others
        else:
            others = True
    return own, is_top


def _entry_id(snapshot: Snapshot) -> EntryId:
    return _mark.commit_ts_of(snapshot), summary_value(snapshot, _mark.SNAPSHOT_TXN_ID) or ""


def _change(
    name: Identifier, metadata: TableMetadata, history: History, snapshot: Snapshot
) -> Change:
    operation = _OPERATIONS.get(operation_of(snapshot) or "", Operation.OVERWRITE)
    first = snapshot
    for at in history.ancestors(snapshot):
        if not _mark.is_ours(at) or _entry_id(at) != _entry_id(snapshot):
            break
        first = at
    return Change(
        table=name,
        uuid=str(metadata.table_uuid),
        operation=Operation.DROP if _mark.is_dropped(snapshot) else operation,
        from_snapshot_id=first.parent_snapshot_id,
        to_snapshot_id=snapshot.snapshot_id,
        added_records=int(summary_value(snapshot, "added-records") or 0),
        deleted_records=int(summary_value(snapshot, "deleted-records") or 0),
    )
