"""A transaction of a SQL catalog begins with the head and the tables of the one before, at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.txns.lake import ids, questions, rows
from txns._iceberg.sql_rows import SqlRows


@pytest.fixture
def atomic(lake):
    return lake.open(apply="atomic")


def read(handle, *names: str) -> list[list[int]]:
    with handle.begin(read_only=True) as txn:
        return [ids(txn.load_table(name)) for name in names]


def looking(monkeypatch, then) -> None:
    """Have something happen right after rows were looked at, once."""
    real, done = SqlRows.looked_at, []

    def looked_at(self, tables):
        found = real(self, tables)
        if not done:
            done.append(True)
            then()
        return found

    monkeypatch.setattr(SqlRows, "looked_at", looked_at)


def append(handle, value: int, *names: str) -> None:
    with handle.begin() as txn:
        for name in names:
            txn.load_table(name).append(rows(value))


def test_tables_of_the_transaction_before_are_no_questions_more(lake, atomic):
    a, b, c = (lake.table(name, [1]) for name in "abc")
    with questions(atomic) as first:
        assert [[1], [1]] == read(atomic, a, b)
    with questions(atomic) as second:
        assert [[1], [1]] == read(atomic, a, b)
    assert (3, 1) == (len(first), len(second))
    with questions(atomic) as another:
        assert [[1], [1]] == read(atomic, a, c)
    assert 2 == len(another)


def test_it_reads_what_others_have_committed_since(lake, atomic):
    a, b = lake.table("a", [1]), lake.table("b", [1])
    read(atomic, a, b)
    append(lake.open(lake.another_catalog(), apply="atomic"), 2, a, b)
    assert [[1, 2], [1, 2]] == read(atomic, a, b)


def test_tables_are_those_of_the_moment_of_the_head(lake, atomic, monkeypatch):
    """A commit between that another process makes is in neither; at COMMIT it is met."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    other = lake.open(lake.another_catalog(), apply="atomic")
    read(atomic, a, b)
    looking(monkeypatch, lambda: append(other, 2, a, b))
    assert [[1], [1]] == read(atomic, a, b)
    assert [[1, 2], [1, 2]] == read(atomic, a, b)


def test_what_the_own_process_commits_between_is_read(lake, atomic, monkeypatch):
    """The head that it has made is newer than the rows that were looked at: they do not count."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    read(atomic, a, b)
    looking(monkeypatch, lambda: append(atomic, 2, a, b))
    assert [[1, 2], [1, 2]] == read(atomic, a, b)


def test_files_that_are_removed_before_the_tables_are_read(lake, atomic, monkeypatch):
    """A version that others have replaced may go while somebody holds its name."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    other = lake.open(lake.another_catalog(), apply="atomic")
    gone = lake.catalog.load_table(a).metadata_location
    fresh = lake.open(lake.another_catalog(), apply="atomic")
    fresh._beginnings.follow(_reads(atomic, a, b))

    def replace_and_remove() -> None:
        append(other, 2, a)
        Path(gone.removeprefix("file://")).unlink()

    looking(monkeypatch, replace_and_remove)
    assert [[1], [1]] == read(fresh, a, b)


def _reads(handle, *names: str):
    with handle.begin(read_only=True) as txn:
        for name in names:
            txn.load_table(name)
    return txn.reads


def test_a_table_that_was_made_again_is_the_new_one(lake, atomic):
    a = lake.table("a", [1])
    read(atomic, a)
    with atomic.begin() as txn:
        txn.drop_table(a)
    with atomic.begin() as txn:
        txn.create_table(a, rows(1).schema).append(rows(7))
    assert [[7]] == read(atomic, a)


def test_the_log_is_found_after_it_was_read_by_another_name(lake, atomic):
    """A catalog's row has no blanks around a namespace, nor says where its parts end."""
    a = lake.table("a", [1])
    with atomic.begin(read_only=True) as txn:
        assert txn.load_table((" txns", "commits")).metadata.snapshots
        assert [1] == ids(txn.load_table((" shop", "a")))
    assert [[1], [1]] == read(atomic, a, (" shop", "a"))


def test_a_basis_that_is_reached_is_no_question_more(lake, atomic):
    a = lake.table("a", [1])
    read(atomic, a)
    basis = atomic.upper
    with questions(atomic) as sent, atomic.begin(read_only=True, basis=basis) as txn:
        assert [1] == ids(txn.load_table(a))
    assert 1 == len(sent)
