"""What a transaction asks catalog and storage for: exact numbers, no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from sqlalchemy import event

import txns
from tests.txns.lake import Lake, ids, rows
from txns._stage import change_builder

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.io import InputFile, OutputFile

NAMES = ("a", "b", "c")


class CountingIO(PyArrowFileIO):
    """The real one, which remembers what was read and written."""

    read: ClassVar[list[str]] = []
    written: ClassVar[list[str]] = []

    def new_input(self, location: str) -> InputFile:
        self.read.append(location)
        return super().new_input(location)

    def new_output(self, location: str) -> OutputFile:
        self.written.append(location)
        return super().new_output(location)


class Counted:
    """A handle of a process of its own, whose round trips are counted."""

    def __init__(self, lake: Lake, **options: str) -> None:
        io = f"{CountingIO.__module__}.{CountingIO.__name__}"
        catalog = SqlCatalog("lake", **{**lake.catalog.properties, "py-io-impl": io})
        self.handle = txns.open(catalog, tidy_after=1000, **options)
        self.statements: list[str] = []
        event.listen(catalog.engine, "before_cursor_execute", self._note)

    def _note(self, _connection, _cursor, statement, *_more) -> None:
        if statement != "SELECT 1":  # who is slow says that it is at work
            self.statements.append(statement.split()[0])

    def of(self, work: Callable[[], None]) -> tuple[list[str], list[str], list[str]]:
        """Give the statements, the files read and those written of some work."""
        for seen in (self.statements, CountingIO.read, CountingIO.written):
            seen.clear()
        work()
        return list(self.statements), list(CountingIO.read), list(CountingIO.written)


@pytest.fixture
def names(lake):
    return [lake.table(name, [1]) for name in NAMES]


def append_all(handle: txns.Handle, names: list[str], value: int) -> None:
    with handle.begin() as txn:
        for name in names:
            txn.load_table(name).append(rows(value))


def kinds(paths: list[str]) -> list[str]:
    """What files are, by their names."""
    found = []
    for path in paths:
        name = path.rsplit("/", 1)[-1]
        endings = {".metadata.json": "metadata", ".parquet": "data", "-m0.avro": "manifest"}
        found.append(next((kind for end, kind in endings.items() if name.endswith(end)), "list"))
    return sorted(found)


def test_a_transaction_of_three_tables_moves_each_once(lake, names):
    counted = Counted(lake, apply="atomic")
    append_all(counted.handle, names, 2)
    statements, read, written = counted.of(lambda: append_all(counted.handle, names, 3))
    # The head, each table, and both again, without a lock; the head, and the tables, with it.
    assert ["SELECT"] * 5 + ["BEGIN"] + ["SELECT"] + ["UPDATE"] * 4 + ["COMMIT"] == [
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
    assert ["list", "metadata", "metadata"] == kinds(written)
    assert [1, 2, 3, 4] == lake.plain_ids(names[0])


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
