"""Tables that somebody set back to older metadata, when the log has archived what they lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyiceberg.table.update import AddSnapshotUpdate

import txns
from tests.txns.lake import compaction, ids, rows
from txns._log.archive import Archive
from txns._log.entry import Kind
from txns._stage.change_builder import main_at

if TYPE_CHECKING:
    from pyiceberg.table import Table


def set_back(lake, name: str, location: str) -> None:
    lake.catalog.drop_table(name)
    lake.catalog.register_table(name, location)


@pytest.fixture
def older(lake):
    """Give the lake, where 2 was appended to a and archived, and a is without it again."""
    a, b = lake.table("a", [1]), lake.table("b")
    location = lake.catalog.load_table(a).metadata_location
    handle = lake.open()
    handle.catalog().load_table(a).append(rows(2))
    handle.catalog().load_table(b).append(rows(7))
    assert handle.tidy()
    set_back(lake, a, location)
    return lake


def test_a_table_that_was_set_back_is_not_written(older):
    """Its rows that were acknowledged would be lost without anybody noticing; others go on."""
    for handle in (older.open(), older.open(register="all")):
        with pytest.raises(txns.Quarantined, match="set back"):
            handle.catalog().load_table("shop.a").append(rows(3))
        with pytest.raises(txns.Quarantined, match="set back"), handle.begin() as txn:
            txn.load_table("shop.a").append(rows(3))
        handle.catalog().load_table("shop.b").append(rows(8))
    assert [1] == older.plain_ids("shop.a")


def test_what_a_table_lacks_that_was_set_back_is_not_read_without_an_error(older):
    """Its rows were acknowledged: nobody is given the table without them, as if they were not."""
    handle = older.open()
    with handle.begin() as txn, pytest.raises(txns.Quarantined, match=r"repair adopt shop\.a"):
        txn.load_table("shop.a")
    for catalog in (handle.catalog(), handle.snapshot()):
        with pytest.raises(txns.Quarantined, match="set back"):
            catalog.load_table("shop.a")
        assert [7] == ids(catalog.load_table("shop.b"))


def test_a_table_that_was_set_back_is_plain_while_transactions_are_off(older):
    """An operator restores tables in an incident; `on` tells of it, and adopts nothing of it."""
    handle = older.open()
    handle.off()
    handle.catalog().load_table("shop.a").append(rows(3))
    assert [1, 3] == ids(handle.catalog().load_table("shop.a")) == older.plain_ids("shop.a")
    assert [("shop", "a")] == handle.on()
    with pytest.raises(txns.Quarantined, match="set back"):
        handle.catalog().load_table("shop.a")


def test_a_table_that_was_set_back_is_read_as_of_what_it_has(older):
    """Older timestamps see what they always saw."""
    applied = int(older.catalog.load_table("shop.a").properties["txns.applied"])
    assert [1] == ids(older.open().snapshot(applied).load_table("shop.a"))


def test_the_newest_metadata_again_ends_it(older):
    """Whoever set the table back can undo it: nothing was written to the older one."""
    newest = max((older.folder / "warehouse/shop/a/metadata").glob("*.metadata.json"))
    set_back(older, "shop.a", f"file://{newest}")
    handle = older.open()
    handle.catalog().load_table("shop.a").append(rows(3))
    assert [1, 2, 3] == ids(handle.snapshot().load_table("shop.a"))


def test_adopt_takes_the_table_as_it_stands(older):
    """Reject has nothing to put back, and says so."""
    handle = older.open()
    with pytest.raises(txns.Unsupported, match="adopt"):
        handle.repair_reject("shop.a")
    handle.repair_adopt("shop.a")
    handle.catalog().load_table("shop.a").append(rows(3))
    assert [1, 3] == ids(older.open().snapshot().load_table("shop.a"))
    assert [1, 3] == older.plain_ids("shop.a")


def test_a_table_that_a_replica_gives_as_it_was_is_loaded_again(lake, monkeypatch):
    """1. A replica has the table as it was. 2. Somebody writes it, and the entry is archived."""
    a, catalog = lake.table("a", [1]), lake.another_catalog()
    answers = [catalog.load_table(a)]
    lake.open().catalog().load_table(a).append(rows(2))
    assert lake.open().tidy()
    lags(catalog, answers, monkeypatch)
    assert [1, 2] == ids(lake.open(catalog).snapshot().load_table(a))
    assert not answers


@pytest.fixture
def on_a_compaction(lake):
    """Give the lake and an older table, on which nothing finds what the last change stands on."""
    a = lake.table("a", [1])
    older = lake.catalog.load_table(a)
    lake.open().catalog().load_table(a).append(rows(2))
    table = lake.catalog.load_table(a)
    compacted = (AddSnapshotUpdate(snapshot=compaction(table)), main_at(table.metadata, 77))
    lake.catalog.commit_table(table, (), compacted)
    lake.open(apply="next").catalog().load_table(a).append(rows(3))
    return lake, older


def test_a_table_from_before_a_compaction_that_was_written_on_is_loaded_again(
    on_a_compaction, monkeypatch
):
    """Both entries are outstanding of it, and yet no chain: the second was staged on a stranger."""
    lake, older = on_a_compaction
    catalog, answers = lake.another_catalog(), [older]
    lags(catalog, answers, monkeypatch)
    assert [1, 2, 3] == ids(lake.open(catalog).snapshot().load_table("shop.a"))
    assert not answers


def test_a_table_set_back_to_before_a_compaction_that_was_written_on(on_a_compaction):
    """The log is as it should be; the table is not, but for what can be applied to it again."""
    lake, older = on_a_compaction
    set_back(lake, "shop.a", older.metadata_location)
    assert_adopt_ends_it(lake, [1, 2])


def test_the_archive_is_read_once_for_each_version(lake, monkeypatch):
    """Statements on tables that nobody writes do not read it again, whatever they are."""
    a, b = lake.table("a", [1]), lake.table("b")
    handle = lake.open()
    handle.catalog().load_table(b).append(rows(1))
    handle.catalog().load_table(a).append(rows(2))
    assert handle.tidy()
    read: list[object] = []
    rows_of = Archive.rows
    monkeypatch.setattr(
        Archive, "rows", lambda self, *args: (read.append(args), rows_of(self, *args))[1]
    )
    for name in (b, a, b):
        handle.snapshot().load_table(name)
        handle.catalog().load_table(name).append(rows(5))
        handle.catalog().load_table(name).scan().to_arrow()
    assert len(read) <= 1


def test_what_is_outstanding_when_a_table_is_set_back_is_ended_by_adopt(lake):
    """1. T reads a. 2. a is set back below what was archived. 3. T commits, and loads no table."""
    a, b = lake.table("a", [1]), lake.table("b")
    handle = lake.open()
    handle.catalog().load_table(a).append(rows(2))
    location = lake.catalog.load_table(a).metadata_location
    handle.catalog().load_table(a).append(rows(3))
    assert handle.tidy()
    late = handle.begin()
    late.load_table(a).append(rows(4))
    late.load_table(b).append(rows(4))
    set_back(lake, a, location)
    late.commit()
    assert_adopt_ends_it(lake, [1, 2])
    assert [4] == ids(lake.open().catalog().load_table(b))


def test_what_stands_unapplied_on_what_was_archived_is_ended_by_adopt(lake):
    """1. An entry is outstanding. 2. Its table is set back below what was archived before it."""
    a = lake.table("a", [1])
    handle, lazy = lake.open(), lake.open(apply="next")
    handle.catalog().load_table(a).append(rows(2))
    location = lake.catalog.load_table(a).metadata_location
    handle.catalog().load_table(a).append(rows(3))
    assert handle.tidy()
    lazy.catalog().load_table(a).append(rows(4))
    set_back(lake, a, location)
    assert_adopt_ends_it(lake, [1, 2])


def assert_adopt_ends_it(lake, left: list[int]) -> None:
    """Check that a set-back table is refused, and goes on as it stands once it is adopted."""
    handle = lake.open(lake.another_catalog())
    for refused in (handle.catalog().load_table, handle.forget, handle.register):
        with pytest.raises(txns.Quarantined, match=r"set back.*repair adopt shop\.a"):
            refused("shop.a")
    handle.repair_adopt("shop.a")
    for each in (handle, lake.open(lake.another_catalog())):
        assert left == ids(each.catalog().load_table("shop.a"))
    handle.catalog().load_table("shop.a").append(rows(9))
    assert [*left, 9] == lake.plain_ids("shop.a")
    assert handle.tidy()
    assert [*left, 9] == ids(lake.open(lake.another_catalog()).catalog().load_table("shop.a"))


@pytest.mark.parametrize("before", [[], [1]])
def test_a_table_that_was_set_back_to_before_its_registration_is_noticed(lake, before):
    """Without its mark, too: it was registered once, and nobody has forgotten it."""
    a = lake.table("a", before, register=False)
    location = lake.catalog.load_table(a).metadata_location
    handle = lake.open()
    handle.register(a)
    handle.catalog().load_table(a).append(rows(2))
    assert handle.tidy()
    set_back(lake, a, location)
    for name in ("created", "all"):
        with pytest.raises(txns.Quarantined, match="set back"):
            lake.open(lake.another_catalog(), register=name).catalog().load_table(a).append(rows(3))
    assert_adopt_ends_it(lake, before)


def test_a_forgotten_table_is_its_owners_to_set_back(lake):
    """Nothing of it is the log's: it is read as it is, and may come under care again."""
    a = lake.table("a", [1], register=False)
    location = lake.catalog.load_table(a).metadata_location
    handle = lake.open()
    handle.register(a)
    handle.catalog().load_table(a).append(rows(2))
    handle.forget(a)
    assert handle.tidy()
    set_back(lake, a, location)
    handle = lake.open(lake.another_catalog())
    assert [1] == ids(handle.catalog().load_table(a))
    handle.register(a)
    handle.catalog().load_table(a).append(rows(3))
    assert [1, 3] == ids(handle.catalog().load_table(a))


def test_a_table_may_be_set_back_twice_to_the_same_metadata(older):
    """Each adoption is an entry of its own."""
    location = older.catalog.load_table("shop.a").metadata_location
    for _ in range(2):
        handle = older.open(older.another_catalog())
        handle.repair_adopt("shop.a")
        handle.catalog().load_table("shop.a").append(rows(3))
        assert [1, 3] == ids(older.open().snapshot().load_table("shop.a"))
        assert handle.tidy()
        set_back(older, "shop.a", location)


def test_what_an_adoption_gave_up_is_too_old(older):
    """No snapshot has it: not the one that the table was set back to, which was never it."""
    had = int(older.catalog.load_table("shop.a").properties["txns.applied"])
    between = older.open().upper
    adopted = older.open().repair_adopt("shop.a")

    def assert_gone() -> None:
        handle = older.open(older.another_catalog())
        for gone in (had + 1, between, adopted - 1):
            with pytest.raises(txns.Conflict, match=r"too old.*given up") as refused:
                handle.snapshot(gone).load_table("shop.a")
            assert adopted == refused.value.least_ts
        for there in (had, adopted):
            assert [1] == ids(handle.snapshot(there).load_table("shop.a"))

    assert_gone()
    unapplied = older.catalog.load_table("shop.a").metadata.metadata_log[-1].metadata_file
    set_back(older, "shop.a", unapplied)
    assert_gone()
    older.open().catalog().load_table("shop.a").append(rows(3))
    assert older.open().tidy()
    assert_gone()
    assert [1, 3] == ids(older.open().snapshot().load_table("shop.a"))


def test_who_subscribes_across_an_adoption_begins_again_at_it(older):
    """Rows that were delivered are gone, and no transaction has removed them."""
    had = int(older.catalog.load_table("shop.a").properties["txns.applied"])
    between = older.open().upper
    handle = older.open()
    handle.repair_adopt("shop.a")
    handle.catalog().load_table("shop.a").append(rows(3))
    with pytest.raises(txns.Conflict, match="too old"):
        list(handle.subscribe(["shop.a"], as_of=had, until=handle.upper))
    with pytest.raises(txns.Conflict, match="given up") as refused:
        list(handle.subscribe(["shop.a"], as_of=between, until=handle.upper))
    again = refused.value.least_ts
    assert [1] == ids(handle.snapshot(again).load_table("shop.a"))
    deliveries = handle.subscribe(["shop.a"], as_of=again, until=handle.upper)
    appended = [each.appended["id"].to_pylist() for one in deliveries for each in one.tables]
    assert [[3]] == appended


def test_a_replica_that_lags_behind_an_outstanding_change_does_not_set_a_table_back(
    lake, monkeypatch
):
    """1. A replica has a. 2. It is compacted. 3. An entry stands on that. 4. It is asked for."""
    a, catalog = lake.table("a", [1]), lake.another_catalog()
    answers = [catalog.load_table(a)]
    table = lake.catalog.load_table(a)
    lake.catalog.commit_table(
        table, (), (AddSnapshotUpdate(snapshot=compaction(table)), main_at(table.metadata, 77))
    )
    lake.open(apply="next").catalog().load_table(a).append(rows(2))
    lags(catalog, answers, monkeypatch)
    assert [1, 2] == ids(lake.open(catalog).snapshot().load_table(a))


def forgotten_and_registered_again(lake, written: list[int]) -> Table:
    """Give the table a as it was before, and give its owner what was written without care."""
    a = lake.table("a", [1])
    before = lake.catalog.load_table(a)
    handle = lake.open()
    handle.forget(a)
    lake.catalog.load_table(a).append(rows(7))
    handle.register(a)
    for each in written:
        handle.catalog().load_table(a).append(rows(each))
    return before


@pytest.mark.parametrize("written", [[], [2], [2, 3]])
def test_a_replica_that_lags_behind_a_registration_is_asked_again(lake, monkeypatch, written):
    """1. A replica has a. 2. It is forgotten, registered again, and written. 3. It is asked for."""
    answers = [forgotten_and_registered_again(lake, written)]
    catalog = lake.another_catalog()
    lags(catalog, answers, monkeypatch)
    assert [1, *written, 7] == ids(lake.open(catalog).snapshot().load_table("shop.a"))
    assert not answers


@pytest.mark.parametrize("again", [False, True])
def test_a_replica_that_lags_behind_a_mark_hides_no_registration(lake, monkeypatch, again):
    """1. A table is marked. 2. A replica has it as it was. 3. The registration is logged."""
    a = lake.table("a", [1], register=False)
    if again:
        lake.open().register(a)
        lake.open().forget(a)
    catalog = lake.another_catalog()
    commit, answers = catalog.commit_table, [catalog.load_table(a)]

    def marks(table, *asked):
        response = commit(table, *asked)
        if table.name() == answers[0].name():
            lags(catalog, answers, monkeypatch)
        return response

    monkeypatch.setattr(catalog, "commit_table", marks)
    registered = lake.open(catalog).register(a)
    newest = lake.open().parts.log.load().state.entries[-1:]
    assert [(Kind.REGISTER, registered)] == [(each.kind, each.commit_ts) for each in newest]


@pytest.mark.parametrize("written", [[], [2], [2, 3]])
def test_a_table_that_was_set_back_to_before_a_registration_is_noticed(lake, written):
    """What it lacks stands in the head: the log is not broken, the table is not what it has."""
    before = forgotten_and_registered_again(lake, written)
    set_back(lake, "shop.a", before.metadata_location)
    assert_adopt_ends_it(lake, [1])


def test_a_table_is_not_judged_again_by_a_newer_archive(lake, monkeypatch):
    """1. A table is found whole. 2. It is written and tidied. 3. A thread reads the archive."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    writer = lake.open()
    writer.catalog().load_table(b).append(rows(2))
    assert writer.tidy()
    reader = lake.open(lake.another_catalog())
    archive, looks = reader.parts.timeline.archive, []
    newest = type(archive).newest_applied

    def meanwhile(self, *args, **options):
        answer = newest(self, *args, **options)
        looks.append(self is archive)
        if looks == [True]:
            writer.catalog().load_table(a).append(rows(2))
            assert writer.tidy()
            reader.parts.tables.load(b, reader.parts.log.load(), reader.upper)
        return answer

    snapshot = reader.snapshot()
    monkeypatch.setattr(type(archive), "newest_applied", meanwhile)
    assert [1] == ids(snapshot.load_table(a))
    assert any(looks)


@pytest.mark.parametrize("stands", [False, True])
def test_a_table_is_judged_by_the_archive_of_its_head(lake, stands):
    """
    Where a newer one is read: rows may be looked at, or their lock be lost, before others tidy.

    With an entry of the table that stands in the head, below what has left it, or without.
    """
    a, b = lake.table("a", [1]), lake.table("b", [1])
    lazy, writer = lake.open(apply="next"), lake.open()
    if stands:
        lazy.catalog().load_table(a).append(rows(2))
    writer.catalog().load_table(b).append(rows(2))
    assert writer.tidy()
    reader = lake.open(lake.another_catalog())
    head, table = reader.parts.log.load(), reader.parts.catalog.load_table(a)
    writer.catalog().load_table(a).append(rows(3))
    assert writer.tidy()
    seen = reader.parts.tables.live(("shop", "a"), table, head)
    assert seen.stranger is None
    assert stands == (seen.metadata.current_snapshot_id != table.metadata.current_snapshot_id)
    with pytest.raises(txns.Quarantined, match="set back"):
        reader.parts.tables.live(("shop", "a"), table, reader.parts.log.load())


def test_on_leaves_a_set_back_table_to_a_person(older):
    """Nobody has agreed to give up what it lacks."""
    handle = older.open()
    handle.off()
    assert [("shop", "a")] == handle.on()
    with pytest.raises(txns.Quarantined):
        older.open().snapshot().load_table("shop.a")


def lags(catalog, answers, monkeypatch):
    """Let a catalog give a table as it was, as often as there are answers."""
    load, name = catalog.load_table, answers[0].name()
    monkeypatch.setattr(
        catalog,
        "load_table",
        lambda asked: answers.pop() if answers and asked == name else load(asked),
    )


def test_a_second_name_of_a_table_is_told_apart_from_one_that_was_set_back(lake):
    """
    Who adopted the second name gave up what had been committed under the first.

    1. Somebody registers a table's metadata under another name.
    2. It is written under its own, and archived.
    """
    a = lake.table("a", [1])
    lake.catalog.register_table("shop.b", lake.catalog.load_table(a).metadata_location)
    handle = lake.open()
    handle.catalog().load_table(a).append(rows(2))
    assert handle.tidy()
    for deed in (
        lambda: handle.catalog().load_table("shop.b"),
        lambda: handle.register("shop.b"),
        lambda: handle.forget("shop.b"),
        lambda: handle.repair_adopt("shop.b"),
        lambda: handle.repair_reject("shop.b"),
    ):
        with pytest.raises(txns.Quarantined, match=r"two names.* other=`shop\.a`"):
            deed()
    assert [1, 2] == ids(lake.open().catalog().load_table(a))
    lake.catalog.drop_table("shop.b")
    handle.catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == lake.plain_ids(a)
