"""
Finds what there is of a log: in the catalog, in files that storage has, and in what tables show.

Docs/spec.md 9.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from txns._admin.log_versions import Versions, entries_of
from txns._admin.orphans import listed
from txns._admin.shown import moved, told_by
from txns._iceberg.new_table import plan
from txns._identifier import dotted_name
from txns._log import commit_table
from txns._log.archive_scan import ArchiveScan
from txns._log.commit_log import head_of
from txns.errors import CorruptLog, InvalidUsage

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

    from txns._admin.log_versions import EntryId, Known, Version
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
        moved: To which `commit_ts` in ms entries move that tables show where the log has others.
    """

    target: TableMetadata
    upper: int
    taken_back: list[Entry]
    told_by_tables: list[Entry]
    gone: list[Entry]
    unknown: list[Entry]
    versions: Versions
    moved: dict[EntryId, int]


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
    tables = by_tables.tables
    shown = {each for one in tables for each in one.entries}
    files = [each.path for each in listed(table.io, table.metadata.location)]
    known_versions = before.versions if before else None
    versions = Versions.of(table.io, files, str(table.metadata.table_uuid), known_versions)
    above, leaves = versions.committed_above(table.metadata_location, shown)
    known = _entries_of(table, shown, gone=bool(above or leaves))
    if known is None and not above and (tidied := versions.tidied(leaves)):
        above, leaves = [tidied], []
    lacking = known is None or any(not each.entries.keys() <= known.keys() for each in tables)
    more = _brought_in_by(versions, above)
    if above and (forward or lacking):
        target = versions.metadata(above[-1])
        has = _entries_of(at_version(table, target), shown, gone=False)
    else:
        target, has = table.metadata, known
    upper = max(head_of(at_version(table, target)).upper, by_tables.newest)
    moved_to = moved(tables, has or {}, upper)
    told = told_by(tables, has or {}, moved_to)
    taken = target is not table.metadata
    return FoundLog(
        target,
        max([upper, *moved_to.values()]),
        taken_back=more if taken else [],
        told_by_tables=told,
        gone=[] if taken else more,
        unknown=_brought_in_by(versions, leaves),
        versions=versions,
        moved=moved_to,
    )


def _entries_of(table: Table, shown: set[EntryId], *, gone: bool) -> Known | None:
    """
    Give which entries a version has: of its archive those at a shown `commit_ts`, or of a shown id.

    None where files of the archive are gone, as they may be of a version that was tidied since.
    """
    known: dict[EntryId, frozenset[str] | None] = {}
    wanted = pa.array(sorted({ts for ts, _ in shown}), pa.int64())
    ids = pa.array(sorted({txn_id for _, txn_id in shown}), pa.string())
    scan = ArchiveScan(table, least_ts=wanted[0].as_py() if shown else 0)
    try:
        for window in scan.oldest_first(("commit_ts", "txn_id", "table_uuid")):
            named = pc.is_in(window["txn_id"].cast(pa.string()), ids)
            rows = window.filter(pc.or_(pc.is_in(window["commit_ts"], wanted), named))
            for ts, txn_id, uuid in zip(*rows.to_pydict().values(), strict=True):
                known[ts, txn_id] = (known.get((ts, txn_id)) or frozenset()) | {uuid}
    except FileNotFoundError:
        if gone:
            return None
        raise
    return known | {(one.commit_ts, one.txn_id): None for one in head_of(table).state.entries}


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


def standing(parts: Parts, tables: list[ShownTable], *, dry_run: bool) -> Table:
    """
    Give the commit table that the tables' marks name, if it can be had; else one that is new.

    Where the catalog has lost it, or the file that it names, a version that storage has is
    registered again. One that somebody has created in its place meanwhile makes way, as long as
    nothing was committed to it.

    Raises:
        CorruptLog: It is lost, and a file that the catalog names as well; or it was a dry run.
        InvalidUsage: 55000, nothing says that there was one.
    """
    catalog, identifier = parts.catalog, parts.log.identifier
    table, file_is_gone = _load(parts)
    uuids = [each.mark.log_id[:_UUID_DIGITS] for each in tables]
    meant = max(sorted(set(uuids)), key=uuids.count, default=None)
    if table and (meant in {None, str(table.metadata.table_uuid)} or not _is_new(table)):
        return table
    if meant is None and not file_is_gone:
        raise InvalidUsage(
            "55000",
            "there is no commit table, and no table of the catalog is marked by one of that name,"
            f" so nothing is recovered; catalog=`{catalog.name}`"
            f" commit_table=`{dotted_name(identifier)}`",
        )
    io, location = _place(parts, table)
    version = _newest_version(io, location, tables, meant) if meant else None
    if version is None and table:
        return table
    if dry_run or (version is None and file_is_gone):
        raise _lost(parts, location, version, file_is_gone=file_is_gone)
    if version is None:
        commit_table.create(catalog, identifier, parts.clock)
        return catalog.load_table(identifier)
    if table:
        aside = f"{identifier[-1]}_{parts.clock.new_uuid()[:8]}"
        catalog.rename_table(identifier, (*identifier[:-1], aside))
    elif file_is_gone:
        catalog.drop_table(identifier)
    return catalog.register_table(identifier, version.path)


def _load(parts: Parts) -> tuple[Table | None, bool]:
    """Give the commit table, and whether the file is gone that the catalog names as it."""
    try:
        return parts.catalog.load_table(parts.log.identifier), False
    except NoSuchTableError:
        return None, False
    except FileNotFoundError:
        return None, True


def _lost(
    parts: Parts, location: str, version: Version | None, *, file_is_gone: bool
) -> CorruptLog:
    where = f"commit_table=`{dotted_name(parts.log.identifier)}`"
    if version is not None:
        return CorruptLog(
            "the commit table is lost; a version that storage has would be registered again;"
            f" {where} file=`{version.path}`"
        )
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


def _newest_version(
    io: FileIO, location: str, tables: list[ShownTable], uuid: str
) -> Version | None:
    """Find the newest version of the commit table of a uuid that lies at a place."""
    versions = Versions.of(io, [each.path for each in listed(io, location)], uuid)
    return versions.newest({each for one in tables for each in one.entries})


def _is_new(table: Table) -> bool:
    """Whether nothing was committed to a commit table yet."""
    return head_of(table).upper == 0


def at_version(table: Table, metadata: TableMetadata) -> Table:
    """Give a table as another version of it is."""
    return Table(
        table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config
    )
