"""What a conflict says would help: as the jar says it, and nothing that would not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThan, NotNull
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import parse_transform
from pyiceberg.types import LongType, NestedField, TimestampType

from txns._iceberg import what_helps
from txns._iceberg.what_helps import Clash

GOLDEN = json.loads((Path(__file__).parents[3] / "docs/golden/what_helps.json").read_text("utf-8"))[
    "cases"
]
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "day", LongType()),
    NestedField(3, "at", TimestampType()),
    NestedField(4, "a b", LongType()),
)
_MAKES = {"=": EqualTo, ">": GreaterThan, "is not null": lambda name, _value: NotNull(name)}


def _table(by, name="day"):
    fields = [
        PartitionField(SCHEMA.find_field(each).field_id, 1000 + at, parse_transform(how), f"p{at}")
        for at, (each, how) in enumerate(by)
    ]
    spec = PartitionSpec(*fields)
    schema = Schema(
        *(f.model_copy(update={"name": name}) if f.name == "day" else f for f in SCHEMA.fields)
    )
    return new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, "file:///t")


def _filter(conditions):
    made = AlwaysTrue()
    for column, how, value in conditions:
        made = And(made, _MAKES[how](column, value))
    return made


@pytest.mark.parametrize("case", GOLDEN)
def test_words(case):
    kind, by, conditions, by_table, only_read, told = case
    filters = [_filter(each) for each in conditions]
    base = _table(by)
    said = what_helps.words(Clash(kind), base, filters, by_table=by_table, only_read=only_read)
    assert (f"; what would help: {told}" if told else "") == said


def test_a_column_called_by_anybody():
    """It ends no value of the message."""
    said = what_helps.words(
        Clash.ROWS, _table([["day", "identity"]], "d`; table=`x"), [AlwaysTrue()]
    )
    assert "`d'; table='x`" in said
