"""
Takes a record out of a log that nobody can read with it.

Docs/spec.md 9.6. What can be told of it goes to the archive: so its id counts, and its tables are
in quarantine, as set back, until somebody adopts them as they are. Everything else goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    RemoveSnapshotsUpdate,
    update_table_metadata,
)

from txns._admin.found_log import at_version
from txns._admin.void_told import advanced, records_of, stranded, texts_of, told_of
from txns._commit import manifest_lists
from txns._commit.tidy import archived
from txns._iceberg.snapshots import summary_value
from txns._log import entry as _entry
from txns._log import permitted
from txns._log.archive_scan import ArchiveScan
from txns._log.entry import THIS_ENGINE, Entry, Kind, LoggedChange
from txns._log.head import head_of, record_of
from txns._log.state import LogState
from txns._table import replay
from txns._table.mark import applied_ts
from txns.errors import Conflict, CorruptLog, InvalidUsage, TxnsError, Unsupported

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from txns._log.head import Head
    from txns._services import Parts

ATTEMPTS = 5


@dataclass(frozen=True)
class Voided:
    """
    A record that was taken out of the log.

    Attributes:
        snapshot_id: Of the commit table, which it was.
        told: What could be told of it, as an entry of the archive; None for nothing.
        upper: Of the log since, in ms: not below that of the record, at which somebody may read.
        unread: The snapshots of further records that cannot be read, which are to be made void
            next.
        stranded: What stands in the log since for tables that nobody makes any more, as of one
            whose creation is void; these entries are to be made void as well.
    """

    snapshot_id: int
    told: Entry | None
    upper: int
    unread: tuple[int, ...] = ()
    stranded: tuple[LoggedChange, ...] = ()


def void(parts: Parts, number: int) -> Voided:
    """
    Take a record out of the log that keeps somebody from reading.

    Args:
        parts: Which have loaded no head: it cannot be read.
        number: The record's snapshot id, or its `commit_ts` in ms.

    Raises:
        InvalidUsage: 42704, the log has no such record; 22023, nobody is kept by it, or several
            have that number.
        CorruptLog: The log cannot be read without it either, of records that can each be read.
        Unsupported: The commit table names code, or deletes files by itself; or a record asks for
            what this program does not know.
        Conflict: Others write the log all the time.
    """
    table = parts.catalog.load_table(parts.log.identifier)
    bad = _record(table.metadata, number)
    for each in records_of(table):
        _refuse_newer(each, "; where somebody has forged it, add --sound" if each is bad else "")
    if _is_sound(parts, table, bad):
        raise InvalidUsage("22023", _keeps_nobody(table, bad))
    return void_sound(parts, bad.snapshot_id)


def _refuse_newer(record: Snapshot, cure: str = "") -> None:
    """Refuse to write a log of a newer program, to which the record may be sound."""
    try:
        record_of(record)
        _entry.check_writable(texts_of(record).get(_entry.WRITER_FEATURES))
    except Unsupported as error:
        raise Unsupported(f"{error}{cure}") from error
    except CorruptLog:
        return


def _is_newer(record: Snapshot) -> bool:
    try:
        _refuse_newer(record)
    except Unsupported:
        return True
    return False


def _keeps_nobody(table: Table, record: Snapshot) -> str:
    """Say why a record is not taken out, and which ones it is that cannot be read."""
    which = f"snapshot=`{record.snapshot_id}` {_name_of(record)}"
    if others := _unread(table):
        names = ", ".join(f"`txns recover --void {each.snapshot_id}`" for each in others)
        return f"the record can be read: that is not the one, look at the number: {names}; {which}"
    return (
        "the record can be read, and so can its tables: what it did would be gone, though it was"
        f" acknowledged; where that is meant, add --sound; {which}"
    )


def _name_of(record: Snapshot) -> str:
    ts, txn_id = (summary_value(record, key) for key in (_entry.COMMIT_TS, _entry.TXN_ID))
    return f"commit_ts=`{ts}` txn=`{txn_id}`"


def void_sound(parts: Parts, number: int) -> Voided:
    """
    Take a record out of the log, also one that keeps nobody; see `void`.

    One that asks for what this program does not know, too; but no other one of such a log.
    """
    for _ in range(ATTEMPTS):
        table = parts.catalog.load_table(parts.log.identifier)
        bad = _record(table.metadata, number)
        if not _is_newer(bad):
            for each in records_of(table):
                _refuse_newer(each)
        told = told_of(parts, table, bad)
        try:
            told, upper = _swap(parts, table, bad, told)
        except CommitFailedException:
            continue
        unread = tuple(each.snapshot_id for each in _unread(table) if each is not bad)
        left = () if unread else tuple(stranded(parts, parts.log.load().state))
        return Voided(bad.snapshot_id, told, upper, unread, left)
    raise Conflict(
        "others write the log all the time: try again", table=parts.log.identifier, least_ts=0
    )


def _record(metadata: TableMetadata, number: int) -> Snapshot:
    """Give the record of a number: a forger gives his the one of a sound record, too."""
    found = [
        each
        for each in metadata.snapshots
        if summary_value(each, _entry.KIND) is not None
        and (number == each.snapshot_id or summary_value(each, _entry.COMMIT_TS) == str(number))
    ]
    if len(found) == 1:
        return found[0]
    if found:
        same = ", ".join(f"{each.snapshot_id} ({_name_of(each)})" for each in found)
        raise InvalidUsage(
            "22023",
            "several records have that number: look which one is to go, and name it by a number"
            f" that is its own alone, of these snapshots: {same}; void=`{number}`",
        )
    raise InvalidUsage(
        "42704",
        "the log has no such record: name its snapshot of the commit table, or its commit_ts;"
        f" void=`{number}`",
    )


def _is_sound(parts: Parts, table: Table, record: Snapshot) -> bool:
    """
    Whether the log can be read with a record, and its tables, and is carried out by us.

    Where others cannot be read it is sound if it can be, and fits those that can: what it is to
    its tables tells a log without the others.
    """
    try:
        entry = record_of(record)
        if others := _unread(table):
            _check_fits(parts, table, others)
            return True
        head = head_of(table)
        return not any(
            _is_in_the_way(parts, head, LoggedChange(entry, each)) for each in entry.changes
        )
    except (TxnsError, NoSuchNamespaceError, NoSuchTableError):
        return False


def _check_fits(parts: Parts, table: Table, without: list[Snapshot]) -> None:
    """Check that records contradict no other one, some of them left out (CorruptLog)."""
    left = [each for each in records_of(table) if each not in without]
    records = {each.snapshot_id: record_of(each) for each in left}
    LogState.of(records, _tidied(parts, list(records.values()), 0, 0, None))


def _is_in_the_way(parts: Parts, head: Head, logged: LoggedChange) -> bool:
    name = head.state.name_of(logged.change)
    if name == parts.log.identifier:
        return True
    loaded = parts.tables.load_with_dropped(name, head, head.upper)
    if loaded.stranger and loaded.stranger.cure:
        return True
    base = loaded.table.metadata if loaded.table else None
    if logged.change not in logged.entry.carried or (base and applied_ts(base) >= logged.commit_ts):
        return False
    request = parts.log.request(logged)
    if parts.places.forbidden(name, base, request.updates) is not None:
        return True
    if base is None and not replay.creates(request):
        return False
    if loaded.table:
        io = loaded.table.io
    else:
        io = parts.tables.io_of(replay.create(logged, request, parts.clock.now_ms()))
    return manifest_lists.first_missing(io, request) is not None


def _swap(
    parts: Parts, table: Table, bad: Snapshot, told: Entry | None
) -> tuple[Entry | None, int]:
    """
    Replace the head by one without the record; it is read before it is sent.

    Gives what is archived of the record, and the head's upper.

    But where other records cannot be read either, which are to be made void next.
    """
    permitted.refuse_steered(table.metadata.properties)
    without = at_version(table, _without(table, bad))
    read = [record_of(each) for each in records_of(without) if _can_be_read(each)]
    archived_upto = _archived_upto(without)
    record = _tidied(parts, read, archived_upto, _upper_of(bad), told)
    if told and told.commit_ts > record.tidied_upto:
        told = None  # a time at which the log has no place: above that the head has all there is
    rows = [told] if told else []
    if record.tidied_upto not in {archived_upto, *(each.commit_ts for each in (*read, *rows))}:
        rows.append(advanced(parts, record.tidied_upto - 1, record.tidied_upto))
    snapshot, updates = archived(without, rows, record)
    updates.append(RemoveSnapshotsUpdate(snapshot_ids=[bad.snapshot_id]))
    if all(map(_can_be_read, records_of(without))):
        head_of(at_version(table, update_table_metadata(table.metadata, tuple(updates))))
    here = (
        permitted.AssertNotSteered(uuid=table.metadata.table_uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=table.metadata.current_snapshot_id),
    )
    try:
        parts.catalog.commit_table(table, here, tuple(updates))
    except CommitFailedException:
        raise
    except Exception:
        newest = parts.catalog.load_table(parts.log.identifier).metadata
        if newest.snapshot_by_id(snapshot.snapshot_id) is None:
            raise
    return told, record.upper


def _without(table: Table, bad: Snapshot) -> TableMetadata:
    """
    Give the log's metadata without a record: what has its archive is `main` there.

    That is the newest other record; but a tidy, which has no `commit_ts`, has written an archive
    that no record before it has.
    """
    metadata = table.metadata
    left = [each for each in metadata.snapshots if each.snapshot_id != bad.snapshot_id]
    records = [each for each in left if summary_value(each, _entry.KIND) is not None]
    newest = max(records, key=lambda each: each.sequence_number or 0, default=bad)
    was_main = metadata.current_snapshot_id == bad.snapshot_id
    if was_main and summary_value(bad, _entry.COMMIT_TS) is None:
        newest = bad.model_copy(update={"summary": None})  # a record no more
        left.append(newest)
    elif not records:
        raise CorruptLog(
            "the log has no other record: it is lost; take it out of the catalog without purging"
            " its files, and run `txns recover`"
        )
    main = metadata.refs[MAIN_BRANCH].model_copy(update={"snapshot_id": newest.snapshot_id})
    return metadata.model_copy(
        update={
            "snapshots": left,
            "current_snapshot_id": newest.snapshot_id,
            "refs": {**metadata.refs, MAIN_BRANCH: main},
        }
    )


def _upper_of(bad: Snapshot) -> int:
    """Give the upper in ms that a record has made, at which others may read: 0 for none."""
    try:
        return record_of(bad).upper
    except (CorruptLog, Unsupported):
        return 0


def _tidied(
    parts: Parts, records: list[Entry], archived_upto: int, upper: int, told: Entry | None
) -> Entry:
    """
    Give the record that follows: the void one has left the head, as entries do that are archived.

    The entry after it chains to it: at and below that the head need not be complete. Nor is it
    where the archive has more.
    Others that cannot be read say nothing: an entry that chains to one of them tells where it was.

    Args:
        parts: The clock's.
        records: Those of the commit table without the void one that can be read, in their order.
        archived_upto: The greatest `commit_ts` in ms that the archive has.
        upper: That of the void record, in ms.
        told: What can be told of it.
    """
    tidied = max(archived_upto, records[-1].tidied_upto if records else 0)
    entries = [each for each in records if each.kind is not Kind.TIDY]
    previous = tidied
    for each in sorted(entries, key=lambda one: one.commit_ts):
        if each.commit_ts > tidied and each.prev_ts != previous:
            tidied = each.prev_ts
        previous = each.commit_ts
    standing = max([tidied, *(each.commit_ts for each in entries)])
    said = (upper, told.commit_ts if told else 0)
    last = max([standing, *(each.upper for each in records[-1:]), *said])
    if last > standing:
        tidied = last  # the void one was the newest
    return Entry(
        Kind.TIDY,
        parts.clock.new_txn_id(),
        upper=last,
        tidied_upto=tidied,
        engine=THIS_ENGINE,
    )


def _can_be_read(record: Snapshot) -> bool:
    try:
        record_of(record)
    except (CorruptLog, Unsupported):
        return False
    return True


def _unread(table: Table) -> list[Snapshot]:
    return [each for each in records_of(table) if not _can_be_read(each)]


def _archived_upto(table: Table) -> int:
    """Give the greatest `commit_ts` in ms that an archive has."""
    newest = next(ArchiveScan(table).newest_first(("commit_ts",)), None)
    return newest["commit_ts"][-1].as_py() if newest else 0
