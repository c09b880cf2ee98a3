"""SQLite refuses a COMMIT while others read its file, and leaves the transaction open."""

from __future__ import annotations

import sqlite3

import pytest
from pyiceberg.catalog.sql import SqlCatalog

import txns
from tests.txns.lake import ids, rows


@pytest.mark.parametrize("apply", ["inline", "auto"])
def test_a_commit_that_was_refused_is_not_taken_for_one_that_stands(lake, apply):
    """The connection that has tried it would see the entry, and alone; then that is undone."""
    a = lake.table("a", [1])
    file = f"{lake.folder}/catalog.db"
    own = {**lake.catalog.properties, "uri": f"sqlite:///{file}?timeout=0.05"}
    handle = txns.open(SqlCatalog("lake", **own), clock=lake.clock, apply=apply)
    before = lake.open().upper
    txn = handle.begin()
    txn.load_table(a).append(rows(2))
    reader = sqlite3.connect(file, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM iceberg_tables").fetchone()
    with pytest.raises(txns.CommitStateUnknown):
        txn.commit()
    reader.close()
    assert before == lake.open().upper
    assert [1] == ids(lake.open().catalog().load_table(a))
    handle.catalog().load_table(a).append(rows(3))
    assert [1, 3] == lake.plain_ids(a)
