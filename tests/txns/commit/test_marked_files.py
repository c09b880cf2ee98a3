"""Data files of which delete files mark rows: found, and little is opened for it."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from txns._iceberg import marked_files
from txns._iceberg.manifest_entries import files_at, listed, live_files

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tests.txns.lake import Lake

DAY = dt.date(2026, 11, 29)
NOON = dt.datetime(2026, 11, 29, 12)  # noqa: DTZ001 -- a column without a zone
KINDS = [
    (pa.int64(), [1, 2, None]),
    (pa.string(), ["a", "b", None]),
    (pa.bool_(), [True, False, None]),
    (pa.float64(), [1.5, 2.5, None]),
    (pa.date32(), [DAY, DAY + dt.timedelta(1), None]),
    (pa.timestamp("us"), [NOON, NOON + dt.timedelta(1), None]),
    (pa.decimal128(9, 2), [decimal.Decimal("1.50"), decimal.Decimal("-2.00"), None]),
    (pa.binary(), [b"\x00", b"\xff", None]),
    (pa.binary(16), [uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes, None]),
]


def _parted(lake: Lake, kind: pa.DataType, values: list[Any]) -> Table:
    """A table by a column, with a file of each of its values in a manifest of its own."""
    schema = pa.schema([("id", pa.int64()), ("p", kind)])
    table = lake.catalog.create_table("shop.parted", schema)
    with table.update_spec() as update:
        update.add_field("p", IdentityTransform(), "by p")
    for number, value in enumerate(values):
        table.append(pa.table([[number], pa.array([value], kind)], schema))
    return table


def _marks(file: DataFile) -> DataFile:
    """A delete file of one data file."""
    made = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.POSITION_DELETES,
        file_path="file:///deletes.parquet",
        file_format=FileFormat.PARQUET,
        partition=file.partition,
        referenced_data_file=file.file_path,
    )
    made.spec_id = file.spec_id
    return made


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """The manifests that are opened to look something up."""
    paths: list[str] = []

    def noted(io, manifest, wanted):
        paths.append(manifest.manifest_path)
        return files_at(io, manifest, wanted)

    monkeypatch.setattr(marked_files, "files_at", noted)
    return paths


@pytest.mark.parametrize(("kind", "values"), KINDS)
def test_a_file_is_found_in_the_manifest_of_its_partition(lake, opened, kind, values):
    table = _parted(lake, kind, values)
    snapshots = [table.current_snapshot()]
    files = [task.file for task in table.scan().plan_files()]
    assert len(values) == len(files)
    for file in files:
        opened.clear()
        found = marked_files.looked_up(table.io, table.metadata, [_marks(file)], snapshots)
        assert [file.file_path] == list(found)
        assert file.lower_bounds == found[file.file_path].lower_bounds
        assert 1 == len(opened)
    opened.clear()
    all_marks = [_marks(file) for file in files]
    found = marked_files.looked_up(table.io, table.metadata, all_marks, snapshots)
    assert {file.file_path for file in files} == found.keys()
    assert len(files) == len(opened)


@pytest.mark.parametrize("value", [float("nan"), object()])
def test_of_what_no_condition_tells_any_manifest_is_opened(lake, opened, value):
    """NaN equals nothing, and a value may be of another type."""
    table = _parted(lake, pa.float64(), [1.5, 2.5])
    for task in table.scan().plan_files():
        marks = _marks(task.file)
        marks._data[3] = Record(value)
        snapshots = [table.current_snapshot()]
        found = marked_files.looked_up(table.io, table.metadata, [marks], snapshots)
        assert [task.file.file_path] == list(found)
    assert 3 == len(opened)


def test_a_manifest_of_two_snapshots_is_opened_once(lake, opened):
    """What is in none of them is not found."""
    table = _parted(lake, pa.int64(), [1, 1, 2])
    [file, *_] = [task.file for task in table.scan("p = 2").plan_files()]
    here = [table.current_snapshot(), table.snapshots()[1], None]
    table.delete("p = 2")
    now = [table.current_snapshot(), *here]
    found = marked_files.looked_up(table.io, table.metadata, [_marks(file)], now)
    assert [file.file_path] == list(found)
    assert 1 == len(opened)
    opened.clear()
    nowhere = [table.current_snapshot(), table.snapshots()[1]]
    assert {} == marked_files.looked_up(table.io, table.metadata, [_marks(file)], nowhere)
    assert [] == opened


def test_what_is_too_much_to_read_is_not_read(lake, opened, monkeypatch):
    """As if the file were not there."""
    table = _parted(lake, pa.int64(), [1])
    [task] = table.scan().plan_files()
    monkeypatch.setattr(marked_files, "_MOST_BYTES", 10)
    arguments = table.io, table.metadata, [_marks(task.file)], [table.current_snapshot()]
    assert {} == marked_files.looked_up(*arguments)
    assert [] == opened


def test_a_manifest_of_many_is_searched(lake):
    """Each of its files is found as it is read otherwise, and what has left it is not."""
    schema = pa.schema([("id", pa.int64()), ("p", pa.int64())])
    table = lake.catalog.create_table("shop.many", schema)
    with table.update_spec() as update:
        update.add_field("p", IdentityTransform())
    table.append(pa.table([range(40), range(40)], schema))
    table.delete("p = 3")
    every = listed(table.io, table.current_snapshot().manifest_list)
    [manifest] = [each for each in every if each.has_existing_files()]
    every = {file.file_path: file for file in live_files(table.io, manifest)}
    assert 39 == len(every)
    for path, file in every.items():
        [found] = files_at(table.io, manifest, {path, "file:///elsewhere"})
        assert file._data[:16] == found._data
        assert file.spec_id == found.spec_id
    assert list(every) == [file.file_path for file in files_at(table.io, manifest, set(every))]
    assert [] == files_at(table.io, manifest, {"file:///elsewhere", next(iter(every))[:-1]})
