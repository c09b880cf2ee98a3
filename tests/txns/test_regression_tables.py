"""Defects that reviews have found, around what tables and subscriptions show."""

from __future__ import annotations

from datetime import datetime

import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import TableAlreadyExistsError, ValidationException
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.types import LongType

import txns
from tests.txns.lake import SCHEMA, ids, rows
from txns._log.archive import Archive


def test_an_expiry_that_somebody_was_faster_with(lake):
    """
    What an expiry takes away may be gone, as in Java.

    1. Two snapshots are expired through the protocol; nobody applies it.
    2. A stranger expires one of them.
    """
    a = lake.table("a", [1])
    for value in (2, 3):
        lake.open().catalog().load_table(a).append(rows(value))
    first, second, *_ = (each.snapshot_id for each in lake.catalog.load_table(a).snapshots())
    handle = lake.open(apply="next")
    handle.change_settings(max_age_ms=1000)
    lake.clock.ahead_ms += 5000
    table = handle.catalog().load_table(a)
    table.maintenance.expire_snapshots().by_ids([first, second]).commit()
    lake.catalog.load_table(a).maintenance.expire_snapshots().by_id(first).commit()
    assert [1, 2, 3] == ids(handle.snapshot().load_table(a))
    assert [] == handle.apply_le()
    assert [1, 2, 3] == lake.plain_ids(a)
    assert {first, second}.isdisjoint(s.snapshot_id for s in lake.catalog.load_table(a).snapshots())


def test_a_subscription_without_what_was_there_before(lake, handle):
    """
    Old rows are not delivered as new ones.

    1. Append 3 to [1, 2].
    2. The snapshot with [1, 2] is expired.
    """
    a = lake.table("a", [1, 2])
    start = handle.upper
    before = lake.catalog.load_table(a).metadata.current_snapshot_id
    handle.catalog().load_table(a).append(rows(3))
    lake.catalog.load_table(a).maintenance.expire_snapshots().by_id(before).commit()
    with pytest.raises(txns.Conflict, match="expired"):
        list(handle.subscribe([a], as_of=start, until=handle.upper))


def test_a_subscription_has_the_rows_of_an_alter(lake, handle):
    """
    Whatever else a transaction did to a table, its rows are delivered.

    1. One transaction adds a column and appends 2.
    2. Another one adds a file, which sets a property as well.
    """
    a = lake.table("a", [1])
    start = handle.upper
    with handle.begin() as txn:
        with txn.load_table(a).update_schema() as update:
            update.add_column("more", LongType())
        txn.load_table(a).append(rows(2))
    given = lake.folder / "given.parquet"
    pq.write_table(rows(3), given)
    with handle.begin() as txn:
        txn.load_table(a).add_files([str(given)])
    *deliveries, _ = handle.subscribe([a], as_of=start, until=handle.upper)
    assert [[2], [3]] == [each.tables[0].appended["id"].to_pylist() for each in deliveries]


def test_a_subscription_and_a_tidy(lake):
    """
    Each transaction is delivered once.

    1. E1 writes a and b; b's part cannot be applied, E2 is tidied.
    2. A subscriber loads the head, in which E1 stands.
    3. b is applied and E1 is tidied.
    4. The subscriber asks the archive.
    """
    a, b = lake.table("a"), lake.table("b")
    handle = lake.open(apply="next", tidy_after=1000)
    start = handle.upper
    with handle.begin() as txn:
        txn.load_table(a).append(rows(1))
        txn.load_table(b).append(rows(1))
    handle.catalog().load_table(a).append(rows(2))
    handle.parts.applier.apply(handle.parts.log.load(), ("shop", "a"))
    handle.tidy()
    load = handle.parts.log.load

    def then_tidied():
        head = load()
        handle.parts.log.load = load
        assert [] == handle.apply_le()
        assert handle.tidy()
        return head

    handle.parts.log.load = then_tidied
    deliveries = list(handle.subscribe([a], as_of=start, until=load().upper))
    assert [[1], [2]] == [d.tables[0].appended["id"].to_pylist() for d in deliveries if d.tables]


@pytest.mark.parametrize("inside", [True, False])
def test_threads_that_share_a_table(lake, handle, inside):
    """
    A snapshot that was built on an older state than the one it names is built again.

    1. An operation is planned on main.
    2. Another thread writes through the same object.
    3. The operation's requirement is computed from the newer state.
    """
    a = lake.table("a", [1])
    txn = handle.begin()
    table = (txn if inside else handle.catalog()).load_table(a)
    operation = table.transaction()
    with operation.update_snapshot().fast_append() as producer:
        files = _dataframe_to_data_files(table.metadata, rows(2), table.io)
        table.append(rows(3))
        for file in files:
            producer.append_data_file(file)
    operation.commit_transaction()
    if inside:
        txn.commit()
    assert [1, 2, 3] == lake.plain_ids(a)


def test_expiry_keeps_what_a_running_transaction_can_need(lake, handle):
    """
    As long as a transaction may be old.

    1. T1 begins on [1, 2].
    2. Somebody appends and expires everything, in a transaction and outside.
    3. T1 reads; after the maximum age the snapshots go.
    """
    a = lake.table("a", [1])
    handle.catalog().load_table(a).append(rows(2))
    running = handle.begin()
    handle.catalog().load_table(a).append(rows(3))

    def expire() -> None:
        for at in (handle.begin(), handle.catalog()):
            table = at.load_table(a)
            table.maintenance.expire_snapshots().older_than(datetime(2100, 1, 1)).commit()  # noqa: DTZ001
            if isinstance(at, txns.Transaction):
                at.commit()

    expire()
    assert [1, 2] == ids(running.load_table(a))
    lake.clock.ahead_ms += 25 * 3600 * 1000
    before = len(lake.catalog.load_table(a).snapshots())
    expire()
    assert before > len(lake.catalog.load_table(a).snapshots())
    assert [1, 2, 3] == lake.plain_ids(a)


def test_a_name_that_the_log_has_created(lake):
    """
    What is committed and not created yet is there for everybody.

    1. T1 creates n; nobody applies it.
    2. Others take the name: by a rename, by a metadata file.
    3. A stranger creates a table of that name: readers stay on the logged state.
    """
    handle = lake.open(apply="next")
    with handle.begin() as txn:
        txn.create_table("shop.n", SCHEMA).append(rows(1))
    plain = lake.catalog.create_table("shop.x", SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        handle.catalog().rename_table("shop.x", "shop.n")
    with pytest.raises(TableAlreadyExistsError):
        handle.catalog().register_table("shop.n", plain.metadata_location)
    lake.catalog.create_table("shop.n", SCHEMA).append(rows(9))
    assert [1] == ids(handle.snapshot().load_table("shop.n"))
    with pytest.raises(txns.Quarantined, match="another table stands"):
        handle.catalog().load_table("shop.n").append(rows(2))
    assert [9] == lake.plain_ids("shop.n")


@pytest.mark.parametrize(
    "look",
    [
        lambda table: table.refs(),
        lambda table: table.history(),
        lambda table: table.snapshot_by_name("main"),
        lambda table: table.snapshot_as_of_timestamp(2**62),
    ],
)
def test_what_tells_of_others_is_a_read(lake, handle, look):
    """
    A transaction that has looked whether others wrote clashes with them.

    1. T1 asks a for its branches or its history, and writes b.
    2. Somebody appends to a.
    """
    a, b = lake.table("a", [1]), lake.table("b")
    txn = handle.begin()
    look(txn.load_table(a))
    txn.load_table(b).append(rows(1))
    handle.catalog().load_table(a).append(rows(2))
    with pytest.raises(txns.Conflict):
        txn.commit()


def test_statistics_that_somebody_removed_faster(lake):
    """
    As with snapshots: what is to be removed may be gone.

    1. Statistics are removed through the protocol; nobody applies it.
    2. A stranger removes them.
    """
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    plain = lake.catalog.load_table(a)
    snapshot_id = plain.metadata.current_snapshot_id
    file = StatisticsFile(
        snapshot_id=snapshot_id,
        statistics_path=f"{plain.location()}/metadata/none.puffin",
        file_size_in_bytes=1,
        file_footer_size_in_bytes=1,
        blob_metadata=[],
    )
    with handle.catalog().load_table(a).update_statistics() as update:
        update.set_statistics(file)
    handle.apply_le()
    for catalog in (handle.catalog(), lake.catalog):
        with catalog.load_table(a).update_statistics() as update:
            update.remove_statistics(snapshot_id)
    assert [1] == ids(handle.snapshot().load_table(a))
    assert [] == handle.apply_le()


@pytest.mark.parametrize("deed", ["overwrite", "upsert", "everything"])
def test_an_overwrite_that_found_nothing(lake, handle, deed):
    """
    What replaces rows is no append, also where there is nothing to replace.

    1. Two transactions replace the rows with id 7, of which there are none.
    2. Both commit: one of them has not seen the other's.
    """
    a = lake.table("a", [] if deed == "everything" else [1])

    def replace(table) -> None:
        if deed == "overwrite":
            table.overwrite(rows(7), overwrite_filter="id = 7")
        elif deed == "upsert":
            table.upsert(rows(7), join_cols=["id"])
        else:
            table.overwrite(rows(7))

    one, two = (handle.begin(isolation="SNAPSHOT") for _ in range(2))
    for each in (one, two):
        replace(each.load_table(a))
    one.commit()
    with pytest.raises(txns.Conflict):
        two.commit()
    assert 1 == lake.plain_ids(a).count(7)


def test_an_overwrite_that_found_nothing_outside_of_transactions(lake, handle):
    """As on a plain table: pyiceberg's own validation refuses the second one."""
    a, plain = lake.table("a", [1]), lake.table("b", [1], register=False)
    for catalog, name in ((handle.catalog(), a), (lake.catalog, plain)):
        one, two = (catalog.load_table(name) for _ in range(2))
        one.overwrite(rows(7), overwrite_filter="id = 7")
        with pytest.raises(ValidationException):
            two.overwrite(rows(7), overwrite_filter="id = 7")
        one.append(rows(8))
        two.refresh()
        two.append(rows(9))
        assert [1, 7, 8, 9] == lake.plain_ids(name)


@pytest.mark.parametrize("tidied", [False, True])
def test_a_namespace_is_listed_as_of_the_read_ts(lake, handle, tidied):
    """
    One moment for names and rows, also for who only reads.

    1. T1 begins; others create n and drop a.
    2. T1 lists: a is there, n is not.
    """
    lake.table("a", [1])
    txn = handle.begin(read_only=True)
    handle.catalog().create_table("shop.n", SCHEMA)
    handle.catalog().drop_table("shop.a")
    if tidied:
        handle.tidy()
    assert [("shop", "a")] == txn.list_tables("shop")


@pytest.mark.parametrize("tidied", [False, True])
def test_a_table_that_is_dropped_and_created_again_is_listed_as_of_before(lake, handle, tidied):
    """It cannot be read at that time any more ("too old"), but it was there."""
    lake.table("a", [1])
    txn = handle.begin(read_only=True)
    handle.catalog().drop_table("shop.a")
    for name in ("shop.a", "shop.n"):
        handle.catalog().create_table(name, SCHEMA)
    if tidied:
        handle.tidy()
    assert [("shop", "a")] == txn.list_tables("shop")
    with pytest.raises(txns.Conflict, match="too old"):
        txn.load_table("shop.a")


def test_a_drop_that_is_archived_late_is_seen(lake):
    """
    What is known of the archive is known of one version of it.

    1. E1 drops b and writes a, which a stranger holds up: it stays in the head.
    2. E2 is tidied; somebody lists the tables.
    3. a is repaired, E1 is tidied below E2.
    """
    handle = lake.open(apply="next", tidy_after=1000)
    a = lake.table("a", [1])
    lake.table("b", [1])
    c = lake.table("c", [1])
    with handle.begin() as txn:
        txn.load_table(a).append(rows(2))
        txn.drop_table("shop.b")
    handle.catalog().load_table(c).append(rows(2))
    handle.parts.applier.apply(handle.parts.log.load(), ("shop", "b"))
    handle.parts.applier.apply(handle.parts.log.load(), ("shop", "c"))
    handle.tidy()
    listed = [("shop", "a"), ("shop", "c")]
    assert sorted(handle.catalog().list_tables("shop")) == listed
    assert [] == handle.apply_le()
    assert handle.tidy()
    assert not lake.standing()
    assert sorted(handle.catalog().list_tables("shop")) == listed


def test_an_id_that_is_used_again_after_its_retention(lake):
    """Each of its entries is one of its own: delivered, listed and found at its own time."""
    a = lake.table("a", [1])
    handle = lake.open(tidy_after=1000)
    handle.change_settings(id_retention_ms=86_400_000)
    start = handle.upper
    for number in (2, 3):
        with handle.begin(txn_id="nightly") as txn:
            txn.load_table(a).append(rows(number))
        handle.tidy()
        lake.clock.ahead_ms += 2 * 86_400_000
        handle.advance(lake.clock.now_ms())
    *deliveries, _ = handle.subscribe([a], as_of=start, until=handle.upper)
    assert [[2], [3]] == [each.tables[0].appended["id"].to_pylist() for each in deliveries]
    assert [each.commit_ts for each in deliveries] == [
        row["commit_ts"]
        for row in handle.transactions()
        if row["commit_ts"] > start and row["kind"] == "commit"
    ]
    found = handle.parts.loop.find(handle.parts.log.load(), "nightly", start)
    assert found is not None
    assert found.commit_ts == deliveries[-1].commit_ts


def test_what_was_dropped_is_read_from_the_archive_once(lake, handle, monkeypatch):
    """A list costs the same however much has been archived before it."""
    lake.table("a", [1])
    handle.catalog().drop_table("shop.a")
    handle.tidy()
    reads = _archive_reads(monkeypatch)
    assert [] == handle.catalog().list_tables("shop")
    first = len(reads)
    for _ in range(3):
        assert [] == handle.catalog().list_tables("shop")
    assert len(reads) == first


def test_a_list_as_of_before_reads_what_followed_once(lake, handle, monkeypatch):
    """The head that it stands on and the newest one have the same archive below them."""
    lake.table("a", [1])
    ts = handle.upper
    handle.catalog().drop_table("shop.a")
    handle.tidy()
    assert [] == handle.catalog().list_tables("shop")
    reads = _archive_reads(monkeypatch)
    assert [("shop", "a")] == handle.snapshot(ts).list_tables("shop")
    assert len(reads) == 1


def _archive_reads(monkeypatch):
    reads = []
    rows_of = Archive.rows
    monkeypatch.setattr(Archive, "rows", lambda *given: reads.append(given) or rows_of(*given))
    return reads


def test_a_subscriber_goes_on_while_its_table_is_created_again(lake, handle):
    """The head that it has read is older than the table then (seed 1423)."""
    lake.table("a", [1])
    as_of = handle.upper
    for value in (2, 3):
        handle.catalog().load_table("shop.a").append(rows(value))
    deliveries = handle.subscribe(["shop.a"], as_of=as_of, until=handle.upper)
    seen = [next(deliveries)]
    handle.catalog().drop_table("shop.a")
    handle.catalog().create_table("shop.a", SCHEMA)
    seen += deliveries
    appended = [table.appended["id"].to_pylist() for each in seen for table in each.tables]
    assert appended == [[2], [3]]


def test_a_list_has_what_was_created_again_while_it_was_made(lake, monkeypatch):
    """
    A table may be newer than the head that was loaded before it.

    1. A list has loaded the newest head. 2. Somebody drops a table and creates it again. 3. The
    list asks whether it was there.
    """
    a = lake.table("a", [1])
    other = lake.open().catalog()
    plain = Archive.dropped

    def dropped(self, head):
        found = plain(self, head)
        monkeypatch.undo()
        other.drop_table(a)
        other.create_table(a, SCHEMA)
        return found

    lake.open().catalog().drop_table(a)
    lake.open().catalog().create_table(a, SCHEMA)
    with lake.open().begin() as txn:
        monkeypatch.setattr(Archive, "dropped", dropped)
        assert [("shop", "a")] == txn.list_tables("shop")
