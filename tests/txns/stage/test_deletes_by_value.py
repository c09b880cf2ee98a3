"""What a delete takes: the rows for which its filter is true, whatever is null or no number."""

from __future__ import annotations

import math
import random
from functools import partial

import pyarrow as pa
import pytest
from pyiceberg.expressions import (
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

from txns._iceberg.two_valued import two_valued

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.int64()), ("amount", pa.float64())])
ROWS = [
    {"id": 9 * number + place, "day": day, "amount": amount}
    for number, day in enumerate([None, 1, 2, 3])
    for place, amount in enumerate([None, 1.0, 3.0, 5.0, math.nan])
]


def _left_by(table, row_filter):
    table.delete(row_filter)
    return [row["id"] for row in table.scan().to_arrow().to_pylist()]


def _made(lake, name):
    lake.create_table(name, SCHEMA).append(pa.Table.from_pylist(ROWS, SCHEMA))


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
        _made(lake, f"shop.t{number}")
        with handle.begin() as txn:
            left = _left_by(txn.load_table(f"shop.t{number}"), row_filter)
        expected = [row["id"] for row in ROWS if _truth(plain, row) is not True]
        assert expected == left, row_filter


def test_a_filter_that_is_right_stays(handle):
    """Of a key of two columns each row that matches has both."""
    lake = handle.catalog()
    schema = lake.create_table("shop.a", SCHEMA).schema()
    keys = Or(*(And(EqualTo("id", key), EqualTo("day", key)) for key in range(5)))
    for right in (
        keys,
        EqualTo("day", 1),
        IsNull("amount"),
        And(IsNull("amount"), In("day", [1, 2])),
    ):
        assert right is two_valued(right, schema, True)  # noqa: FBT003


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
