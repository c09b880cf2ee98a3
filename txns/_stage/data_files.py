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
from pyiceberg.io.fileformat import DataFileStatistics, FileFormatFactory
from pyiceberg.io.pyarrow import (
    ParquetFormatModel,
    ParquetFormatWriter,
    StatisticsCollector,
    _check_pyarrow_schema_compatible,
    _dataframe_to_data_files,
    _to_requested_schema,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    pyarrow_to_schema,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import DOWNCAST_NS_TIMESTAMP_TO_US_ON_WRITE, TableProperties, WriteTask
from pyiceberg.table.locations import load_location_provider
from pyiceberg.typedef import Record
from pyiceberg.utils.config import Config
from pyiceberg.utils.properties import property_as_int

from txns._iceberg.known_json import as_json
from txns._logger import logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.io.fileformat import FileFormatModel
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import TableVersion

_LOG = logger(__name__)

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
    wanted = as_json(metadata.schema())
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
        same: The file's in Arrow, and of each the place among the rows', where every value stays
            what it is; None where some do not.
    """

    given: Schema
    wanted: Schema
    same: tuple[pa.Schema, Sequence[int]] | None


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
    requested = sanitize_column_names(table)
    return _Columns(as_iceberg, requested, _same(as_iceberg, requested, rows))


def _same(given: Schema, wanted: Schema, rows: pa.Schema) -> tuple[pa.Schema, Sequence[int]] | None:
    """Give columns of a file that are columns of rows with another name, or order; None if not."""
    if not all(each.field_type.is_primitive for each in (*given.fields, *wanted.fields)):
        return None
    try:
        none = pa.RecordBatch.from_arrays([pa.array([], each.type) for each in rows], schema=rows)
        file = _requested(given, wanted, none, FileFormatFactory.get(FileFormat.PARQUET)).schema
    except Exception:  # noqa: BLE001 -- the general way tells, where there are rows
        _LOG.debug("columns are converted one by one", exc_info=True)
        return None
    ids = [each.field_id for each in given.fields]
    if not all(each.field_id in ids for each in wanted.fields):
        return None
    places = [ids.index(each.field_id) for each in wanted.fields]
    is_same = [rows.field(place).type for place in places] == file.types
    return (file, places) if is_same else None


def _requested(
    given: Schema, wanted: Schema, batch: pa.RecordBatch, form: FileFormatModel
) -> pa.RecordBatch:
    return _to_requested_schema(
        requested_schema=wanted,
        file_schema=given,
        batch=batch,
        downcast_ns_timestamp_to_us=_downcasts(),
        include_field_ids=True,
        format_model=form,
    )


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
    if columns.same and kind is FileFormat.PARQUET:
        schema, places = columns.same
        batches = [
            pa.RecordBatch.from_arrays([batch.column(each) for each in places], schema=schema)
            for batch in df.to_batches()
        ]
    else:
        batches = [
            _requested(columns.given, columns.wanted, batch, form) for batch in df.to_batches()
        ]
    own = uuid.uuid4()  # noqa: TID251 -- as pyiceberg names its data files
    task = WriteTask(write_uuid=own, task_id=0, schema=columns.given, record_batches=batches)
    name = task.generate_data_file_filename(form.file_extension())
    path = load_location_provider(metadata.location, properties).new_data_location(name)
    output = io.new_output(path)
    made_by = _PlannedWriter if type(form) is ParquetFormatModel else form.create_writer
    with made_by(output, columns.wanted, properties) as writer:
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


class _PlannedWriter(ParquetFormatWriter):
    """pyiceberg's, which plans the statistics of equal columns once."""

    def close(self) -> DataFileStatistics:
        if self._result is not None or self._writer is None or self._fos is None:
            return super().close()
        asked = {key: each for key, each in self._properties.items() if key.startswith(_METRICS)}
        with self._fos:
            self._writer.close()
            self._result = data_file_statistics_from_parquet_metadata(
                self._writer.writer.metadata,
                *_statistics_of(as_json(self._file_schema), tuple(sorted(asked.items()))),
            )
        return self._result


_METRICS = "write.metadata.metrics."
"""What a table's properties say of statistics begins so."""


@lru_cache(maxsize=64)
def _statistics_of(
    schema: str, asked: tuple[tuple[str, str], ...]
) -> tuple[dict[int, StatisticsCollector], dict[str, int]]:
    """Give what is to be known of the columns of a schema, and those of a file by their paths."""
    columns = Schema.model_validate_json(schema)
    return compute_statistics_plan(columns, dict(asked)), parquet_path_to_id_mapping(columns)
