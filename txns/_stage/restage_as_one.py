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
from pyiceberg.manifest import clear_manifest_cache
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from txns._iceberg import file_changes, manifests
from txns._iceberg.deletes import Overwrites
from txns._iceberg.light_transaction import LightTransaction
from txns._iceberg.snapshots import REPLACE, main_of, operation_of, own_words, summary_value
from txns._stage.restage import same_shape, whole_or_gone
from txns._stage.staged_table import StagedTable
from txns._table import mark
from txns.errors import NOBODY, Conflict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table.metadata import TableMetadata

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
        return "the table that it wrote has another schema or partitioning now", None
    if own.empty and not _brings_back(staged):
        return None  # there is nothing of it that others could have changed
    if own.deletes or not own.files:
        return "a table that it wrote over was written", None
    theirs = file_changes.between(staged.io, main_of(staged.base), main_of(newer))
    if not _touched(own, theirs, newer):
        return None
    try:
        for snapshot, changes in file_changes.since(
            staged.io, newer, staged.base.current_snapshot_id
        ):
            if touched := _touched(own, changes(), newer):
                is_compaction = operation_of(snapshot) == REPLACE
                done = "compacted" if is_compaction else "changed"
                return _words(touched, done), summary_value(snapshot, mark.SNAPSHOT_TXN_ID) or ""
    except file_changes.HistoryGap:
        pass
    return _words(_touched(own, theirs, newer), "changed"), None


def _brings_back(staged: StagedTable) -> bool:
    """
    Whether it has added a file that it took away before.

    Its path is where it was, and yet what is in it is newer: older deletes do not take its rows any
    more.
    """
    own = {each.snapshot_id for each in staged.snapshots()}
    main = main_of(staged.current)
    listing = manifests.manifests_of(staged.io, main.manifest_list) if main else []
    return any(each.added_snapshot_id in own and each.has_added_files() for each in listing)


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


def _words(touched: set[str], done: str) -> str:
    return f"files that it replaced or removed were {done} by others ({_some(touched)})"


def _some(paths: set[str]) -> str:
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
