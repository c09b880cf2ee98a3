"""
Rows without data files: a file's path says which rows it holds.

`.../data/7+9-3.parquet` holds the rows 7 and 9. So what a snapshot holds follows from its
manifests, a compaction writes other files with the same rows, and no parquet is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Record

from txns._verify.compaction import Compaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

Row = int
Rows = frozenset[Row]


def data_file(metadata: TableMetadata, rows: Iterable[Row], version: int) -> DataFile:
    """Make a data file that holds rows; `version` tells files with the same rows apart."""
    held = sorted(rows)
    name = "+".join(map(str, held))
    return real_file(f"{metadata.location}/data/{name}-{version}.parquet", metadata, len(held))


def real_file(
    path: str, metadata: TableMetadata, record_count: int, size: int = 100, **more: Any
) -> DataFile:
    """Give a data file as manifests have it, whatever it holds; `more` is what else they say."""
    spec = metadata.spec()
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*[None] * len(spec.fields)),
        record_count=record_count,
        file_size_in_bytes=size,
        sort_order_id=None,
        spec_id=spec.spec_id,
        equality_ids=None,
        key_metadata=None,
        split_offsets=None,
        **more,
    )
    file.spec_id = spec.spec_id
    return file


def rows_of(path: str) -> list[Row]:
    """Give the rows that a file holds."""
    return [int(row) for row in path.rsplit("/", 1)[1].rsplit("-", 1)[0].split("+")]


def held(tasks: Iterable[Any]) -> Rows:
    """Give the rows that files of a scan hold, without those that its delete files take away."""
    return frozenset(
        row
        for task in tasks
        for row in set(rows_of(task.file.file_path)).difference(
            *(rows_of(each.file_path) for each in task.delete_files)
        )
    )


def compact(table: Table, tasks: list[Any], version: int, branch: str = "main") -> None:
    """Rewrite data files into one, as compaction services do."""
    files, made = [task.file for task in tasks], data_file(table.metadata, held(tasks), version)
    if hasattr(table, "rewrite"):  # of an engine on the JVM, which has an operation for it
        table.rewrite(files, made, as_old=bool(version % 2))
    else:
        replace_files(table, files, made, branch)


def replace_files(
    table: Table, files: list[DataFile], file: DataFile, branch: str = "main"
) -> None:
    """Put one data file in the place of others that hold the same."""
    with (
        table.transaction() as changes,
        Compaction(Operation.OVERWRITE, changes, table.io, branch=branch) as producer,
    ):
        for each in files:
            producer.delete_data_file(each)
        producer.append_data_file(file)
