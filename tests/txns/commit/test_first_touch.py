"""Two who register a table at once, and threads that share a transaction."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

import txns
from tests.txns.lake import SCHEMA, ids, rows


class Late(SqlCatalog):
    """Does something else just before the first swaps of `shop.a`."""

    before: list[Any]

    def commit_table(self, table: Any, *changes: Any) -> Any:
        if table.name() == ("shop", "a") and self.before:
            self.before.pop(0)()
        return super().commit_table(table, *changes)


@pytest.fixture
def late(lake):
    catalog = Late("lake", **lake.catalog.properties)
    catalog.before = []
    lake.table("a", [1], register=False)
    return catalog


def test_two_first_touches(lake, late):
    """
    Who comes second finds the mark, and goes on; there is one entry of it.

    1. A transaction that registers all it touches loads a table that nobody registered.
    2. Another one registers it, before the first one's swap.
    """
    late.before.append(lambda: lake.open().register("shop.a"))
    handle = lake.open(late, register="all")
    with handle.begin() as txn:
        txn.load_table("shop.a").append(rows(2))
    assert [1, 2] == lake.plain_ids("shop.a")
    entries = handle.parts.log.load().state.entries
    assert 1 == sum(entry.kind.value == "register" for entry in entries)


@pytest.mark.parametrize("apply", ["inline", "next"])
def test_another_one_has_registered_and_written_it(lake, handle, monkeypatch, apply):
    """
    What the log has of a table is looked for in one that is loaded after the log.

    What it lacks then is still to be applied by those who registered it.

    1. R loads a table that nobody registered. 2. Another one registers it, and writes it.
    3. R loads the log.
    """
    a, other = lake.table("a", [1], register=False), lake.open(apply=apply)
    load = handle.parts.log.load

    def registered_first():
        monkeypatch.undo()
        other.register(a)
        other.catalog().load_table(a).append(rows(2))
        return load()

    monkeypatch.setattr(handle.parts.log, "load", registered_first)
    handle.register(a)
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))
    handle.apply_le()
    assert [1, 2] == lake.plain_ids(a)


def test_a_branch_is_written_while_a_table_is_registered(lake, late):
    """Its sequence number is taken: the registration starts again."""
    a = "shop.a"
    table = lake.catalog.load_table(a)
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "side").commit()
    late.before.append(lambda: lake.catalog.load_table(a).append(rows(2), branch="side"))
    lake.open(late).register(a)
    assert [] == late.before
    lake.open().catalog().load_table(a).append(rows(3))
    assert [1, 3] == lake.plain_ids(a)


def test_a_stranger_writes_while_a_table_is_registered(lake, late):
    """The registration starts again on what was written."""
    late.before.append(lambda: lake.catalog.load_table("shop.a").append(rows(2)))
    lake.open(late).register("shop.a")
    assert [1, 2] == ids(lake.open().snapshot().load_table("shop.a"))


def test_a_table_is_forgotten_while_it_is_registered(lake, monkeypatch):
    """1. R loads the head. 2. F forgets the table, and it shows that. 3. R loads and marks it."""
    a, catalog = lake.table("a", [1]), lake.another_catalog()
    handle, load = lake.open(catalog), catalog.load_table

    def forgotten_first(name):
        if name == ("shop", "a"):
            monkeypatch.undo()
            lake.open().forget(a)
        return load(name)

    monkeypatch.setattr(catalog, "load_table", forgotten_first)
    handle.register(a)
    lake.open().catalog().load_table(a).append(rows(2))
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))
    assert [1, 2] == lake.plain_ids(a)


def test_a_registration_that_never_wins(lake, late):
    """It is a conflict, which `run` answers by another attempt; no error of the catalog's."""

    def refuse() -> None:
        raise CommitFailedException("not now")

    late.before += [refuse, refuse]
    handle = lake.open(late, register="all")
    with pytest.raises(txns.Conflict, match="registered"), handle.begin() as txn:
        txn.load_table("shop.a")
    late.before += [refuse, refuse]
    txns.run_transaction(handle, lambda txn: txn.load_table("shop.a").append(rows(2)))
    assert [1, 2] == lake.plain_ids("shop.a")


def test_files_that_were_written_before_the_spec_changed(lake, handle):
    """
    They stand in a manifest of their own spec.

    1. A thread writes files for a transaction.
    2. Another one, of the same transaction, changes the table's partition spec.
    3. The first one stages its files.
    """
    a = lake.table("a", [1])
    with handle.begin() as txn:
        table = txn.load_table(a)
        stage = table._append_files

        def meanwhile(*appended: Any) -> None:
            table._append_files = stage
            with table.update_spec() as update:
                update.add_identity("name")
            stage(*appended)

        table._append_files = meanwhile
        table.append(rows(2))
        table.append(rows(3))
    plain = lake.catalog.load_table(a)
    assert [1, 2, 3] == ids(plain)
    assert {0, 1} == {task.file.spec_id for task in plain.scan().plan_files()}


@pytest.mark.parametrize("by_whom", ["itself", "another"])
def test_tables_that_come_under_care_while_a_transaction_is_open(lake, by_whom):
    """
    The registration of one moves the log past what the next one can be read at.

    1. A transaction begins, and somebody commits.
    2. It writes two tables that nobody had registered.
    """
    tables = [lake.table(name, [1], register=False) for name in ("b", "c")]
    lake.table("other")
    handle = lake.open(register="all")
    with handle.begin(isolation="serializable") as txn:
        lake.open().catalog().load_table("shop.other").append(rows(7))
        for name in tables:
            if by_whom == "another":
                lake.open().register(name)
            txn.load_table(name).append(rows(2))
    assert [[1, 2], [1, 2]] == [lake.plain_ids(name) for name in tables]


def test_what_was_written_since_a_table_came_under_care_clashes(lake):
    """The transaction has read it as it came under care."""
    name = lake.table("b", [1], register=False)
    handle = lake.open(register="all")
    txn = handle.begin()
    lake.table("other")
    lake.open().register(name)
    lake.open().catalog().load_table(name).append(rows(5))
    table = txn.load_table(name)
    assert [1] == ids(table)
    table.overwrite(rows(2))
    with pytest.raises(txns.Conflict):
        txn.commit()
    assert [1, 5] == lake.plain_ids(name)


def test_a_table_of_before_its_care_cannot_be_read_at_a_timestamp(lake):
    """What strangers had written until then is of no time of the log."""
    handle = lake.open()
    lake.table("other", [1])
    before = handle.snapshot().read_ts
    name = lake.table("b", [1], register=False)
    handle.catalog().load_table("shop.other").append(rows(2))
    handle.register(name)
    with pytest.raises(txns.Conflict, match="too old"):
        handle.snapshot(before).load_table(name)


@pytest.mark.parametrize("archived", [True, False])
def test_a_table_that_is_forgotten_between_its_mark_and_its_entry(lake, monkeypatch, archived):
    """
    The entry would stand above the forget that takes its mark: nobody could use the table.

    1. A registrar has marked a table.
    2. Somebody forgets it, and is perhaps gone before he has applied that.
    3. The registrar appends its entry.
    """
    name = lake.table("b", [1], register=False)
    other = lake.open()
    other.catalog().create_table("shop.c", SCHEMA)
    handle = lake.open()
    append = handle.parts.loop.append

    def forgotten_first(*arguments):
        monkeypatch.undo()
        if archived:
            other.forget(name)
            assert other.tidy()
        else:
            monkeypatch.setattr(other.parts.committer, "apply", lambda *_a: None)
            other.forget(name)
        return append(*arguments)

    monkeypatch.setattr(handle.parts.loop, "append", forgotten_first)
    with pytest.raises(txns.Conflict, match="from care since"):
        handle.register(name)
    handle.register(name)
    handle.catalog().load_table(name).append(rows(2))
    assert [1, 2] == ids(lake.open().snapshot().load_table(name))
