"""A dropped name is created again on its physical table, whose numbers nothing uses twice."""

from __future__ import annotations

from contextlib import contextmanager

import pyarrow as pa
import pytest
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

import txns
from tests.txns.lake import ids, rows

A = "shop.a"


def columns(*names: str) -> Schema:
    return Schema(*(NestedField(at, name, LongType()) for at, name in enumerate(names, 1)))


def by(source_id: int, name: str) -> PartitionSpec:
    return PartitionSpec(PartitionField(source_id, 1000, IdentityTransform(), name))


def sorted_by(source_id: int) -> SortOrder:
    return SortOrder(SortField(source_id=source_id, transform=IdentityTransform()))


def a_row(schema: Schema, *values: int) -> pa.Table:
    names = [field.name for field in schema.fields]
    return pa.table({name: [value] for name, value in zip(names, values, strict=True)})


@contextmanager
def outside(lake):
    """Statements of their own."""
    yield lake.open().catalog()


@contextmanager
def inside(lake):
    """One transaction, which also drops the table."""
    with lake.open().begin() as txn:
        yield txn


@pytest.fixture(params=[outside, inside], ids=["outside", "inside"])
def recreated(request, lake):
    """Drop a table, create it again with a row, and give it as plain pyiceberg loads it."""

    def recreate(old: dict, new: dict, *values: int):
        before = lake.open().catalog().create_table(A, **old)
        before.append(a_row(old["schema"], *range(len(old["schema"].fields))))
        with request.param(lake) as catalog:
            catalog.drop_table(A)
            creation = catalog.create_table_transaction(A, **new)
            creation.append(a_row(new["schema"], *values))
            creation.commit_transaction()
        return lake.another_catalog().load_table(A)

    return recreate


def test_columns_keep_their_ids_by_name(recreated):
    """Files of before are read by the ids: another column must not have them."""
    table = recreated(
        {"schema": columns("id", "k")}, {"schema": columns("k", "new", "id")}, 5, 6, 7
    )
    assert {"k": 2, "new": 3, "id": 1} == {f.name: f.field_id for f in table.schema().fields}
    assert [{"k": 5, "new": 6, "id": 7}] == table.scan().to_arrow().to_pylist()
    assert table.metadata.last_column_id == 3


def test_columns_inside_others_keep_theirs(lake):
    def nested(*names: str) -> Schema:
        inner = StructType(*(NestedField(10 + at, n, LongType()) for at, n in enumerate(names)))
        return Schema(
            NestedField(1, "s", inner),
            NestedField(2, "l", ListType(element_id=20, element_type=inner)),
        )

    catalog = lake.open().catalog()
    old = catalog.create_table(A, nested("x", "y")).schema()
    catalog.drop_table(A)
    new = catalog.create_table(A, nested("y", "z")).schema()
    for name in ("s", "l", "s.y", "l.element", "l.element.y"):
        assert old.find_field(name).field_id == new.find_field(name).field_id
    for name in ("s.z", "l.element.z"):
        assert new.find_field(name).field_id > old.highest_field_id


@pytest.mark.parametrize(
    ("old", "new", "keeps"),
    [
        (LongType(), LongType(), True),
        (IntegerType(), LongType(), True),
        (DecimalType(5, 2), DecimalType(9, 2), True),
        (LongType(), DoubleType(), False),
        (LongType(), IntegerType(), False),
        (DecimalType(5, 2), DecimalType(9, 3), False),
        (StructType(NestedField(5, "x", LongType())), StringType(), False),
    ],
    ids=str,
)
def test_a_column_keeps_its_id_where_its_type_reads_as_the_new_one(lake, old, new, keeps):
    """Old specs and orders stay: libraries bind them to the type that their column's id has."""
    catalog = lake.open().catalog()
    catalog.create_table(A, Schema(NestedField(1, "id", LongType()), NestedField(2, "k", old)))
    last = catalog.load_table(A).metadata.last_column_id
    catalog.drop_table(A)
    again = Schema(NestedField(1, "id", LongType()), NestedField(2, "k", new))
    schema = catalog.create_table(A, again).schema()
    assert (1, 2 if keeps else last + 1) == tuple(field.field_id for field in schema.fields)
    assert new == schema.find_type("k")


def test_what_is_inside_a_column_of_another_kind_gets_new_ids(lake):
    """Whatever its full name is."""
    element = NestedField(5, "element", LongType())
    catalog = lake.open().catalog()
    catalog.create_table(A, Schema(NestedField(1, "k", ListType(5, LongType()))))
    last = catalog.load_table(A).metadata.last_column_id
    catalog.drop_table(A)
    schema = catalog.create_table(A, Schema(NestedField(1, "k", StructType(element)))).schema()
    assert all(field_id > last for field_id in schema.field_ids)


def test_partitions_of_a_column_that_is_of_another_type_now(lake):
    """The old spec's column is gone: every library loads such a table, and finds the new rows."""
    old, new = (
        Schema(NestedField(1, "id", LongType()), NestedField(2, "k", kind))
        for kind in (LongType(), DoubleType())
    )
    catalog = lake.open().catalog()
    bucket = PartitionSpec(PartitionField(2, 1000, BucketTransform(4), "k_bucket"))
    catalog.create_table(A, old, partition_spec=bucket, sort_order=sorted_by(2))
    catalog.load_table(A).append(pa.table({"id": [1], "k": [1]}))
    catalog.drop_table(A)
    catalog.create_table(A, new).append(pa.table({"id": [2], "k": [0.5]}))
    table = lake.another_catalog().load_table(A)
    for spec in table.metadata.partition_specs:
        assert all(table.schema().find_column_name(f.source_id) is None for f in spec.fields)
    assert [{"id": 2, "k": 0.5}] == table.scan(row_filter="k < 1").to_arrow().to_pylist()


def test_rows_are_found_by_other_partitions(recreated):
    """Their manifests name the spec under which it stands in the table."""
    schema = columns("id", "k")
    table = recreated(
        {"schema": schema, "partition_spec": by(1, "id")},
        {"schema": schema, "partition_spec": by(2, "k")},
        5,
        50,
    )
    for row_filter in ("id = 5", "k = 50"):
        assert [{"id": 5, "k": 50}] == table.scan(row_filter=row_filter).to_arrow().to_pylist()
    assert [] == table.scan(row_filter="id = 50").to_arrow().to_pylist()
    [manifest] = table.current_snapshot().manifests(table.io)
    assert manifest.partition_spec_id == table.spec().spec_id == 1
    assert [(2, 1001)] == [(f.source_id, f.field_id) for f in table.spec().fields]


@pytest.mark.parametrize(
    ("old", "new"),
    [(by(1, "id"), UNPARTITIONED_PARTITION_SPEC), (UNPARTITIONED_PARTITION_SPEC, by(1, "id"))],
    ids=["not partitioned any more", "partitioned now"],
)
def test_rows_are_found_with_partitions_or_without(recreated, old, new):
    schema = columns("id")
    table = recreated(
        {"schema": schema, "partition_spec": old}, {"schema": schema, "partition_spec": new}, 5
    )
    assert [5] == ids(table)
    assert [] == table.scan(row_filter="id = 0").to_arrow().to_pylist()
    [manifest] = table.current_snapshot().manifests(table.io)
    assert manifest.partition_spec_id == table.spec().spec_id == 1


def test_the_same_partitions_stay(recreated):
    """A column more in front of theirs: the field is that of the same column."""
    old, new = columns("id", "dt"), columns("id", "name", "dt")
    table = recreated(
        {"schema": old, "partition_spec": by(2, "dt")},
        {"schema": new, "partition_spec": by(3, "dt")},
        1,
        2,
        3,
    )
    assert [0] == [spec.spec_id for spec in table.metadata.partition_specs]
    assert [{"id": 1, "name": 2, "dt": 3}] == table.scan(row_filter="dt = 3").to_arrow().to_pylist()


def test_an_equal_spec_is_taken_whatever_the_ids_of_its_fields(lake):
    """Iceberg's Java compares specs so: it would take the equal one for one that is added."""
    schema = columns("id", "k")
    catalog = lake.open().catalog()
    table = catalog.create_table(A, schema, partition_spec=by(2, "first"))
    with table.update_spec() as update:
        update.remove_field("first")
    with table.update_spec() as update:
        update.add_field("k", IdentityTransform(), "second")
    known = catalog.load_table(A).metadata.partition_specs
    catalog.drop_table(A)
    again = catalog.create_table(A, schema, partition_spec=by(2, "first"))
    assert known == again.metadata.partition_specs
    assert again.spec().spec_id == 0
    catalog.drop_table(A)
    third = catalog.create_table(A, schema, partition_spec=by(2, "third"))
    newest = max(field.field_id for spec in known for field in spec.fields)
    assert [newest] == [field.field_id for field in third.spec().fields]


def test_files_go_where_they_are_asked_to(lake):
    place = f"file://{lake.folder}/elsewhere"
    catalog = lake.open(create_locations=place).catalog()
    first = catalog.create_table(A, columns("id")).location()
    catalog.drop_table(A)
    table = catalog.create_table(A, columns("id"), location=f"{place}/")
    table.append(a_row(columns("id"), 5))
    assert place == table.location() == lake.another_catalog().load_table(A).location()
    [file] = table.inspect.files().to_pylist()
    assert file["file_path"].startswith(f"{place}/")
    catalog.drop_table(A)
    assert place == catalog.create_table(A, columns("id")).location() != first
    assert [] == ids(catalog.load_table(A))


@pytest.mark.parametrize(
    ("old", "new", "number"),
    [(sorted_by(1), UNSORTED_SORT_ORDER, 0), (UNSORTED_SORT_ORDER, sorted_by(1), 1)],
    ids=["not sorted any more", "sorted now"],
)
def test_the_order_of_no_columns_is_number_0(recreated, old, new, number):
    """Iceberg's Java refuses another one."""
    schema = columns("id")
    table = recreated(
        {"schema": schema, "sort_order": old}, {"schema": schema, "sort_order": new}, 5
    )
    assert table.metadata.default_sort_order_id == number
    assert len(new.fields) == len(table.sort_order().fields)


def test_nothing_else_of_the_old_table_is_left(lake):
    """Neither its branches and tags nor its properties; the protocol's own stay."""
    handle = lake.open()
    catalog = handle.catalog()
    table = catalog.create_table(A, columns("id"), properties={"old": "1", "both": "1"})
    table.append(a_row(columns("id"), 1))
    head = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_branch(head, "side").create_tag(head, "v1").commit()
    handle.hold("kept", [A])
    catalog.drop_table(A)
    table = catalog.create_table(A, columns("id"), properties={"both": "2", "new": "2"})
    assert {"txns-hold-kept"} == {*table.metadata.refs} - {"main"}
    own = {k: v for k, v in table.properties.items() if k in {"old", "both", "new"}}
    assert {"both": "2", "new": "2"} == own
    assert [] == ids(table)


def test_columns_that_are_added_while_it_is_created_get_new_ids(lake):
    catalog = lake.open().catalog()
    catalog.create_table(A, columns("id", "k"))
    catalog.drop_table(A)
    creation = catalog.create_table_transaction(A, columns("id"))
    with creation.update_schema() as update:
        update.add_column("more", LongType())
    creation.commit_transaction()
    schema = lake.another_catalog().load_table(A).schema()
    assert [("id", 1), ("more", 3)] == [(field.name, field.field_id) for field in schema.fields]


def test_what_was_planned_on_an_older_drop_is_a_conflict(lake):
    """1. It is planned. 2. Others create the table, and drop it. 3. It is to be created."""
    catalog = lake.open().catalog()
    catalog.create_table(A, columns("id"))
    catalog.drop_table(A)
    creation = catalog.create_table_transaction(A, columns("id", "k"))
    other = lake.open(lake.another_catalog()).catalog()
    other.create_table(A, columns("id", "other"))
    other.drop_table(A)
    with pytest.raises(txns.Conflict, match="since this one was planned"):
        creation.commit_transaction()


def test_what_was_planned_before_a_drop_is_a_conflict(lake):
    catalog = lake.open().catalog()
    creation = catalog.create_table_transaction(A, columns("id"))
    other = lake.open(lake.another_catalog()).catalog()
    other.create_table(A, columns("id"))
    other.drop_table(A)
    with pytest.raises(txns.Conflict, match="since this one was planned"):
        creation.commit_transaction()


def test_a_live_table_that_takes_the_name_is_not_created_again(lake, monkeypatch):
    """1. The name is found absent. 2. A stranger renames a table to it. 3. CREATE TABLE."""
    lake.table("b", [1])
    handle = lake.open()
    handle.catalog().load_table("shop.b").append(rows(2))
    handle.tidy()
    catalog = lake.another_catalog()
    load, looks = catalog.load_table, []

    def between(name):
        if tuple(name) == ("shop", "a"):
            looks.append(name)
            if len(looks) == 2:
                lake.another_catalog().rename_table("shop.b", A)
        return load(name)

    monkeypatch.setattr(catalog, "load_table", between)
    with lake.open(catalog).begin() as txn, pytest.raises(TableAlreadyExistsError):
        txn.create_table(A, columns("id"))
    assert len(looks) >= 2
    assert [1, 2] == ids(handle.catalog().load_table(A))


@pytest.mark.parametrize("tidied", [False, True])
def test_a_drop_that_was_applied_meanwhile(lake, later, tidied):
    """What it stands on has left the head: the table shows it, and is as dropped as before."""
    a = lake.table("a", [1])
    with later.begin() as txn:
        txn.drop_table(a)
    again = later.begin()
    again.create_table(a, rows(1).schema).append(rows(7))
    handle = lake.open()
    handle.apply_le()
    if tidied:
        handle.tidy()
    again.commit()
    assert [7] == ids(handle.catalog().load_table(a))
