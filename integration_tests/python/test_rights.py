"""
Roles of PostgreSQL that may not do everything: what each can do, and is told (docs/security.md).

The rights are those on the catalog's own tables, and on their rows.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy.exc import ProgrammingError

import txns
from txns._admin.invariants import check_all

if TYPE_CHECKING:
    from pathlib import Path

ROW = pa.table({"id": pa.array([1], pa.int64())})
GRANTS = """
GRANT SELECT ON iceberg_tables, iceberg_namespace_properties TO reader, writer;
GRANT UPDATE ON iceberg_tables TO writer;
ALTER TABLE iceberg_tables ENABLE ROW LEVEL SECURITY;
CREATE POLICY reads ON iceberg_tables FOR SELECT USING (true);
CREATE POLICY writes ON iceberg_tables FOR UPDATE TO writer USING (table_name IN ('commits', 'a'));
"""


@pytest.fixture
def lake(tmp_path: Path, postgresql_database: str):
    """Give what opens a catalog as a role, over a lake with a and b."""

    def catalog(role: str) -> SqlCatalog:
        uri = re.sub(r"//[^@/]*@", f"//{role}@", postgresql_database)
        own = {} if role == "postgres" else {"init_catalog_tables": "false"}
        return SqlCatalog("lake", uri=uri, warehouse=f"file://{tmp_path}/files", **own)

    owner = catalog("postgres")
    owner.create_namespace("shop")
    handle = txns.open(owner)
    for name in ("shop.a", "shop.b"):
        owner.create_table(name, ROW.schema)
        handle.register(name)
    with owner.engine.begin() as connection:
        for role in ("reader", "writer"):
            exists = "SELECT 1 FROM pg_roles WHERE rolname = :role"
            if not connection.exec_driver_sql(exists.replace(":role", f"'{role}'")).first():
                connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN")
        connection.exec_driver_sql(GRANTS)
    return catalog


def _rows(catalog: SqlCatalog, name: str) -> int:
    return txns.open(catalog).snapshot().load_table(name).scan().to_arrow().num_rows


def test_a_reader_reads_and_is_refused_at_once(lake):
    """It is told by the database's own error, which is no outcome; a rollback knows that, too."""
    txns.open(lake("postgres")).catalog().load_table("shop.a").append(ROW)
    reader = lake("reader")
    assert 1 == _rows(reader, "shop.a")
    began = time.monotonic()
    with pytest.raises(ProgrammingError, match="permission denied"):
        txns.open(reader).catalog().load_table("shop.a").append(ROW)
    assert time.monotonic() - began < 15  # and not the 30 s of an outcome that is not known
    txn = txns.open(reader).begin()
    txn.load_table("shop.a").append(ROW)
    with pytest.raises(ProgrammingError, match="permission denied"):
        txn.commit()
    txn.rollback()
    assert 1 == _rows(lake("postgres"), "shop.a")
    assert [] == check_all(txns.open(lake("postgres")).parts).violations


@pytest.mark.parametrize("apply", ["inline", "atomic"])
@pytest.mark.parametrize("together", [True, False])
def test_a_writer_of_the_log_is_trusted_with_its_tables(lake, apply, together):
    """
    What it commits to a table that it may not write is committed; somebody else applies it.

    So the commit table is the boundary: who is not to write b gets a commit table of its own. A
    policy hides the row of b from who would lock it: that it is there a plain look tells.
    """
    writer = txns.open(lake("writer"), apply=apply)
    if together:
        with writer.begin() as txn:
            for name in ("shop.a", "shop.b"):
                txn.load_table(name).append(ROW)
    else:
        for name in ("shop.a", "shop.b"):
            writer.catalog().load_table(name).append(ROW)
    owner = lake("postgres")
    assert 1 == owner.load_table("shop.a").scan().to_arrow().num_rows
    assert 0 == owner.load_table("shop.b").scan().to_arrow().num_rows
    assert 1 == _rows(lake("reader"), "shop.b")
    assert [] == txns.open(owner).apply_le()
    assert 1 == owner.load_table("shop.b").scan().to_arrow().num_rows
    assert [] == check_all(txns.open(owner).parts).violations


@pytest.mark.parametrize("apply", ["inline", "atomic"])
def test_who_may_write_a_table_and_not_the_log_is_refused_at_once(lake, apply):
    """A policy hides the commit table's row from the lock: that is no log that is gone."""
    with lake("postgres").engine.begin() as connection:
        connection.exec_driver_sql(
            "ALTER POLICY writes ON iceberg_tables USING (table_name IN ('a', 'b'))"
        )
    txn = txns.open(lake("writer"), apply=apply).begin()
    txn.load_table("shop.a").append(ROW)
    with pytest.raises(txns.InvalidUsage, match="and not write it: nothing was committed") as told:
        txn.commit()
    assert "42501" == told.value.sqlstate
    txn.rollback()
    assert 0 == _rows(lake("reader"), "shop.a")


@pytest.mark.parametrize("apply", ["inline", "atomic"])
def test_who_was_refused_commits_again_once_the_policy_lets_him(lake, apply):
    """As the error says."""
    with lake("postgres").engine.begin() as connection:
        connection.exec_driver_sql(
            "ALTER POLICY writes ON iceberg_tables USING (table_name IN ('a', 'b'))"
        )
    txn = txns.open(lake("writer"), apply=apply).begin()
    txn.load_table("shop.a").append(ROW)
    with pytest.raises(txns.InvalidUsage, match="COMMIT again"):
        txn.commit()
    with lake("postgres").engine.begin() as connection:
        connection.exec_driver_sql("ALTER POLICY writes ON iceberg_tables USING (true)")
    txn.commit()
    assert 1 == _rows(lake("reader"), "shop.a")


@pytest.mark.parametrize("apply", ["inline", "atomic"])
def test_a_table_that_one_may_not_create_is_left_to_others(lake, apply):
    """It is committed, as changes of tables are whose rows one may not write."""
    handle = txns.open(lake("writer"), apply=apply)
    with handle.begin() as txn:
        txn.create_table("shop.c", ROW.schema).append(ROW)
        txn.load_table("shop.a").append(ROW)
    owner = lake("postgres")
    assert [] == txns.open(owner).apply_le()
    assert 1 == owner.load_table("shop.c").scan().to_arrow().num_rows
    assert 1 == owner.load_table("shop.a").scan().to_arrow().num_rows
