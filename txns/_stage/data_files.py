"""
The data files of an append.

A small table is one file, written by the thread that has it: pyiceberg's general way plans it in
partitions and bins, and hands it to a thread of a pool, for more than the file itself costs.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io.fileformat import FileFormatFactory
from pyiceberg.io.pyarrow import (
    _check_pyarrow_schema_compatible,
    _dataframe_to_data_files,
    _to_requested_schema,
    pyarrow_to_schema,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import DOWNCAST_NS_TIMESTAMP_TO_US_ON_WRITE, TableProperties, WriteTask
from pyiceberg.table.locations import load_location_provider
from pyiceberg.typedef import Record
from pyiceberg.utils.config import Config
from pyiceberg.utils.properties import property_as_int

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import TableVersion

_SMALL = 1024 * 1024
"""Bytes of an Arrow table that are not worth a plan."""


def written(
    metadata: TableMetadata, df: pa.Table | pa.RecordBatchReader, io: FileIO
) -> list[DataFile]:
    """
    Write rows into data files that nothing names yet.

    Args:
        metadata: The table's that they are for.
        df: The rows.
        io: Where to.

    Raises:
        ValueError: The columns do not fit, as pyiceberg says.
    """
    # Without what is said of all rows, as by pandas of its index: each frame has another one.
    given = df.schema.remove_metadata().serialize().to_pybytes()
    wanted = metadata.schema().model_dump_json()
    columns = _fitting(wanted, given, metadata.format_version)
    if isinstance(df, pa.Table) and df.num_rows == 0:
        return []
    if isinstance(df, pa.Table) and _is_one_file(metadata, df):
        files = [_one_file(metadata, df, columns, io)]
    else:
        files = list(_dataframe_to_data_files(metadata, df, io))
    for file in files:  # which pyiceberg leaves to the manifest's writer
        file.spec_id = metadata.default_spec_id
    return files


@dataclass(frozen=True, slots=True)
class _Columns:
    """
    The columns of rows, and those of the file that they go into.

    Attributes:
        given: The rows', by the names of the table's.
        wanted: The file's.
    """

    given: Schema
    wanted: Schema


@lru_cache(maxsize=64)  # of 1,000 columns they are 2.5 MB
def _fitting(wanted: str, given: bytes, version: TableVersion) -> _Columns:
    """
    Give the columns of rows for a table; refuse those that do not fit.

    Args:
        wanted: The table's schema, as JSON.
        given: The rows', as Arrow serializes it, with what it says of its fields.
        version: The table's format.
    """
    table, rows = Schema.model_validate_json(wanted), pa.ipc.read_schema(pa.py_buffer(given))
    _check_pyarrow_schema_compatible(
        table, rows, downcast_ns_timestamp_to_us=_downcasts(), format_version=version
    )
    as_iceberg = pyarrow_to_schema(
        rows,
        name_mapping=table.name_mapping,
        downcast_ns_timestamp_to_us=_downcasts(),
        format_version=version,
    )
    return _Columns(as_iceberg, sanitize_column_names(table))


@cache
def _downcasts() -> bool:
    """Whether times in ns are written in us, as pyiceberg is set up when it is first asked."""
    return bool(Config().get_bool(DOWNCAST_NS_TIMESTAMP_TO_US_ON_WRITE))


def _is_one_file(metadata: TableMetadata, df: pa.Table) -> bool:
    target = property_as_int(
        metadata.properties,
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES,
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
    )
    small = df.nbytes <= min(_SMALL, target or _SMALL)
    return small and metadata.spec().is_unpartitioned()


def _one_file(metadata: TableMetadata, df: pa.Table, columns: _Columns, io: FileIO) -> DataFile:
    """Write one file, with pyiceberg's own parts for it; see its `write_file`."""
    properties = metadata.properties
    kind = FileFormat(
        properties.get(TableProperties.WRITE_FILE_FORMAT, TableProperties.WRITE_FILE_FORMAT_DEFAULT)
    )
    form = FileFormatFactory.get(kind)
    batches = [
        _to_requested_schema(
            requested_schema=columns.wanted,
            file_schema=columns.given,
            batch=batch,
            downcast_ns_timestamp_to_us=_downcasts(),
            include_field_ids=True,
            format_model=form,
        )
        for batch in df.to_batches()
    ]
    own = uuid.uuid4()  # noqa: TID251 -- as pyiceberg names its data files
    task = WriteTask(write_uuid=own, task_id=0, schema=columns.given, record_batches=batches)
    name = task.generate_data_file_filename(form.file_extension())
    path = load_location_provider(metadata.location, properties).new_data_location(name)
    output = io.new_output(path)
    writer = form.create_writer(output, columns.wanted, properties)
    with writer:
        writer.write(pa.Table.from_batches(batches))
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=kind,
        partition=Record(),
        file_size_in_bytes=len(output),
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **writer.result().to_serialized_dict(),
    )
