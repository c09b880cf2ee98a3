"""A stranger's compaction that who has committed since leaves off `main` (docs/spec.md 9.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform

import txns
from tests.pairs import delete_files
from txns._admin.invariants import check_all
from txns._iceberg.snapshots import REPLACE, History, main_of, operation_of
from txns._verify.compaction import Compaction
from txns._verify.statements import SCHEMA

if TYPE_CHECKING:
    from tests.txns.lake import Lake

DAYS = "shop.days"


def _day(day: int, *numbers: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": one, "day": day, "amount": 0} for one in numbers], SCHEMA)


def _three_days(lake: Lake, name: str) -> None:
    """A table by days, of two files each: rows 10 to 13, 20 to 23, 30 to 33."""
    table = lake.catalog.create_table(name, SCHEMA)
    with table.update_spec() as update:
        update.add_field("day", IdentityTransform())
    for day in (1, 2, 3):
        for number in (10 * day, 10 * day + 2):
            table.append(_day(day, number, number + 1))


@pytest.fixture(autouse=True)
def days(lake: Lake) -> None:
    _three_days(lake, DAYS)
    lake.open().register(DAYS)


def _compact(lake: Lake, day: int = 3) -> None:
    """Others compact a day, past the protocol."""
    table = lake.catalog.load_table(DAYS)
    scan = table.scan(f"day = {day}")
    _rewrite(table, [task.file for task in scan.plan_files()], scan.to_arrow())


def _rewrite(table, files, rows: pa.Table) -> None:
    """A `replace` that takes files away, and has rows in others."""
    with table.transaction() as steps, Compaction(Operation.OVERWRITE, steps, table.io) as producer:
        for file in files:
            producer.delete_data_file(file)
        for file in _dataframe_to_data_files(table.metadata, rows, table.io):
            producer.append_data_file(file)


def _begin_on_compaction(handle, **options):
    """Begin on the newest compaction of a stranger."""
    txn = handle.begin(**options)
    assert REPLACE == operation_of(main_of(txn.load_table(DAYS).metadata))
    return txn


def _is_left_off(lake: Lake) -> bool:
    """Whether no compaction is below `main`, that the table has one."""
    metadata = lake.catalog.load_table(DAYS).metadata
    below = History(metadata).ancestors(main_of(metadata))
    assert any(operation_of(each) == REPLACE for each in metadata.snapshots)
    return all(operation_of(each) != REPLACE for each in below)


def _delete(table, day):
    table.delete(f"day = {day} and id = {day}0")


def _overwrite(table, day):
    table.overwrite(_day(day, 10 * day + 5), f"day = {day}")


def _upsert(table, day):
    changed = _day(day, 10 * day, 10 * day + 7)
    table.upsert(changed.set_column(2, "amount", pa.array([5, 5], pa.int64())), ["day", "id"])


def _read_and_append(table, day):
    most = max(table.scan(f"day = {day}").to_arrow()["id"].to_pylist())
    table.append(_day(day, most + 1))


WRITES = [_delete, _overwrite, _upsert, _read_and_append]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("times", [1, 2])
def test_who_began_on_it_commits(lake, handle, write, times):
    """It changes another day than what is committed before it, and than what was compacted."""
    _three_days(lake, "shop.alone")
    first = handle.begin()
    _delete(first.load_table(DAYS), 1)
    for _ in range(times):
        _compact(lake)
    second = _begin_on_compaction(handle)
    write(second.load_table(DAYS), 2)
    first.commit()
    assert _is_left_off(lake)
    second.commit()
    _delete(lake.catalog.load_table("shop.alone"), 1)
    write(lake.catalog.load_table("shop.alone"), 2)
    assert _rows(lake, "shop.alone") == _rows(lake, DAYS)
    assert [] == check_all(handle.parts).violations


def _rows(lake: Lake, name: str) -> list[tuple[int, ...]]:
    found = lake.catalog.load_table(name).scan().to_arrow().to_pylist()
    return sorted(tuple(each.values()) for each in found)


def test_who_has_only_read_it_commits(lake, handle):
    elsewhere = lake.table("elsewhere")
    first = handle.begin()
    _delete(first.load_table(DAYS), 1)
    _compact(lake)
    second = _begin_on_compaction(handle)
    for day in (2, 3):
        assert 4 == second.load_table(DAYS).scan(f"day = {day}").count()
    second.load_table(elsewhere).append(pa.table({"id": [1], "name": ["x"]}))
    first.commit()
    second.commit()
    assert [1] == lake.plain_ids(elsewhere)


@pytest.mark.parametrize("day", [1, 3])
@pytest.mark.parametrize("write", WRITES)
def test_what_it_read_is_held_against_what_came(lake, handle, write, day):
    """Be it of rows that the compaction has in other files than who has changed them."""
    first = handle.begin(comment="first")
    _delete(first.load_table(DAYS), day)
    _compact(lake)
    second = _begin_on_compaction(handle)
    write(second.load_table(DAYS), day)
    first.commit()
    before = lake.plain_ids(DAYS)
    with pytest.raises(txns.Conflict, match="filter") as raised:
        second.commit()
    assert "first" == raised.value.other_comment
    assert before == lake.plain_ids(DAYS)


@pytest.mark.parametrize("way", delete_files.WAYS)
def test_marks_are_held_against_what_it_read(lake, handle, way):
    """Of rows that it has read in other files; marks of a file count for that, as ever."""
    first = handle.begin()
    delete_files.mark(first.load_table(DAYS), lambda row: row.id == 30, way=way)
    _compact(lake)
    met, beside = (_begin_on_compaction(handle) for _ in range(2))
    for txn, number in ((met, 30), (beside, 33)):
        assert 1 == txn.load_table(DAYS).scan(f"id = {number}").count()
        txn.load_table(DAYS).append(_day(2, 90 + number))
    first.commit()
    assert _is_left_off(lake)
    with pytest.raises(txns.Conflict, match="deletes-"):
        met.commit()
    if way == delete_files.PARTITION:
        with pytest.raises(txns.Conflict, match="deletes-"):
            beside.commit()
    else:
        beside.commit()


def test_marked_files_are_looked_up_below_it(lake, handle):
    """Where others have taken them away since: the compaction has not had them."""
    first = handle.begin()
    delete_files.mark(first.load_table(DAYS), lambda row: row.id == 30, way=delete_files.BOUNDS)
    _compact(lake)
    txn = _begin_on_compaction(handle)
    assert 1 == txn.load_table(DAYS).scan("id = 33").count()
    txn.load_table(DAYS).append(_day(2, 99))
    first.commit()
    _compact(lake)
    txn.commit()
    assert [10, 11, 12, 13, 20, 21, 22, 23, 31, 32, 33, 99] == lake.plain_ids(DAYS)


@pytest.mark.parametrize("write", WRITES[:-1])
def test_who_rewrites_its_files_loses(lake, handle, write):
    """They are not in the table any more; those that they were made of have its rows."""
    first = handle.begin(comment="first")
    _delete(first.load_table(DAYS), 1)
    _compact(lake)
    second = _begin_on_compaction(handle)
    write(second.load_table(DAYS), 3)
    first.commit()
    with pytest.raises(txns.Conflict, match="were compacted by others") as raised:
        second.commit()
    assert "" == raised.value.other_comment
    assert [11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33] == lake.plain_ids(DAYS)
    assert [] == check_all(handle.parts).violations


@pytest.mark.parametrize("way", [delete_files.NAME, delete_files.PARTITION])
def test_who_rewrites_a_file_of_which_it_has_marked_rows_loses(lake, handle, way):
    """They stood in another file, which is gone: what is left of theirs would go with them."""
    first = handle.begin()
    _delete(first.load_table(DAYS), 1)
    table = lake.catalog.load_table(DAYS)
    delete_files.mark(table, lambda row: row.id == 21, way=way, operation=REPLACE)
    _rewrite(lake.catalog.load_table(DAYS), [], _day(2, 21))
    second = _begin_on_compaction(handle)
    _delete(second.load_table(DAYS), 2)
    first.commit()
    assert _is_left_off(lake)
    with pytest.raises(txns.Conflict, match="were compacted by others"):
        second.commit()
    assert [11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33] == lake.plain_ids(DAYS)


def test_it_has_been_expired(lake, handle):
    """What it stood on is known from what was read."""
    first = handle.begin()
    _delete(first.load_table(DAYS), 1)
    _compact(lake)
    left_off = lake.catalog.load_table(DAYS).metadata.current_snapshot_id
    second = _begin_on_compaction(handle)
    _delete(second.load_table(DAYS), 2)
    first.commit()
    lake.catalog.load_table(DAYS).maintenance.expire_snapshots().by_id(left_off).commit()
    second.commit()
    assert [11, 12, 13, 21, 22, 23, 30, 31, 32, 33] == lake.plain_ids(DAYS)
