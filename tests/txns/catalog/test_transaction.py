"""A transaction is a catalog: every operation stages, and reads its own writes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

import txns
from tests.txns.lake import SCHEMA, ids, rows


def test_all_tables_or_none(lake, handle):
    """Nothing is visible before the commit, everything after."""
    a, b = lake.table("a", [1]), lake.table("b", [2])
    txn = handle.begin()
    txn.load_table(a).append(rows(10))
    txn.load_table(b).delete("id = 2")
    assert ([1], [2]) == (lake.plain_ids(a), ids(handle.snapshot().load_table(b)))
    committed = txn.commit()
    assert committed.applied
    assert ([1, 10], []) == (lake.plain_ids(a), lake.plain_ids(b))
    assert {("shop", "a"), ("shop", "b")} == set(committed.tables)


def test_reads_its_own_writes(lake, handle):
    """Operations of one table see each other, through any object of it."""
    a = lake.table("a", [1, 2, 3])
    with handle.begin() as txn:
        table = txn.load_table(a)
        table.append(rows(4))
        table.delete("id = 1")
        assert table is txn.load_table(a)
        assert [2, 3, 4] == ids(txn.load_table(a))
    assert [2, 3, 4] == lake.plain_ids(a)


def test_an_exception_rolls_back(lake, handle):
    """The block's exception passes, and the files of the transaction are deleted."""
    a = lake.table("a", [1])
    before = lake.files()
    with pytest.raises(ZeroDivisionError), handle.begin() as txn:
        txn.load_table(a).append(rows(2))
        txn.load_table(a).delete("id = 1")
        raise ZeroDivisionError
    assert [1] == lake.plain_ids(a)
    assert before == lake.files()


def test_every_operation_of_a_table(lake, handle):
    """append, overwrite, upsert, delete, add_files, alter, branches, tags, properties."""
    a = lake.table("a", [1, 2])
    given = lake.folder / "given.parquet"
    pq.write_table(rows(50), given)
    with handle.begin() as txn:
        table = txn.load_table(a)
        table.overwrite(rows(3), overwrite_filter="id = 2")
        table.upsert(rows(3, 4), join_cols=["id"])
        table.add_files([str(given)])
        with table.update_schema() as update:
            update.add_column("more", LongType())
        with table.transaction() as several:
            several.set_properties({"k": "v"})
        table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "here").commit()
        table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "side").commit()
        table.delete("id = 50")
        assert [1, 3, 4] == ids(table)
    plain = lake.catalog.load_table(a)
    assert [1, 3, 4] == ids(plain)
    assert ("v", "more") == (plain.properties["k"], plain.schema().fields[-1].name)
    assert {"main", "here", "side"} == set(plain.refs())
    assert [1, 3, 4, 50] == sorted(
        plain.scan(snapshot_id=plain.refs()["side"].snapshot_id).to_arrow()["id"].to_pylist()
    )


def test_dynamic_partition_overwrite(lake, handle):
    """Only the partitions that the new rows lie in are replaced."""
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "name", StringType(), required=False),
    )
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    table = lake.catalog.create_table("shop.p", schema, partition_spec=spec)
    table.append(rows(1, 2))
    handle.register("shop.p")
    with handle.begin() as txn:
        txn.load_table("shop.p").dynamic_partition_overwrite(rows(2, 3))
    assert [1, 2, 3] == lake.plain_ids("shop.p")


def test_an_append_of_no_rows_commits(lake, handle):
    """As on a plain table: a snapshot without files."""
    a = lake.table("a", [1])
    with handle.begin() as txn:
        txn.load_table(a).append(SCHEMA.empty_table())
    assert [1] == lake.plain_ids(a)


def test_an_append_checks_the_schema(lake, handle):
    """Rows that do not fit are refused as by pyiceberg, and the transaction goes on."""
    a = lake.table("a", [1])
    with handle.begin() as txn:
        with pytest.raises(ValueError, match="Mismatch in fields"):
            txn.load_table(a).append(pa.table({"id": ["text"], "name": ["x"]}))
        txn.load_table(a).append(rows(2))
    assert [1, 2] == lake.plain_ids(a)


def test_create_write_and_drop(lake, handle):
    """A table is created with its rows; created and dropped inside leaves nothing."""
    with handle.begin() as txn:
        txn.create_table("shop.new", SCHEMA).append(rows(1))
        txn.create_table("shop.passing", SCHEMA).append(rows(2))
        txn.drop_table("shop.passing")
        assert ("shop", "new") in txn.list_tables("shop")
        assert not lake.catalog.table_exists("shop.new")
    assert [1] == lake.plain_ids("shop.new")
    assert not lake.catalog.table_exists("shop.passing")
    with pytest.raises(TableAlreadyExistsError), handle.begin() as txn:
        txn.create_table("shop.new", SCHEMA)


def test_create_table_transaction(lake, handle):
    """Pyiceberg's own transaction over a new table, inside ours."""
    with handle.begin() as txn, txn.create_table_transaction("shop.new", SCHEMA) as creation:
        creation.append(rows(1))
    assert [1] == lake.plain_ids("shop.new")


@pytest.mark.parametrize("in_one", [False, True])
def test_drop_and_create_again(lake, handle, in_one):
    """The name stands for the new table; the old rows are readable below its creation."""
    a = lake.table("a", [1])
    before = handle.upper
    with handle.begin() as txn:
        txn.drop_table(a)
        with pytest.raises(NoSuchTableError):
            txn.load_table(a)
        if in_one:
            txn.create_table(a, pa.schema([("other", pa.int64())]))
    if not in_one:
        assert not handle.catalog().table_exists(a)
        with handle.begin() as txn:
            txn.create_table(a, pa.schema([("other", pa.int64())]))
    table = handle.catalog().load_table(a)
    table.append(pa.table({"other": [7]}))
    assert [7] == handle.catalog().load_table(a).scan().to_arrow()["other"].to_pylist()
    if in_one:
        assert [1] == ids(handle.snapshot(before).load_table(a))
    else:
        with pytest.raises(txns.Conflict, match="created later"):
            handle.snapshot(before).load_table(a)


def test_savepoints(lake, handle):
    """What was staged since a savepoint goes, with its files; the table objects follow."""
    a = lake.table("a", [1])
    with handle.begin() as txn:
        table = txn.load_table(a)
        table.append(rows(2))
        txn.savepoint("s")
        kept = lake.files()
        table.append(rows(3))
        txn.create_table("shop.new", SCHEMA)
        txn.rollback_to("s")
        assert [1, 2] == ids(table)
        assert kept == lake.files()
        assert not txn.table_exists("shop.new")
        txn.release("s")
        with pytest.raises(txns.InvalidUsage, match="no such savepoint") as raised:
            txn.rollback_to("s")
        assert "3B001" == raised.value.sqlstate
    assert [1, 2] == lake.plain_ids(a)


def test_an_id_commits_once(lake, handle):
    """A second transaction of the same id is answered with the first one's entry."""
    a = lake.table("a", [1])
    with handle.begin(txn_id="load-2026-11-20") as txn:
        txn.load_table(a).append(rows(2))
    again = handle.begin(txn_id="load-2026-11-20")
    assert again.committed.commit_ts == txn.committed.commit_ts
    again.load_table(a).append(rows(2))
    assert again.commit().commit_ts == txn.committed.commit_ts
    assert [1, 2] == lake.plain_ids(a)


def test_an_id_that_commits_meanwhile(lake, handle):
    """Two that run at once with one id make one entry."""
    a = lake.table("a", [1])
    one, other = (handle.begin(txn_id="same") for _ in range(2))
    for txn in (one, other):
        txn.load_table(a).append(rows(2))
    assert one.commit().commit_ts == other.commit().commit_ts
    assert [1, 2] == lake.plain_ids(a)


def test_phases(lake, handle):
    """commit_at makes it durable and visible; apply carries it over; tidy archives it."""
    a = lake.table("a", [1])
    txn = handle.begin()
    txn.load_table(a).append(rows(2))
    committed = txn.commit_at()
    assert ([1], [1, 2]) == (lake.plain_ids(a), ids(handle.snapshot().load_table(a)))
    assert [1, 2] == ids(handle.begin().load_table(a))
    assert committed.apply().complete
    assert [1, 2] == lake.plain_ids(a)
    assert 2 == handle.tidy()
    archived = lake.catalog.load_table("txns.commits").scan().to_arrow().to_pylist()
    assert ["register", "commit"] == [row["kind"] for row in archived]
    assert [True, True] == [row["applied"] for row in handle.transactions()]


def test_commit_at_a_timestamp(lake, handle):
    """At or below the upper it is refused with the least one that works, nothing is lost."""
    a = lake.table("a", [1])
    txn = handle.begin()
    txn.load_table(a).append(rows(2))
    upper = handle.upper
    with pytest.raises(txns.InvalidUsage, match="above the upper") as raised:
        txn.commit_at(upper)
    assert upper + 1 == raised.value.least_ts
    assert upper + 1 == txn.commit_at(raised.value.least_ts).commit_ts
    with pytest.raises(txns.InvalidUsage, match="in the future"):
        begun = handle.begin()
        begun.load_table(a).append(rows(3))
        begun.commit_at(lake.clock.now_ms() + 3_600_000)


def test_next_writer_applies(lake):
    """With apply='next' an overwrite first applies what stands before it."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    with handle.begin() as txn:
        txn.load_table(a).append(rows(2))
    assert [1] == lake.plain_ids(a)
    with handle.begin() as txn:
        txn.load_table(a).delete("id = 1")
    assert [1, 2] == lake.plain_ids(a)
    assert [] == handle.apply_le()
    assert [2] == lake.plain_ids(a)


def test_read_only(lake, handle):
    """A read-only transaction refuses writes, and leaves no entry."""
    a = lake.table("a", [1])
    upper = handle.upper
    with handle.begin(read_only=True) as txn:
        assert [1] == ids(txn.load_table(a))
        with pytest.raises(txns.InvalidUsage) as raised:
            txn.load_table(a).append(rows(2))
        assert "25006" == raised.value.sqlstate
        with pytest.raises(txns.InvalidUsage):
            txn.create_namespace("other")
    with pytest.raises(txns.InvalidUsage, match="read-only"):
        handle.snapshot().create_namespace("other")
    assert upper == handle.upper


def test_unregistered_table(lake, handle):
    """Reading is unprotected; writing is refused with the command that registers it."""
    a = lake.table("a", [1], register=False)
    with handle.begin() as txn:
        assert [1] == ids(txn.load_table(a))
        assert ("shop.a",) == txn.unprotected
        with pytest.raises(txns.Unsupported, match=r"txns register shop\.a"):
            txn.load_table(a).append(rows(2))
    assert [1] == lake.plain_ids(a)


def test_register_all(lake):
    """With register='all' a table comes under care when a transaction touches it."""
    a = lake.table("a", [1], register=False)
    handle = lake.open(register="all")
    with handle.begin() as txn:
        txn.load_table(a).delete("id = 1")
        txn.load_table(a).append(rows(2))
    assert [2] == lake.plain_ids(a)


def test_a_name_that_does_not_exist(handle):
    """Pyiceberg's own error."""
    with pytest.raises(NoSuchTableError), handle.begin() as txn:
        txn.load_table("shop.nothing")


def test_what_acts_at_once_is_refused(lake, handle):
    """purge, rename and register_table cannot be rolled back."""
    a = lake.table("a", [1])
    txn = handle.begin()
    for call in (
        lambda: txn.purge_table(a),
        lambda: txn.rename_table(a, "shop.b"),
        lambda: txn.register_table("shop.b", "x"),
        lambda: txn.drop_table("txns.commits"),
    ):
        with pytest.raises(txns.Unsupported):
            call()


def test_it_is_over_after_its_end(lake, handle):
    """Whoever goes on with it gets a clear error."""
    a = lake.table("a", [1])
    txn = handle.begin()
    txn.rollback()
    txn.rollback()
    with pytest.raises(txns.InvalidUsage, match="begin another one"):
        txn.load_table(a)


def test_too_old(lake):
    """A transaction above the maximum age does not commit, and is not run again by itself."""
    a = lake.table("a", [1])
    handle = lake.open(max_age_s=1)
    before, calls = lake.files(), []

    def work(txn):
        calls.append(1)
        txn.load_table(a).append(rows(2))
        lake.clock.ahead_ms += 2000

    with pytest.raises(txns.InvalidUsage, match="max_age_s") as refusal:
        txns.run_transaction(handle, work)
    assert ("25P04", [1]) == (refusal.value.sqlstate, calls)
    assert before == lake.files()


@pytest.mark.parametrize("txn_id", [None, "nightly/" + "\u00fc" * 247])
def test_large_payload_in_a_file(lake, handle, txn_id):
    """Above 64 KiB the payload stands beside the commit table's metadata, whatever the id is."""
    a = lake.table("a", [1])
    with handle.begin(txn_id=txn_id) as txn:
        table = txn.load_table(a)
        with table.transaction() as several:
            several.set_properties({f"key-{i}": "v" * 1000 for i in range(100)})
        table.append(rows(2))
    assert any("txns-payload-" in path for path in lake.files())
    assert [1, 2] == lake.plain_ids(a)
    assert "v" * 1000 == lake.catalog.load_table(a).properties["key-99"]


def test_history_of_a_table(lake, handle):
    """Several statements are one change of main, with the commit_ts on every snapshot."""
    a = lake.table("a", [1])
    with handle.begin() as txn:
        txn.load_table(a).append(rows(2))
        txn.load_table(a).delete("id = 1")
    table = lake.catalog.load_table(a)
    ours = [s for s in table.snapshots() if "txns.txn-id" in s.summary.additional_properties]
    assert txn.txn_id == ours[-1].summary["txns.txn-id"]
    assert txn.committed.commit_ts == ours[-1].timestamp_ms
    assert [s.snapshot_id for s in ours[-1:]] == [table.history()[-1].snapshot_id]
    assert ours[-2].snapshot_id not in {entry.snapshot_id for entry in table.history()}
    main = table.refs()["main"]
    assert (10, 86_400_000) == (main.min_snapshots_to_keep, main.max_snapshot_age_ms)


def test_a_transaction_may_take_a_day(lake):
    """And what it reads is kept by expiry."""
    a = lake.table("a", [1])
    handle = lake.open()
    txn = handle.begin()
    txn.load_table(a).append(rows(2))
    base = lake.catalog.load_table(a).metadata.current_snapshot_id
    lake.open().catalog().load_table(a).append(rows(3))
    lake.clock.ahead_ms += 20 * 3_600_000
    table = handle.catalog().load_table(a)
    table.maintenance.expire_snapshots().by_ids([base]).commit()
    assert base in {each.snapshot_id for each in lake.catalog.load_table(a).snapshots()}
    txn.commit()
    assert [1, 2, 3] == lake.plain_ids(a)
    late = handle.begin()
    late.load_table(a).append(rows(4))
    lake.clock.ahead_ms += 25 * 3_600_000
    with pytest.raises(txns.InvalidUsage, match="86400 s"):
        late.commit()


def test_columns_that_change_after_a_write_are_there_at_its_timestamp(lake, handle):
    """Who reads it as the past goes by its snapshot's schema."""
    a = lake.table("a", [1])
    with handle.begin() as txn:
        txn.load_table(a).append(rows(2))
        with txn.load_table(a).update_schema() as update:
            update.add_column("more", StringType())
        txn.create_table("shop.b", SCHEMA).append(rows(3))
        with txn.load_table("shop.b").update_schema() as update:
            update.delete_column("name")
    then = handle.upper
    for name in (a, "shop.b"):
        table = handle.catalog().load_table(name)
        with table.update_schema() as update:
            update.add_column("later", StringType())
    past = handle.snapshot(then)
    assert ["id", "name", "more"] == past.load_table(a).schema().column_names
    assert ["id"] == past.load_table("shop.b").schema().column_names
    assert ([1, 2], [3]) == (ids(past.load_table(a)), ids(past.load_table("shop.b")))


def test_columns_at_the_timestamp_of_a_rollback(lake, handle):
    """It leaves the columns as they are: its snapshot is read with them."""
    a = lake.table("a", [1])
    first = handle.catalog().load_table(a).current_snapshot().snapshot_id
    with handle.catalog().load_table(a).update_schema() as update:
        update.add_column("more", StringType())
    handle.catalog().load_table(a).append(rows(2))
    handle.catalog().load_table(a).manage_snapshots().rollback_to_snapshot(first).commit()
    then = handle.upper
    handle.catalog().load_table(a).append(rows(3))
    past = handle.snapshot(then).load_table(a)
    assert ["id", "name", "more"] == past.schema().column_names
    assert [1] == ids(past)


def test_who_commits_twice_deletes_nothing(lake, handle):
    """Only what was staged under an id that had committed before is thrown away."""
    a = lake.table("a", [1])
    txn = handle.begin()
    txn.load_table(a).append(rows(2))
    assert txn.commit() is txn.commit()
    assert [1, 2] == ids(handle.catalog().load_table(a))


@pytest.mark.parametrize("by", ["partition", "order"])
def test_who_has_begun_before_the_columns_of_a_partition_spec(lake, handle, by):
    """A table that has them now is neither partitioned nor sorted by them then: a lost race."""
    a = lake.table("a", [1])
    txn = handle.begin()
    catalog = handle.catalog()
    with catalog.load_table(a).update_schema() as update:
        update.add_column("more", LongType())
    if by == "partition":
        with catalog.load_table(a).update_spec() as spec:
            spec.add_identity("more")
    else:
        with catalog.load_table(a).update_sort_order() as order:
            order.asc("more", IdentityTransform())
    table = txn.load_table(a)
    assert (["id", "name"], [1]) == (table.schema().column_names, ids(table))
    table.append(rows(2))
    with pytest.raises(txns.Conflict):
        txn.commit()
    assert [1] == ids(handle.catalog().load_table(a))
