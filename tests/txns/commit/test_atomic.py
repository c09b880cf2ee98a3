"""One swap moves the log and its tables together (docs/spec.md 11.3)."""

from __future__ import annotations

import threading

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.types import LongType
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

import txns
from tests.txns.lake import ids, rows
from txns._commit.born_applied import Births
from txns._iceberg.locked_rows import LockedRows
from txns._table import mark


@pytest.fixture
def atomic(lake):
    return lake.open(apply="atomic")


def append(handle, *values: int, to: tuple[str, ...], txn_id: str | None = None) -> None:
    with handle.begin(txn_id=txn_id) as txn:
        for name in to:
            txn.load_table(name).append(rows(*values))


def born(lake) -> list[list[bool]]:
    """Which tables of each entry that stands moved with it."""
    return [[change.born_applied for change in entry.changes] for entry in lake.standing()]


def test_tables_are_what_the_entry_says_from_its_first_moment(lake, atomic):
    a, b = lake.table("a", [1]), lake.table("b", [1])
    with atomic.begin() as txn:
        txn.load_table(a).append(rows(2))
        txn.load_table(b).delete("id = 1")

    entry = lake.standing()[-1]
    assert [True, True] == [change.born_applied for change in entry.changes]
    assert not entry.applies
    assert [1, 2] == lake.plain_ids(a)
    assert [] == lake.plain_ids(b)
    for name in (a, b):
        assert entry.commit_ts == mark.applied_ts(lake.catalog.load_table(name).metadata)
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))


def test_it_creates_alters_and_drops(lake, atomic):
    a = lake.table("a", [1])
    with atomic.begin() as txn:
        txn.create_table("shop.new", rows(1).schema).append(rows(7))
        with txn.load_table(a).update_schema() as update:
            update.add_column("more", LongType())
    assert [7] == lake.plain_ids("shop.new")
    assert "more" in lake.catalog.load_table(a).schema().column_names
    with atomic.begin() as txn:
        txn.drop_table("shop.new")
    assert not lake.open().snapshot().table_exists("shop.new")
    assert [[True, True], [True]] == born(lake)[-2:]


def test_what_is_to_be_applied_before_goes_first(lake, atomic):
    """The table of both is left to an applier, the other one moves."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    lazy = lake.open(apply="next")
    append(lazy, 2, to=(a,))
    assert [1] == lake.plain_ids(a)
    txn = atomic.begin()
    txn.load_table(a).append(rows(3))
    txn.load_table(b).append(rows(3))
    txn.commit_at()

    assert [False, True] == born(lake)[-1]
    assert [1, 3] == lake.plain_ids(b)
    assert [1, 2, 3] == ids(lake.open().snapshot().load_table(a))
    lazy.apply_le()
    assert [1, 2, 3] == lake.plain_ids(a)


def test_a_strangers_append_is_adopted_first(lake, atomic):
    a = lake.table("a", [1])
    txn = atomic.begin()
    txn.load_table(a).append(rows(2))
    lake.catalog.load_table(a).append(rows(9))
    txn.commit()

    assert [[False], [True]] == born(lake)[-2:]
    assert [1, 2, 9] == ids(lake.open().snapshot().load_table(a)) == lake.plain_ids(a)
    assert ["main"] == list(lake.catalog.load_table(a).metadata.refs)


def test_what_cannot_be_applied_is_told_before_it_is_committed(lake, atomic):
    a, b = lake.table("a", [1]), lake.table("b", [1])
    txn = atomic.begin()
    txn.load_table(a).append(rows(2))
    txn.load_table(b).append(rows(2))
    lake.catalog.load_table(b).overwrite(rows(9))
    before = lake.standing()
    files = lake.files()
    with pytest.raises(txns.Quarantined):
        txn.commit()
    assert before == lake.standing()
    assert [1] == lake.plain_ids(a)
    assert not {name for name in lake.files() - files if name.endswith(".json")}


def drop(lake, name: str) -> None:
    lake.catalog.drop_table(name)


def replace(lake, name: str) -> None:
    lake.catalog.drop_table(name)
    lake.catalog.create_table(name, rows().schema)


def take_the_mark(lake, name: str) -> None:
    table = lake.catalog.load_table(name)
    with table.transaction() as txn:
        txn.remove_properties(*(key for key in table.properties if key.startswith("txns.")))


@pytest.mark.parametrize("spoil", [drop, replace, take_the_mark])
def test_what_nobody_could_carry_out_is_told_before_it_is_committed(lake, atomic, spoil):
    """Under the lock it is known: an acknowledged change would be in quarantine at once."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    txn = atomic.begin()
    for name in (a, b):
        txn.load_table(name).append(rows(2))
    spoil(lake, b)
    before = lake.standing()
    with pytest.raises(txns.Quarantined, match=r"table=`shop\.b`"):
        txn.commit()
    assert before == lake.standing()
    assert [1] == lake.plain_ids(a)


def test_a_conflict_leaves_nothing(lake, atomic):
    a = lake.table("a", [1])
    txn = atomic.begin()
    txn.load_table(a).overwrite(rows(2))
    append(atomic, 3, to=(a,))
    files = lake.files()
    with pytest.raises(txns.Conflict):
        txn.commit()
    assert lake.files() <= files
    assert [1, 3] == lake.plain_ids(a)


def test_a_name_that_is_taken_is_told_before_anything_is_sent(lake, atomic):
    """Nobody could carry it out: logged, it would be in quarantine as soon as it is there."""
    a = lake.table("a", [1])
    txn = atomic.begin()
    txn.load_table(a).append(rows(2))
    txn.create_table("shop.new", rows(1).schema).append(rows(7))
    lake.table("new", [9], register=False)
    before = lake.standing()
    with pytest.raises(txns.Conflict, match="another table of that name"):
        txn.commit()
    assert before == lake.standing()
    assert ([1], [9]) == (lake.plain_ids(a), lake.plain_ids("shop.new"))


def test_an_append_is_put_on_what_came_before(lake, atomic):
    a = lake.table("a", [1])
    txn = atomic.begin(isolation="snapshot")
    txn.load_table(a).append(rows(2))
    append(lake.open(apply="atomic"), 3, to=(a,))
    txn.commit()
    assert [1, 2, 3] == lake.plain_ids(a)
    assert [[True], [True]] == born(lake)[-2:]


def test_threads_share_a_swap(lake, atomic):
    a, b = lake.table("a"), lake.table("b")
    started = threading.Barrier(6)

    def work(number: int) -> None:
        txn = atomic.begin(isolation="snapshot")
        for name in (a, b):
            txn.load_table(name).append(rows(number))
        started.wait()
        txn.commit()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(range(6)) == lake.plain_ids(a) == lake.plain_ids(b)
    newest = lake.catalog.load_table(a)
    assert len(newest.history()) == len({each.timestamp_ms for each in newest.history()})


@pytest.mark.parametrize("landed", [True, False])
def test_a_lost_answer_is_settled(lake, atomic, landed):
    a, b = lake.table("a"), lake.table("b")
    engine = atomic.parts.catalog.engine
    lost = []

    def lose(_conn, cursor, statement, *_):
        if statement == "COMMIT" and not lost:
            lost.append(statement)
            if landed:
                cursor.execute("COMMIT")
            raise OperationalError(statement, {}, Exception("the connection is gone"))

    event.listen(engine, "before_cursor_execute", lose)
    append(atomic, 1, to=(a, b), txn_id="nightly")
    event.remove(engine, "before_cursor_execute", lose)
    assert lost
    assert [1] == lake.plain_ids(a) == lake.plain_ids(b)
    assert ["nightly"] == [entry.txn_id for entry in lake.standing() if entry.moved]


def test_a_table_that_was_set_back_keeps_its_entries(lake, atomic):
    a, b = lake.table("a", [1]), lake.table("b", [1])
    before = lake.catalog.load_table(a).metadata_location
    append(atomic, 2, to=(a, b))
    lake.catalog.drop_table(a)
    lake.catalog.register_table(a, before)

    handle = lake.open()
    with pytest.raises(txns.Quarantined, match="set back"):
        handle.snapshot().load_table(a)
    assert [1, 2] == ids(handle.snapshot().load_table(b))
    handle.tidy()
    assert [[True, True]] == [row for row in born(lake) if row == [True, True]]


def test_what_was_born_applied_leaves_the_head(lake, atomic):
    a = lake.table("a")
    append(atomic, 1, to=(a,))
    atomic.tidy()
    assert () == lake.standing()
    append(atomic, 2, to=(a,))
    assert [1, 2] == lake.plain_ids(a)


def test_a_catalog_that_cannot_is_refused():
    with pytest.raises(txns.Unsupported, match="atomic"):
        txns.open(InMemoryCatalog("memory", warehouse="memory://"), apply="atomic")


def meanwhile(monkeypatch, deed) -> list:
    """Let something happen once between what is written ahead and the lock; give what that was."""
    real, made = Births.ahead, []

    def ahead(self, *given):
        written = real(self, *given)
        if not made:
            made.append(written)
            deed()
        return written

    monkeypatch.setattr(Births, "ahead", ahead)
    return made


def metadata_files(lake) -> set[str]:
    return {name for name in lake.files() if name.endswith(".metadata.json")}


def named(lake, *names: str) -> set[str]:
    """The metadata files that the catalog's rows lead to, of tables."""
    found = set()
    for name in names:
        table = lake.catalog.load_table(name)
        found |= {table.metadata_location, *(e.metadata_file for e in table.metadata.metadata_log)}
    return {each.removeprefix("file://") for each in found}


@pytest.mark.parametrize("moved", ["nothing", "a table", "the log", "both"])
def test_what_was_written_ahead_stands_if_nothing_has_moved(lake, atomic, monkeypatch, moved):
    a, b = lake.table("a", [1]), lake.table("b", [1])
    other = lake.open(apply="atomic")

    def move() -> None:
        if moved in {"a table", "both"}:
            table = lake.catalog.load_table(a)
            table.transaction().set_properties({"owner": "somebody"}).commit_transaction()
        if moved in {"the log", "both"}:
            other.advance(other.upper + 30_000)

    before = metadata_files(lake)
    made = meanwhile(monkeypatch, move)
    append(atomic, 2, to=(a, b))
    [ahead] = made
    assert {a, b} == {".".join(each) for each in ahead.tables}
    at = {name: lake.catalog.load_table(name).metadata_location for name in (a, b)}
    written = {".".join(name): ready.made for name, ready in ahead.tables.items()}
    stands = {name: at[name] == made.metadata_location for name, made in written.items()}
    assert {a: moved == "nothing", b: moved in {"nothing", "a table"}} == stands
    assert [1, 2] == lake.plain_ids(a) == lake.plain_ids(b)
    assert [[True, True]] == born(lake)[-1:]
    # What nobody has taken is gone again.
    tables = {name for name in metadata_files(lake) - before if "/txns/" not in name}
    assert tables <= named(lake, a, b)


def test_what_is_refused_leaves_nothing_of_what_was_written_ahead(lake, atomic, monkeypatch):
    a = lake.table("a", [1])
    other = lake.open(apply="atomic")
    txn = atomic.begin(isolation="serializable")
    assert [1] == ids(txn.load_table(a))
    txn.load_table(a).append(rows(2))
    made = meanwhile(monkeypatch, lambda: append(other, 3, to=(a,)))
    with pytest.raises(txns.Conflict):
        txn.commit()
    assert [True] == [bool(each.tables) for each in made]
    assert metadata_files(lake) <= named(lake, a, "txns.commits") | files_of_the_log(lake)
    assert [1, 3] == lake.plain_ids(a)


def files_of_the_log(lake) -> set[str]:
    return {name for name in metadata_files(lake) if "/txns/" in name}


def test_a_storage_that_fails_ahead_is_told_by_the_attempt(lake, atomic, monkeypatch):
    a = lake.table("a", [1])
    real, failed = LockedRows.make_ready, []

    def fail(self, changes):
        if not failed:
            failed.append(changes)
            raise OSError("no space left")
        return real(self, changes)

    monkeypatch.setattr(LockedRows, "make_ready", fail)
    append(atomic, 2, to=(a,))
    assert failed
    assert [1, 2] == lake.plain_ids(a)
