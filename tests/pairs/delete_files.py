"""Position delete files, which engines on the JVM write and pyiceberg does not."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
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


class _DeleteManifests(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def mark(table: Table, holds: Callable[[Row], bool], *, bound: bool) -> None:
    """
    Mark the rows of a table that a condition holds for, in one snapshot.

    Args:
        table: Of rows of the pairs.
        holds: The condition.
        bound: Whether each file says by its bounds which data file it marks rows of.
    """
    marked: list[tuple[DataFile, list[int]]] = []
    for task in table.scan().plan_files():
        rows = _rows(table, task.file)
        positions = [at for at, row in enumerate(rows) if holds(row)]
        if positions:
            marked.append((task.file, positions))
    if marked:
        with table.transaction() as changes:
            changes._apply(_updates(table, marked, bound=bound))


def _rows(table: Table, file: DataFile) -> list[Row]:
    with table.io.new_input(file.file_path).open() as stream:
        found = pq.read_table(stream).to_pylist()
    return [Row(each["id"], each["day"], each["amount"]) for each in found]


def _updates(table: Table, marked: list[tuple[DataFile, list[int]]], *, bound: bool) -> Any:
    metadata = table.metadata
    main = metadata.current_snapshot()
    assert main is not None
    snapshot_id = metadata.new_snapshot_id()
    manifests = [_manifest(table, snapshot_id, file, at, bound=bound) for file, at in marked]
    count = str(sum(len(at) for _, at in marked))
    snapshot = new_snapshot(
        table.io,
        metadata,
        f"{metadata.location}/metadata/snap-{snapshot_id}-{uuid.uuid4()}.avro",
        snapshot_id=snapshot_id,
        parent=main,
        operation="delete",
        summary={"added-delete-files": str(len(marked)), "added-position-deletes": count},
        listing=Listing(manifests, main.manifest_list),
        now_ms=main.timestamp_ms + 1,
    )
    return (AddSnapshotUpdate(snapshot=snapshot), branch_at("main", snapshot_id))


def _manifest(
    table: Table, snapshot_id: int, file: DataFile, positions: list[int], *, bound: bool
) -> ManifestFile:
    location = f"{table.metadata.location}/data/deletes-{uuid.uuid4()}.parquet"
    rows = pa.table({"file_path": [file.file_path] * len(positions), "pos": positions}, _SCHEMA)
    with table.io.new_output(location).create() as stream:
        pq.write_table(rows, stream)
    path = to_bytes(StringType(), file.file_path)
    deletes = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=file.partition,
        record_count=len(positions),
        file_size_in_bytes=len(table.io.new_input(location)),
        lower_bounds={PATH_ID: path} if bound else None,
        upper_bounds={PATH_ID: path} if bound else None,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        split_offsets=None,
    )
    deletes.spec_id = file.spec_id
    output = table.io.new_output(f"{table.metadata.location}/metadata/{uuid.uuid4()}-m0.avro")
    spec = table.metadata.specs()[file.spec_id]
    with _DeleteManifests(spec, table.schema(), output, snapshot_id, "gzip") as writer:
        writer.add(
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=snapshot_id,
                sequence_number=None,
                file_sequence_number=None,
                data_file=deletes,
            )
        )
    return writer.to_manifest_file()
