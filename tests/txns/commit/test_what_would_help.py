"""The error of a lost race says what would help, where something does; and following it does."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

import txns
from txns._verify.compaction import compact
from txns._verify.statements import SCHEMA

COMPARE = "filters that compare `day`, by which the table is partitioned, with literals"
BY_FILE = "a transaction in which files decide (`txns.conflicts=file`)"
SNAPSHOT = "level SNAPSHOT, where what is only read may change meanwhile"
NARROWER = "narrower filters, or a finer partitioning of the table"
ALONE = "to alter the table while no transaction is at work on it"


def _day(day, *numbers):
    rows = [{"id": number, "day": day, "amount": 0} for number in numbers]
    return pa.Table.from_pylist(rows, SCHEMA)


def _table(lake, name, *by):
    table = lake.catalog.create_table(name, SCHEMA)
    with table.update_spec() as update:
        for column in by:
            update.add_field(column, IdentityTransform())
    for day in (1, 2):
        table.append(_day(day, 10 * day, 10 * day + 1))
    lake.open().register(name)
    return name


@pytest.fixture
def days(lake):
    return _table(lake, "shop.days", "day")


@pytest.fixture
def plain(lake):
    return _table(lake, "shop.plain")


def _helps(txn):
    """What the error of a commit says, which has to lose."""
    with pytest.raises(txns.Conflict) as raised:
        txn.commit()
    message = str(raised.value)
    assert message.count("what would help: ") <= 1
    _, told, rest = message.partition("; what would help: ")
    return rest.partition("; table=`")[0] if told else ""


def _read_and_append(table, row_filter):
    table.scan(row_filter).to_arrow()
    table.append(_day(1, 15))


def _overwrite(table, row_filter):
    table.overwrite(_day(1, 15), row_filter)


@pytest.mark.parametrize("write", [_read_and_append, _overwrite])
@pytest.mark.parametrize(
    ("row_filter", "told"),
    [
        ("true", COMPARE),
        ("id < 50", COMPARE),
        ("day is not null", COMPARE),
        ("day < 5", NARROWER),
        ("day < 5 and id < 50", "partitioning the table by `id`, too"),
    ],
)
def test_a_filter_on_what_the_table_is_partitioned_by(handle, days, write, row_filter, told):
    txn = handle.begin()
    write(txn.load_table(days), row_filter)
    handle.catalog().load_table(days).append(_day(2, 29))
    assert told == _helps(txn)


def test_the_filter_that_has_met(handle, days):
    """Not another one, which had nothing to do with it."""
    txn = handle.begin()
    table = txn.load_table(days)
    table.scan("id = 99").to_arrow()
    _read_and_append(table, "day = 2")
    handle.catalog().load_table(days).append(_day(2, 29))
    assert NARROWER == _helps(txn)


def test_a_table_that_is_not_partitioned(handle, plain):
    for row_filter, told in [
        ("id < 50", "partitioning the table by `id`"),
        ("true", "partitioning the table by a column that the filters compare with literals"),
    ]:
        txn = handle.begin()
        _read_and_append(txn.load_table(plain), row_filter)
        handle.catalog().load_table(plain).append(_day(2, 29))
        assert told == _helps(txn)


@pytest.mark.parametrize("level", ["SERIALIZABLE", "STRICT SERIALIZABLE"])
@pytest.mark.parametrize("row_filter", ["true", "day = 2"])
def test_snapshot_where_it_has_only_read(lake, handle, days, level, row_filter):
    """At SNAPSHOT the same commits."""
    elsewhere = lake.table("elsewhere")

    def run(isolation):
        txn = handle.begin(isolation=isolation)
        txn.load_table(days).scan(row_filter).to_arrow()
        txn.load_table(elsewhere).append(pa.table({"id": [1], "name": ["x"]}))
        handle.catalog().load_table(days).append(_day(2, 29))
        return txn

    assert _helps(run(level)).endswith(f"; or {SNAPSHOT}")
    run("SNAPSHOT").commit()


def test_a_namespace_that_was_listed(handle, days):
    txn = handle.begin()
    txn.list_tables("shop")
    txn.load_table(days).append(_day(1, 15))
    handle.catalog().create_table("shop.new", SCHEMA)
    assert SNAPSHOT == _helps(txn)


def test_conflicts_by_table(handle, days):
    """By file the two commit."""
    for conflicts, told in [("table", BY_FILE), ("file", None)]:
        txn = handle.begin(conflicts=conflicts)
        _overwrite(txn.load_table(days), "day = 1")
        handle.catalog().load_table(days).append(_day(2, 29))
        if told:
            assert told == _helps(txn)
        else:
            txn.commit()


def test_conflicts_by_table_of_a_scan_without_a_filter(handle, days):
    """To go by files alone would not help it."""
    txn = handle.begin(conflicts="table")
    _read_and_append(txn.load_table(days), "true")
    handle.catalog().load_table(days).append(_day(2, 29))
    assert f"{BY_FILE}, and {COMPARE}" == _helps(txn)


def test_a_table_that_says_that_tables_decide(handle, days):
    with handle.begin() as txn, txn.load_table(days).transaction() as steps:
        steps.set_properties({"txns.conflicts": "table"})
    txn = handle.begin()
    _overwrite(txn.load_table(days), "day = 1")
    handle.catalog().load_table(days).append(_day(2, 29))
    assert BY_FILE.replace("transaction", "table") == _helps(txn)


@pytest.mark.parametrize("conflicts", ["file", "table"])
@pytest.mark.parametrize("write", [_read_and_append, _overwrite])
def test_an_alter(handle, days, write, conflicts):
    txn = handle.begin(conflicts=conflicts)
    write(txn.load_table(days), "day = 1")
    with handle.catalog().load_table(days).update_schema() as update:
        update.add_column("price", LongType())
    assert ALONE == _helps(txn)


def test_a_blind_append_to_a_table_of_another_shape(handle, days):
    txn = handle.begin()
    txn.load_table(days).append(_day(1, 15))
    with handle.catalog().load_table(days).update_schema() as update:
        update.add_column("price", LongType())
    assert ALONE == _helps(txn)


def test_who_alters(handle, days):
    txn = handle.begin()
    with txn.load_table(days).update_schema() as update:
        update.add_column("price", LongType())
    handle.catalog().load_table(days).append(_day(2, 29))
    assert "to alter, drop or replace the table while nobody else writes it" == _helps(txn)


def test_a_compaction(handle, days):
    handle.catalog().load_table(days).append(_day(1, 19))
    txn = handle.begin()
    _overwrite(txn.load_table(days), "day = 1")
    with handle.begin() as other:
        assert compact(other.load_table(days))
    assert _helps(txn).startswith("to run it again, since the rows are the same")


@pytest.mark.usefixtures("days")
def test_two_who_create_one_table(handle):
    txn = handle.begin()
    txn.create_table("shop.new", SCHEMA)
    handle.catalog().create_table("shop.new", SCHEMA)
    assert "to create the table once, before both" == _helps(txn)


def test_nothing_would_help(handle, days):
    """It finds the table the next time."""
    txn = handle.begin()
    assert not txn.table_exists("shop.new")
    txn.load_table(days).append(_day(1, 15))
    handle.catalog().create_table("shop.new", SCHEMA)
    assert "" == _helps(txn)
