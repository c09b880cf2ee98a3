"""Compaction of a pyiceberg table, which pyiceberg has no operation for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles

if TYPE_CHECKING:
    from pyiceberg.table import Table


class Compaction(_OverwriteFiles):
    """A `replace` snapshot: other files, same rows."""

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        summary = super()._summary(snapshot_properties or {})
        return Summary(operation=Operation.REPLACE, **summary.additional_properties)


def compact(table: Table) -> int:
    """
    Write the files of each partition again as one, with the rows that are left.

    Returns:
        How many files were replaced.
    """
    parts: dict[Any, list[Any]] = {}
    for task in table.scan().plan_files():
        parts.setdefault((task.file.spec_id, repr(task.file.partition)), []).append(task)
    chosen = [each for each in parts.values() if len(each) > 1 or each[0].delete_files]
    if not chosen:
        return 0
    with (
        table.transaction() as changes,
        Compaction(Operation.OVERWRITE, changes, table.io) as producer,
    ):
        for some in chosen:
            scan = table.scan()
            rows = ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter)
            for task in some:
                producer.delete_data_file(task.file)
            left = rows.to_table(some)
            made = _dataframe_to_data_files(table.metadata, left, table.io) if left else ()
            for file in made:
                producer.append_data_file(file)
    return sum(map(len, chosen))
