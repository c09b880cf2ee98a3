"""
Rows without data files: a file's path says which rows it holds.

`.../data/7+9-3.parquet` holds the rows 7 and 9. So what a snapshot holds follows from its
manifests, a compaction writes other files with the same rows, and no parquet is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Record
from pyiceberg.types import LongType

from tests.simulation.where import PART, has_parts, part_of
from txns._verify.compaction import Compaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

Row = int
Rows = frozenset[Row]


def data_files(metadata: TableMetadata, rows: Iterable[Row], version: int) -> list[DataFile]:
    """Make data files that hold rows: one for each part, where a table is partitioned by it."""
    rows = sorted(rows)
    if not any(field.name == PART for field in metadata.spec().fields):
        return [data_file(metadata, rows, version)]
    parts = sorted({part_of(row) for row in rows})
    return [
        data_file(metadata, [row for row in rows if part_of(row) == part], version)
        for part in parts
    ]


def data_file(metadata: TableMetadata, rows: Iterable[Row], version: int) -> DataFile:
    """
    Make a data file that holds rows.

    Args:
        metadata: Of its table.
        rows: Of one part, where the table is partitioned by it.
        version: Tells files with the same rows apart.
    """
    held = sorted(rows)
    name = "+".join(map(str, held))
    path = f"{metadata.location}/data/{name}-{version}.parquet"
    bounds = bounds_of(metadata, held) if (held[0] + version) % _BOUNDLESS else {}
    return real_file(path, metadata, len(held), part=part_of(held[0]), **bounds)


_BOUNDLESS = 5
"""Of so many files one has no bounds: it may hold anything."""


def bounds_of(metadata: TableMetadata, rows: list[Row]) -> dict[str, Any]:
    """Give what manifests keep of the values of ascending rows, where tables have parts at all."""
    if not has_parts(metadata):
        return {}
    ids = {field.name: field.field_id for field in metadata.schema().fields}
    parts = sorted(map(part_of, rows))
    of = {ids["id"]: (rows[0], rows[-1]), ids[PART]: (parts[0], parts[-1])}
    return {
        "value_counts": dict.fromkeys(of, len(rows)),
        "null_value_counts": dict.fromkeys(of, 0),
        "lower_bounds": {at: to_bytes(LongType(), least) for at, (least, _most) in of.items()},
        "upper_bounds": {at: to_bytes(LongType(), most) for at, (_least, most) in of.items()},
    }


def real_file(
    path: str,
    metadata: TableMetadata,
    record_count: int,
    size: int = 100,
    *,
    part: int | None = None,
    **more: Any,
) -> DataFile:
    """Give a data file as manifests have it, whatever it holds; `more` is what else they say."""
    spec = metadata.spec()
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*[part if field.name == PART else None for field in spec.fields]),
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
    """Rewrite data files into one, or one for each part, as compaction services do."""
    files, made = [task.file for task in tasks], data_files(table.metadata, held(tasks), version)
    if hasattr(table, "rewrite"):  # of an engine on the JVM, which has an operation for it
        table.rewrite(files, made, as_old=bool(version % 2))
    else:
        replace_files(table, files, made, branch)


def replace_files(
    table: Table, files: list[DataFile], made: list[DataFile], branch: str = "main"
) -> None:
    """Put data files in the place of others that hold the same."""
    with (
        table.transaction() as changes,
        Compaction(Operation.OVERWRITE, changes, table.io, branch=branch) as producer,
    ):
        for each in files:
            producer.delete_data_file(each)
        for each in made:
            producer.append_data_file(each)
