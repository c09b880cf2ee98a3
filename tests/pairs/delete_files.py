"""Position delete files, which engines on the JVM write and pyiceberg does not."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
)
from pyiceberg.table.delete_file_index import PATH_FIELD_ID as PATH_ID
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.types import StringType

from txns._iceberg.manifests import Listing
from txns._iceberg.snapshots import branch_at, new_snapshot
from txns._verify.model import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

POSITION_ID = 2147483545
_SCHEMA = pa.schema(
    [
        pa.field(
            "file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_ID)}
        ),
        pa.field(
            "pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POSITION_ID)}
        ),
    ]
)


BOUNDS, NAME, PARTITION, TOGETHER = "bounds", "name", "partition", "together"
WAYS = (BOUNDS, NAME, PARTITION, TOGETHER)
"""
How a delete file says which data files it is of: by the bounds of their paths, or by the name, of
the one that it is of; by its partition alone; or it is of all files of a partition, by their
bounds.
"""


class _DeleteManifests(ManifestWriterV2):
    """Writes manifests of delete files, in which these may name their data files."""

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        fields = self._with_partition(3)
        return AvroOutputFile(
            self._output_file, fields, "manifest_entry", record_schema=fields, metadata=self._meta
        )

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def mark(
    table: Table, holds: Callable[[Row], bool], *, way: str, operation: str = "delete"
) -> None:
    """
    Mark the rows of a table that a condition holds for, in one snapshot.

    Args:
        table: Of rows of the pairs.
        holds: The condition.
        way: How each delete file says which data files it is of.
        operation: What the snapshot calls itself.
    """
    marked: list[_Marked] = []
    for task in table.scan().plan_files():
        rows = _rows(table, task.file)
        positions = [at for at, row in enumerate(rows) if holds(row)]
        if positions:
            marked.append((task.file, positions))
    if marked:
        with table.transaction() as changes:
            changes._apply(_updates(table, _grouped(marked, way), way, operation))


_Marked = tuple[DataFile, list[int]]


def _grouped(marked: list[_Marked], way: str) -> list[list[_Marked]]:
    """Give what is to stand in one delete file, in the order of paths."""
    marked.sort(key=lambda each: each[0].file_path)
    if way != TOGETHER:
        return [[each] for each in marked]
    by_partition: dict[str, list[_Marked]] = {}
    for file, positions in marked:
        partition = f"{file.spec_id} {file.partition}"
        by_partition.setdefault(partition, []).append((file, positions))
    return [*by_partition.values()]


def _rows(table: Table, file: DataFile) -> list[Row]:
    with table.io.new_input(file.file_path).open() as stream:
        found = pq.read_table(stream).to_pylist()
    return [Row(each["id"], each["day"], each["amount"]) for each in found]


def _updates(table: Table, marked: list[list[_Marked]], way: str, operation: str) -> Any:
    metadata = table.metadata
    main = metadata.current_snapshot()
    assert main is not None
    snapshot_id = metadata.new_snapshot_id()
    manifests = [_manifest(table, snapshot_id, each, way) for each in marked]
    count = str(sum(len(at) for each in marked for _, at in each))
    snapshot = new_snapshot(
        table.io,
        metadata,
        f"{metadata.location}/metadata/snap-{snapshot_id}-{uuid.uuid4()}.avro",
        snapshot_id=snapshot_id,
        parent=main,
        operation=operation,
        summary={"added-delete-files": str(len(marked)), "added-position-deletes": count},
        listing=Listing(manifests, main.manifest_list),
        now_ms=main.timestamp_ms + 1,
    )
    return (AddSnapshotUpdate(snapshot=snapshot), branch_at("main", snapshot_id))


def _manifest(table: Table, snapshot_id: int, marked: list[_Marked], way: str) -> ManifestFile:
    location = f"{table.metadata.location}/data/deletes-{uuid.uuid4()}.parquet"
    paths = [file.file_path for file, at in marked for _ in at]
    positions = [one for _, at in marked for one in at]
    with table.io.new_output(location).create() as stream:
        pq.write_table(pa.table({"file_path": paths, "pos": positions}, _SCHEMA), stream)
    low, high = (to_bytes(StringType(), each(paths)) for each in (min, max))
    told = way in {BOUNDS, TOGETHER}
    file = marked[0][0]
    deletes = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.POSITION_DELETES,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=file.partition,
        record_count=len(positions),
        file_size_in_bytes=len(table.io.new_input(location)),
        lower_bounds={PATH_ID: low} if told else None,
        upper_bounds={PATH_ID: high} if told else None,
        referenced_data_file=file.file_path if way == NAME else None,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        split_offsets=None,
    )
    deletes.spec_id = file.spec_id
    output = table.io.new_output(f"{table.metadata.location}/metadata/{uuid.uuid4()}-m0.avro")
    spec = table.metadata.specs()[file.spec_id]
    with _DeleteManifests(spec, table.schema(), output, snapshot_id, "gzip") as writer:
        writer.add_entry(
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=snapshot_id,
                sequence_number=None,
                file_sequence_number=None,
                data_file=deletes,
            )
        )
    return writer.to_manifest_file()
