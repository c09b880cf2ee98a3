"""
Makes a log and its tables belong together again, after one was lost or restored from a backup.

Docs/spec.md 9.6. Whatever happens between two of its steps, the next run starts again: until one
comes to its end, everybody is refused who meets a table of another epoch than the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
)

from txns._admin.end_of_time import take_back
from txns._admin.found_log import FoundLog, Standing, at_version, find, standing
from txns._admin.inventory import survey
from txns._admin.log_versions import EPOCH
from txns._admin.shown import shown_tables
from txns._admin.taken_forward import later_versions, take_forward
from txns._admin.void_told import advanced
from txns._commit.tidy import archived
from txns._iceberg import manifests
from txns._log import commit_table
from txns._log.entry import THIS_ENGINE, Entry, Kind
from txns._log.head import head_of
from txns._log.limits import is_late
from txns._log.swap import Outcome
from txns._logger import fields, logger
from txns._message import said
from txns._services import Parts
from txns._stage import change_builder
from txns._stage.staged_table import StagedTable
from txns._table import mark as _marks
from txns._table.logged_state import logged_state
from txns._table.swap import swap
from txns.errors import Conflict, Quarantined, TxnsError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    from txns._admin.log_versions import EntryId
    from txns._admin.shown import Shown, ShownTable
    from txns._admin.taken_forward import LaterVersion
    from txns._clock import Clock
    from txns._config import Config
    from txns._identifier import Identifier

_LOG = logger(__name__)

ATTEMPTS = 5

_READ_AGAIN_MS = 500
"""How long to wait, at most, for a table that cannot be read."""


@dataclass(frozen=True)
class Recovered:
    """
    What a recovery has found, and done.

    Attributes:
        found: What there was of the log.
        begun: The commit table that it has begun with.
        log_id: What marks name the log by since; empty where nothing was written.
        marked: The tables that belong to the log since.
        left: Those that do not, and why.
        broken: Those that lack what the log has, or cannot be read, and why.
        forward: Those that were set back, and stand where the log has them again.
    """

    found: FoundLog
    begun: Standing
    log_id: str = ""
    marked: tuple[Identifier, ...] = ()
    left: dict[Identifier, str] = field(default_factory=dict)
    broken: dict[Identifier, str] = field(default_factory=dict)
    forward: tuple[Identifier, ...] = ()


def recoverable(catalog: Catalog, config: Config, clock: Clock, *, forward: bool) -> Recovered:
    """Say what `recover` would find, and leave; nothing is written. Raises what that does."""
    parts = Parts.of(catalog, config, clock)
    shown = shown_tables(parts)
    begun = standing(parts, shown.tables, forward=forward, dry_run=True)
    head_of(begun.table)  # one that cannot be read is told before all
    found = find(begun.table, shown, forward=forward)
    later = _later_versions(parts, begun, begun.table, found, shown)
    forward_ = tuple(each.table.name() for each in later)
    broken = {name: why for name, why in _set_back(parts, begun).items() if name not in forward_}
    return Recovered(found, begun, left=shown.unread, broken=broken, forward=forward_)


def _set_back(parts: Parts, begun: Standing) -> dict[Identifier, str]:
    """Give the tables that a recovery leaves as they are: they lack what the log has already."""
    if begun.registered:  # nobody can look by a log that the catalog does not have
        return {}
    return {
        each.identifier: each.loaded.stranger.reason
        for each in survey(parts, parts.log.load())
        if each.loaded and each.loaded.stranger
    }


def recover(catalog: Catalog, config: Config, clock: Clock, *, forward: bool = False) -> Recovered:
    """
    Give a log what its tables show, and begin a new epoch of it.

    Args:
        catalog: Of the tables.
        config: Names the commit table.
        clock: For new ids.
        forward: Take back what files of the log show to have been committed, also where no table
            shows anything of it: then the tables are to be restored as well.

    Raises:
        CorruptLog: A record of the log cannot be read: make it void first. Or it is lost, and
            nothing tells how much of it.
        Conflict: Somebody writes the log all the time: stop who does.
        Unsupported: The log's files cannot be listed.
    """
    parts = Parts.of(catalog, config, clock)
    by_tables = shown_tables(parts)
    forwarded = _forwarded_before(parts, by_tables, forward=forward)
    if forwarded:
        by_tables = shown_tables(parts)
    begun, left = (
        standing(parts, by_tables.tables, forward=forward, dry_run=False),
        by_tables.unread,
    )
    table = take_back(parts, begun.table, by_tables)
    before = find(table, by_tables, forward=forward)  # one that cannot be read is told before all
    later = _later_versions(parts, begun, table, before, by_tables)
    forwarded += _took_forward(parts, later)
    if later:
        by_tables = shown_tables(parts)
        before = find(table, by_tables, forward=forward, before=before)
    log_id = f"{table.metadata.table_uuid}-{clock.new_uuid()[:8]}"
    marked = []
    free = _free(parts, before)
    for shown in by_tables.tables:
        try:
            _mark(parts, shown, log_id, before, free)
        except Unsupported as error:
            by_spark = f"CALL system.repair(table => '{shown.name}', action => 'recover')"
            left[shown.identifier] = f"{error}; in Spark: {by_spark}"
        except Exception as error:  # noqa: BLE001 -- one table that is broken keeps no other
            _LOG.warning(
                "the table does not belong to the log yet",
                exc_info=True,
                extra=fields(table=shown.identifier),
            )
            left[shown.identifier] = said(error)
        else:
            marked.append(shown.identifier)
    found = _begin_epoch(parts, log_id, before, set(marked), set(left), forward=forward)
    broken = _settled(Parts.of(catalog, config, clock))
    return Recovered(found, begun, log_id, tuple(marked), left, broken, tuple(sorted(forwarded)))


def _later_versions(
    parts: Parts, begun: Standing, table: Table, found: FoundLog, by_tables: Shown
) -> list[LaterVersion]:
    """
    Find the versions of tables that a log has gone on from which is taken forward.

    A table that was set back by itself may have been so on purpose: its owner says.
    """
    if begun.registered is None and found.target is table.metadata:
        return []
    return later_versions(parts.catalog, at_version(table, found.target), by_tables.tables)


def _forwarded_before(parts: Parts, by_tables: Shown, *, forward: bool) -> list[Identifier]:
    """
    Take tables forward for a log that is to be registered, before it is.

    Whoever dies once it is has left a log that nobody has lost, by which a table may stay behind.
    """
    try:
        planned = standing(parts, by_tables.tables, forward=forward, dry_run=True)
        if planned.registered is None:
            return []
        found = find(planned.table, by_tables, forward=forward)
        later = _later_versions(parts, planned, planned.table, found, by_tables)
    except TxnsError:  # who registers the log, or creates one, tells what is wrong with it
        _LOG.debug("no table goes forward before the log is registered", exc_info=True)
        return []
    return _took_forward(parts, later)


def _took_forward(parts: Parts, versions: Iterable[LaterVersion]) -> list[Identifier]:
    """Take tables forward; give those that are. Of others it is told what they lack."""
    forwarded = []
    for version in versions:
        name = version.table.name()
        try:
            take_forward(parts.catalog, version, parts.clock)
        except Exception:  # noqa: BLE001 -- one table that is broken keeps no other
            _LOG.warning(
                "the table does not go forward with the log",
                exc_info=True,
                extra=fields(table=name),
            )
        else:
            forwarded.append(name)
    return forwarded


def _free(parts: Parts, found: FoundLog) -> EntryId:
    """Give what tells an entry from all others that is to stand above all of them."""
    return found.upper + 1, parts.clock.new_txn_id()


def _mark(parts: Parts, shown: ShownTable, log_id: str, found: FoundLog, free: EntryId) -> None:
    """
    Mark a table with the epoch, and put a snapshot on its `main`.

    Whoever has begun to apply something to it stands on what it was, and has lost. Where the log
    has another entry at the `commit_ts` of one that the table shows, that snapshot stands for the
    last of these, at its new `commit_ts`, which is above all. Where it has entries that the table
    is passed over by, the snapshot gives them up: it stands for one of which the table is the first
    to tell, if for none that moves.

    Args:
        parts: The lake's.
        shown: The table.
        log_id: Of the epoch.
        found: What there is of the log.
        free: The entry that gives up.
    """
    table = parts.catalog.load_table(shown.identifier)
    manifests.check_writable(table.metadata, shown.name)
    staged = StagedTable(shown.identifier, table.io, table.metadata)
    marks, stamp = {commit_table.LOG_ID: log_id}, {}
    moved_to, lost_ts = found.moved_to(shown), found.passed_over_ts(shown)
    if shown.mark.applied == _marks.applied_ts(table.metadata):
        if moved_to or lost_ts is not None:
            stamp = _stamp(shown, table.metadata, moved_to or free)
        given_up = [ts for ts in (lost_ts, _late_from(shown, found)) if ts is not None]
        if stamp and given_up:
            stamp[_marks.SNAPSHOT_LOST_ABOVE] = str(min(given_up) - 1)
    if stamp:
        marks[_marks.APPLIED] = stamp[_marks.SNAPSHOT_COMMIT_TS]
    elif is_late(shown.mark.applied):  # a registration's, or its snapshot is gone
        marks[_marks.APPLIED] = str(found.upper)
    if is_late(shown.mark.created):
        marks[_marks.CREATED] = marks.get(_marks.APPLIED, str(found.upper))
    _, here, footing = change_builder.put_footing(staged, parts.clock, stamp)
    updates = (SetPropertiesUpdate(updates=marks), *footing)
    swap(parts.catalog, table, here, updates, parts.clock)


def _late_from(shown: ShownTable, found: FoundLog) -> int | None:
    """Give the first of several late changes of a table, in ms: no snapshot has what is between."""
    late = [ts for key, ts in found.moved.items() if key in shown.entries and is_late(key[0])]
    return min(late) if len(late) > 1 else None


def _stamp(shown: ShownTable, metadata: TableMetadata, entry: EntryId) -> dict[str, str]:
    """
    Give what a snapshot carries that stands for an entry, with what the table shows.

    Raises:
        Quarantined: The table has something else, too, which would become the log's with it.
    """
    state = logged_state(metadata, shown.mark)
    if state.stranger or state.snapshot is None:
        at = state.snapshot.snapshot_id if state.snapshot else "gone"
        raise Quarantined(
            shown.identifier,
            "the log has another transaction in the place of one that the table shows, and somebody"
            f" wrote it outside the protocol since; last=`{at}`",
            "roll `main` back to that snapshot with plain Iceberg, keeping what was written on a"
            " branch, and run `txns recover` again",
        )
    commit_ts, txn_id = entry
    stamp = {_marks.SNAPSHOT_COMMIT_TS: str(commit_ts), _marks.SNAPSHOT_TXN_ID: txn_id}
    dropped = {_marks.SNAPSHOT_DROPPED: "true"} if _marks.is_dropped(state.snapshot) else {}
    return stamp | dropped


def _begin_epoch(
    parts: Parts,
    log_id: str,
    before: FoundLog,
    marked: set[Identifier],
    left: set[Identifier],
    *,
    forward: bool,
) -> FoundLog:
    """Swap the log for what it is to be; it is judged anew before each attempt."""
    found, passed_over = before, {one.commit_ts: one for one in before.passed_over}
    for _ in range(ATTEMPTS):
        # What was applied until the tables were marked is seen now, and no more is applied.
        by_tables = _shown_again(parts, left)
        table = parts.catalog.load_table(parts.log.identifier)
        found = find(table, by_tables, forward=forward, before=found)
        passed_over |= {one.commit_ts: one for one in found.passed_over}
        behind = [
            each
            for each in by_tables.tables
            if each.identifier in marked
            if found.moved_to(each) or found.passed_over_ts(each) is not None
        ]
        free = _free(parts, found)
        for each in behind:  # somebody has committed since they were marked
            _mark(parts, each, log_id, found, free)
        if not behind and _swapped(parts, table, found, log_id):
            return replace(found, passed_over=[one for _, one in sorted(passed_over.items())])
    raise Conflict(
        "others write the log all the time, so the tables do not belong to it yet: stop what writes"
        " the lake, and run this again",
        table=parts.log.identifier,
        least_ts=found.upper,
    )


def _shown_again(parts: Parts, left: set[Identifier]) -> Shown:
    """
    Look at all tables once more, and again where one cannot be read that is not left.

    Without what that one shows the log would begin its epoch below it, and lack it.
    """
    for _ in range(ATTEMPTS):
        by_tables = shown_tables(parts)
        unread = sorted(by_tables.unread.keys() - left)
        if not unread:
            return by_tables
        parts.clock.back_off(_READ_AGAIN_MS)
    raise Conflict(
        f"the tables do not belong to the log yet, since {by_tables.unread[unread[0]]}: run this"
        " again",
        table=unread[0],
    )


def _swapped(parts: Parts, table: Table, found: FoundLog, log_id: str) -> bool:
    state = head_of(at_version(table, found.target)).state
    entries = list(found.told_by_tables)
    if found.upper > max([state.upper, *(one.commit_ts for one in entries)]):
        entries.append(advanced(parts, state.upper, found.upper))
    # Above tidied-upto a head is complete, which nobody knows of one that was set back.
    moved = bool(entries)
    record = Entry(
        Kind.TIDY,
        parts.clock.new_txn_id(),
        upper=found.upper,
        tidied_upto=found.upper if moved else state.tidied_upto,
        engine=THIS_ENGINE,
    )
    number = manifests.last_sequence_number(found.target) + EPOCH
    onto = found.target.model_copy(update={"last_sequence_number": number})
    snapshot, added = archived(at_version(table, onto), entries, record)
    updates: list[TableUpdate] = [
        SetPropertiesUpdate(updates={commit_table.LOG_ID: log_id}),
        *_taken_over(table.metadata, found.target),
        *added,
    ]
    kept = {each.snapshot_id for each in found.target.snapshots}
    gone = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id not in kept]
    if gone:
        updates.append(RemoveSnapshotsUpdate(snapshot_ids=gone))
    won = parts.log.replace(head_of(table), updates)
    if won.outcome is Outcome.WON:
        return True
    newest = parts.catalog.load_table(parts.log.identifier).metadata
    return newest.snapshot_by_id(snapshot.snapshot_id) is not None


def _taken_over(base: TableMetadata, target: TableMetadata) -> list[TableUpdate]:
    """Give what adds to a version the snapshots that a later one has, in their order."""
    known = {each.snapshot_id for each in base.snapshots}
    missing = [each for each in target.snapshots if each.snapshot_id not in known]
    missing.sort(key=lambda each: each.sequence_number or 0)
    return [AddSnapshotUpdate(snapshot=each) for each in missing]


def _settled(parts: Parts) -> dict[Identifier, str]:
    """Apply what the log has; give the tables that lack something, and why."""
    head = parts.log.load()
    names = {head.state.name_of(change) for entry in head.state.entries for change in entry.carried}
    parts.applier.apply_all(head, sorted(names))
    broken = {}
    for each in survey(parts, parts.log.load()):
        if each.error is not None:
            broken[each.identifier] = said(each.error)
        elif each.loaded and each.loaded.stranger:
            broken[each.identifier] = each.loaded.stranger.reason
    return broken
