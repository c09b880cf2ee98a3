"""Strangers who sort or partition a table anew between commit and apply (docs/spec.md 7, 8.1)."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.update import (
    RemovePartitionSpecsUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
)
from pyiceberg.transforms import BucketTransform, IdentityTransform, YearTransform
from pyiceberg.types import StringType, TimestampType

import txns
from tests.txns.commit.test_clocks import racing
from tests.txns.lake import SCHEMA, ids, rows
from txns._table import outstanding_branch


def _sort_by(table, column: str) -> None:
    with table.update_sort_order() as order:
        order.asc(column, IdentityTransform())


def _sorted_by(table) -> list[str]:
    return [table.schema().find_column_name(each.source_id) for each in table.sort_order().fields]


@pytest.mark.parametrize(("column", "orders"), [("id", 2), ("name", 3)])
@pytest.mark.parametrize("back", [True, False])
def test_an_order_of_strangers_under_the_id_of_a_logged_one(lake, later, column, orders, back):
    """An equal one is the logged one, another one makes way; each id is there once."""
    a = lake.table("a", [1])
    with later.begin() as txn:
        _sort_by(txn.load_table(a), "id")
        txn.load_table(a).append(rows(2))
    _sort_by(lake.catalog.load_table(a), column)
    if back:
        plain = lake.catalog.load_table(a)
        lake.catalog.commit_table(plain, (), (SetDefaultSortOrderUpdate(sort_order_id=0),))
    assert ["id"] == _sorted_by(later.snapshot().load_table(a))
    if not back:
        later.repair_reject(a)
    assert [] == later.apply_le()
    plain = lake.catalog.load_table(a)
    assert (["id"], orders) == (_sorted_by(plain), len(plain.metadata.sort_orders))
    assert orders == len(plain.sort_orders())
    assert [1, 2] == lake.plain_ids(a)


@pytest.mark.parametrize("orders", [[], [1]])
def test_a_table_of_others_that_does_not_list_that_it_has_no_order(lake, later, orders):
    """It does once it is under care: Iceberg's Java builds nothing on one that does not."""
    a = lake.table("a", [1], register=False)
    _sort_by(lake.catalog.load_table(a), "id")
    metadata = lake.catalog.load_table(a).metadata
    listed = [each for each in metadata.sort_orders if each.order_id in orders]
    without = metadata.model_copy(update={"sort_orders": listed, "default_sort_order_id": 0})
    location = f"{metadata.location}/metadata/00009-others.metadata.json"
    ToOutputFile.table_metadata(without, lake.catalog.load_table(a).io.new_output(location))
    lake.catalog.drop_table(a)
    lake.catalog.register_table(a, location)
    later.register(a)
    later.catalog().load_table(a).append(rows(2))
    assert [] == later.apply_le()
    assert [*orders, 0] == [
        each.order_id for each in lake.catalog.load_table(a).metadata.sort_orders
    ]
    assert [1, 2] == lake.plain_ids(a)


@pytest.mark.parametrize("back", [True, False])
def test_an_equal_spec_is_the_logged_one(lake, later, back):
    """Strangers do what is logged, and take it back or leave it; its fields are older ones."""
    a = lake.table("a", [1])
    with later.catalog().load_table(a).update_spec() as update:
        update.add_field("id", BucketTransform(4), "i")
        update.add_field("name", BucketTransform(4), "n")
    assert [] == later.apply_le()
    with later.catalog().load_table(a).update_spec() as update:
        update.remove_field("i")
    with lake.catalog.load_table(a).update_spec() as update:
        update.remove_field("i")
    if back:
        plain = lake.catalog.load_table(a)
        lake.catalog.commit_table(plain, (), (SetDefaultSpecUpdate(spec_id=1),))
    assert ["n"] == [each.name for each in later.snapshot().load_table(a).spec().fields]
    if not back:
        later.repair_reject(a)
    assert [] == later.apply_le()
    plain = lake.catalog.load_table(a)
    assert (["n"], 3) == ([each.name for each in plain.spec().fields], len(plain.specs()))


def _go_by_a_dropped_column(lake, later, by: str) -> str:
    """Have the log drop `note`, while strangers go by it."""
    a = lake.table("a", [1])
    with later.catalog().load_table(a).update_schema() as update:
        update.add_column("note", StringType())
    assert [] == later.apply_le()
    with later.begin() as txn:
        with txn.load_table(a).update_schema(allow_incompatible_changes=True) as update:
            update.delete_column("note")
        txn.load_table(a).append(rows(2))
    if by == "order":
        _sort_by(lake.catalog.load_table(a), "note")
    else:
        with lake.catalog.load_table(a).update_spec() as update:
            update.add_field("note", IdentityTransform())
    return a


def _goes_by_nothing(table) -> bool:
    gone = "note" not in table.schema().column_names
    return gone and not (table.spec().fields or table.sort_order().fields)


@pytest.mark.parametrize("appended", [True, False])
@pytest.mark.parametrize("by", ["order", "spec"])
def test_a_table_that_goes_by_a_dropped_column(lake, later, by, appended):
    """No requirement tells of it: readers stay on the logged state, and a reject ends it (I10)."""
    a = _go_by_a_dropped_column(lake, later, by)
    if appended:
        schema = SCHEMA.append(pa.field("note", pa.string()))
        row = {"id": [9], "name": ["n9"], "note": ["x"]}
        lake.catalog.load_table(a).append(pa.table(row, schema=schema))
    assert [("shop", "a")] == later.apply_le()
    assert outstanding_branch.BRANCH in lake.catalog.load_table(a).refs()
    table = later.snapshot().load_table(a)
    assert _goes_by_nothing(table)
    assert [1, 2] == ids(table)
    with pytest.raises(txns.Quarantined, match="column that the change takes away"):
        later.catalog().load_table(a).append(rows(3))
    with pytest.raises(txns.Unsupported, match="reject"):
        later.repair_adopt(a)
    later.repair_reject(a)
    assert [] == later.apply_le()
    assert _goes_by_nothing(lake.catalog.load_table(a))
    assert [1, 2] == lake.plain_ids(a)
    if appended:
        later.repair_adopt(a)
        assert [] == later.apply_le()
        assert [1, 2, 9] == lake.plain_ids(a)


def test_a_table_that_is_sorted_just_before_the_swap_that_drops_the_column(lake, later):
    """Pyiceberg lays the updates over what the table is by then, and fails in words of its own."""
    a = lake.table("a", [1])
    with later.catalog().load_table(a).update_schema() as update:
        update.delete_column("name")
    ours, rivals = racing(lake, a)
    rivals.append(lambda: _sort_by(lake.catalog.load_table(a), "name"))
    handle = lake.open(ours)
    with (
        pytest.raises(txns.Quarantined, match="sorted by a column that the change takes away"),
        handle.catalog().load_table(a).update_schema() as update,
    ):
        update.add_column("more", StringType())
    assert not rivals
    handle.repair_reject(a)
    handle.catalog().load_table(a).append(pa.table({"id": [2]}))
    assert [1, 2] == lake.plain_ids(a)


def test_an_old_spec_of_strangers_that_is_of_no_logged_column(lake, later):
    """Java would not load the table with it, also when nothing goes by it any more."""
    a = lake.table("a", [1])
    with later.catalog().load_table(a).update_schema() as update:
        update.add_column("ours", StringType())
    with lake.catalog.load_table(a).update_schema() as update:
        update.add_column("theirs", TimestampType())
    with lake.catalog.load_table(a).update_spec() as update:
        update.add_field("theirs", YearTransform(), "year")
    plain = lake.catalog.load_table(a)
    lake.catalog.commit_table(plain, (), (SetDefaultSpecUpdate(spec_id=0),))
    later.repair_reject(a)
    assert [("shop", "a")] == later.apply_le()
    assert "theirs" in lake.catalog.load_table(a).schema().column_names
    plain = lake.catalog.load_table(a)
    lake.catalog.commit_table(plain, (), (RemovePartitionSpecsUpdate(spec_ids=[1]),))
    assert [] == later.apply_le()
    assert "ours" in lake.catalog.load_table(a).schema().column_names
