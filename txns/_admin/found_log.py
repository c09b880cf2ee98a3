"""
Finds what there is of a log: in the catalog, in files that storage has, and in what tables show.

Docs/spec.md 9.6.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from txns._admin.known import Known
from txns._admin.listing import listed
from txns._admin.log_versions import Versions, entries_of
from txns._admin.passed_over import passed_over
from txns._admin.shown import moved, told_by
from txns._iceberg.manifests import last_sequence_number
from txns._iceberg.new_table import plan
from txns._identifier import dotted_name
from txns._log import archive, commit_table
from txns._log.archive_scan import ArchiveScan
from txns._log.entry import Kind
from txns._log.head import head_of
from txns._log.limits import is_late
from txns.errors import CorruptLog, InvalidUsage

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

    from txns._admin.log_versions import EntryId, Version
    from txns._admin.shown import Shown, ShownTable
    from txns._log.entry import Entry
    from txns._services import Parts

_UUID_DIGITS = 36


@dataclass(frozen=True)
class FoundLog:
    """
    What there is of a log, and what it is to be.

    Attributes:
        target: Its newest version that is to stand: the catalog's, or a later one that storage has.
        upper: What its upper is to be, in ms: not below what any table shows.
        taken_back: Entries that the catalog's log lacks, and `target` has.
        told_by_tables: Those that only tables tell of. Whether they wrote other tables, too, nobody
            knows.
        gone: Entries that files of the log show to have been committed, and that no table shows:
            with the log, the tables were set back, too.
        unknown: Entries of which nobody can tell whether they have committed.
        versions: What storage has of it.
        moved: To which `commit_ts` in ms entries move that tables show where the log has others, or
            that it has at others: also down, then.
        passed_over: Entries of `target` with the tables that lack them, and have gone on without.
    """

    target: TableMetadata
    upper: int
    taken_back: list[Entry]
    told_by_tables: list[Entry]
    gone: list[Entry]
    unknown: list[Entry]
    versions: Versions
    moved: dict[EntryId, int]
    passed_over: list[Entry]

    def moved_to(self, table: ShownTable) -> EntryId | None:
        """
        Give where the last one stands of what moves that a table shows.

        None for nothing, or where the table shows it there, since an earlier recovery. What is late
        moves back.
        """
        shown = ((ts, key[1]) for key, ts in self.moved.items() if key in table.entries)
        above = -1 if is_late(table.mark.applied) else table.mark.applied
        return max((each for each in shown if each[0] > above), default=None)

    def passed_over_ts(self, table: ShownTable) -> int | None:
        """
        Give the least `commit_ts` in ms of what a table is passed over in; None for nothing.

        Also of what it shows above where the log has that: from there on it lacks it.
        """
        over = [
            entry.commit_ts
            for entry in self.passed_over
            if any(change.uuid == table.line.uuid for change in entry.changes)
        ]
        down = (
            ts
            for key, ts in self.moved.items()
            if key in table.entries and ts < key[0] and not is_late(key[0])
        )
        return min([*over, *(ts for ts in down if not table.line.has_given_up(ts))], default=None)


def find(
    table: Table, by_tables: Shown, *, forward: bool, before: FoundLog | None = None
) -> FoundLog:
    """
    Hold a log and its tables against each other.

    Args:
        table: The commit table, as the catalog has it.
        by_tables: What its tables show.
        forward: Whether a later version is to stand of which no table shows anything.
        before: What was found before, whose files need not be read again.

    Raises:
        CorruptLog: A record cannot be read.
    """
    tables = [*by_tables.tables, *by_tables.forgotten]
    shown = {each for one in tables for each in one.entries}
    files = [each.path for each in listed(table.io, table.metadata.location)]
    known_versions = before.versions if before else None
    versions = Versions.of(table.io, files, str(table.metadata.table_uuid), known_versions)
    above, leaves = versions.committed_above(table.metadata_location, shown)
    beyond = versions.beyond_gap(above[-1].sequence_number if above else _number(table), shown)
    known = _entries_of(table, shown, gone=bool(above or leaves or beyond))
    if known is None and not above and (tidied := versions.tidied(leaves)):
        above, leaves = [tidied], []
    lacking = known is None or not all(known.has(each) for each in shown)
    if beyond:
        above, leaves = [beyond], versions.standing_on(beyond)
        more = _between(table, versions.metadata(beyond))
    else:
        more = _brought_in_by(versions, above)
    if above and (forward or lacking):
        target = versions.metadata(above[-1])
        has = _entries_of(at_version(table, target), shown, gone=False)
    else:
        target, has = table.metadata, known
    upper = max(head_of(at_version(table, target)).upper, by_tables.newest)
    moved_to = moved(tables, has or Known(), upper)
    told = told_by(tables, has or Known(), moved_to)
    taken = target is not table.metadata
    path = above[-1].path if taken else table.metadata_location
    left, unsure = _left_behind(at_version(table, target), versions, path, shown)
    return FoundLog(
        target,
        max([upper, *moved_to.values()]),
        taken_back=more if taken else [],
        told_by_tables=told,
        gone=_united(left, [] if taken else more),
        unknown=_united(unsure, _brought_in_by(versions, leaves)),
        versions=versions,
        moved=moved_to,
        passed_over=passed_over(by_tables.tables, at_version(table, target), moved_to),
    )


def _number(table: Table) -> int:
    return last_sequence_number(table.metadata)


def _between(table: Table, later: TableMetadata) -> list[Entry]:
    """Give the entries that a later version has more, in its head and archive; ascending."""
    upper = head_of(table).upper
    scan = ArchiveScan(at_version(table, later), least_ts=upper + 1)
    rows = (window.to_pylist() for window in scan.oldest_first())
    archived = [entry for window in rows for entry in archive.entries_of(window)]
    entries = [*archived, *(one for one in entries_of(later) if one.commit_ts > upper)]
    return sorted(entries, key=lambda one: one.commit_ts)


def _entries_of(table: Table, shown: set[EntryId], *, gone: bool) -> Known | None:
    """
    Give which entries a version has: of its archive those at a shown `commit_ts`, or of a shown id.

    None where files of the archive are gone, as they may be of a version that was tidied since.
    """
    known: dict[EntryId, frozenset[str] | None] = {}
    state, aborts = head_of(table).state, set()
    wanted = pa.array(sorted({0 if is_late(ts) else ts for ts, _ in shown}), pa.int64())
    ids = pa.array(sorted({txn_id for _, txn_id in shown}), pa.string())
    oldest_ts = wanted[0].as_py() if shown else 0
    # It may have one of the ids before all that is shown.
    scan = ArchiveScan(table, least_ts=max(0, oldest_ts - state.settings.id_retention_ms))
    try:
        for window in scan.oldest_first(("commit_ts", "txn_id", "kind", "table_uuid")):
            named = pc.is_in(window["txn_id"].cast(pa.string()), ids)
            rows = window.filter(pc.or_(pc.is_in(window["commit_ts"], wanted), named))
            for ts, txn_id, kind, uuid in zip(*rows.to_pydict().values(), strict=True):
                known[ts, txn_id] = (known.get((ts, txn_id)) or frozenset()) | {uuid}
                aborts.update([(ts, txn_id)] if kind == Kind.ABORT.value else [])
    except FileNotFoundError:
        if gone:
            return None
        raise
    known |= {(one.commit_ts, one.txn_id): None for one in state.entries}
    aborts |= {(one.commit_ts, one.txn_id) for one in state.entries if one.is_abort}
    return Known(known, frozenset(aborts), state.settings.id_retention_ms)


def _left_behind(
    table: Table, versions: Versions, path: str, shown: set[EntryId]
) -> tuple[list[Entry], list[Entry]]:
    """
    Give what a log has left behind that was set back and has gone on: gone, and unknown.

    What a table shows is told by that, and what has the id of an entry of the log is that one's
    other try.

    Args:
        table: As the version is that is to stand.
        versions: What storage has.
        path: Of that version.
        shown: What tables show.
    """
    chains = versions.left_behind(path, shown)
    asked = {key for chain in chains for one in chain for key in versions.more_than_before(one)}
    if not asked - shown:
        return [], []
    known = _entries_of(table, asked, gone=True)
    if known is None:  # the version that is to stand has files that are gone: its head tells
        standing = head_of(table).state.entries
        known = Known({(one.commit_ts, one.txn_id): None for one in standing})
    ids = {txn_id for _, txn_id in (*known.tables, *shown)}
    left, unsure = (
        [one for one in _brought_in_by(versions, chain) if one.txn_id not in ids]
        for chain in chains
    )
    return left, unsure


def _united(some: list[Entry], others: list[Entry]) -> list[Entry]:
    """Give entries of two kinds, ascending, each once."""
    by_key = {(one.commit_ts, one.txn_id): one for one in (*some, *others)}
    return [by_key[key] for key in sorted(by_key)]


def _brought_in_by(versions: Versions, chain: list[Version]) -> list[Entry]:
    """Give the entries that versions have more than those that they stand on, ascending."""
    wanted = {each for one in chain for each in versions.more_than_before(one)}
    entries: dict[int, Entry] = {}
    for version in reversed(chain):  # a later one still has most of those before
        if wanted & set(version.entries):
            for one in entries_of(versions.metadata(version)):
                if (one.commit_ts, one.txn_id) in wanted:
                    entries[one.commit_ts] = one
            wanted -= set(version.entries)
    return [entries[ts] for ts in sorted(entries)]


@dataclass(frozen=True)
class Standing:
    """
    The commit table that a recovery begins with.

    Attributes:
        table: It.
        registered: The version that was registered, or in a dry run would be, where the catalog had
            none that can be read.
        missing: The metadata file that the catalog named, and that is gone; empty for none.
    """

    table: Table
    registered: Version | None = None
    missing: str = ""


def standing(parts: Parts, tables: list[ShownTable], *, forward: bool, dry_run: bool) -> Standing:
    """
    Give the commit table that the tables' marks name, if it can be had; else one that is new.

    Where the catalog has lost it, or the file that it names, a version that storage has is
    registered again. One that somebody has created in its place meanwhile makes way, as long as
    nothing was committed to it.

    Raises:
        CorruptLog: It is lost, and a file that the catalog names as well; or a dry run has no
            version of it.
        InvalidUsage: 55000, nothing says that there was one.
    """
    catalog, identifier = parts.catalog, parts.log.identifier
    table, missing = _load(parts)
    uuids = [each.mark.log_id[:_UUID_DIGITS] for each in tables]
    meant = max(sorted(set(uuids)), key=uuids.count, default=None)
    if table and (meant in {None, str(table.metadata.table_uuid)} or not _is_new(table)):
        return Standing(table)
    if meant is None and missing is None:
        raise InvalidUsage(
            "55000",
            "there is no commit table, and no table of the catalog is marked by one of that name,"
            f" so nothing is recovered; catalog=`{catalog.name}`"
            f" commit_table=`{dotted_name(identifier)}`",
        )
    io, location = _place(parts, table)
    version = None
    if meant:
        versions = Versions.of(io, [each.path for each in listed(io, location)], meant)
        version = _to_register(parts, versions, tables, "" if forward else missing or "")
    if version is None and table:
        return Standing(table)
    if version is None and (dry_run or missing is not None):
        raise _lost(parts, location, file_is_gone=missing is not None)
    if version is None:
        commit_table.create(catalog, identifier, parts.clock)
        return Standing(catalog.load_table(identifier))
    if dry_run:
        metadata = versions.metadata(version)
        unregistered = Table(identifier, metadata, version.path, versions.io, catalog)
        return Standing(unregistered, version, missing or "")
    if table:
        aside = f"{identifier[-1]}_{parts.clock.new_uuid()[:8]}"
        catalog.rename_table(identifier, (*identifier[:-1], aside))
    elif missing is not None:
        catalog.drop_table(identifier)
    registered = catalog.register_table(identifier, version.path)
    return Standing(registered, version, missing or "")


def _load(parts: Parts) -> tuple[Table | None, str | None]:
    """Give the commit table, and where the file that the catalog names as it is gone, its path."""
    try:
        return parts.catalog.load_table(parts.log.identifier), None
    except NoSuchTableError:
        return None, None
    except FileNotFoundError as error:  # which is all that tells what the catalog names
        found = re.search(r"[^\s'\"]+\.metadata\.json", str(error))
        return None, found[0] if found else ""


def _lost(parts: Parts, location: str, *, file_is_gone: bool) -> CorruptLog:
    where = f"commit_table=`{dotted_name(parts.log.identifier)}`"
    if file_is_gone:
        return CorruptLog(
            "the catalog names a metadata file of the commit table that is gone, and storage has no"
            " other version of it: restore the file, or take the name out of the catalog with its"
            f" own means, which gives up the log; {where}"
        )
    return CorruptLog(
        "the commit table is lost, and where the catalog would put it no version of it is found:"
        " look whether it stood elsewhere (--warehouse); else a new one would be created, of what"
        f" tables show; {where} location=`{location}`"
    )


def _place(parts: Parts, table: Table | None) -> tuple[FileIO, str]:
    """Give the files and the location of a commit table, or where the catalog would put one."""
    if table is not None:
        return table.io, table.metadata.location
    planned = plan(
        parts.catalog,
        parts.log.identifier,
        commit_table.SCHEMA,
        None,
        UNPARTITIONED_PARTITION_SPEC,
        UNSORTED_SORT_ORDER,
    )
    return planned.io, planned.metadata.location


def _to_register(
    parts: Parts, versions: Versions, tables: list[ShownTable], missing: str
) -> Version | None:
    """
    Give the version to register in the place of one that is lost; None where there is none.

    The newest one, unless the catalog's file is gone and the tables were set back together with it:
    then the first one after it, which has all that they show, and what was not applied to them.
    """
    shown = {each for one in tables for each in one.entries}
    newest = versions.newest(shown)
    newest_shown = max((each.newest for each in tables), default=0)
    if newest is None or not missing:
        return newest
    after = versions.not_before(missing, {each.mark.log_id for each in tables})
    asked = shown | {each.entries[-1] for each in after if each.entries}
    known = _known_to(parts, versions, newest, asked) or Known()
    for each in after:
        # One of a swap that was lost has what the log does not have.
        of_log = versions.is_committed(each, shown) or set(each.entries[-1:]) <= known.tables.keys()
        if of_log and _known_to(parts, versions, each, shown) is not None:
            return newest if newest_shown > each.upper else each
    return newest


def _known_to(
    parts: Parts, versions: Versions, version: Version, asked: set[EntryId]
) -> Known | None:
    """Give which entries a version has, of some; None where files that it names are gone."""
    metadata, io = versions.metadata(version), versions.io
    table = Table(parts.log.identifier, metadata, version.path, io, parts.catalog)
    return _entries_of(table, asked, gone=True)


def _is_new(table: Table) -> bool:
    """Whether nothing was committed to a commit table yet."""
    return head_of(table).upper == 0


def at_version(table: Table, metadata: TableMetadata) -> Table:
    """Give a table as another version of it is."""
    return Table(
        table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config
    )
