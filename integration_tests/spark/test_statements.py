"""Every statement that changes rows, inside and outside transactions, on every kind of table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from pyspark.sql import functions as fn

from integration_tests import sessions
from integration_tests.checks import affected, count, one, rows, state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

KINDS = [
    ("copy-on-write", 2),
    ("copy-on-write", 3),
    ("merge-on-read", 2),
    ("merge-on-read", 3),
]
# Most other tests have tables of the first kind; one transaction of every statement is of each.
FAST = (KINDS[3],)


def _name(kind: tuple[str, int]) -> str:
    return f"{kind[0]}, format {kind[1]}"


@pytest.fixture(
    params=[
        pytest.param(kind, marks=() if kind in FAST else pytest.mark.slow, id=_name(kind))
        for kind in KINDS
    ]
)
def filled(request: pytest.FixtureRequest, spark: SparkSession, table: str) -> str:
    """A table (id, v) of each kind, with four rows, each in a file of its own."""
    mode, version = request.param
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, v STRING) USING iceberg TBLPROPERTIES "
        f"('format-version' = '{version}', 'write.update.mode' = '{mode}', "
        f"'write.delete.mode' = '{mode}', 'write.merge.mode' = '{mode}')"
    )
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'c'), (4, 'd')")
    return table


class Step(NamedTuple):
    """A statement, how many rows it should say it changed, and what the table should hold."""

    statement: str
    affected: int | None
    after: str


START = "1a 2b 3c 4d"
STEPS = [
    Step("INSERT INTO {} VALUES (5, 'e')", 1, "1a 2b 3c 4d 5e"),
    Step("UPDATE {} SET v = upper(v) WHERE id IN (1, 3)", 2, "1A 2b 3C 4d 5e"),
    Step("UPDATE {} SET v = 'none' WHERE id = 99", 0, "1A 2b 3C 4d 5e"),
    Step("DELETE FROM {} WHERE id = 2", 1, "1A 3C 4d 5e"),
    Step("DELETE FROM {} WHERE id = 99", 0, "1A 3C 4d 5e"),
    Step(
        """MERGE INTO {} t USING (SELECT * FROM VALUES (1, 'x'), (3, 'y'), (6, 'f') s(id, v)) s
        ON t.id = s.id WHEN MATCHED AND s.v = 'y' THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *""",
        3,
        "1x 4d 5e 6f",
    ),
    Step("INSERT INTO {0} SELECT id + 10, v FROM {0} WHERE id < 5", 2, "1x 4d 5e 6f 11x 14d"),
    Step("UPDATE {} SET v = 'z' WHERE id > 10", 2, "1x 4d 5e 6f 11z 14z"),
    Step("INSERT OVERWRITE {} VALUES (7, 'g'), (8, 'h')", 2, "7g 8h"),
    Step("DELETE FROM {}", 2, ""),
    Step("INSERT INTO {} VALUES (9, 'i')", 1, "9i"),
    Step("TRUNCATE TABLE {}", None, ""),
    Step("INSERT INTO {} SELECT 1, 'end'", 1, "1end"),
]


def _text(session: SparkSession, table: str) -> str:
    found = session.sql(f"SELECT * FROM {table} ORDER BY id").collect()
    return " ".join(f"{row.id}{row.v}" for row in found)


def _run(session: SparkSession, table: str, step: Step) -> None:
    answer = session.sql(step.statement.format(table)).collect()
    if step.affected is not None:
        assert step.affected == answer[0].num_affected_rows, step.statement
    assert step.after == _text(session, table), step.statement


# ------------------------------------------------------------ DML


def test_each_statement_outside_a_transaction(
    spark: SparkSession, other: SparkSession, outsider: SparkSession, filled: str
) -> None:
    """Every statement by itself is a transaction, seen by every session when it returns."""
    for step in STEPS:
        _run(spark, filled, step)
        assert step.after == _text(other, filled), step.statement
    assert "1end" == _text(outsider, filled)


@pytest.mark.sampled
@pytest.mark.parametrize("filled", KINDS, ids=_name, indirect=True)
def test_each_statement_inside_a_transaction(
    spark: SparkSession, other: SparkSession, outsider: SparkSession, filled: str
) -> None:
    """A transaction reads its own writes after each statement; nobody else does before COMMIT."""
    history = count(outsider, f"{filled}.history")
    spark.sql("BEGIN")
    for step in STEPS:
        _run(spark, filled, step)
    assert START == _text(other, filled) == _text(outsider, filled)
    committed = one(spark, "COMMIT")
    assert ("committed", True) == (committed.state, committed.applied)
    assert [filled.removeprefix("lake.")] == committed.tables
    for session in (spark, other, outsider):
        assert "1end" == _text(session, filled)
    # No moment inside the transaction can be travelled to.
    assert history + 1 == count(outsider, f"{filled}.history")


def test_each_statement_rolled_back(
    spark: SparkSession, other: SparkSession, outsider: SparkSession, filled: str
) -> None:
    """After ROLLBACK everything is as it was, and the table can be written again."""
    history = count(outsider, f"{filled}.history")
    spark.sql("BEGIN")
    for step in STEPS:
        _run(spark, filled, step)
    assert "rolled back" == one(spark, "ROLLBACK").state
    for session in (spark, other, outsider):
        assert START == _text(session, filled)
    assert history == count(outsider, f"{filled}.history")
    assert 1 == affected(spark, f"INSERT INTO {filled} VALUES (5, 'e')")
    assert "1a 2b 3c 4d 5e" == _text(outsider, filled)


def test_row_counts_of_merge(spark: SparkSession, filled: str) -> None:
    """MERGE says how many rows it updated, deleted and inserted."""
    merge = STEPS[5].statement.format(filled)
    merged = one(spark, merge.replace("(3, 'y')", "(3, 'y'), (4, 'w')"))
    assert {
        "num_affected_rows": 4,
        "num_updated_rows": 2,
        "num_deleted_rows": 1,
        "num_inserted_rows": 1,
    } == merged.asDict()


def test_insert_overwrite_of_partitions(
    spark: SparkSession, other: SparkSession, table: str
) -> None:
    """INSERT OVERWRITE in dynamic mode replaces the partitions of its rows and no others."""
    spark.sql(
        f"CREATE TABLE {table} (day INT, v STRING) USING iceberg PARTITIONED BY (day) "
        "TBLPROPERTIES ('format-version' = '2')"
    )
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    spark.sql("BEGIN")
    spark.sql(f"INSERT OVERWRITE {table} VALUES (2, 'B')")
    spark.sql(f"INSERT OVERWRITE {table} PARTITION (day = 3) VALUES ('C')")
    assert [(1, "a"), (2, "B"), (3, "C")] == rows(spark, f"SELECT * FROM {table}")
    spark.sql("COMMIT")
    assert [(1, "a"), (2, "B"), (3, "C")] == rows(other, f"SELECT * FROM {table}")


def test_statements_with_common_table_expressions_and_subqueries(
    spark: SparkSession, two_tables: tuple[str, str]
) -> None:
    """Sources may be other tables of the transaction, with its changes in them."""
    a, b = two_tables
    spark.sql("BEGIN")
    spark.sql(f"UPDATE {a} SET v = id * 10")
    inserted = f"WITH s AS (SELECT max(v) AS v FROM {a}) INSERT INTO {b} SELECT 3, v FROM s"
    assert 1 == affected(spark, inserted)
    updated = f"UPDATE {b} AS t SET v = (SELECT v FROM {a} s WHERE s.id = t.id) WHERE id < 3"
    assert 2 == affected(spark, updated)
    assert 2 == affected(spark, f"DELETE FROM {b} WHERE v IN (SELECT v FROM {a} WHERE id = 2)")
    spark.sql("COMMIT")
    assert [(1, 10)] == rows(spark, f"SELECT * FROM {b}")


# ------------------------------------------------------------ CREATE, CTAS, DROP


def test_create_and_fill_inside_a_transaction(
    spark: SparkSession, other: SparkSession, outsider: SparkSession, table: str
) -> None:
    """Tables created inside are seen inside at once, and by others after COMMIT, filled."""
    made, copy = f"{table}_made", f"{table}_copy"
    spark.sql("BEGIN")
    spark.sql(f"CREATE TABLE {made} (id BIGINT, v STRING) USING iceberg")
    assert 2 == affected(spark, f"INSERT INTO {made} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"CREATE TABLE {copy} USING iceberg AS SELECT * FROM {made}")
    assert 1 == affected(spark, f"DELETE FROM {copy} WHERE id = 1")
    assert ("1a 2b", "2b") == (_text(spark, made), _text(spark, copy))
    assert not other.catalog.tableExists(made)
    assert not outsider.catalog.tableExists(copy)
    spark.sql("COMMIT")
    for session in (other, outsider):
        assert ("1a 2b", "2b") == (_text(session, made), _text(session, copy))


def test_create_outside_a_transaction(
    spark: SparkSession, other: SparkSession, outsider: SparkSession, table: str
) -> None:
    """CREATE TABLE and CREATE TABLE AS SELECT are transactions of their own, and register."""
    made, copy = f"{table}_made", f"{table}_copy"
    spark.sql(f"CREATE TABLE {made} (id BIGINT, v STRING) USING iceberg")
    spark.sql(f"INSERT INTO {made} VALUES (1, 'a')")
    spark.sql(f"CREATE TABLE {copy} USING iceberg AS SELECT * FROM {made}")
    for session in (other, outsider):
        assert ("1a", "1a") == (_text(session, made), _text(session, copy))
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {copy} SELECT id + 1, 'b' FROM {made}")
    assert "committed" == one(spark, "COMMIT").state
    assert "1a 2b" == _text(outsider, copy)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_created_table_is_changed_before_it_is_applied(
    own_lake: Callable[..., SparkSession], mode: str
) -> None:
    """A table that only the log knows yet is changed like any other: in COMMITs of their own."""
    spark = own_lake(txns_apply="next")
    plain = own_lake(catalog_class=sessions.PLAIN)
    spark.sql(
        f"CREATE TABLE own.db.t USING iceberg TBLPROPERTIES ('write.update.mode' = '{mode}', "
        f"'write.delete.mode' = '{mode}') AS SELECT id, 'a' AS v FROM range(1, 4)"
    )
    assert not plain.catalog.tableExists("own.db.t")
    assert 1 == affected(spark, "INSERT INTO own.db.t VALUES (4, 'd')")
    spark.sql("BEGIN")
    assert 1 == affected(spark, "DELETE FROM own.db.t WHERE id = 1")
    assert 2 == affected(spark, "UPDATE own.db.t SET v = 'b' WHERE id < 4")
    assert "committed" == one(spark, "COMMIT").state
    assert "2b 3b 4d" == _text(spark, "own.db.t") == _text(own_lake(), "own.db.t")
    assert 0 == one(spark, "CALL own.system.apply()").tables_left
    assert "2b 3b 4d" == _text(plain, "own.db.t")


def test_create_rolled_back(spark: SparkSession, other: SparkSession, table: str) -> None:
    """A table that was created and rolled back is nowhere, and its name is free."""
    spark.sql("BEGIN")
    spark.sql(f"CREATE TABLE {table} USING iceberg AS SELECT 1 AS id, 'a' AS v")
    spark.sql("ROLLBACK")
    assert not spark.catalog.tableExists(table)
    other.sql(f"CREATE TABLE {table} (id BIGINT, v STRING) USING iceberg")
    assert "" == _text(spark, table)


def test_replace_inside_a_transaction(
    spark: SparkSession, other: SparkSession, filled: str
) -> None:
    """CREATE OR REPLACE TABLE AS SELECT changes rows and columns at COMMIT, not before."""
    spark.sql("BEGIN")
    spark.sql(
        f"CREATE OR REPLACE TABLE {filled} USING iceberg AS "
        f"SELECT id, v, id * 2 AS twice FROM {filled} WHERE id < 3"
    )
    assert [(1, "a", 2), (2, "b", 4)] == rows(spark, f"SELECT * FROM {filled}")
    assert START == _text(other, filled)
    spark.sql("COMMIT")
    assert [(1, "a", 2), (2, "b", 4)] == rows(other, f"SELECT * FROM {filled}")


def test_drop_and_create_again(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """A table dropped inside is there for others until COMMIT; its name can be used again."""
    name = two_tables[0]
    spark.sql("BEGIN")
    spark.sql(f"DROP TABLE {name}")
    assert not spark.catalog.tableExists(name)
    assert 2 == count(other, name)
    spark.sql("COMMIT")
    assert not other.catalog.tableExists(name)
    other.sql(f"CREATE TABLE {name} (id BIGINT, v STRING) USING iceberg")
    other.sql(f"INSERT INTO {name} VALUES (1, 'new')")
    assert "1new" == _text(spark, name)


def test_alter_inside_a_transaction(
    spark: SparkSession, other: SparkSession, outsider: SparkSession, filled: str
) -> None:
    """Columns and properties change with the rows, all at COMMIT."""
    spark.sql("BEGIN")
    spark.sql(f"ALTER TABLE {filled} ADD COLUMN n INT")
    spark.sql(f"UPDATE {filled} SET n = id * 2")
    spark.sql(f"ALTER TABLE {filled} SET TBLPROPERTIES ('owner.team' = 'flights')")
    assert START == _text(other, filled)
    assert 2 == len(other.table(filled).columns)
    spark.sql("COMMIT")
    for session in (spark, other, outsider):
        assert [2, 4, 6, 8] == [row.n for row in session.table(filled).sort("id").collect()]
        properties = rows(session, f"SHOW TBLPROPERTIES {filled} ('owner.team')")
        assert [("owner.team", "flights")] == properties


# ------------------------------------------------------------ ROLLBACK, savepoints


def _files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and ".db" not in path.name}


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rollback_leaves_no_files(
    own_lake: Callable[..., SparkSession], tmp_path: Path, mode: str
) -> None:
    """Every file that a rolled-back transaction has written is deleted, and no other."""
    spark = own_lake()
    spark.sql(
        "CREATE TABLE own.db.t (id BIGINT, v STRING) USING iceberg TBLPROPERTIES "
        f"('write.update.mode' = '{mode}', 'write.delete.mode' = '{mode}')"
    )
    spark.sql("INSERT INTO own.db.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    before = _files(tmp_path / "own")
    spark.sql("BEGIN")
    spark.sql("INSERT INTO own.db.t VALUES (4, 'd')")
    spark.sql("UPDATE own.db.t SET v = 'x' WHERE id > 2")
    spark.sql("SAVEPOINT s")
    spark.sql("DELETE FROM own.db.t WHERE id = 1")
    spark.sql("ROLLBACK TO s")
    spark.sql("CREATE TABLE own.db.copy USING iceberg AS SELECT * FROM own.db.t")
    spark.sql("ALTER TABLE own.db.t ADD COLUMN n INT")
    assert before < _files(tmp_path / "own")
    spark.sql("ROLLBACK")
    assert before == _files(tmp_path / "own")
    assert "1a 2b 3c" == _text(spark, "own.db.t")


def test_savepoints(spark: SparkSession, other: SparkSession, filled: str) -> None:
    """ROLLBACK TO undoes what came after, as often as one likes; RELEASE keeps it."""
    spark.sql("BEGIN")
    spark.sql(f"DELETE FROM {filled} WHERE id = 1")
    spark.sql("SAVEPOINT one")
    spark.sql(f"UPDATE {filled} SET v = 'x'")
    spark.sql("SAVEPOINT two")
    spark.sql(f"DELETE FROM {filled}")
    spark.sql("ROLLBACK TO two")
    assert "2x 3x 4x" == _text(spark, filled)
    spark.sql("ROLLBACK TO SAVEPOINT one")
    assert "2b 3c 4d" == _text(spark, filled)
    spark.sql(f"INSERT INTO {filled} VALUES (5, 'e')")
    spark.sql("ROLLBACK WORK TO one")
    spark.sql(f"INSERT INTO {filled} VALUES (6, 'f')")
    spark.sql("RELEASE SAVEPOINT one")
    spark.sql("COMMIT")
    assert "2b 3c 4d 6f" == _text(other, filled)


def test_savepoint_before_a_create(spark: SparkSession, table: str) -> None:
    """ROLLBACK TO undoes the creation of a table as well."""
    spark.sql("BEGIN")
    spark.sql("SAVEPOINT s")
    spark.sql(f"CREATE TABLE {table} USING iceberg AS SELECT 1 AS id, 'a' AS v")
    spark.sql("ROLLBACK TO s")
    assert not spark.catalog.tableExists(table)
    spark.sql(f"CREATE TABLE {table} USING iceberg AS SELECT 2 AS id, 'b' AS v")
    spark.sql("COMMIT")
    assert "2b" == _text(spark, table)


# ------------------------------------------------------------ ways to send a statement


def test_parameters(spark: SparkSession, filled: str) -> None:
    """Named and positional parameters work in every statement, inside and outside."""
    for begin, end in (("SELECT 1", "SELECT 1"), ("BEGIN", "COMMIT")):
        spark.sql(begin)
        inserted = spark.sql(f"INSERT INTO {filled} VALUES (?, ?)", args=[5, "e"]).first()
        assert inserted is not None
        assert 1 == inserted.num_affected_rows
        spark.sql(f"UPDATE {filled} SET v = :v WHERE id = :id", args={"v": "E", "id": 5})
        found = spark.sql(f"SELECT v FROM {filled} WHERE id = :id", args={"id": 5}).collect()
        assert ["E"] == [row.v for row in found]
        spark.sql(
            f"MERGE INTO {filled} t USING (SELECT :id AS id) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = :v",
            args={"id": 5, "v": "M"},
        )
        deleted = spark.sql(f"DELETE FROM {filled} WHERE v = ?", args=["M"]).first()
        assert deleted is not None
        assert 1 == deleted.num_affected_rows
        spark.sql(end)
    assert START == _text(spark, filled)


def test_sql_scripts(spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]) -> None:
    """A script's BEGIN ... END is a block of Spark's; inside a transaction it takes part in it."""
    a, b = two_tables
    script = f"""
        BEGIN
          DECLARE amount INT DEFAULT 5;
          INSERT INTO {a} VALUES (3, amount);
          WHILE amount > 3 DO
            INSERT INTO {b} VALUES (amount, amount);
            SET amount = amount - 1;
          END WHILE;
        END"""
    spark.sql(script)
    assert "none" == state(spark)
    assert [(1, 0), (2, 0), (3, 5)] == rows(other, f"SELECT * FROM {a}")
    spark.sql("BEGIN")
    spark.sql(script)
    assert (4, 6) == (count(other, b), count(spark, b))
    spark.sql("ROLLBACK")
    assert 4 == count(spark, b)


def test_execute_immediate(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """Transaction statements can be sent by EXECUTE IMMEDIATE, also out of a script."""
    a, _ = two_tables
    spark.sql("EXECUTE IMMEDIATE 'BEGIN'")
    spark.sql(f"EXECUTE IMMEDIATE 'INSERT INTO {a} VALUES (?, ?)' USING 3, 3")
    assert 2 == count(other, a)
    spark.sql("EXECUTE IMMEDIATE 'COMMIT'")
    assert 3 == count(other, a)
    spark.sql(
        f"""
        BEGIN
          EXECUTE IMMEDIATE 'BEGIN';
          INSERT INTO {a} VALUES (4, 4);
          EXECUTE IMMEDIATE 'COMMIT';
        END"""
    )
    assert ("none", 4) == (state(spark), count(other, a))


def test_explain_runs_nothing(spark: SparkSession, filled: str) -> None:
    """EXPLAIN shows Spark's plan of a statement and leaves rows and transaction as they are."""
    for begin in ("SELECT 1", "BEGIN"):
        spark.sql(begin)
        for step in STEPS[:8]:
            plan = one(spark, f"EXPLAIN {step.statement.format(filled)}")[0]
            assert "Physical Plan" in plan
            assert "Error" not in plan
    assert [] == one(spark, "COMMIT").tables
    assert START == _text(spark, filled)


def test_data_frame_writes(
    spark: SparkSession, other: SparkSession, filled: str, table: str
) -> None:
    """Writes of the DataFrame API are part of the transaction, whichever way they go."""
    frame = spark.createDataFrame([(5, "e")], "id BIGINT, v STRING")
    new = f"{table}_new"
    spark.sql("BEGIN")
    frame.writeTo(filled).append()
    frame.selectExpr("id + 1 AS id", "v").write.insertInto(filled)
    frame.selectExpr("id + 2 AS id", "v").write.mode("append").saveAsTable(filled)
    frame.selectExpr("id + 3 AS id", "v").write.format("iceberg").mode("append").save(filled)
    frame.writeTo(new).using("iceberg").create()
    assert "1a 2b 3c 4d 5e 6e 7e 8e" == _text(spark, filled)
    assert (START, "5e") == (_text(other, filled), _text(spark, new))
    spark.sql("COMMIT")
    assert "1a 2b 3c 4d 5e 6e 7e 8e" == _text(other, filled)
    assert "5e" == _text(other, new)


def test_data_frame_overwrites(spark: SparkSession, other: SparkSession, table: str) -> None:
    """Overwrites of partitions, and by a condition, replace what they name, at COMMIT."""
    rows_ = spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "id BIGINT, v STRING")
    rows_.writeTo(table).using("iceberg").partitionedBy(rows_["id"]).create()
    spark.sql("BEGIN")
    rows_.filter("id = 2").selectExpr("id", "upper(v) AS v").writeTo(table).overwritePartitions()
    rows_.filter("id = 3").selectExpr("id", "'z' AS v").writeTo(table).overwrite(fn.col("id") == 3)
    assert "1a 2B 3z" == _text(spark, table)
    assert "1a 2b 3c" == _text(other, table)
    spark.sql("COMMIT")
    assert "1a 2B 3z" == _text(other, table)


# ------------------------------------------------------------ time travel, metadata, procedures


def test_time_travel_of_two_tables(spark: SparkSession, two_tables: tuple[str, str]) -> None:
    """One timestamp gives the same transaction's state of both tables, by each way."""
    a, b = two_tables
    moments = []
    for value in (1, 2):
        spark.sql("BEGIN")
        spark.sql(f"UPDATE {a} SET v = {value}")
        spark.sql(f"UPDATE {b} SET v = {value}")
        moments.append(one(spark, "COMMIT").commit_ts)
    for expected, ts in (
        (0, moments[0] - 1),
        (1, moments[0]),
        (1, moments[1] - 1),
        (2, moments[1]),
    ):
        text = one(spark, f"SELECT CAST(timestamp_millis({ts}) AS STRING)")[0]
        joined = (
            f"SELECT a.v, b.v FROM {a} TIMESTAMP AS OF '{text}' a "
            f"JOIN {b} TIMESTAMP AS OF '{text}' b ON a.id = b.id"
        )
        assert [(expected, expected)] * 2 == rows(spark, joined)
        frame = spark.read.option("timestampAsOf", text).table(a)
        assert [expected] * 2 == [row.v for row in frame.collect()]
        spark.sql(f"BEGIN READ ONLY AS OF {ts}")
        assert [(expected, expected)] * 2 == rows(
            spark, f"SELECT a.v, b.v FROM {a} a JOIN {b} b ON a.id = b.id"
        )
        spark.sql("COMMIT")


def test_version_as_of(spark: SparkSession, filled: str) -> None:
    """A snapshot id reads that snapshot, inside a transaction as well."""
    first = spark.sql(f"SELECT snapshot_id FROM {filled}.history ORDER BY made_current_at")
    ids = [row.snapshot_id for row in first.collect()]
    spark.sql("BEGIN")
    spark.sql(f"DELETE FROM {filled}")
    assert "1a 2b" == _text(spark, f"{filled} VERSION AS OF {ids[-2]}")
    assert START == _text(spark, f"{filled} VERSION AS OF {ids[-1]}")
    assert "" == _text(spark, filled)


def test_metadata_tables(spark: SparkSession, other: SparkSession, filled: str) -> None:
    """Metadata tables show the transaction's state to it, and the committed one to others."""
    files, snapshots = count(other, f"{filled}.files"), count(other, f"{filled}.snapshots")
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {filled} VALUES (5, 'e')")
    assert files + 1 == count(spark, f"{filled}.files")
    assert snapshots + 1 == count(spark, f"{filled}.snapshots")
    assert (files, snapshots) == (
        count(other, f"{filled}.files"),
        count(other, f"{filled}.snapshots"),
    )
    for name in ("history", "partitions", "refs", "manifests", "entries", "all_data_files"):
        spark.sql(f"SELECT * FROM {filled}.{name}").collect()
    spark.sql("COMMIT")
    assert files + 1 == count(other, f"{filled}.files")
    newest = other.sql(
        f"SELECT summary['txns.commit-ts'] AS ts, unix_millis(committed_at) AS at "
        f"FROM {filled}.snapshots ORDER BY committed_at DESC LIMIT 1"
    ).first()
    assert newest is not None
    assert newest["at"] == int(newest.ts)


def test_procedures(spark: SparkSession, outsider: SparkSession, filled: str) -> None:
    """Ours answer, by position and by name; Iceberg's go on working on registered tables."""
    name = filled.removeprefix("lake.")
    assert one(spark, f"CALL lake.system.forget('{name}')").commit_ts > 0
    registered = one(spark, f"CALL lake.system.register(table => '{name}')").commit_ts
    assert registered == one(spark, f"CALL lake.system.register('{name}')").commit_ts
    compacted = one(
        spark,
        f"CALL lake.system.rewrite_data_files(table => '{name}', "
        "options => map('rewrite-all', 'true'))",
    )
    assert 4 == compacted.rewritten_data_files_count
    spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{name}', retain_last => 1, "
        "older_than => TIMESTAMP '2100-01-01 00:00:00')"
    )
    assert 1 == affected(spark, f"DELETE FROM {filled} WHERE id = 1")
    assert "2b 3c 4d" == _text(spark, filled) == _text(outsider, filled)
    assert 0 == one(spark, "CALL lake.system.apply()").tables_left
    one(spark, "CALL lake.system.tidy()")  # whoever committed last may have done it already
    spark.sql(f"ALTER TABLE {filled} SET TBLPROPERTIES ('of' = 'one entry')")
    assert one(spark, "CALL lake.system.tidy()").tidied_entries > 0
    logged = spark.sql("CALL lake.system.transactions()").filter(f"table_name = '{name}'")
    assert [True] == [row.applied for row in logged.select("applied").distinct().collect()]
    kinds = {row.kind for row in logged.collect()}
    assert {"commit", "register", "forget"} <= kinds


def test_archive_is_a_table(spark: SparkSession, two_tables: tuple[str, str]) -> None:
    """After tidy, SELECT * FROM lake.txns.commits has a row for each table of a transaction."""
    a, b = two_tables
    spark.sql("BEGIN ID 'archive of the test'")
    spark.sql("SET TRANSACTION COMMENT 'a correction'")
    spark.sql(f"INSERT INTO {a} VALUES (3, 0)")
    spark.sql(f"DELETE FROM {b} WHERE id = 1")
    committed = one(spark, "COMMIT")
    spark.sql("CALL lake.system.tidy()")
    archived = spark.sql(
        "SELECT * FROM lake.txns.commits WHERE txn_id = 'archive of the test' ORDER BY table_name"
    ).collect()
    expected = [(a, "append", 1, 0), (b, "delete", 0, 1)]
    assert [(name.removeprefix("lake."), *rest) for name, *rest in expected] == [
        (row.table_name, row.operation, row.added_records, row.deleted_records) for row in archived
    ]
    for row in archived:
        assert (committed.commit_ts, committed.read_ts) == (row.commit_ts, row.read_ts)
        assert ("commit", "a correction") == (row.kind, row.comment)


def test_id_commits_once(spark: SparkSession, other: SparkSession, filled: str) -> None:
    """A job that is run again with the same ID changes nothing the second time."""
    answers = []
    for session in (spark, other, spark):
        begun = one(session, f"BEGIN ID 'job of {filled}'").state
        changed = affected(session, f"UPDATE {filled} SET v = concat(v, '!') WHERE id = 1")
        committed = one(session, "COMMIT")
        answers.append((begun, changed, committed.state, committed.commit_ts))
    first_ts = answers[0][3]
    assert [
        ("active", 1, "committed", first_ts),
        ("committed", 0, "committed", first_ts),
        ("committed", 0, "committed", first_ts),
    ] == answers
    assert "1a! 2b 3c 4d" == _text(spark, filled)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_row_lineage(
    spark: SparkSession, other: SparkSession, outsider: SparkSession, table: str, mode: str
) -> None:
    """Rows of format 3 keep their ids as on a plain table, staged, committed and beside others."""
    plain = f"{table}_plain"
    changes = [
        "INSERT INTO {} VALUES (3, 'c'), (4, 'd')",
        "UPDATE {} SET v = upper(v) WHERE id IN (1, 3)",
        "DELETE FROM {} WHERE id = 2",
        """
        MERGE INTO {} t USING (SELECT 4L AS id, 'm' AS v UNION ALL SELECT 5L, 'n') s
        ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
        """,
    ]
    for session, name in ((outsider, plain), (spark, table)):
        session.sql(
            f"CREATE TABLE {name} (id BIGINT, v STRING) USING iceberg TBLPROPERTIES "
            f"('format-version' = '3', 'write.update.mode' = '{mode}', "
            f"'write.delete.mode' = '{mode}', 'write.merge.mode' = '{mode}')"
        )
        session.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    lineage = "SELECT id, v, _row_id FROM {} ORDER BY id"
    spark.sql("BEGIN")
    for change in changes:
        outsider.sql(change.format(plain))
        spark.sql(change.format(table))
        assert rows(outsider, lineage.format(plain)) == rows(spark, lineage.format(table)), change
    spark.sql("COMMIT")
    kept = rows(outsider, lineage.format(plain))
    assert kept == rows(other, lineage.format(table)) == rows(outsider, lineage.format(table))

    spark.sql("BEGIN ISOLATION LEVEL SNAPSHOT")
    spark.sql(f"INSERT INTO {table} VALUES (6, 'ours')")
    other.sql(f"INSERT INTO {table} VALUES (7, 'theirs')")
    spark.sql("COMMIT")
    both = rows(other, lineage.format(table))
    assert kept == both[: len(kept)]
    assert [(6, "ours"), (7, "theirs")] == [row[:2] for row in both[len(kept) :]]
    ids = [row_id for _, _, row_id in both]
    assert None not in ids
    assert len(set(ids)) == len(ids)
