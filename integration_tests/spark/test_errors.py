"""What is refused, with which SQLSTATE, and what the message says to do."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from integration_tests import sessions
from integration_tests.checks import affected, count, one, refused, rows, state
from txns_spark import errors
from txns_spark.errors import translated

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.sampled

DAY_S = 24 * 60 * 60


# ------------------------------------------------------------ statements out of place


@pytest.mark.parametrize(
    "statement",
    ["COMMIT", "END", "SAVEPOINT s", "ROLLBACK TO s", "RELEASE s", "SET TRANSACTION COMMENT 'x'"],
)
def test_without_a_transaction(spark: SparkSession, statement: str) -> None:
    """What needs a transaction and has none gets 25P01."""
    with refused("25P01") as refusal:
        spark.sql(statement)
    assert type(refusal.error) is errors.InvalidUsage
    assert "BEGIN" in refusal.error.message


@pytest.mark.parametrize("statement", ["ROLLBACK", "ABORT WORK", "ROLLBACK TRANSACTION"])
def test_rollback_without_a_transaction_is_harmless(spark: SparkSession, statement: str) -> None:
    """Drivers send ROLLBACK whenever they take a connection back."""
    assert "none" == one(spark, statement).state


@pytest.mark.parametrize("statement", ["BEGIN", "START TRANSACTION READ ONLY"])
def test_begin_inside_a_transaction(spark: SparkSession, statement: str) -> None:
    """BEGIN inside a transaction gets 25001 and leaves it as it is."""
    begun = one(spark, "BEGIN")
    with refused("25001"):
        spark.sql(statement)
    shown = one(spark, "SHOW TRANSACTION")
    assert ("active", begun.txn_id) == (shown.state, shown.txn_id)


@pytest.mark.parametrize("statement", ["ROLLBACK TO nowhere", "RELEASE SAVEPOINT nowhere"])
def test_unknown_savepoint(spark: SparkSession, statement: str) -> None:
    """An unknown savepoint gets 3B001, and the message lists those there are."""
    spark.sql("BEGIN")
    spark.sql("SAVEPOINT here")
    with refused("3B001") as refusal:
        spark.sql(statement)
    assert "here" in refusal.error.message
    assert "active" == state(spark)


@pytest.mark.parametrize(
    "write",
    [
        "INSERT INTO {} VALUES (3, 0)",
        "UPDATE {} SET v = 1",
        "DELETE FROM {}",
        "MERGE INTO {} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE {}",
        "DROP TABLE {}",
        "ALTER TABLE {} ADD COLUMN x INT",
        "CREATE TABLE {}_new (id BIGINT) USING iceberg",
    ],
)
def test_write_in_a_read_only_transaction(
    spark: SparkSession, two_tables: tuple[str, str], write: str
) -> None:
    """A write gets 25006; what was written before stays."""
    spark.sql("BEGIN READ ONLY")
    with refused("25006"):
        spark.sql(write.format(two_tables[0]))
    spark.sql("ROLLBACK")
    assert [(1, 0), (2, 0)] == rows(spark, f"SELECT * FROM {two_tables[0]}")


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("BEGIN ISOLATION LEVEL CHAOS", "CHAOS"),
        ("BEGIN TRANSACTION foo", "foo"),
        ("SET TRANSACTION READ SOMETIMES", "SOMETIMES"),
    ],
)
def test_wrong_mode(spark: SparkSession, statement: str, word: str) -> None:
    """A wrong mode gets 42601, and the message names the word."""
    with refused("42601") as refusal:
        spark.sql(statement)
    assert word.lower() in refusal.error.message.lower()
    assert "none" == state(spark)


# ------------------------------------------------------------ failures that are no outcome


def test_commit_again_after_a_failure(
    own_lake: Callable[..., SparkSession], tmp_path: Path
) -> None:
    """
    A COMMIT that could not ask the log leaves the transaction open, with all that it wrote.

    The commit table is never made anew meanwhile: its entries would be lost.
    """
    session = own_lake()
    session.sql("CREATE TABLE own.db.t (id BIGINT) USING iceberg")
    session.sql("BEGIN")
    affected(session, "INSERT INTO own.db.t VALUES (1)")
    database = tmp_path / "own" / "catalog.db"
    rename = "UPDATE iceberg_tables SET table_name = ? WHERE table_name = ?"
    with contextlib.closing(sqlite3.connect(database, timeout=30)) as connection:
        connection.execute(rename, ("away", "commits"))
        connection.commit()
        with refused("55000") as refusal:
            session.sql("COMMIT")
        assert "txns recover" in refusal.error.message
        assert "active" == state(session)
        connection.execute(rename, ("commits", "away"))
        connection.commit()
    session.sql("COMMIT")
    assert "none" == state(session)
    assert 1 == count(session, "own.db.t")


# ------------------------------------------------------------ above the maximum age


def test_a_transaction_above_the_maximum_age(own_lake: Callable[..., SparkSession]) -> None:
    """It is told that it is too old, by an error after which nobody runs it again."""
    session = own_lake(txns_max_age_s="1")
    session.sql("CREATE TABLE own.db.t (id BIGINT) USING iceberg")
    session.sql("BEGIN")
    affected(session, "INSERT INTO own.db.t VALUES (1)")
    session.sql("SELECT java_method('java.lang.Thread', 'sleep', 1100L)").collect()
    with refused("25P04") as refusal:
        session.sql("COMMIT")
    assert "txns.max-age-s" in refusal.error.message
    assert "none" == state(session)
    assert 0 == count(session, "own.db.t")


# ------------------------------------------------------------ after a failure


@pytest.mark.parametrize(
    "failing",
    [
        "INSERT INTO {} VALUES (1)",
        "INSERT INTO {} SELECT CAST(raise_error('no') AS BIGINT), 0",
        "UPDATE {} SET v = CAST(raise_error('no') AS BIGINT)",
        "UPDATE {} SET nosuch = 1",
        "DELETE FROM {} WHERE nosuch = 1",
        "MERGE INTO {0} t USING {0} s ON s.v = t.v WHEN MATCHED THEN UPDATE SET v = s.id",
        "CREATE TABLE {} (id BIGINT) USING iceberg",
        "ALTER TABLE {} ADD COLUMN v BIGINT",
        "DROP TABLE {}_nosuch",
        "TRUNCATE TABLE {}_nosuch",
    ],
)
def test_failed_statement_aborts_the_transaction(
    spark: SparkSession, two_tables: tuple[str, str], failing: str
) -> None:
    """After a failed INSERT, UPDATE, DELETE, MERGE or DDL only ROLLBACK is accepted."""
    table = two_tables[0]
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {table} VALUES (3, 0)")
    with pytest.raises(PySparkException):
        spark.sql(failing.format(table))
    assert "aborted" == state(spark)
    for statement in (
        "SELECT 1",
        f"SELECT * FROM {table}",
        f"INSERT INTO {table} VALUES (4, 0)",
        "SAVEPOINT s",
        "BEGIN",
        "COMMIT",
    ):
        with refused("25P02") as refusal:
            spark.sql(statement).collect()
        assert "ROLLBACK" in refusal.error.message
    with refused("25P02"):
        spark.table(table).count()
    with refused("25P02"):
        spark.range(1).selectExpr("id", "id AS v").writeTo(table).append()
    assert "rolled back" == one(spark, "ROLLBACK").state
    assert [(1, 0), (2, 0)] == rows(spark, f"SELECT * FROM {table}")


def test_rollback_to_a_savepoint_ends_the_aborted_state(
    spark: SparkSession, two_tables: tuple[str, str]
) -> None:
    """What was done before the savepoint can still be committed."""
    table = two_tables[0]
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {table} VALUES (3, 0)")
    spark.sql("SAVEPOINT s")
    with pytest.raises(PySparkException):
        spark.sql(f"INSERT INTO {table} VALUES (1)")
    spark.sql("ROLLBACK TO SAVEPOINT s")
    assert "active" == state(spark)
    spark.sql("COMMIT")
    assert 3 == count(spark, table)


def test_failed_data_frame_write_aborts_the_transaction(
    spark: SparkSession, two_tables: tuple[str, str]
) -> None:
    """A write through the DataFrame API that fails halfway aborts like a statement."""
    bad = spark.range(3).selectExpr("id", "CAST(raise_error('no') AS BIGINT) AS v")
    spark.sql("BEGIN")
    with pytest.raises(PySparkException):
        bad.writeTo(two_tables[0]).append()
    assert "aborted" == state(spark)


def test_failed_query_does_not_abort(spark: SparkSession, two_tables: tuple[str, str]) -> None:
    """A query that fails has changed nothing; the transaction goes on."""
    table = two_tables[0]
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {table} VALUES (3, 0)")
    with pytest.raises(PySparkException):
        spark.sql(f"SELECT raise_error('no') FROM {table}").collect()
    assert "active" == state(spark)
    spark.sql("COMMIT")
    assert 3 == count(spark, table)


# ------------------------------------------------------------ writes elsewhere


def test_write_to_a_second_catalog(
    own_lake: Callable[..., SparkSession], two_tables: tuple[str, str]
) -> None:
    """One transaction belongs to one catalog: 0A000."""
    spark = own_lake()
    spark.sql("CREATE TABLE own.db.t (id BIGINT) USING iceberg")
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {two_tables[0]} VALUES (3, 0)")
    with refused("0A000") as refusal:
        spark.sql("INSERT INTO own.db.t VALUES (1)")
    assert type(refusal.error) is errors.Unsupported
    assert "lake" in refusal.error.message
    spark.sql("ROLLBACK")
    assert 0 == count(spark, "own.db.t")


def test_write_to_a_catalog_without_transactions(
    own_lake: Callable[..., SparkSession], two_tables: tuple[str, str]
) -> None:
    """A plain Iceberg catalog cannot be written inside a transaction: 0A000."""
    spark = own_lake(catalog_class=sessions.PLAIN)
    spark.sql("CREATE TABLE own.db.t (id BIGINT) USING iceberg")
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {two_tables[0]} VALUES (3, 0)")
    with refused("0A000"):
        spark.sql("INSERT INTO own.db.t VALUES (1)")
    spark.sql("ROLLBACK")
    assert 0 == count(spark, "own.db.t")


def test_write_to_a_path(spark: SparkSession, two_tables: tuple[str, str], tmp_path: Path) -> None:
    """A table that only has a path, and plain files, are not part of a transaction: 0A000."""
    path = str(tmp_path / "t")
    frame = spark.range(1)
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {two_tables[0]} VALUES (3, 0)")
    spark.sql("SAVEPOINT s")
    with refused("0A000"):
        frame.write.format("iceberg").save(path)
    spark.sql("ROLLBACK TO s")
    with refused("0A000"):
        frame.write.parquet(path)
    spark.sql("ROLLBACK TO s")
    spark.sql("COMMIT")
    assert not os.path.exists(path)  # noqa: PTH110  (the text that Spark was given)
    assert 3 == count(spark, two_tables[0])


def test_write_to_a_table_that_is_not_registered(
    spark: SparkSession, two_tables: tuple[str, str]
) -> None:
    """The error has the command that registers the table, and the command cures it."""
    a, b = two_tables
    spark.sql(f"CALL lake.system.forget('{a}')")
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {b} VALUES (3, 0)")
    with refused("0A000") as refusal:
        spark.sql(f"INSERT INTO {a} VALUES (3, 0)")
    name = a.removeprefix("lake.")
    assert f"CALL lake.system.register('{name}')" in refusal.error.message
    spark.sql("ROLLBACK")
    spark.sql(f"CALL lake.system.register('{name}')")
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {a} VALUES (3, 0)")
    spark.sql("COMMIT")
    assert (3, 2) == (count(spark, a), count(spark, b))


def test_reads_elsewhere_are_allowed_and_listed(
    own_lake: Callable[..., SparkSession], two_tables: tuple[str, str], tmp_path: Path
) -> None:
    """Other catalogs, files and unregistered tables are read as they are: unprotected."""
    a, b = two_tables
    spark = own_lake(catalog_class=sessions.PLAIN)
    spark.sql("CREATE TABLE own.db.t USING iceberg AS SELECT 1 AS id, 10 AS v")
    spark.sql(f"CALL lake.system.forget('{b}')")
    file = str(tmp_path / "file.parquet")
    spark.sql("SELECT 3 AS id, 30 AS v").write.parquet(file)
    spark.sql("BEGIN")
    for source in ("own.db.t", b, f"parquet.`{file}`"):
        spark.sql(f"INSERT INTO {a} SELECT id + 10, v FROM {source}")
    unprotected = " ".join(one(spark, "SHOW TRANSACTION").unprotected)
    for name in ("own.db.t", b.removeprefix("lake."), "file.parquet"):
        assert name in unprotected
    spark.sql("COMMIT")
    assert [(1, 0), (2, 0), (11, 0), (11, 10), (12, 0), (13, 30)] == sorted(
        rows(spark, f"SELECT * FROM {a}")
    )


# ------------------------------------------------------------ what deletes files


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE {} PURGE",
        "CALL lake.system.expire_snapshots('{}')",
        "CALL lake.system.remove_orphan_files('{}')",
        "ALTER TABLE {} RENAME TO lake.db.renamed",
        "CALL lake.system.register('{}')",
        "CALL lake.system.tidy()",
        "CALL lake.system.purge('{}')",
    ],
)
def test_unsafe_commands_inside_a_transaction(
    spark: SparkSession, two_tables: tuple[str, str], statement: str
) -> None:
    """What deletes files or cannot be undone gets 0A000 inside a transaction."""
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {two_tables[0]} VALUES (3, 0)")
    with refused("0A000"):
        spark.sql(statement.format(two_tables[0]))
    spark.sql("ROLLBACK")
    assert 2 == count(spark, two_tables[0])


def test_maintenance_keeps_what_an_unapplied_entry_needs(
    own_lake: Callable[..., SparkSession], tmp_path: Path
) -> None:
    """
    Expiry and orphan removal outside a transaction do not harm what is not applied yet.

    1. Two tables are changed with txns.apply=next: their files are in no table's metadata.
    2. All files are made to look ten days old.
    3. expire_snapshots and remove_orphan_files run with the shortest retention.
    4. Everything can still be read, and applied.
    """
    spark = own_lake(txns_apply="next")
    for name in ("a", "b"):
        spark.sql(f"CREATE TABLE own.db.{name} (id BIGINT) USING iceberg")
        spark.sql(f"INSERT INTO own.db.{name} VALUES (1), (2)")
    spark.sql("CALL own.system.apply()")
    spark.sql("BEGIN")
    spark.sql("DELETE FROM own.db.a WHERE id = 1")
    spark.sql("INSERT INTO own.db.a VALUES (3)")
    spark.sql("INSERT INTO own.db.b SELECT id FROM own.db.a")
    assert not one(spark, "COMMIT").applied
    old = time.time() - 10 * DAY_S
    for path in (tmp_path / "own" / "db").rglob("*"):
        os.utime(path, (old, old))
    for name in ("a", "b"):
        spark.sql(
            f"CALL own.system.expire_snapshots(table => 'db.{name}', retain_last => 1, "
            "older_than => TIMESTAMP '2100-01-01 00:00:00')"
        )
        spark.sql(f"CALL own.system.remove_orphan_files(table => 'db.{name}')")
    expected = ([(2,), (3,)], [(1,), (2,), (2,), (3,)])
    for session in (spark, own_lake()):
        assert expected == tuple(rows(session, f"SELECT * FROM own.db.{t}") for t in "ab")
    assert 0 == one(spark, "CALL own.system.apply()").tables_left
    plain = own_lake(catalog_class=sessions.PLAIN)
    assert expected == tuple(rows(plain, f"SELECT * FROM own.db.{t}") for t in "ab")


@pytest.mark.parametrize("tidied", [False, True], ids=["in the head", "in the archive"])
def test_drop_purge_outside_says_when(
    own_lake: Callable[..., SparkSession], *, tidied: bool
) -> None:
    """DROP TABLE ... PURGE of a registered table says what to do first and when, then works."""
    spark = own_lake()
    spark.sql("CREATE TABLE own.db.t USING iceberg AS SELECT 1 AS id")
    with refused("0A000") as refusal:
        spark.sql("DROP TABLE own.db.t PURGE")
    assert "own.system.forget('db.t')" in refusal.error.message
    assert "own.system.purge('db.t') 86400 s later, from 1" in refusal.error.message
    assert 1 == count(spark, "own.db.t")
    spark.sql("CALL own.system.forget('db.t')")
    if tidied:
        spark.sql("CALL own.system.tidy()")
    spark.sql("DROP TABLE own.db.t PURGE")
    for session in (spark, own_lake()):
        assert not session.catalog.tableExists("own.db.t")
        assert [] == rows(session, "SHOW TABLES IN own.db")
    assert 0 == one(spark, "CALL own.system.apply()").tables_left
    spark.sql("CREATE TABLE own.db.t USING iceberg AS SELECT 2 AS id")
    assert [(2,)] == rows(own_lake(), "SELECT * FROM own.db.t")


# ------------------------------------------------------------ the commit table


def test_commit_table_is_missing(own_lake: Callable[..., SparkSession]) -> None:
    """A registered table whose commit table is gone is refused, with the cure: 55000."""
    spark = own_lake()
    spark.sql("CREATE TABLE own.db.t USING iceberg AS SELECT 1 AS id")
    own_lake(catalog_class=sessions.PLAIN).sql("DROP TABLE own.txns.commits")
    for statement in ("SELECT * FROM own.db.t", "INSERT INTO own.db.t VALUES (2)"):
        with refused("55000") as refusal:
            own_lake().sql(statement).collect()
        assert "txns.commit-table" in refusal.error.message


def _append_record(plain: SparkSession, **changed: str) -> None:
    """Append a record to the commit table like its newest one, with other fields."""
    newest = one(
        plain,
        "SELECT s.summary FROM own.txns.commits.snapshots s JOIN own.txns.commits.refs r "
        "ON s.snapshot_id = r.snapshot_id WHERE r.name = 'main'",
    ).summary
    upper = int(newest["txns.upper"])
    fields = {key: value for key, value in newest.items() if key.startswith("txns.")}
    fields |= {"txns.commit-ts": str(upper + 1), "txns.upper": str(upper + 1)}
    fields |= {"txns.prev-ts": str(upper), "txns.txn-id": "by another version"}
    fields |= {"txns.kind": "advance", "txns.tables": "[]"}
    fields.pop("txns.payload", None)
    fields |= {f"txns.{name.replace('_', '-')}": value for name, value in changed.items()}
    writer = plain.table("own.txns.commits").limit(0).writeTo("own.txns.commits")
    for key, value in fields.items():
        writer = writer.option(f"snapshot-property.{key}", value)
    writer.append()


def test_record_of_the_helper_is_a_valid_one(own_lake: Callable[..., SparkSession]) -> None:
    """Without a feature, the record that the next tests write disturbs nobody."""
    spark = own_lake()
    spark.sql("CREATE TABLE own.db.t USING iceberg AS SELECT 1 AS id")
    _append_record(own_lake(catalog_class=sessions.PLAIN))
    assert 1 == affected(spark, "INSERT INTO own.db.t VALUES (2)")
    assert [(1,), (2,)] == rows(own_lake(), "SELECT * FROM own.db.t")


def test_unknown_reader_feature(own_lake: Callable[..., SparkSession]) -> None:
    """A log that asks readers for an unknown feature is refused by all, with the cure: 0A000."""
    spark = own_lake()
    spark.sql("CREATE TABLE own.db.t USING iceberg AS SELECT 1 AS id")
    _append_record(own_lake(catalog_class=sessions.PLAIN), reader_features="time-machine")
    for statement in ("SELECT * FROM own.db.t", "INSERT INTO own.db.t VALUES (2)", "BEGIN"):
        session = own_lake()
        session.sql("USE own.db")
        with refused("0A000") as refusal:
            session.sql(statement).collect()
        assert "time-machine" in refusal.error.message
        assert "upgrade" in refusal.error.message


def test_unknown_writer_feature(own_lake: Callable[..., SparkSession]) -> None:
    """A log that asks writers for an unknown feature can be read, and is not written: 0A000."""
    own_lake().sql("CREATE TABLE own.db.t USING iceberg AS SELECT 1 AS id")
    _append_record(own_lake(catalog_class=sessions.PLAIN), writer_features="time-machine")
    spark = own_lake()
    assert [(1,)] == rows(spark, "SELECT * FROM own.db.t")
    with refused("0A000") as refusal:
        spark.sql("INSERT INTO own.db.t VALUES (2)")
    assert "time-machine" in refusal.error.message
    assert [(1,)] == rows(spark, "SELECT * FROM own.db.t")


# ------------------------------------------------------------ entries that cannot be applied


def _tables_of_two(own_lake: Callable[..., SparkSession], **options: str) -> SparkSession:
    spark = own_lake(**options)
    for name in ("a", "b"):
        spark.sql(f"CREATE TABLE own.db.{name} (id BIGINT) USING iceberg")
        spark.sql(f"INSERT INTO own.db.{name} VALUES (1)")
    spark.sql("CALL own.system.apply()")
    return spark


def _insert_into_both(spark: SparkSession, value: int) -> bool:
    """Commit a row in both tables; return whether COMMIT says that it is applied."""
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO own.db.a VALUES ({value})")
    spark.sql(f"INSERT INTO own.db.b VALUES ({value})")
    row = one(spark, "COMMIT")
    assert "committed" == row.state
    return bool(row.applied)


def test_missing_right_leaves_the_entry_unapplied(
    own_lake: Callable[..., SparkSession], tmp_path: Path
) -> None:
    """
    Where the catalog refuses to change a table, COMMIT succeeds with applied = false.

    All sessions of the protocol read the entry; the other table shows it to everybody. When
    the right is given, the entry is applied. Who moves both tables by the swap itself is told by
    the database, and has committed nothing.
    """
    spark = _tables_of_two(own_lake, txns_apply="inline")
    plain = own_lake(catalog_class=sessions.PLAIN)
    database = tmp_path / "own" / "catalog.db"
    with contextlib.closing(sqlite3.connect(database, timeout=30)) as connection:
        connection.execute(
            "CREATE TRIGGER no_right BEFORE UPDATE ON iceberg_tables WHEN OLD.table_name = 'a' "
            "BEGIN SELECT RAISE(ABORT, 'permission denied'); END"
        )
        connection.commit()
        together = own_lake(txns_apply="auto")
        with pytest.raises(Exception, match="permission denied"):
            _insert_into_both(together, 9)
        together.sql("ROLLBACK")
        assert [(1,)] == rows(spark, "SELECT * FROM own.db.b")
        assert not _insert_into_both(spark, 2)
        assert [(1,)] == rows(plain, "SELECT * FROM own.db.a")
        assert [(1,), (2,)] == rows(plain, "SELECT * FROM own.db.b")
        for session in (spark, own_lake()):
            assert [(1,), (2,)] == rows(session, "SELECT * FROM own.db.a")
            assert [(1,), (2,)] == rows(session, "SELECT * FROM own.db.b")
        assert 1 == affected(spark, "INSERT INTO own.db.b VALUES (3)")
        assert [(1,), (2,), (3,)] == rows(plain, "SELECT * FROM own.db.b")
        assert 1 == one(spark, "CALL own.system.apply()").tables_left
        connection.execute("DROP TRIGGER no_right")
        connection.commit()
    assert 0 == one(spark, "CALL own.system.apply()").tables_left
    assert [(1,), (2,)] == rows(plain, "SELECT * FROM own.db.a")


def test_stranger_leaves_the_entry_unapplied(own_lake: Callable[..., SparkSession]) -> None:
    """
    A stranger's overwrite before the apply quarantines its table and no other.

    1. A transaction of both tables is committed and not applied.
    2. Plain Iceberg deletes from a.
    3. a cannot be applied; readers of the protocol stay on its logged state.
    4. b is applied, and can be written.
    5. A write to a gets 55000 with the repair command, and that cures it.
    """
    spark = _tables_of_two(own_lake, txns_apply="next")
    assert not _insert_into_both(spark, 2)
    plain = own_lake(catalog_class=sessions.PLAIN)
    plain.sql("DELETE FROM own.db.a WHERE id = 1")
    assert 1 == one(spark, "CALL own.system.apply()").tables_left
    assert [(1,), (2,)] == rows(plain, "SELECT * FROM own.db.b")
    inline = own_lake(txns_apply="inline")
    assert 1 == affected(inline, "INSERT INTO own.db.b VALUES (3)")
    for session in (spark, inline, own_lake()):
        assert [(1,), (2,)] == rows(session, "SELECT * FROM own.db.a")
        assert [(1,), (2,), (3,)] == rows(session, "SELECT * FROM own.db.b")
    with refused("55000") as refusal:
        inline.sql("INSERT INTO own.db.a VALUES (3)")
    assert isinstance(refusal.error, errors.Quarantined | errors.ForeignWrite)
    assert "repair" in refusal.error.message
    inline.sql("CALL own.system.repair(table => 'db.a', action => 'reject')")
    assert 1 == affected(inline, "INSERT INTO own.db.a VALUES (3)")
    assert [(1,), (2,), (3,)] == rows(plain, "SELECT * FROM own.db.a")


def test_stranger_inside_a_transaction_does_not_stop_its_commit(
    own_lake: Callable[..., SparkSession],
) -> None:
    """A stranger that comes after BEGIN leaves COMMIT as it is: applied = false."""
    spark = _tables_of_two(own_lake, txns_apply="inline")
    plain = own_lake(catalog_class=sessions.PLAIN)
    spark.sql("BEGIN")
    spark.sql("INSERT INTO own.db.a VALUES (2)")
    spark.sql("INSERT INTO own.db.b VALUES (2)")
    plain.sql("DELETE FROM own.db.a WHERE id = 1")
    row = one(spark, "COMMIT")
    assert ("committed", False) == (row.state, row.applied)
    for session in (spark, own_lake()):
        assert [(1,), (2,)] == rows(session, "SELECT * FROM own.db.a")
        assert [(1,), (2,)] == rows(session, "SELECT * FROM own.db.b")
    assert [(1,), (2,)] == rows(plain, "SELECT * FROM own.db.b")


def test_stranger_inside_a_transaction_that_moves_its_tables_is_told(
    own_lake: Callable[..., SparkSession],
) -> None:
    """Where the swap itself moves the tables COMMIT sees the stranger before anything is sent."""
    spark = _tables_of_two(own_lake)
    plain = own_lake(catalog_class=sessions.PLAIN)
    spark.sql("BEGIN")
    spark.sql("INSERT INTO own.db.a VALUES (2)")
    spark.sql("INSERT INTO own.db.b VALUES (2)")
    plain.sql("DELETE FROM own.db.a WHERE id = 1")
    with refused("55000") as refusal:
        spark.sql("COMMIT")
    assert "repair" in refusal.error.message
    spark.sql("ROLLBACK")
    for session in (spark, own_lake()):
        assert [(1,)] == rows(session, "SELECT * FROM own.db.a")
        assert [(1,)] == rows(session, "SELECT * FROM own.db.b")
    assert [(1,)] == rows(plain, "SELECT * FROM own.db.b")


# ------------------------------------------------------------ options and classes


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("txns.comit-table", "txns.commits"),
        ("txns.apply", "later"),
        ("txns.register", "sometimes"),
        ("txns.max-age-s", "soon"),
        ("txns.tidy-after", "0"),
        ("txns.isolation", "CHAOS"),
        ("txns.autocommit-isolation", "CHAOS"),
        ("txns.conflicts", "rows"),
    ],
)
def test_wrong_catalog_option(spark: SparkSession, tmp_path: Path, option: str, value: str) -> None:
    """An unknown option, or a bad value, is named when the catalog starts: 42000."""
    sessions.add_catalog(spark, "own", tmp_path, sessions.TXNS, **{option: value})
    with refused("42000") as refusal:
        spark.sql("SHOW NAMESPACES IN own")
    assert option in refusal.error.message


def test_translated_raises_the_class_of_the_error(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """Code that retries catches TransactionConflict, whatever Spark's own class is."""
    table = two_tables[0]
    spark.sql("BEGIN")
    spark.sql(f"UPDATE {table} SET v = 1")
    other.sql(f"UPDATE {table} SET v = 2")
    with pytest.raises(errors.TransactionConflict) as caught, translated():
        spark.sql("COMMIT")
    assert "40001" == caught.value.sqlstate
    assert "TXNS_CONFLICT" == caught.value.condition
    assert isinstance(caught.value.__cause__, PySparkException)
    with pytest.raises(errors.InvalidUsage), translated():
        spark.sql("COMMIT")
    with pytest.raises(PySparkException), translated():
        spark.sql("SELECT nosuch")
