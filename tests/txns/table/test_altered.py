"""Strangers who alter a table between commit and apply (docs/spec.md 8.1, 9.4)."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.table.update import (
    RemovePartitionSpecsUpdate,
    RemoveSchemasUpdate,
)
from pyiceberg.transforms import BucketTransform, YearTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

import txns
from tests.txns.commit.test_clocks import racing
from tests.txns.lake import SCHEMA, ids, rows


def _logged_alter(lake, later, *, row: int = 2) -> str:
    """Log a column and a row with a value in it, beside a row of another table."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    with later.begin() as txn:
        table = txn.load_table(a)
        with table.update_schema() as update:
            update.add_column("ours", StringType())
        schema = SCHEMA.append(pa.field("ours", pa.string()))
        table.append(pa.table({"id": [row], "name": ["n"], "ours": ["o"]}, schema=schema))
        txn.load_table(b).append(rows(row))
    return a


def _foreign_alter(lake, a: str) -> None:
    with lake.catalog.load_table(a).update_schema() as update:
        update.add_column("theirs", LongType())


def test_readers_stay_on_the_logged_state_of_an_altered_table(lake, later):
    """A stranger's column took the id of a logged one: both tables are seen at the entry (I10)."""
    a = _logged_alter(lake, later)
    _foreign_alter(lake, a)
    assert [("shop", "a")] == later.apply_le()
    snapshot = later.snapshot()
    table = snapshot.load_table(a)
    assert ["id", "name", "ours"] == table.schema().column_names
    assert [None, "o"] == sorted(
        table.scan().to_arrow()["ours"].to_pylist(), key=str, reverse=False
    )
    assert [1, 2] == ids(snapshot.load_table("shop.b"))


def test_writers_of_an_altered_table_get_the_cure(lake, later):
    """Quarantine, with the command that ends it."""
    a = _logged_alter(lake, later)
    _foreign_alter(lake, a)
    with pytest.raises(txns.Quarantined, match=r"txns repair reject shop\.a"):
        later.catalog().load_table(a).append(rows(3))
    with pytest.raises(txns.Unsupported, match="reject"):
        later.repair_adopt(a)


def test_reject_puts_the_logged_columns_on_an_altered_table(lake, later):
    """The logged change is applied as it was logged, under a schema id that is free."""
    a = _logged_alter(lake, later)
    _foreign_alter(lake, a)
    before = later.upper
    later.repair_reject(a)
    assert [] == later.apply_le()
    plain = lake.catalog.load_table(a)
    assert ["id", "name", "ours"] == plain.schema().column_names
    assert [1, 2] == lake.plain_ids(a) == ids(later.snapshot(before).load_table(a))
    known = [schema.schema_id for schema in plain.metadata.schemas]
    assert sorted(set(known)) == sorted(known)
    later.catalog().load_table(a).append(rows(3))
    later.apply_le()
    later.tidy()
    assert [1, 2, 3] == lake.plain_ids(a)


def test_rows_of_a_column_whose_id_is_taken_are_not_adopted(lake, later):
    """What a stranger wrote into a column of that id would show in the logged column."""
    a = _logged_alter(lake, later)
    _foreign_alter(lake, a)
    schema = SCHEMA.append(pa.field("theirs", pa.int64()))
    lake.catalog.load_table(a).append(
        pa.table({"id": [9], "name": ["n9"], "theirs": [9]}, schema=schema)
    )
    with pytest.raises(txns.Unsupported, match="reject"):
        later.repair_adopt(a)
    later.repair_reject(a)
    assert [1, 2] == lake.plain_ids(a)
    with pytest.raises(txns.Unsupported, match="`ours` of the log is `theirs`"):
        later.repair_adopt(a)


NESTED_TYPE = StructType(NestedField(9, "b", StringType()))
NESTED = pa.schema([pa.field("id", pa.int64()), pa.field("s", pa.struct([("a", pa.string())]))])


def _append_nested(lake, name: str, value: object) -> None:
    """Append a row, with a value in a column of the struct, outside the protocol."""
    table = lake.catalog.load_table("shop.c")
    row = {"id": [9], "s": [{"a": "a", name: value}]}
    table.append(pa.table(row, schema=table.schema().as_arrow()))


@pytest.mark.parametrize(
    ("ours", "name", "theirs", "told"),
    [
        (StringType(), "theirs", StringType(), "`s.ours` of the log is `s.theirs`"),
        (LongType(), "ours", StringType(), "`s.ours long` of the log is `s.ours string`"),
        (DecimalType(9, 3), "ours", DecimalType(8, 2), "is `s.ours decimal"),
        (NESTED_TYPE, "ours", StringType(), "is `s.ours string`"),
    ],
    ids=["path", "type", "scale", "struct"],
)
def test_rows_of_a_nested_column_whose_id_is_taken_are_not_adopted(lake, ours, name, theirs, told):
    """They would show in another column, or as a type that nobody can read them as."""
    later = lake.open(apply="next")
    lake.catalog.create_table("shop.c", NESTED)
    later.register("shop.c")
    with later.catalog().load_table("shop.c").update_schema() as update:
        update.add_column(("s", "ours"), ours)
    with lake.catalog.load_table("shop.c").update_schema() as update:
        update.add_column(("s", name), theirs)
    value = Decimal(9) if isinstance(theirs, DecimalType) else "x"
    _append_nested(lake, name, value)
    later.repair_reject("shop.c")
    assert [] == later.apply_le()
    with pytest.raises(txns.Unsupported, match=told):
        later.repair_adopt("shop.c")
    assert [] == ids(later.snapshot().load_table("shop.c"))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (IntegerType(), LongType()),
        (FloatType(), DoubleType()),
        (DecimalType(9, 2), DecimalType(11, 2)),
    ],
    ids=str,
)
def test_rows_of_a_type_that_the_log_has_widened_are_adopted(lake, later, theirs, ours):
    """They are read as any file that is older than the change of the type."""
    lake.catalog.create_table("shop.c", NESTED)
    with lake.catalog.load_table("shop.c").update_schema() as update:
        update.add_column(("s", "n"), theirs)
    later.register("shop.c")
    with later.catalog().load_table("shop.c").update_schema() as update:
        update.update_column(("s", "n"), ours)
    value = Decimal(9) if isinstance(theirs, DecimalType) else 9
    _append_nested(lake, "n", value)
    assert [] == later.apply_le()
    later.repair_adopt("shop.c")
    adopted = later.snapshot().load_table("shop.c").scan().to_arrow()
    assert [{"a": "a", "n": value}] == adopted["s"].to_pylist()


def test_a_renamed_and_renamed_back_column_leaves_no_schema_twice(lake, later):
    """No requirement fails, and yet the id of the logged schema is taken."""
    a = _logged_alter(lake, later)
    for old, new in (("name", "nombre"), ("nombre", "name")):
        with lake.catalog.load_table(a).update_schema() as update:
            update.rename_column(old, new)
    assert [1, 2] == ids(later.snapshot().load_table(a))
    assert [] == later.apply_le()
    plain = lake.catalog.load_table(a)
    assert ["id", "name", "ours"] == plain.schema().column_names
    assert [0, 1, 2] == [schema.schema_id for schema in plain.metadata.schemas]
    assert 2 == plain.current_snapshot().schema_id


def test_schemas_and_specs_that_a_stranger_has_removed(lake, later):
    """A change may remove schemas and specs that are gone: it is applied and read all the same."""
    a = lake.table("a", [1])
    handle = lake.open()
    with handle.begin() as txn, txn.load_table(a).update_schema() as update:
        update.add_column("more", LongType())
    for column in ("id", "name"):
        with handle.begin() as txn, txn.load_table(a).update_spec() as update:
            update.add_field(column, BucketTransform(4), f"of_{column}")
    gone = (RemoveSchemasUpdate(schema_ids=[0]), RemovePartitionSpecsUpdate(spec_ids=[1]))
    txn = later.begin()
    table = txn.load_table(a)
    assert {0, 1} <= {schema.schema_id for schema in table.metadata.schemas}
    txn.commit_table(table, (), gone)
    txn.load_table(a).append(_with_more(2))
    txn.commit()
    real = lake.catalog.load_table(a)
    lake.catalog.commit_table(real, (), gone)  # a stranger was faster
    assert [1, 2] == ids(later.snapshot().load_table(a))
    assert [] == later.apply_le()
    left = lake.catalog.load_table(a).metadata
    assert 0 not in {schema.schema_id for schema in left.schemas}
    assert 1 not in {spec.spec_id for spec in left.partition_specs}
    assert [1, 2] == lake.plain_ids(a)


def _with_more(row: int) -> pa.Table:
    schema = SCHEMA.append(pa.field("more", pa.int64()))
    return pa.table({"id": [row], "name": ["n"], "more": [row]}, schema=schema)


def test_readers_of_a_table_whose_partitions_were_altered(lake, later):
    """A stranger's partition field took the id of a logged one."""
    a = lake.table("a", [1])
    with later.begin() as txn:
        with txn.load_table(a).update_spec() as update:
            update.add_field("id", BucketTransform(4), "ours")
        txn.load_table(a).append(rows(2))
    with lake.catalog.load_table(a).update_spec() as update:
        update.add_field("id", BucketTransform(8), "theirs")
    table = later.snapshot().load_table(a)
    # Nothing is applied, and a reject does not change that (docs/spec.md 7).
    later.repair_reject(a)
    assert [("shop", "a")] == later.apply_le()
    assert (["ours"], [1, 2]) == ([field.name for field in table.spec().fields], ids(table))


@pytest.mark.parametrize("by", ["partition", "order"])
def test_readers_of_a_table_that_goes_by_a_column_of_strangers(lake, later, by):
    """Neither their spec nor their order fits the logged columns, which have that id (I10)."""
    a = _logged_alter(lake, later)
    with lake.catalog.load_table(a).update_schema() as update:
        update.add_column("theirs", TimestampType())
    if by == "partition":
        with lake.catalog.load_table(a).update_spec() as spec:
            spec.add_field("theirs", YearTransform(), "of_theirs")
    else:
        with lake.catalog.load_table(a).update_sort_order() as order:
            order.asc("theirs", YearTransform())
    assert [("shop", "a")] == later.apply_le()
    table = later.snapshot().load_table(a)
    assert (["id", "name", "ours"], [1, 2]) == (table.schema().column_names, ids(table))
    assert not table.spec().fields + tuple(table.sort_order().fields)
    with pytest.raises(txns.Quarantined, match=r"txns repair reject shop\.a"):
        later.catalog().load_table(a).append(rows(3))
    later.repair_reject(a)
    assert [1, 2] == ids(later.snapshot().load_table(a))
    # Java would not load a table with such a spec.
    assert [("shop", "a")] * (by == "partition") == later.apply_le()
    assert ("ours" in lake.catalog.load_table(a).schema().column_names) == (by == "order")


def test_what_no_swap_can_end_is_said(lake, later, caplog):
    """A change that no repair makes fit is no lost race: people see why."""
    a = lake.table("a", [1])
    with later.catalog().load_table(a).update_spec() as update:
        update.add_field("id", BucketTransform(4))
    with lake.catalog.load_table(a).update_spec() as update:
        update.add_field("name", BucketTransform(8))
    later.repair_reject(a)
    caplog.clear()
    with caplog.at_level("WARNING"):
        assert [("shop", "a")] == later.apply_le()
    assert [True] == ["entries stay unapplied" in one.getMessage() for one in caplog.records]
    assert "there is another partition spec 1" in caplog.text


def test_a_race_that_is_lost_twice_is_left_without_a_word(lake, later, caplog):
    """Whoever was faster, or comes next, applies what is left."""
    a = lake.table("a", [1])
    later.catalog().load_table(a).append(rows(2))
    ours, rivals = racing(lake, a)
    rivals += [lambda each=each: lake.catalog.load_table(a).append(rows(each)) for each in (8, 9)]
    with caplog.at_level("WARNING"):
        assert [("shop", "a")] == lake.open(ours).apply_le()
    assert ([], []) == (rivals, caplog.records)


def test_a_branch_that_a_stranger_moved_is_kept(lake, later):
    """A repaired change takes a branch back; where the stranger left it stays reachable."""
    a = lake.table("a", [1])
    plain = lake.catalog.load_table(a)
    plain.manage_snapshots().create_branch(plain.current_snapshot().snapshot_id, "side").commit()
    with later.begin() as txn:
        txn.load_table(a).append(rows(2), branch="side")
    lake.catalog.load_table(a).append(rows(9), branch="side")
    foreign = lake.catalog.load_table(a).refs()["side"].snapshot_id
    side = later.snapshot().load_table(a).scan().use_ref("side")
    assert [1, 2] == sorted(side.to_arrow()["id"].to_pylist())
    later.repair_reject(a)
    assert [] == later.apply_le()
    refs = lake.catalog.load_table(a).refs()
    assert foreign == refs[f"txns-foreign-{foreign}"].snapshot_id
    side = lake.catalog.load_table(a).scan().use_ref("side")
    assert [1, 2] == sorted(side.to_arrow()["id"].to_pylist())


def test_a_change_of_a_dropped_table_is_rejected(lake, later):
    """A stranger's delete between a drop and its apply: the drop stands, nothing is lost."""
    a = lake.table("a", [1, 2])
    with later.begin() as txn:
        txn.drop_table(a)
    lake.catalog.load_table(a).delete("id = 1")
    foreign = lake.catalog.load_table(a).current_snapshot().snapshot_id
    assert [("shop", "a")] == later.apply_le()
    with pytest.raises(txns.Unsupported, match="dropped"):
        later.repair_adopt(a)
    later.repair_reject(a)
    assert [] == later.apply_le()
    assert not later.catalog().table_exists(a)
    assert f"txns-foreign-{foreign}" in lake.catalog.load_table(a).refs()
    later.tidy()
    with later.begin() as txn:
        txn.create_table(a, SCHEMA)
        txn.load_table(a).append(rows(7))
    assert [7] == ids(later.snapshot().load_table(a))


def test_a_property_that_is_gone_as_its_removal_is_applied(lake):
    """A swap that is lost like any other, though pyiceberg has an error of its own for that."""
    a = lake.table("a", [1])
    with lake.catalog.load_table(a).transaction() as t:
        t.set_properties(color="red")
    with lake.open(apply="next").catalog().load_table(a).transaction() as t:
        t.remove_properties("color")
    ours, rivals = racing(lake, a)
    rivals.append(lambda: remove_color(lake.catalog.load_table(a)))
    lake.open(ours).forget(a)
    assert [] == rivals
    assert "txns.commit-table" not in lake.catalog.load_table(a).properties


def remove_color(table) -> None:
    with table.transaction() as t:
        t.remove_properties("color")
