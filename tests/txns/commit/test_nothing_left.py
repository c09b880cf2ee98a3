"""Writes of a table that leave its files as they were go by what they have looked through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform

import txns
from txns._admin.invariants import check_all
from txns._table import mark
from txns._verify.statements import SCHEMA

if TYPE_CHECKING:
    from tests.txns.lake import Lake


def _day(day: int, *numbers: int) -> pa.Table:
    rows = [{"id": number, "day": day, "amount": 0} for number in numbers]
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.fixture
def days(lake: Lake) -> str:
    """A table by days, with two rows on each of two days, in files of their own."""
    table = lake.catalog.create_table("shop.days", SCHEMA)
    with table.update_spec() as update:
        update.add_field("day", IdentityTransform())
    for day in (1, 2):
        table.append(_day(day, 10 * day, 10 * day + 1))
    lake.open().register("shop.days")
    return "shop.days"


def _append_and_delete(table):
    table.append(_day(5, 50, 51))
    table.delete("day = 5")


def _overwrite_by_nothing(table):
    table.overwrite(_day(5), "day = 5")


def _append_and_overwrite_by_nothing(table):
    table.append(_day(5, 50, 51))
    table.overwrite(_day(5), "day = 5")


def _append_and_upsert_and_delete(table):
    table.append(_day(5, 50))
    table.upsert(_day(5, 50, 51), ["day", "id"])
    table.delete("day = 5")


WRITES = [
    _append_and_delete,
    _overwrite_by_nothing,
    _append_and_overwrite_by_nothing,
    _append_and_upsert_and_delete,
]


@pytest.mark.parametrize("apply", ["inline", "next", "atomic"])
@pytest.mark.parametrize("write", WRITES)
def test_another_day_does_not_clash(lake, days, write, apply):
    """Both commit: others have written rows of another day, twice, and a job's words stay."""
    handle = lake.open(apply=apply)
    elsewhere = lake.table("elsewhere")
    txn = handle.begin()
    write(txn.load_table(days))
    txn.load_table(days).overwrite(_day(5), "day = 5", {"job": "nightly"})
    txn.load_table(elsewhere).append(pa.table({"id": [1], "name": ["x"]}))
    for day, number in ((2, 22), (6, 60)):
        lake.open().catalog().load_table(days).append(_day(day, number))
    txn.commit()
    left = [10, 11, 20, 21, 22, 60]
    assert left == sorted(
        lake.open().catalog().load_table(days).scan().to_arrow()["id"].to_pylist()
    )
    logged = [row for row in handle.transactions() if row["txn_id"] == txn.txn_id]
    assert {"shop.days": (0, 0), "shop.elsewhere": (1, 0)} == {
        row["table_name"]: (row["added_records"], row["deleted_records"]) for row in logged
    }
    lake.open().catalog().load_table(days).append(_day(6, 61))
    assert [*left, 61] == lake.plain_ids(days)
    assert [] == check_all(handle.parts).violations
    (said,) = (
        each.summary
        for each in lake.catalog.load_table(days).snapshots()
        if each.summary[mark.SNAPSHOT_TXN_ID] == txn.txn_id
    )
    assert ("nightly", "6", None) == (said["job"], said["total-records"], said["added-records"])


@pytest.mark.parametrize("write", WRITES)
def test_the_same_day_clashes(lake, handle, days, write):
    """It may have found what others have written since."""
    txn = handle.begin()
    write(txn.load_table(days))
    handle.catalog().load_table(days).append(_day(5, 55))
    with pytest.raises(txns.Conflict, match="filter day"):
        txn.commit()
    assert [10, 11, 20, 21, 55] == lake.plain_ids(days)


def test_back_to_a_savepoint(lake, handle, days):
    """What it goes back to leaves nothing; what it has done before is made again."""
    txn = handle.begin()
    _overwrite_by_nothing(txn.load_table(days))
    txn.savepoint("before")
    txn.load_table(days).append(_day(5, 50))
    txn.rollback_to("before")
    handle.catalog().load_table(days).append(_day(2, 22))
    txn.commit()
    assert [10, 11, 20, 21, 22] == lake.plain_ids(days)


@pytest.mark.parametrize(("beside_others", "also"), [(False, 0), (True, 0), (True, 1), (True, 2)])
def test_a_file_that_is_taken_away_and_brought_back_is_a_conflict(
    lake, handle, days, beside_others, also
):
    """Its rows are new ones then, by their sequence number, which older deletes do not take."""
    with handle.begin() as named, named.load_table(days).transaction() as steps:
        names = steps.table_metadata.schema().name_mapping.model_dump_json()
        steps.set_properties({"schema.name-mapping.default": names})
    txn = handle.begin()
    table = txn.load_table(days)
    (here,) = (task.file.file_path for task in table.scan("day = 1").plan_files())
    table.delete("day = 1")
    table.add_files([here], check_duplicate_files=False)
    if also:  # in the manifest of the other one, perhaps
        table.append(_day(5, 50))
    if also > 1:
        table.delete("day = 5")
    if beside_others:
        handle.catalog().load_table(days).append(_day(2, 22))
        with pytest.raises(txns.Conflict, match="wrote over"):
            txn.commit()
    else:
        txn.commit()
        assert [10, 11, 20, 21] == lake.plain_ids(days)
