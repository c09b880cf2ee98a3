"""What of a transaction's looks at a table is validated at its commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.txns.lake import ids, rows
from txns.errors import Conflict

if TYPE_CHECKING:
    from tests.txns.lake import Lake
    from txns import Handle, Transaction


@pytest.fixture
def tables(lake: Lake) -> tuple[str, str]:
    return lake.table("read", [1, 2]), lake.table("written", [1, 2])


def _write(handle: Handle, table: str) -> None:
    with handle.begin() as other:
        other.load_table(table).append(rows(3))


def _commits(handle: Handle, txn: Transaction, tables: tuple[str, str]) -> bool:
    """Whether it commits after another has written the table that it read."""
    read, written = tables
    txn.load_table(written).append(rows(4))
    _write(handle, read)
    try:
        txn.commit()
    except Conflict:
        return False
    return True


def test_a_scan_is_validated(handle, tables):
    txn = handle.begin()
    assert [1, 2] == ids(txn.load_table(tables[0]))
    assert not _commits(handle, txn, tables)


def test_a_scan_of_an_explicit_snapshot_is_not(handle, tables):
    """It sees the same for ever (docs/isolation.md: explicit reads are not in the read set)."""
    txn = handle.begin()
    table = txn.load_table(tables[0])
    at = table.metadata.current_snapshot_id
    assert 2 == len(table.scan(snapshot_id=at).to_arrow())
    assert 2 == len(table.scan("true", ("id",), True, at).to_arrow())  # noqa: FBT003 -- as pyiceberg
    assert _commits(handle, txn, tables)


def test_a_scan_takes_its_arguments_by_position(handle, tables):
    """As pyiceberg's own does."""
    found = handle.begin().load_table(tables[0]).scan("id > 1", ("name",)).to_arrow()
    assert [{"name": "n2"}] == found.to_pylist()


def test_a_look_at_the_metadata_is_not_validated(handle, tables):
    """A limit that docs/python.md names."""
    txn = handle.begin()
    table = txn.load_table(tables[0])
    assert (["id", "name"], True) == (table.schema().column_names, bool(table.metadata.snapshots))
    assert _commits(handle, txn, tables)


def test_a_look_at_the_newest_snapshot_is_validated(handle, tables):
    txn = handle.begin()
    assert txn.load_table(tables[0]).current_snapshot()
    assert not _commits(handle, txn, tables)
