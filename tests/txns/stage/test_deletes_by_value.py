"""What a delete takes: the rows for which its filter is true, whatever is null or no number."""

from __future__ import annotations

import math
import random
from functools import partial

import pyarrow as pa
import pytest
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThan,
    In,
    IsNaN,
    IsNull,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    Or,
)
from pyiceberg.expressions.visitors import rewrite_not
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from txns._iceberg.two_valued import two_valued

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.int64()), ("amount", pa.float64())])
ROWS = [
    {"id": 9 * number + place, "day": day, "amount": amount}
    for number, day in enumerate([None, 1, 2, 3])
    for place, amount in enumerate([None, 1.0, 3.0, 5.0, math.nan])
]


def _left_by(table, row_filter):
    table.delete(row_filter)
    return sorted(row["id"] for row in table.scan().to_arrow().to_pylist())


def _made(lake, name):
    lake.create_table(name, SCHEMA).append(pa.Table.from_pylist(ROWS, SCHEMA))


def _made_in_files(lake, name, rng):
    """Have few rows in each file, so that statistics say something of them."""
    schema = SCHEMA.append(pa.field("file", pa.int64()))
    table = lake.create_table(name, schema)
    with table.update_spec() as update:
        update.add_identity("file")
    rows = [row | {"file": rng.randrange(9)} for row in ROWS]
    lake.load_table(name).append(pa.Table.from_pylist(rows, schema))


@pytest.mark.parametrize(
    ("row_filter", "taken"),
    [
        ("amount > 3 or day = 3", lambda row: row["day"] == 3 or _above(row["amount"], 3)),
        ("day = 3 or amount is null", lambda row: row["day"] == 3 or row["amount"] is None),
        (
            "amount = 3 or (amount is null and day = 1)",
            lambda row: row["amount"] == 3 or (row["amount"] is None and row["day"] == 1),
        ),
        ("amount != 1", lambda row: row["amount"] not in {None, 1}),
        ("amount not in (1, 5)", lambda row: row["amount"] not in {None, 1, 5}),
        ("day = 2", lambda row: row["day"] == 2),
    ],
)
@pytest.mark.parametrize("within", ["a transaction", "none"])
def test_rows_with_nulls(handle, row_filter, taken, within):
    """As SQL has it; pyiceberg leaves rows that match, and takes others along."""
    lake = handle.catalog()
    _made(lake, "shop.a")
    expected = [row["id"] for row in ROWS if not taken(row)]
    if within == "none":
        assert expected == _left_by(lake.load_table("shop.a"), row_filter)
        return
    with handle.begin() as txn:
        assert expected == _left_by(txn.load_table("shop.a"), row_filter)
    assert expected == [
        row["id"] for row in lake.load_table("shop.a").scan().to_arrow().to_pylist()
    ]


def test_an_overwrite_replaces_what_matches(handle):
    """It deletes as a delete does."""
    lake = handle.catalog()
    _made(lake, "shop.a")
    new = pa.Table.from_pylist([{"id": 99, "day": 3, "amount": None}], SCHEMA)
    with handle.begin() as txn:
        txn.load_table("shop.a").overwrite(new, "amount > 3 or day = 3")
    left = [row["id"] for row in lake.load_table("shop.a").scan("day = 3").to_arrow().to_pylist()]
    assert [99] == left


def _above(found, wanted):
    return found is not None and found > wanted


@pytest.mark.parametrize("seed", range(3))
def test_filters_made_at_random(handle, seed):
    """Every row is there or not as three-valued logic has it."""
    rng = random.Random(seed)
    lake = handle.catalog()
    for number in range(12):
        row_filter = _made_at_random(rng, 3)
        plain = rewrite_not(row_filter)  # of what is not at most 3 no NaN is
        _made_in_files(lake, f"shop.t{number}", rng)
        with handle.begin() as txn:
            left = _left_by(txn.load_table(f"shop.t{number}"), row_filter)
        expected = [row["id"] for row in ROWS if _truth(plain, row) is not True]
        assert expected == left, row_filter


@pytest.mark.parametrize(
    ("column", "values", "row_filter", "left"),
    [
        (pa.int64(), [None, 2, 3], "a != 1", [None]),
        (pa.int64(), [None, None], "a != 1", [None, None]),
        (pa.int64(), [None, 2, 3], "a not in (0, 1)", [None]),
        (pa.int32(), [None, 2], "a < 5000000000", [None]),
        (pa.string(), [None, "b"], NotIn("a", ["c", "d"]), [None]),
        (pa.float64(), [None, None], NotNaN("a"), [None, None]),
        (pa.float64(), [1.0, math.nan], "a <= 5", [math.nan]),
        (pa.float32(), [1.0, math.nan], "a = 1", [math.nan]),
        (pa.float64(), [1.0, math.nan], In("a", [1.0, 7.0]), [math.nan]),
    ],
)
def test_statistics_that_do_not_count_them(handle, column, values, row_filter, left):
    """
    A file is dropped unread where all of its rows match, and not all of its values.

    1. The bounds of a file of nulls and twos are two and two, as of twos and NaNs.
    2. By them alone each row is another than 1, or at most 5.
    """
    lake = handle.catalog()
    schema = pa.schema([("a", column)])
    lake.create_table("shop.a", schema).append(pa.table({"a": values}, schema))
    lake.load_table("shop.a").delete(row_filter)
    assert str(left) == str(lake.load_table("shop.a").scan().to_arrow()["a"].to_pylist())


@pytest.mark.parametrize(
    ("row_filter", "left"),
    [
        ("s.x = 1", [0, 2, 3]),
        ("s.x = 1 or id = 3", [0, 2]),
        ("s.x != 1", [0, 1]),
        ("s.x is not null", [0]),
        ("s.t.y >= 1", [0, 1, 2]),
        ("s.t.y != 1", [0, 1, 3]),
        (NotNull("s"), [0]),
    ],
)
def test_fields_of_structs(handle, row_filter, left):
    """Where a struct is null, so are its fields, also those that it may not be without."""
    lake = handle.catalog()
    inner = pa.struct([pa.field("y", pa.float64())])
    struct = pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("t", inner)])
    schema = pa.schema([("id", pa.int64()), ("s", struct)])
    inside = [None, {"x": 1, "t": None}, {"x": 2, "t": {"y": math.nan}}, {"x": 3, "t": {"y": 1.0}}]
    rows = [{"id": number, "s": each} for number, each in enumerate(inside)]
    table = lake.create_table("shop.a", schema)
    table.append(pa.Table.from_pylist(rows, schema))
    assert left == _left_by(lake.load_table("shop.a"), row_filter)


def test_fields_of_structs_of_which_none_is_null(handle):
    """Their statistics are asked, whose field pyiceberg does not find."""
    lake = handle.catalog()
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.int64())]))])
    rows = [{"id": number, "s": {"x": number}} for number in range(3)]
    lake.create_table("shop.a", schema).append(pa.Table.from_pylist(rows, schema))
    assert [2] == _left_by(lake.load_table("shop.a"), "s.x != 2")


def test_a_column_in_capitals_is_the_same(handle):
    """Nothing is 1 and null."""
    lake = handle.catalog()
    _made(lake, "shop.a")
    lake.load_table("shop.a").delete("DAY = 1 and day is null", case_sensitive=False)
    assert len(ROWS) == len(lake.load_table("shop.a").scan().to_arrow())


def test_columns_that_came_later_and_have_other_names_now(handle):
    """Files that lack a column have nulls there; one that was dropped is another one."""
    lake = handle.catalog()
    _made(lake, "shop.a")
    with lake.load_table("shop.a").update_schema() as update:
        update.add_column("late", LongType())
        update.rename_column("amount", "price")
        update.delete_column("day")
        update.add_column("day", LongType())
    table = lake.load_table("shop.a")
    schema = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("late", pa.int64())])
    table.append(pa.Table.from_pylist([{"id": 99, "price": 3.0, "late": 7}], schema))
    everything = len(ROWS) + 1
    for row_filter, left in [
        ("day != 7", everything),
        ("late != 8 and price = 1", everything),
        ("late != 8 or price = 1", everything - 1 - 4),
        ("late is null and price > 3", everything - 5 - 4),
    ]:
        lake.load_table("shop.a").delete(row_filter)
        assert left == len(lake.load_table("shop.a").scan().to_arrow()), row_filter


def test_a_partition_goes_without_a_look_at_others(handle, lake):
    """Its own files are dropped unread, and those of other partitions are not opened."""
    tables = handle.catalog()
    table = tables.create_table("shop.a", SCHEMA)
    with table.update_spec() as update:
        update.add_identity("day")
    table = tables.load_table("shop.a")
    table.append(pa.Table.from_pylist(ROWS, SCHEMA))
    for data in lake.folder.rglob("*.parquet"):
        data.unlink()
    for row_filter in ("day = 3", "day > 1", "day is null"):
        tables.load_table("shop.a").delete(row_filter)
    files = tables.load_table("shop.a").inspect.files().to_pylist()
    assert [1] == [each["partition"]["day"] for each in files]


def test_many_keys_stay_as_they_are():
    """Of a key of two columns each row that matches has both: that is said once of each."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", LongType()))
    keys = Or(*(And(EqualTo("id", key), EqualTo("day", key)) for key in range(500)))
    expected = And(And(keys, NotNull("id")), NotNull("day"))
    assert expected == two_valued(keys, schema, True)  # noqa: FBT003
    assert AlwaysTrue() is two_valued(AlwaysTrue(), schema, True)  # noqa: FBT003
    required = Schema(NestedField(1, "id", LongType(), required=True))
    assert EqualTo("id", 1) == two_valued(EqualTo("id", 1), required, True)  # noqa: FBT003


@pytest.mark.parametrize("row_filter", ["other = 1", "other is null", "DAY = 1"])
def test_a_column_that_there_is_not(handle, row_filter):
    """As pyiceberg says it."""
    _made(handle.catalog(), "shop.a")
    with pytest.raises(ValueError, match=r"Could not find field with name (other|DAY)"):
        handle.catalog().load_table("shop.a").delete(row_filter)


def _made_at_random(rng, depth):
    if depth and rng.random() < 0.7:
        join = rng.choice([And, Or, And, Or, Not])
        if join is Not:
            return Not(_made_at_random(rng, depth - 1))
        return join(_made_at_random(rng, depth - 1), _made_at_random(rng, depth - 1))
    column = rng.choice(["day", "amount"])
    number = rng.choice([1, 2, 3])
    made = [
        partial(EqualTo, column, number),
        partial(NotEqualTo, column, number),
        partial(GreaterThan, column, number),
        partial(LessThanOrEqual, column, number),
        partial(In, column, [number, 5]),
        partial(NotIn, column, [number, 5]),
        partial(IsNull, column),
        partial(NotNull, column),
        partial(IsNaN, "amount"),
        partial(NotNaN, "amount"),
    ]
    return rng.choice(made)()


def _truth(expression, row):
    """Give True, False, or None for unknown."""
    if isinstance(expression, And | Or):
        decides = isinstance(expression, Or)
        found = [_truth(expression.left, row), _truth(expression.right, row)]
        return decides if decides in found else None if None in found else not decides
    found = row[expression.term.name]
    if isinstance(expression, IsNull | NotNull):
        return (found is None) == isinstance(expression, IsNull)
    return None if found is None else _holds(expression, found)


def _holds(expression, found):
    if isinstance(expression, IsNaN | NotNaN):
        return math.isnan(found) == isinstance(expression, IsNaN)
    if isinstance(expression, In | NotIn):
        return (found in {one.value for one in expression.literals}) == isinstance(expression, In)
    wanted = expression.literal.value
    compared = {EqualTo: found == wanted, NotEqualTo: found != wanted, GreaterThan: found > wanted}
    return compared.get(type(expression), found <= wanted)
