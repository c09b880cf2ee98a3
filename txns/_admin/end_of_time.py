"""
Takes back the time of a log that has come to its end: by a clock that was wrong, or forged.

Docs/spec.md 9.6. No `commit_ts` is above the last one, so nothing would be committed any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyiceberg.expressions import GreaterThan, Reference
from pyiceberg.table.update import RemoveSnapshotsUpdate, SetPropertiesUpdate

from txns._commit.tidy import archived, is_tidy
from txns._log import archive, commit_table, limits
from txns._log.archive_scan import ArchiveScan, readable, rows_of_files
from txns._log.entry import THIS_ENGINE, Entry, Kind
from txns._log.head import head_of
from txns._log.limits import is_late
from txns._log.swap import Outcome
from txns.errors import Conflict, Unsupported

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableUpdate

    from txns._admin.shown import Shown
    from txns._log.head import Head
    from txns._services import Parts

ATTEMPTS = 5


@dataclass(frozen=True)
class _Rows:
    """
    Archived entries in files some of which are late.

    Attributes:
        files: All that have such rows.
        entries: All that these have, ascending.
    """

    files: list[DataFile]
    entries: list[Entry]


def take_back(parts: Parts, table: Table, shown: Shown) -> Table:
    """
    Give a log another time, if it has come to the end of it; else as it is.

    What was archived late is archived at a `commit_ts` above all others, in its order. Whoever has
    read it at a late one does not see what is committed from then on, so the swap begins an epoch:
    nobody goes on with what was begun before.

    Args:
        parts: The lake's.
        table: The commit table.
        shown: What tables show: nothing is committed at or below that once more.

    Raises:
        Unsupported: Late entries stand in the head.
        Conflict: Others write the log all the time.
    """
    for _ in range(ATTEMPTS):
        head = head_of(table)
        if not is_late(head.upper):
            return table
        _refuse_standing(head)
        if _swapped(parts, table, head, shown):
            return parts.catalog.load_table(parts.log.identifier)
        table = parts.catalog.load_table(parts.log.identifier)
    raise Conflict(
        "others write the log all the time: stop what writes the lake, and run this again",
        table=parts.log.identifier,
        least_ts=0,
    )


def _refuse_standing(head: Head) -> None:
    late = next((one for one in head.state.entries if is_late(one.commit_ts)), None)
    if late is not None:
        raise Unsupported(
            "the time of the log has come to its end, and an entry of its last year still stands in"
            f" it: `txns apply` and `txns tidy` archive it; else `txns recover --void"
            f" {late.commit_ts}`, with --sound where it can be read, takes it out; then run this"
            f" again; commit_ts=`{late.commit_ts}` txn=`{late.txn_id}`"
        )


def _swapped(parts: Parts, table: Table, head: Head, shown: Shown) -> bool:
    found = _late_rows(table)
    base = max([shown.newest, *_early(table, head)])
    late = [one for one in found.entries if is_late(one.commit_ts)]
    kept = [one for one in found.entries if not is_late(one.commit_ts)]
    moved = [_at(one, ts) for ts, one in enumerate(late, base + 1)]
    upper = base + len(moved)
    record = Entry(
        Kind.TIDY,
        parts.clock.new_txn_id(),
        upper=upper,
        tidied_upto=upper,
        engine=THIS_ENGINE,
    )
    _, added = archived(table, [*kept, *moved], record, instead_of=found.files)
    log_id = f"{table.metadata.table_uuid}-{parts.clock.new_uuid()[:8]}"
    older = [each.snapshot_id for each in table.metadata.snapshots if is_tidy(each)]
    updates: list[TableUpdate] = [
        SetPropertiesUpdate(updates={commit_table.LOG_ID: log_id}),
        *added,
        RemoveSnapshotsUpdate(snapshot_ids=older),
    ]
    return parts.log.replace(head, updates).outcome is Outcome.WON


def _late_rows(table: Table) -> _Rows:
    late = GreaterThan(term=Reference("commit_ts"), value=limits.COMMIT_TS_EARLY_LE)
    with readable():
        tasks = list(table.scan(row_filter=late).plan_files())
    return _Rows([each.file for each in tasks], archive.entries_of(rows_of_files(table, tasks)))


def _early(table: Table, head: Head) -> list[int]:
    """Give the greatest `commit_ts` in ms of the archive that is not late; those of the head."""
    scan = ArchiveScan(table, greatest_ts=limits.COMMIT_TS_EARLY_LE)
    newest = next(scan.newest_first(("commit_ts",)), None)
    archived_ts = newest["commit_ts"][-1].as_py() if newest else 0
    return [archived_ts, *(one.commit_ts for one in head.state.entries)]


def _at(entry: Entry, ts: int) -> Entry:
    return replace(entry, commit_ts=ts, upper=ts, read_ts=min(entry.read_ts, ts - 1))
