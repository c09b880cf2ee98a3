"""
Makes what a transaction did to the files of a table again on a newer state of it.

As one operation, whatever it took: replayed one by one, its snapshots would remove files that
others have removed, or bring back what they have deleted. Its data files stay as they are. Where
all that it did leaves no file changed, as an overwrite of nothing by nothing does, that is an empty
snapshot: it is said in the log that the table was written, and with what words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.manifest import ManifestContent, clear_manifest_cache
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from txns._iceberg import file_changes, manifests, what_helps
from txns._iceberg.deletes import Overwrites
from txns._iceberg.light_transaction import LightTransaction
from txns._iceberg.manifest_entries import live_entries
from txns._iceberg.snapshots import REPLACE, main_of, operation_of, own_words, summary_value
from txns._iceberg.what_helps import Clash
from txns._stage.restage import same_shape, whole_or_gone
from txns._stage.staged_table import UNNUMBERED, StagedTable
from txns._table import mark
from txns._table.logged_state import last_on_main
from txns.errors import NOBODY, Conflict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from txns._clock import Clock
    from txns._iceberg.file_changes import FileChanges
    from txns.errors import Winner

_SHOWN_FILES = 3


def restage_as_one(
    staged: StagedTable,
    newer: TableMetadata,
    clock: Clock,
    *,
    txn_id: str,
    winner: Winner,
    winners: Mapping[str, Winner],
    least_ts: int,
) -> StagedTable:
    """
    Put the same data files on `newer`, and take the same ones away.

    Args:
        staged: It only adds and removes files (`StagedTable.changes_only_files`).
        newer: The table as it is now.
        clock: For the new snapshot's id.
        txn_id: The transaction, for messages.
        winner: Whose it is where that cannot be told, for messages.
        winners: All that have written the table, by their ids.
        least_ts: The least `read_ts` in ms at which it would not clash.

    Raises:
        Conflict: Somebody else has removed or marked rows of a file that it takes away, or the
            table has another schema or partitioning now.
    """
    own = file_changes.FileChanges()
    try:
        own = file_changes.between(staged.io, main_of(staged.base), main_of(staged.current))
        unfit = _unfit(staged, own, newer)
    except file_changes.HistoryGap:
        unfit = "what it stood on has been expired", None
    if unfit is not None:
        reason, other = unfit
        raise Conflict(
            reason,
            table=staged.identifier,
            txn_id=txn_id,
            winner=winner if other is None else winners.get(other, NOBODY),
            least_ts=least_ts,
        )
    restaged = StagedTable(staged.identifier, staged.io.inner, newer)
    clear_manifest_cache()  # it may know manifests by the sequence numbers that others list
    with whole_or_gone(restaged):
        _make_again(restaged, staged, own, clock)
        restaged.replaced += _left_behind(staged, own)
    clear_manifest_cache()
    return restaged


def _unfit(
    staged: StagedTable, own: FileChanges, newer: TableMetadata
) -> tuple[str, str | None] | None:
    """
    Say why what was done cannot be done to a newer state, and because of which transaction.

    Of none where a stranger's snapshot is in the way, a compaction; None where nobody knows.
    """
    if not same_shape(staged.base, newer):
        altered = "the table that it wrote has another schema or partitioning now"
        return altered + what_helps.words(Clash.ALTERED), None
    is_one = not own.deletes and not _brings_back(staged, own)
    if own.empty and is_one:
        return None  # there is nothing of it that others could have changed
    before = last_on_main(staged.base, newer)
    other_ids = own.removed and _may_have_other_ids(staged, before, newer)
    if not is_one or other_ids:
        return "a table that it wrote over was written", None
    return _changed_by_others(staged, own, newer, before)


def _changed_by_others(
    staged: StagedTable, own: FileChanges, newer: TableMetadata, before: Snapshot | None
) -> tuple[str, str | None] | None:
    """Say the same of what others have done to its files since `before`, which `main` has."""
    stood_on = main_of(staged.base)
    is_left_off = before != stood_on
    theirs = file_changes.between(staged.io, stood_on, main_of(newer))
    if is_left_off:  # what only the compaction has marked stands again, and elsewhere no more
        theirs.added_deletes += theirs.removed_deletes
    met = _touched(own, theirs, newer)
    if not met:
        return None
    before_id = None if before is None else before.snapshot_id
    try:
        for snapshot, changes in file_changes.since(staged.io, newer, before_id):
            if touched := _touched(own, changes(), newer):
                clash = Clash.COMPACTED if operation_of(snapshot) == REPLACE else Clash.FILES
                author = summary_value(snapshot, mark.SNAPSHOT_TXN_ID) or ""
                return _words(touched, clash, newer), author
    except file_changes.HistoryGap:
        is_left_off = False  # nobody knows whose it was
    if is_left_off:
        return _words(met, Clash.COMPACTED, newer), ""
    return _words(met, Clash.FILES, newer), None


def _may_have_other_ids(staged: StagedTable, before: Snapshot | None, newer: TableMetadata) -> bool:
    """
    Whether rows that it writes again may have got ids since, in each snapshot others (spec 8.2).

    It has read those of a compaction that `main` has left off, on a snapshot without any.
    """
    if before == main_of(staged.base) or newer.format_version <= UNNUMBERED:
        return False
    return before is None or before.first_row_id is None


def _brings_back(staged: StagedTable, own: FileChanges) -> bool:
    """
    Whether it has added a file that it took away before.

    Its path is where it was, so that it has neither come nor left, and yet what is in it is newer:
    older deletes do not take its rows any more.
    """
    main = main_of(staged.current)
    listing = manifests.manifests_of(staged.io, main.manifest_list) if main else []
    came = {file.file_path for file in own.added}
    before = manifests.last_sequence_number(staged.base)
    return any(
        (entry.sequence_number or 0) > before
        for manifest in listing
        if manifest.manifest_path not in own.shared and manifest.content == ManifestContent.DATA
        for entry in live_entries(staged.io, manifest)
        if entry.data_file.file_path not in came
    )


def _touched(own: FileChanges, theirs: FileChanges, newer: TableMetadata) -> set[str]:
    """Give the files that both have taken away, or of whose marked rows others have made others."""
    specs = newer.specs()
    marks = [*theirs.added_deletes, *theirs.removed_deletes]
    touched = theirs.removed.keys() | {file_changes.marked_file(each) for each in marks}
    wide = [each for each in theirs.added_deletes if file_changes.marked_file(each) is None]
    return {
        path
        for path, file in own.removed.items()
        if path in touched or any(file_changes.reaches(each, file, specs) for each in wide)
    }


def _words(touched: set[str], clash: Clash, newer: TableMetadata) -> str:
    done = "compacted" if clash is Clash.COMPACTED else "changed"
    reason = f"files that it replaced or removed were {done} by others ({some_of(touched)})"
    return reason + what_helps.words(clash, newer)


def some_of(paths: set[str]) -> str:
    """Name the first of some files, and say how many more there are."""
    shown = ", ".join(sorted(paths)[:_SHOWN_FILES])
    return shown if len(paths) <= _SHOWN_FILES else f"{shown} and {len(paths) - _SHOWN_FILES} more"


def _make_again(restaged: StagedTable, staged: StagedTable, own: FileChanges, clock: Clock) -> None:
    table = Table(
        restaged.identifier,
        restaged.base,
        staged.base.location,
        restaged.io,
        NoopCatalog("restaged"),
    )
    transaction = LightTransaction(table)
    producer = Overwrites(
        _operation(own), transaction, restaged.io, snapshot_properties=_callers_keys(staged)
    )
    producer._snapshot_id = clock.new_snapshot_id()  # noqa: SLF001 -- one source of all ids
    producer.untouched = own.shared
    for file in own.added:
        producer.append_data_file(file)
    for file in own.removed.values():
        producer.delete_data_file(file)
    producer.commit()
    restaged.stage(transaction._updates)  # noqa: SLF001 -- what it would ask its catalog for


def _operation(own: FileChanges) -> Operation:
    if not own.removed:
        return Operation.APPEND
    return Operation.OVERWRITE if own.added else Operation.DELETE


def _callers_keys(staged: StagedTable) -> dict[str, str]:
    """Give the keys of its snapshots' summaries that programs have set."""
    return {key: said for one in staged.snapshots() for key, said in own_words(one).items()}


def _left_behind(staged: StagedTable, own: FileChanges) -> list[str]:
    """Give what it wrote for its own snapshots, and none will have named when this commits."""
    named = {path for each in staged.snapshots() for path in manifests.files_of(staged.io, each)}
    written = named & set(staged.io.created)  # a program's own files (`add_files`) are not ours
    return sorted(written - {file.file_path for file in own.added})
