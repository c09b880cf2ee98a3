"""A lost race names who came first: not whoever else has written the table meanwhile."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

import txns
from txns._verify.compaction import compact
from txns._verify.statements import SCHEMA


def _day(day, *numbers):
    rows = [{"id": number, "day": day, "amount": 0} for number in numbers]
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.fixture
def days(lake):
    """A table by days under care, with two files on each of two days."""
    table = lake.catalog.create_table("shop.days", SCHEMA)
    with table.update_spec() as update:
        update.add_field("day", IdentityTransform())
    for number in (1, 2):
        for day in (1, 2):
            table.append(_day(day, 10 * day + number))
    lake.open().register("shop.days")
    return "shop.days"


def _overwrites(table):
    table.overwrite(_day(1, 15), "day = 1")


def _reads_and_appends(table):
    table.scan("day = 1").to_arrow()
    table.append(_day(1, 15))


def _appends(table):
    table.append(_day(1, 15))


def _deletes_nothing(table):
    table.delete("day = 1 and id = 99")


def _innocent(handle, table):
    """Somebody appends to another day."""
    with handle.begin(comment="innocent") as other:
        other.load_table(table).append(_day(3, 30))


def _lost(txn):
    with pytest.raises(txns.Conflict) as raised:
        txn.commit()
    return raised.value


@pytest.mark.parametrize("write", [_overwrites, _reads_and_appends, _appends, _deletes_nothing])
@pytest.mark.parametrize("level", ["SNAPSHOT", "STRICT SERIALIZABLE"])
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_who_altered_the_table(lake, handle, days, write, level):
    """Not who had appended before, nor who has after."""
    elsewhere = lake.table("elsewhere")
    txn = handle.begin(isolation=level)
    write(txn.load_table(days))
    txn.load_table(elsewhere).append(pa.table({"id": [1], "name": ["x"]}))
    _innocent(handle, days)
    other = handle.begin(comment="adds a column")
    with other.load_table(days).update_schema() as update:
        update.add_column("price", LongType())
    other.commit()
    _innocent(handle, days)
    lost = _lost(txn)
    assert (other.txn_id, "adds a column") == (lost.other_txn_id, lost.other_comment), str(lost)


@pytest.mark.parametrize("write", [_overwrites, _reads_and_appends])
def test_whose_rows_were_adopted(lake, handle, days, write):
    """An adoption is the one to blame for a stranger's rows."""
    txn = handle.begin()
    write(txn.load_table(days))
    _innocent(handle, days)
    lake.another_catalog().load_table(days).append(_day(1, 19))
    handle.repair_adopt(days)
    _innocent(handle, days)
    lost = _lost(txn)
    (adopted,) = {row["txn_id"] for row in handle.transactions() if row["kind"] == "adopt"}
    assert adopted == lost.other_txn_id, str(lost)


def test_a_compaction_is_told_as_one(handle, days):
    """Through the log it is an entry, which is named."""
    txn = handle.begin()
    _overwrites(txn.load_table(days))
    with handle.begin(comment="compacts") as other:
        assert 4 == compact(other.load_table(days))
    _innocent(handle, days)
    lost = _lost(txn)
    assert "compacts" == lost.other_comment
    assert "files that it replaced or removed were compacted by others" in str(lost)


def test_a_strangers_compaction_is_nobodys(lake, handle, days):
    """No transaction has done it: who has written another day meanwhile has not, either."""
    txn = handle.begin()
    _overwrites(txn.load_table(days))
    assert 4 == compact(lake.another_catalog().load_table(days))
    _innocent(handle, days)
    lost = _lost(txn)
    assert "were compacted by others" in str(lost)
    assert ("", "") == (lost.other_txn_id, lost.other_comment)
