"""What a transaction asks catalog and storage for: exact numbers, no clock."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import txns
from benchmarks._counted import CountingIO, counted_catalog, kind
from tests.txns.lake import Lake, ids, rows
from txns._stage import change_builder

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ("a", "b", "c")


class Counted:
    """A handle of a process of its own, whose round trips are counted."""

    def __init__(self, lake: Lake, **options: str) -> None:
        catalog, self.statements = counted_catalog(lake.catalog.properties)
        self.handle = txns.open(catalog, tidy_after=1000, **options)

    def of(self, work: Callable[[], None]) -> tuple[list[str], list[str], list[str]]:
        """Give the statements, the files read and those written of some work."""
        self.statements.clear()
        CountingIO.clear()
        work()
        words = [statement.split()[0] for statement in self.statements]
        return words, list(CountingIO.read), list(CountingIO.written)


@pytest.fixture
def names(lake):
    return [lake.table(name, [1]) for name in NAMES]


def append_all(handle: txns.Handle, names: list[str], value: int) -> None:
    with handle.begin() as txn:
        for name in names:
            txn.load_table(name).append(rows(value))


def kinds(paths: list[str]) -> list[str]:
    """What files are, by their names."""
    return sorted(map(kind, paths))


def test_a_transaction_of_three_tables_moves_each_once(lake, names):
    counted = Counted(lake, apply="atomic")
    append_all(counted.handle, names, 2)
    statements, read, written = counted.of(lambda: append_all(counted.handle, names, 3))
    # The head and the tables, without a lock, and with it.
    assert ["SELECT", "BEGIN", "SELECT"] + ["UPDATE"] * 4 + ["COMMIT"] == [
        each for each in statements if each != "ROLLBACK"
    ]
    assert ["list"] * 3 == kinds(read)  # which the new ones take over
    assert sorted(["data", "manifest", "list", "metadata"] * 3 + ["metadata"]) == kinds(written)
    assert [1, 2, 3] == lake.plain_ids(names[0])


def test_a_change_is_built_once_where_nobody_comes_between(lake, names, monkeypatch):
    """What was made of it before the rows are locked is what is logged."""
    handle, built = lake.open(apply="atomic"), []

    def noted(*given):
        built.append(given[0].identifier)
        return build(*given)

    build = change_builder.build
    monkeypatch.setattr(change_builder, "build", noted)
    append_all(handle, names, 2)
    assert sorted(built) == [("shop", name) for name in NAMES]
    assert all([1, 2] == lake.plain_ids(name) for name in names)


def test_what_others_have_committed_is_read_once(lake, names):
    counted = Counted(lake, apply="atomic")
    append_all(counted.handle, names, 2)
    append_all(lake.open(apply="atomic"), names[:1], 3)
    _, read, _ = counted.of(lambda: append_all(counted.handle, names, 4))
    assert ["list"] * 3 + ["metadata"] * 2 == kinds(read)  # the head's, and the table's
    assert [1, 2, 3, 4] == lake.plain_ids(names[0])


def test_an_append_on_a_table_that_moved_reads_no_manifest(lake, names):
    counted = Counted(lake, apply="atomic")
    append_all(counted.handle, names, 2)
    txn = counted.handle.begin(isolation="snapshot")
    txn.load_table(names[0]).append(rows(3))
    append_all(lake.open(apply="atomic"), names[:1], 4)
    _, read, written = counted.of(txn.commit)
    assert ["list", "metadata", "metadata"] == kinds(read)
    assert ["list", "metadata", "metadata", "metadata"] == kinds(written)  # one ahead, in vain
    assert [1, 2, 3, 4] == lake.plain_ids(names[0])


def test_an_overwrite_on_a_table_that_moved_opens_only_manifests_that_it_changes(lake, names):
    """However many there are: it is made again while others wait for the rows."""
    table, handle = names[0], lake.open(apply="atomic")
    for value in range(2, 7):
        append_all(handle, [table], value)
    real = lake.catalog.load_table(table)
    before = {each.manifest_path for each in real.current_snapshot().manifests(real.io)}
    counted = Counted(lake, apply="atomic")
    txn = counted.handle.begin(isolation="snapshot")
    txn.load_table(table).overwrite(rows(10), "id = 3")
    append_all(handle, [table], 7)
    _, read, _ = counted.of(txn.commit)
    assert 6 == len(before)
    assert 1 == len(before & set(read))  # the one that had its row
    assert [1, 2, 4, 5, 6, 7, 10] == lake.plain_ids(table)


def test_reading_what_has_not_moved_reads_no_metadata(lake, names):
    counted = Counted(lake)
    for name in names:
        counted.handle.snapshot().load_table(name)

    def read_all() -> None:
        snapshot = counted.handle.snapshot()
        assert all(ids(snapshot.load_table(name)) == [1] for name in names)

    statements, read, _ = counted.of(read_all)
    assert ["SELECT"] * 4 == statements
    assert "metadata" not in kinds(read)


def test_the_bytes_that_are_counted_are_those_of_the_files(lake, names):
    counted = Counted(lake, apply="atomic")
    append_all(lake.open(apply="atomic"), names[:1], 2)
    counted.of(lambda: append_all(counted.handle, names[:1], 3))
    assert _sizes(CountingIO.written) == _by_file(CountingIO.bytes_written)
    whole = [path for path in CountingIO.read if kind(path) != "data"]
    assert _sizes(whole) == _by_file(CountingIO.bytes_read)
    assert any(kind(path) == "metadata" for path in whole)


def _sizes(paths: list[str]) -> dict[str, int]:
    return {path: Path(path.removeprefix("file://")).stat().st_size for path in paths}


def _by_file(seen: list[tuple[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for path, count in seen:
        found[path] += count
    return dict(found)


def test_what_others_have_changed_is_read_once(lake):
    """Whoever is held against it again, at an early look or an attempt, reads what came since."""
    name, counted = lake.table("a", [1]), Counted(lake)
    txn = counted.handle.begin()
    txn.load_table(name).delete("id = 1")
    others = lake.open()

    def manifests_read() -> int:
        read = counted.of(lambda: counted.handle.parts.committer.check_standing(txn._request()))[1]
        return kinds(read).count("manifest")

    for number in (2, 3):
        append_all(others, [name], number)
    assert 2 == manifests_read()
    assert 0 == manifests_read()
    append_all(others, [name], 4)
    assert 1 == manifests_read()
    txn.commit()
    assert [2, 3, 4] == lake.plain_ids(name)
