"""Python and Spark write the same tables through the same log, and undo each other nothing."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from pyiceberg.types import StringType

import txns
from integration_tests import sessions
from integration_tests.background import Background
from integration_tests.checks import one, refused, rows
from integration_tests.drivers import Driver, PythonDriver
from integration_tests.python_lake import open_lake, plain
from integration_tests.python_lake import rows as python_rows
from txns_spark.errors import Unsupported, translated

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64())])


class Lake(NamedTuple):
    """A lake of one test: sessions and handles over it, and catalogs that know no txns."""

    folder: Path
    session: Callable[..., SparkSession]

    def spark(self, **options: str) -> SparkSession:
        """Return a Spark session; options are txns_apply for txns.apply."""
        named = {name.replace("_", ".", 1).replace("_", "-"): v for name, v in options.items()}
        return self.session(sessions.TXNS, **named)

    def plain_spark(self) -> SparkSession:
        """Return a Spark session that knows no txns."""
        return self.session(sessions.PLAIN)

    def python(self, **options: Any) -> txns.Handle:
        """Return a handle over a catalog object of its own."""
        return open_lake(self.folder, **options)

    def plain_python(self) -> Catalog:
        """Return a pyiceberg catalog that knows no txns."""
        return plain(self.folder)


@pytest.fixture
def lake(new_session: Callable[[], SparkSession], tmp_path: Path) -> Lake:
    """A lake of its own with the table db.t (id, v) and its rows (1, 10), (2, 20)."""

    def session(catalog_class: str, **options: str) -> SparkSession:
        made = new_session()
        # Python knows it under this name, and a SQL catalog keeps it with its tables.
        sessions.add_catalog(made, "lake", tmp_path / "lake", catalog_class, **options)
        return made

    made = Lake(tmp_path / "lake", session)
    spark = made.spark()
    spark.sql("CREATE NAMESPACE lake.db")
    spark.sql("CREATE TABLE lake.db.t (id BIGINT, v BIGINT) USING iceberg")
    spark.sql("INSERT INTO lake.db.t VALUES (1, 10), (2, 20)")
    return made


T = "SELECT * FROM lake.db.t"


def batch(*values: tuple[int, int]) -> pa.Table:
    """Return rows for db.t."""
    return pa.table({"id": [v[0] for v in values], "v": [v[1] for v in values]}, schema=SCHEMA)


def everywhere(lake: Lake, table: str = "db.t") -> list[tuple[Any, ...]]:
    """Return a table's rows, which have to be the same for all four kinds of readers."""
    query = f"SELECT * FROM lake.{table}"
    found = rows(lake.spark(), query)
    assert found == rows(lake.plain_spark(), query)
    assert found == python_rows(lake.python().catalog(), table)
    assert found == python_rows(lake.plain_python(), table)
    return found


def test_they_write_in_turns(lake: Lake) -> None:
    """Each sees and changes what the other has written, row by row and statement by statement."""
    spark, handle = lake.spark(), lake.python()
    with handle.begin() as txn:
        txn.load_table("db.t").append(batch((3, 30)))
        txn.load_table("db.t").delete("id = 1")
    assert [(2, 20), (3, 30)] == rows(spark, T)

    spark.sql("BEGIN")
    spark.sql("UPDATE lake.db.t SET v = v + 1 WHERE id = 3")
    spark.sql("INSERT INTO lake.db.t VALUES (4, 40)")
    spark.sql("COMMIT")
    assert [(2, 20), (3, 31), (4, 40)] == python_rows(handle.catalog(), "db.t")

    with handle.begin() as txn:
        txn.load_table("db.t").upsert(batch((3, 33), (5, 50)), join_cols=["id"])
    spark.sql(
        "MERGE INTO lake.db.t USING (SELECT 5 AS id, 55 AS v) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = s.v"
    )
    handle.catalog().load_table("db.t").append(batch((6, 60)))
    spark.sql("DELETE FROM lake.db.t WHERE id = 2")
    assert [(3, 33), (4, 40), (5, 55), (6, 60)] == everywhere(lake)


def test_they_create_alter_and_drop_in_turns(lake: Lake) -> None:
    """Tables, columns and names that one makes or takes away are the other's as well."""
    spark, handle = lake.spark(), lake.python()
    with handle.begin() as txn:
        txn.create_table("db.made", SCHEMA).append(batch((1, 1)))
    spark.sql("INSERT INTO lake.db.made VALUES (2, 2)")
    spark.sql("ALTER TABLE lake.db.made ADD COLUMN word STRING")
    spark.sql("INSERT INTO lake.db.made VALUES (3, 3, 'spark')")
    with handle.begin() as txn:
        with txn.load_table("db.made").update_schema() as update:
            update.add_column("again", StringType())
        txn.load_table("db.made").delete("id = 1")
    assert [(2, 2, None, None), (3, 3, "spark", None)] == everywhere(lake, "db.made")

    spark.sql("DROP TABLE lake.db.made")
    assert not handle.catalog().table_exists("db.made")
    assert [("db", "t")] == handle.catalog().list_tables("db")
    with handle.begin() as txn:
        txn.create_table("db.made", SCHEMA).append(batch((7, 7)))
    assert [(7, 7)] == rows(spark, "SELECT * FROM lake.db.made")

    handle.catalog().drop_table("db.made")
    assert ["t"] == [row.tableName for row in spark.sql("SHOW TABLES IN lake.db").collect()]
    spark.sql("CREATE TABLE lake.db.made USING iceberg AS SELECT 8 AS other")
    assert [(8,)] == everywhere(lake, "db.made")


def test_python_reads_deletes_that_spark_left_in_files(lake: Lake) -> None:
    """A table of merge-on-read: Python applies the delete files, and appends beside them."""
    spark, handle = lake.spark(), lake.python()
    spark.sql(
        "ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read',"
        " 'write.update.mode' = 'merge-on-read')"
    )
    spark.sql("DELETE FROM lake.db.t WHERE id = 1")
    assert [(2, 20)] == python_rows(handle.catalog(), "db.t")
    with handle.begin() as txn:
        txn.load_table("db.t").append(batch((1, 11)))
    spark.sql("UPDATE lake.db.t SET v = 12 WHERE id = 1")
    assert [(1, 12), (2, 20)] == everywhere(lake)


def test_format_3_is_read_by_python_and_not_written(lake: Lake) -> None:
    """Python reads Spark's table of format 3, applied or not, and refuses to write it."""
    lake.spark().sql(
        "CREATE TABLE lake.db.v3 (id BIGINT, v BIGINT) USING iceberg"
        " TBLPROPERTIES ('format-version' = '3')"
    )
    spark = lake.spark(txns_apply="next")
    spark.sql("INSERT INTO lake.db.v3 VALUES (1, 1)")
    handle = lake.python()
    assert [(1, 1)] == python_rows(handle.catalog(), "db.v3")
    with pytest.raises(txns.Unsupported, match="version 3"):
        handle.begin().load_table("db.v3").append(batch((2, 2)))
    assert [(1, 1)] == rows(lake.spark(), "SELECT * FROM lake.db.v3")


def test_spark_reads_what_python_has_not_applied(lake: Lake) -> None:
    """Python's entries are in Spark's overlay; who knows no txns sees them after apply."""
    handle = lake.python(apply="next")
    spark, outside = lake.spark(), lake.plain_spark()
    with handle.begin() as txn:
        txn.load_table("db.t").delete("id = 1")
        txn.create_table("db.new", SCHEMA).append(batch((1, 1)))
    with handle.begin() as txn:
        txn.load_table("db.t").append(batch((3, 30)))
        txn.load_table("db.new").append(batch((2, 2)))

    assert [(2, 20), (3, 30)] == rows(spark, T)
    assert [(1, 1), (2, 2)] == rows(spark, "SELECT * FROM lake.db.new")
    assert [(1, 10), (2, 20)] == rows(outside, T) == python_rows(lake.plain_python(), "db.t")
    assert not lake.plain_python().table_exists("db.new")

    assert 0 == one(spark, "CALL lake.system.apply()").tables_left
    assert [(2, 20), (3, 30)] == everywhere(lake)
    assert [(1, 1), (2, 2)] == everywhere(lake, "db.new")


def test_python_reads_what_spark_has_not_applied(lake: Lake) -> None:
    """Spark's entries are in Python's overlay; who knows no txns sees them after apply."""
    spark, handle = lake.spark(txns_apply="next"), lake.python()
    spark.sql("BEGIN")
    spark.sql("UPDATE lake.db.t SET v = v + 1")
    spark.sql("CREATE TABLE lake.db.new (id BIGINT, v BIGINT) USING iceberg")
    spark.sql("INSERT INTO lake.db.new VALUES (1, 1)")
    spark.sql("COMMIT")
    spark.sql("INSERT INTO lake.db.new VALUES (2, 2)")

    assert [(1, 11), (2, 21)] == python_rows(handle.catalog(), "db.t")
    assert [(1, 1), (2, 2)] == python_rows(handle.begin(), "db.new")
    assert [(1, 10), (2, 20)] == python_rows(lake.plain_python(), "db.t")
    assert not lake.plain_python().table_exists("db.new")

    assert [] == handle.apply_le()
    assert [(1, 11), (2, 21)] == everywhere(lake)
    assert [(1, 1), (2, 2)] == everywhere(lake, "db.new")


def test_a_payload_in_a_file_is_read_by_the_other(lake: Lake) -> None:
    """Changes of more than 64 KiB stand in a file, whose digest the other language checks."""
    handle, spark = lake.python(apply="next"), lake.spark(txns_apply="next")
    wide = pa.schema([pa.field(f"column_{n}", pa.int64()) for n in range(1500)])
    with handle.begin() as txn:
        txn.create_table("db.from_python", wide)
    columns = ", ".join(f"column_{n} BIGINT" for n in range(1500))
    spark.sql(f"CREATE TABLE lake.db.from_spark ({columns}) USING iceberg")

    files = [path.name for path in lake.folder.rglob("txns-payload-*.json")]
    assert 2 == len(files)
    assert 1500 == len(spark.table("lake.db.from_python").columns)
    assert wide.names == handle.catalog().load_table("db.from_spark").schema().column_names
    assert 0 == one(spark, "CALL lake.system.apply('db.from_python')").tables_left
    assert [] == handle.apply_le()
    assert [] == everywhere(lake, "db.from_python") == everywhere(lake, "db.from_spark")


@pytest.fixture
def three_tables(lake: Lake) -> Lake:
    """The same lake with the tables a and b, empty, and a counter at 0."""
    spark = lake.spark()
    for name in ("a", "b"):
        spark.sql(f"CREATE TABLE lake.db.{name} (name STRING, number INT) USING iceberg")
    spark.sql("CREATE TABLE lake.db.counter (n INT) USING iceberg")
    spark.sql("INSERT INTO lake.db.counter VALUES (0)")
    return lake


def _counted(lake: Lake) -> list[list[tuple[Any, ...]]]:
    return [everywhere(lake, f"db.{name}") for name in ("a", "b", "counter")]


def test_killed_python_is_recovered_by_spark(three_tables: Lake) -> None:
    """
    What Python committed is Spark's to finish; what it only staged has not happened.

    1. A Python process commits with apply=next, and is killed; another one while it stages.
    2. Spark reads all of the first; nothing of the second.
    3. Spark writes one of the tables, which applies that one; CALL apply() does the others.
    """
    lake, log = three_tables, three_tables.folder.parent / "driver.log"
    with PythonDriver("commit", lake.folder, "killed", log, apply="next") as driver:
        assert "committed None" == driver.wait_for_line()
    with PythonDriver("stage", lake.folder, "lost", log) as driver:
        assert "staged" == driver.wait_for_line()
    spark = lake.spark()
    assert [("killed", 0)] == rows(spark, "SELECT * FROM lake.db.a")
    assert [] == rows(lake.plain_spark(), "SELECT * FROM lake.db.a")

    spark.sql("UPDATE lake.db.counter SET n = n + 10")
    assert [(11,)] == rows(lake.plain_spark(), "SELECT * FROM lake.db.counter")
    assert 0 == one(spark, "CALL lake.system.apply()").tables_left
    assert [[("killed", 0)], [("killed", 0)], [(11,)]] == _counted(lake)


def test_killed_spark_is_recovered_by_python(three_tables: Lake) -> None:
    """
    What a Spark driver committed is Python's to finish.

    1. A driver commits with txns.apply=next, and is killed with its JVM.
    2. Python reads all of it, and writes one of the tables, which applies that one.
    3. apply_le does the others.
    """
    lake, log = three_tables, three_tables.folder.parent / "driver.log"
    with Driver("commit", lake.folder, "killed", log, **{"txns.apply": "next"}) as driver:
        assert "committed False" == driver.wait_for_line()
    handle = lake.python()
    assert [("killed", 0)] == python_rows(handle.catalog(), "db.a")
    assert [] == python_rows(lake.plain_python(), "db.a")

    with handle.begin() as txn:
        counter = txn.load_table("db.counter")
        assert [1] == counter.scan().to_arrow()["n"].to_pylist()
        counter.overwrite(pa.table({"n": [11]}, schema=pa.schema([pa.field("n", pa.int32())])))
    assert [(11,)] == python_rows(lake.plain_python(), "db.counter")
    assert [] == handle.apply_le()
    assert [[("killed", 0)], [("killed", 0)], [(11,)]] == _counted(lake)


def test_python_loses_to_spark(lake: Lake) -> None:
    """A Python transaction whose table Spark has written gets 40001 that names Spark's."""
    spark, handle = lake.spark(), lake.python()
    txn = handle.begin()
    txn.load_table("db.t").delete("id = 1")
    spark.sql("BEGIN")
    spark.sql("UPDATE lake.db.t SET v = 0 WHERE id = 1")
    first = one(spark, "COMMIT")

    with pytest.raises(txns.Conflict) as lost:
        txn.commit()
    assert "40001" == lost.value.sqlstate
    assert (first.txn_id, first.commit_ts, "db.t") == (
        lost.value.other_txn_id,
        lost.value.least_ts,
        lost.value.table,
    )
    assert [(1, 0), (2, 20)] == everywhere(lake)


def test_spark_loses_to_python(lake: Lake) -> None:
    """A Spark transaction whose table Python has written gets 40001 that names Python's."""
    spark, handle = lake.spark(), lake.python()
    spark.sql("BEGIN")
    spark.sql("UPDATE lake.db.t SET v = 0 WHERE id = 1")
    with handle.begin() as txn:
        txn.load_table("db.t").delete("id = 1")

    with refused("40001") as lost:
        spark.sql("COMMIT")
    assert txn.committed is not None
    assert (txn.txn_id, txn.committed.commit_ts) == (lost.error.other_txn_id, lost.error.least_ts)
    assert "db.t" == lost.error.table
    assert [(2, 20)] == everywhere(lake)


def test_appends_of_both_never_clash(lake: Lake) -> None:
    """Appends that stand on an older state are put on the other's newer one, either way."""
    spark, handle = lake.spark(), lake.python()
    txn = handle.begin()
    txn.load_table("db.t").append(batch((3, 30)))
    spark.sql("BEGIN")
    spark.sql("INSERT INTO lake.db.t VALUES (4, 40)")
    txn.commit()
    later = handle.begin()
    later.load_table("db.t").append(batch((5, 50)))
    spark.sql("COMMIT")
    later.commit()
    assert [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)] == everywhere(lake)


def test_what_one_read_the_other_wrote(lake: Lake) -> None:
    """Write skew between the languages is refused: each reads what the other writes."""
    spark, handle = lake.spark(), lake.python()
    spark.sql("CREATE TABLE lake.db.u (id BIGINT, v BIGINT) USING iceberg")
    txn = handle.begin()
    assert 2 == len(txn.load_table("db.t").scan().to_arrow())
    txn.load_table("db.u").append(batch((1, 1)))
    spark.sql("BEGIN")
    assert [] == rows(spark, "SELECT * FROM lake.db.u")
    spark.sql("INSERT INTO lake.db.t VALUES (3, 30)")
    txn.commit()
    with refused("40001"):
        spark.sql("COMMIT")

    txn = handle.begin()
    assert 1 == len(txn.load_table("db.u").scan().to_arrow())
    txn.load_table("db.t").append(batch((9, 90)))
    spark.sql("INSERT INTO lake.db.u VALUES (2, 2)")
    with pytest.raises(txns.Conflict, match="that it read was written"):
        txn.commit()
    assert [(1, 10), (2, 20)] == everywhere(lake)


def test_two_creators_of_one_name(lake: Lake) -> None:
    """A name that both found absent is created by one of them."""
    spark, handle = lake.spark(), lake.python()
    txn = handle.begin()
    txn.create_table("db.new", SCHEMA)
    spark.sql("BEGIN")
    spark.sql("CREATE TABLE lake.db.new (other STRING) USING iceberg")
    txn.commit()
    with refused("40001"):
        spark.sql("COMMIT")
    assert [] == everywhere(lake, "db.new")
    assert ["id", "v"] == spark.table("lake.db.new").columns


def test_an_id_is_used_once_by_both(lake: Lake) -> None:
    """A caller's id that one language committed is answered by the other, and done once."""
    spark, handle = lake.spark(), lake.python()
    with handle.begin(txn_id="load 7") as txn:
        txn.load_table("db.t").append(batch((7, 70)))
    spark.sql("BEGIN ID 'load 8'")
    spark.sql("INSERT INTO lake.db.t VALUES (8, 80)")
    spark.sql("COMMIT")

    assert "committed" == one(spark, "BEGIN ID 'load 7'").state
    spark.sql("INSERT INTO lake.db.t VALUES (7, 70)")
    spark.sql("COMMIT")
    with handle.begin(txn_id="load 8") as again:
        assert again.committed is not None
        again.load_table("db.t").append(batch((8, 80)))
    assert [(1, 10), (2, 20), (7, 70), (8, 80)] == everywhere(lake)


def test_each_tidies_and_the_other_reads_the_archive(lake: Lake) -> None:
    """Rows that one archives are the same to the other: by SELECT, by id, and in conflicts."""
    spark, handle = lake.spark(), lake.python()
    with handle.begin(txn_id="from python", comment="one") as txn:
        txn.load_table("db.t").append(batch((3, 30)))
    assert 0 < handle.tidy()
    archived = "SELECT commit_ts, kind, operation, comment FROM lake.txns.commits WHERE txn_id = "
    assert txn.committed is not None
    expected = [(txn.committed.commit_ts, "commit", "append", "one")]
    assert expected == rows(spark, archived + "'from python'")
    assert "committed" == one(spark, "BEGIN ID 'from python'").state
    spark.sql("ROLLBACK")

    spark.sql("BEGIN ID 'from spark'")
    spark.sql("DELETE FROM lake.db.t WHERE id = 3")
    committed = one(spark, "COMMIT")
    assert 0 < one(spark, "CALL lake.system.tidy()").tidied_entries
    found = handle.find("from spark")
    assert found is not None
    assert (committed.commit_ts, (("db", "t"),)) == (found.commit_ts, found.tables)

    listed = [tuple(row)[:15] for row in spark.sql("CALL lake.system.transactions()").collect()]
    ours = [tuple(row.values())[:15] for row in handle.transactions()]
    assert [row[0] for row in listed] == [row[0] for row in ours]
    assert [row[2:] for row in listed] == [row[2:] for row in ours]


def test_a_tidied_entry_still_conflicts(lake: Lake) -> None:
    """
    What has left the head since BEGIN is looked up in the archive, which the other wrote (I6).

    1. Transactions of both languages read the table.
    2. The other language writes it, and tidies its entry out of the head.
    """
    spark, handle = lake.spark(), lake.python()
    spark.sql("BEGIN")
    spark.sql("UPDATE lake.db.t SET v = 0")
    with handle.begin() as txn:
        txn.load_table("db.t").delete("id = 2")
    assert 0 < handle.tidy()
    with refused("40001") as lost:
        spark.sql("COMMIT")
    assert txn.txn_id == lost.error.other_txn_id

    txn = handle.begin()
    txn.load_table("db.t").delete("id = 1")
    other = lake.spark()
    other.sql("BEGIN")
    other.sql("UPDATE lake.db.t SET v = 5")
    first = one(other, "COMMIT")
    assert 0 < one(other, "CALL lake.system.tidy()").tidied_entries
    with pytest.raises(txns.Conflict) as raced:
        txn.commit()
    assert first.txn_id == raced.value.other_txn_id
    assert [(1, 5)] == everywhere(lake)


def test_each_registers_and_forgets_for_the_other(lake: Lake) -> None:
    """A table that one puts under care, or takes from it, is so for the other."""
    outside, spark, handle = lake.plain_spark(), lake.spark(), lake.python()
    outside.sql("CREATE TABLE lake.db.p (id BIGINT, v BIGINT) USING iceberg")
    outside.sql("INSERT INTO lake.db.p VALUES (1, 1)")
    with pytest.raises(txns.Unsupported, match="register"):
        handle.begin().load_table("db.p").append(batch((2, 2)))

    registered = one(spark, "CALL lake.system.register('db.p')").commit_ts
    assert registered == handle.register("db.p")
    assert [("db", "p"), ("db", "t")] == handle.registered()
    with handle.begin() as txn:
        txn.load_table("db.p").append(batch((2, 2)))
        txn.load_table("db.t").append(batch((2, 2)))

    handle.forget("db.p")
    spark.sql("BEGIN")
    with refused("0A000"):
        spark.sql("INSERT INTO lake.db.p VALUES (3, 3)")
    spark.sql("ROLLBACK")
    outside.sql("INSERT INTO lake.db.p VALUES (3, 3)")
    assert [(1, 1), (2, 2), (3, 3)] == everywhere(lake, "db.p")

    handle.register("db.p")
    spark.sql("BEGIN")
    spark.sql("DELETE FROM lake.db.p WHERE id = 3")
    spark.sql("COMMIT")
    spark.sql("CALL lake.system.forget('db.p')")
    assert [("db", "t")] == handle.registered()
    assert [(1, 1), (2, 2)] == everywhere(lake, "db.p")


def test_a_stranger_is_adopted_by_one_for_both(lake: Lake) -> None:
    """Rows that a stranger appended are nobody's, until either language adopts them."""
    spark, handle = lake.spark(), lake.python()
    lake.plain_spark().sql("INSERT INTO lake.db.t VALUES (3, 30)")
    expected = [(1, 10), (2, 20)]
    assert expected == rows(spark, T) == python_rows(handle.catalog(), "db.t")
    with pytest.raises(txns.ForeignWrite):
        handle.begin().load_table("db.t").append(batch((9, 90)))
    with refused("55000"):
        spark.sql("INSERT INTO lake.db.t VALUES (9, 90)")

    handle.repair_adopt("db.t")
    assert [*expected, (3, 30)] == everywhere(lake)

    lake.plain_python().load_table("db.t").append(batch((4, 40)))
    assert [*expected, (3, 30)] == rows(spark, T) == python_rows(handle.catalog(), "db.t")
    spark.sql("CALL lake.system.repair(table => 'db.t', action => 'adopt')")
    assert [*expected, (3, 30), (4, 40)] == everywhere(lake)


def test_both_adopt_at_once(lake: Lake) -> None:
    """Two adopters of one stranger derive one id, and its rows are taken in once."""
    spark, handle = lake.spark(), lake.python()
    lake.plain_spark().sql("INSERT INTO lake.db.t VALUES (3, 30)")
    together = threading.Barrier(2)

    def by_spark(_turn: int) -> None:
        together.wait()
        with suppress(Unsupported), translated():  # the other has done it already
            spark.sql("CALL lake.system.repair(table => 'db.t', action => 'adopt')")

    with Background(by_spark, turns=1):
        together.wait()
        with suppress(txns.Unsupported):
            handle.repair_adopt("db.t")
    assert [(1, 10), (2, 20), (3, 30)] == everywhere(lake)
    assert 1 == [row["kind"] for row in handle.transactions()].count("adopt")


def test_a_stranger_is_rejected_by_one_for_both(lake: Lake) -> None:
    """What a stranger overwrote is put back by either language, and kept on a branch."""
    spark, handle = lake.spark(), lake.python()
    expected = [(1, 10), (2, 20)]
    lake.plain_spark().sql("DELETE FROM lake.db.t WHERE id = 1")
    assert expected == rows(spark, T) == python_rows(handle.catalog(), "db.t")
    with pytest.raises(txns.Quarantined):
        handle.begin().load_table("db.t").append(batch((9, 90)))
    handle.repair_reject("db.t")
    assert expected == everywhere(lake)

    lake.plain_python().load_table("db.t").delete("id = 2")
    with refused("55000"):
        spark.sql("INSERT INTO lake.db.t VALUES (9, 90)")
    spark.sql("CALL lake.system.repair(table => 'db.t', action => 'reject')")
    assert expected == everywhere(lake)
    branches = lake.plain_python().load_table("db.t").metadata.refs
    assert 2 == len([name for name in branches if name.startswith("txns-foreign-")])


def test_both_read_the_past_alike(lake: Lake) -> None:
    """A timestamp of one language's commit is a state of all tables for the other."""
    spark, handle = lake.spark(), lake.python()
    spark.sql("CREATE TABLE lake.db.u (id BIGINT, v BIGINT) USING iceberg")
    states = {}
    for number in range(4):
        if number % 2:
            spark.sql("BEGIN")
            spark.sql(f"UPDATE lake.db.t SET v = {number}")
            spark.sql(f"INSERT INTO lake.db.u VALUES ({number}, 0)")
            at = one(spark, "COMMIT").commit_ts
        else:
            with handle.begin() as txn:
                txn.load_table("db.t").overwrite(batch((1, number), (2, number)))
                txn.load_table("db.u").append(batch((number, 0)))
            assert txn.committed is not None
            at = txn.committed.commit_ts
        states[at] = ([(1, number), (2, number)], [(n, 0) for n in range(number + 1)])
    for at, expected in states.items():
        past = handle.snapshot(at)
        assert expected == (python_rows(past, "db.t"), python_rows(past, "db.u"))
        spark.sql(f"BEGIN READ ONLY, AS OF {at}")
        assert expected == (rows(spark, T), rows(spark, "SELECT * FROM lake.db.u"))
        spark.sql("COMMIT")


def test_before_a_table_was_created_is_an_error_for_both(lake: Lake) -> None:
    """A read before a table's creation is an error, never an empty table (I11)."""
    spark, handle = lake.spark(), lake.python()
    before = handle.upper
    spark.sql("CREATE TABLE lake.db.by_spark (id BIGINT, v BIGINT) USING iceberg")
    handle.catalog().create_table("db.by_python", SCHEMA)

    spark.sql(f"BEGIN READ ONLY, AS OF {before}")
    for table in ("db.by_spark", "db.by_python"):
        with pytest.raises(txns.Conflict) as too_old:
            handle.snapshot(before).load_table(table)
        with refused("40001") as refusal:
            spark.table(f"lake.{table}").collect()
        assert before < too_old.value.least_ts == refusal.error.least_ts
    spark.sql("ROLLBACK")
