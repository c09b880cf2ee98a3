"""Holds: what `Handle.hold` promises, over a SQLite catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.types import StringType

import txns
from txns._stage.change_builder import main_at
from txns.errors import InvalidUsage, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY_MS = 24 * 3600 * 1000
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
A, B = ("shop", "a"), ("shop", "b")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("shop")
    yield catalog
    catalog.close()


@pytest.fixture
def handle(catalog: SqlCatalog) -> txns.Handle:
    """Two tables of two rows each, made by one transaction."""
    handle = txns.open(catalog)
    with handle.begin() as txn:
        for name in (A, B):
            txn.create_table(name, ROWS.schema).append(ROWS)
    return handle


def _append(handle: txns.Handle) -> None:
    with handle.begin() as txn:
        for name in (A, B):
            txn.load_table(name).append(ROWS)


def _count(catalog: object, name: tuple[str, ...]) -> int:
    return len(catalog.load_table(name).scan().to_arrow())


def test_a_hold_tags_the_snapshot_of_the_timestamp(handle, catalog):
    """The tag stands on what `read_ts` resolves to, not on the newest snapshot."""
    read_ts = handle.upper
    snapshot_id = handle.snapshot(read_ts).load_table(A).metadata.current_snapshot_id
    _append(handle)
    handle.hold("month-end", [A], read_ts=read_ts)
    assert snapshot_id == catalog.load_table(A).refs()["txns-hold-month-end"].snapshot_id


def test_a_hold_tags_all_tables_in_one_transaction(handle):
    """Both tables get their tag with one entry."""
    before = handle.upper
    handle.hold("both", [A, B])
    rows = [row for row in handle.transactions() if row["commit_ts"] > before]
    assert [("shop.a", "alter"), ("shop.b", "alter")] == [
        (row["table_name"], row["operation"]) for row in rows
    ]
    assert 1 == len({row["txn_id"] for row in rows})


def test_a_hold_is_of_every_table_under_care_where_none_is_named(handle):
    assert {A, B} == set(handle.hold("all").tables)


def test_a_hold_lasts_its_time_from_now(handle, catalog):
    """Iceberg counts a tag's age from its snapshot's time, so that age is added."""
    now_ms = txns.SystemClock().now_ms()
    hold = handle.hold("day", [A], ttl_ms=DAY_MS)
    assert now_ms + DAY_MS <= hold.expires_ms <= now_ms + DAY_MS + 60_000
    table = catalog.load_table(A)
    snapshot = table.snapshot_by_id(hold.tables[A])
    assert hold.expires_ms == snapshot.timestamp_ms + table.refs()[hold.tag].max_ref_age_ms


@pytest.mark.usefixtures("handle")
def test_a_hold_of_an_entry_that_is_not_applied(catalog):
    """A reader's snapshot can be held before it stands in the table."""
    later = txns.open(catalog, apply="next")
    _append(later)
    hold = later.hold("fresh", [A])
    later.apply_le()
    assert hold.tables[A] == catalog.load_table(A).refs()["txns-hold-fresh"].snapshot_id


def test_held_reads_the_tables_as_they_were(handle):
    handle.hold("two", [A, B])
    _append(handle)
    assert (2, 2, 4) == (
        _count(handle.held("two"), A),
        _count(handle.held("two"), B),
        _count(handle.snapshot(), A),
    )


def test_held_reads_on_after_the_snapshots_around_it_were_expired(handle, catalog):
    """1. hold. 2. others append. 3. expiry takes what no ref needs, and cuts the ancestry."""
    hold = handle.hold("kept", [A])
    _append(handle)
    _append(handle)
    table = catalog.load_table(A)
    named = {ref.snapshot_id for ref in table.refs().values()}
    table.maintenance.expire_snapshots().by_ids(
        [each.snapshot_id for each in table.snapshots() if each.snapshot_id not in named]
    ).commit()
    assert {hold.tables[A], catalog.load_table(A).metadata.current_snapshot_id} == {
        each.snapshot_id for each in catalog.load_table(A).snapshots()
    }
    assert 2 == _count(handle.held("kept"), A)


def test_held_is_read_only(handle):
    handle.hold("two", [A])
    with pytest.raises(InvalidUsage) as error:
        handle.held("two").load_table(A).append(ROWS)
    assert "25006" == error.value.sqlstate


def test_held_has_the_schema_of_its_time(handle):
    handle.hold("narrow", [A])
    with handle.begin() as txn, txn.load_table(A).update_schema() as update:
        update.add_column("name", StringType())
    assert ["id"] == handle.held("narrow").load_table(A).schema().column_names


def test_holds_lists_name_and_tables(handle):
    handle.hold("one", [A])
    handle.hold("two", [A, B])
    assert [("one", {A}), ("two", {A, B})] == [
        (each.name, set(each.tables)) for each in handle.holds()
    ]


def test_the_read_ts_of_a_hold_resolves_to_its_snapshots(handle):
    """It is the least one that gives the same cut as the one that was asked for."""
    _append(handle)
    asked = handle.upper
    handle.hold("later", [A, B], read_ts=asked)
    _append(handle)
    (hold,) = handle.holds()
    at = handle.snapshot(hold.read_ts)
    assert hold.tables == {
        name: at.load_table(name).metadata.current_snapshot_id for name in (A, B)
    }


def test_release_removes_the_tags(handle, catalog):
    handle.hold("short", [A, B])
    assert (A, B) == handle.release("short")
    assert {"main"} == set(catalog.load_table(A).refs()) | set(catalog.load_table(B).refs())
    assert [] == handle.holds()


def test_release_of_an_unknown_hold_names_those_there_are(handle):
    handle.hold("one", [A])
    with pytest.raises(InvalidUsage, match="known=`one`") as error:
        handle.release("two")
    assert "42704" == error.value.sqlstate


def test_a_hold_of_a_name_that_is_taken_changes_nothing(handle):
    """No table gets a tag where one of them has it already: it is one transaction."""
    handle.hold("name", [A])
    with pytest.raises(InvalidUsage, match="release it first"):
        handle.hold("name", [B, A])
    assert [{A}] == [set(each.tables) for each in handle.holds()]


@pytest.mark.parametrize("name", ["", "a b", "-x", "x" * 101, "a/b"])
def test_a_name_that_no_engine_could_write_is_refused(handle, name):
    with pytest.raises(InvalidUsage) as error:
        handle.hold(name, [A])
    assert "42602" == error.value.sqlstate


def test_a_hold_above_the_upper_is_refused(handle):
    with pytest.raises(InvalidUsage, match="nothing has committed at that time"):
        handle.hold("future", [A], read_ts=handle.upper + 1)


def test_a_hold_that_lasts_no_time_is_refused(handle):
    with pytest.raises(InvalidUsage, match="ttl_ms=`0`"):
        handle.hold("none", [A], ttl_ms=0)


def test_a_table_that_nobody_registered_cannot_be_held(handle, catalog):
    catalog.create_table("shop.plain", ROWS.schema).append(ROWS)
    with pytest.raises(Unsupported, match="register"):
        handle.hold("plain", ["shop.plain"])


def test_the_tables_of_another_commit_table_hide_nothing(handle, catalog):
    """Two commit tables in one catalog: each lists its own tables."""
    other = txns.open(catalog, commit_table="txns.others")
    catalog.create_table("shop.c", ROWS.schema)
    other.register("shop.c")
    assert [A, B] == handle.registered()
    assert [("shop", "c")] == other.registered()


def test_a_hold_where_a_replica_gives_an_older_state_is_tried_again(handle, catalog, monkeypatch):
    """
    What is held is a snapshot that the next load does not have.

    1. A stranger compacts a table. 2. It is held as of now. 3. A replica has it as it was.
    """
    older = catalog.load_table(A)
    main = older.metadata.current_snapshot()
    compaction = main.model_copy(
        update={
            "snapshot_id": main.snapshot_id + 1,
            "parent_snapshot_id": main.snapshot_id,
            "sequence_number": older.metadata.next_sequence_number(),
            "timestamp_ms": older.metadata.last_updated_ms + 1,
            "summary": Summary(Operation.REPLACE),
        }
    )
    moved = main_at(older.metadata, compaction.snapshot_id)
    catalog.commit_table(older, (), (AddSnapshotUpdate(snapshot=compaction), moved))
    loads = []
    load = catalog.load_table

    def lagging(name):
        loads.append(name)
        return older if name == A and loads.count(A) == 2 else load(name)

    monkeypatch.setattr(catalog, "load_table", lagging)
    made = handle.hold("now", [A])
    assert {A: compaction.snapshot_id} == made.tables
    assert catalog.load_table(A).refs()["txns-hold-now"].snapshot_id == compaction.snapshot_id
