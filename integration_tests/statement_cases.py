"""Statements of every sort on a table (id, v, day), for tests that run them in several ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as fn

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

SOURCE = "SELECT * FROM VALUES (1L, 'x', 1), (3L, 'y', 2), (6L, 'f', 3) s(id, v, day)"


class Case(NamedTuple):
    """
    Statements, with {} for the table, or calls that get a session and the table's name.

    Attributes:
        name: What the statements do.
        steps: They.
        rows: The query whose rows are compared behind them.
        error: The condition, or the class, of the error that one of them has to end with.
    """

    name: str
    steps: list[str | Callable[[SparkSession, str], object]]
    rows: str = "SELECT * FROM {}"
    error: str = ""


def _frame(session: SparkSession) -> DataFrame:
    return session.createDataFrame([(2, "B", 1), (7, "g", 3)], "id BIGINT, v STRING, day INT")


def conf(key: str, value: str) -> Callable[[SparkSession, str], object]:
    return lambda session, _: session.conf.set(key, value)


DML = [
    Case("insert values", ["INSERT INTO {} VALUES (5, 'e', 3)"]),
    Case("insert columns", ["INSERT INTO {} (day, id, v) VALUES (3, 5, 'e')"]),
    Case("insert by name", ["INSERT INTO {} BY NAME SELECT 3 AS day, 5L AS id, 'e' AS v"]),
    Case("insert defaults for columns left out", ["INSERT INTO {} (id, day) VALUES (5, 3)"]),
    Case("insert partition", ["INSERT INTO {} PARTITION (day = 3) VALUES (5, 'e')"]),
    Case("insert with", ["WITH s AS (" + SOURCE + ") INSERT INTO {} SELECT * FROM s"]),
    Case("insert table", ["INSERT INTO {0} TABLE {0}"]),
    Case(
        "insert twice", ["INSERT INTO {} VALUES (5, 'e', 3)", "INSERT INTO {} VALUES (5, 'e', 3)"]
    ),
    Case(
        "insert too few columns",
        ["INSERT INTO {} VALUES (5, 'e')"],
        error="INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS",
    ),
    Case(
        "insert a wrong type",
        ["INSERT INTO {} VALUES ('five', 'e', 3)"],
        error="INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST",
    ),
    Case("insert overwrite", ["INSERT OVERWRITE {} VALUES (5, 'e', 3)"]),
    Case("insert overwrite partition", ["INSERT OVERWRITE {} PARTITION (day = 2) SELECT 5L, 'e'"]),
    Case(
        "insert overwrite dynamic",
        [
            conf("spark.sql.sources.partitionOverwriteMode", "dynamic"),
            "INSERT OVERWRITE {} VALUES (5, 'e', 2)",
        ],
    ),
    Case("insert replace where", ["INSERT INTO {} REPLACE WHERE day = 2 VALUES (5L, 'e', 2)"]),
    Case(
        "multi insert",
        [
            (
                "FROM {0} INSERT INTO {0} SELECT id + 10, v, day "
                "INSERT INTO {0} SELECT id + 20, v, day WHERE day = 1"
            )
        ],
    ),
    Case("update", ["UPDATE {} SET v = upper(v), day = 3 WHERE id % 2 = 1"]),
    Case("update all", ["UPDATE {} SET v = 'all'"]),
    Case("update none", ["UPDATE {} SET v = 'none' WHERE id = 99"]),
    Case("update with subquery", ["UPDATE {0} SET v = 'max' WHERE id = (SELECT max(id) FROM {0})"]),
    Case("update in", ["UPDATE {0} SET v = 'in' WHERE id IN (SELECT id + 1 FROM {0})"]),
    Case(
        "update an unknown column",
        ["UPDATE {} SET nope = 1"],
        error="UNRESOLVED_COLUMN.WITH_SUGGESTION",
    ),
    Case(
        "update where the cast fails",
        ["UPDATE {} SET id = CAST(v AS BIGINT)"],
        error="CAST_INVALID_INPUT",
    ),
    Case("delete", ["DELETE FROM {} WHERE id = 2"]),
    Case("delete partition", ["DELETE FROM {} WHERE day = 1"]),
    Case("delete none", ["DELETE FROM {} WHERE id = 99"]),
    Case(
        "delete exists",
        ["DELETE FROM {0} t WHERE EXISTS (SELECT 1 FROM {0} s WHERE s.id = t.id + 1)"],
    ),
    Case("delete all", ["DELETE FROM {}"]),
    Case("truncate", ["TRUNCATE TABLE {}"]),
    Case(
        "merge",
        [
            (
                f"MERGE INTO {{}} t USING ({SOURCE}) s ON t.id = s.id "
                "WHEN MATCHED AND s.v = 'y' THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v "
                "WHEN NOT MATCHED THEN INSERT *"
            )
        ],
    ),
    Case(
        "merge not matched by source",
        [
            (
                f"MERGE INTO {{}} t USING ({SOURCE}) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET * "
                "WHEN NOT MATCHED BY TARGET THEN INSERT (id, v, day) VALUES (s.id, 'new', s.day) "
                "WHEN NOT MATCHED BY SOURCE AND t.id = 4 THEN DELETE "
                "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'gone'"
            )
        ],
    ),
    Case(
        "merge insert only",
        [f"MERGE INTO {{}} t USING ({SOURCE}) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"],
    ),
    Case(
        "merge twice matched",
        [
            (
                "MERGE INTO {0} t USING (SELECT 1L AS id FROM {0}) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET v = 'no'"
            )
        ],
        error="MERGE_CARDINALITY_VIOLATION",
    ),
    Case(
        "merge with schema evolution",
        [
            (
                f"MERGE WITH SCHEMA EVOLUTION INTO {{}} t "
                f"USING (SELECT *, 1.5D w FROM ({SOURCE})) s "
                "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            ),
        ],
    ),
    Case(
        "everything after everything",
        [
            "INSERT INTO {} VALUES (5, 'e', 3)",
            "UPDATE {} SET v = 'u' WHERE id = 5",
            "DELETE FROM {} WHERE id = 1",
            "UPDATE {} SET v = 'w' WHERE v = 'u'",
            "INSERT OVERWRITE {0} SELECT id, v, day FROM {0} WHERE id > 2",
            "DELETE FROM {} WHERE v = 'w'",
        ],
    ),
]

FRAMES = [
    Case("writeTo append", [lambda s, t: _frame(s).writeTo(t).append()]),
    Case("writeTo overwrite", [lambda s, t: _frame(s).writeTo(t).overwrite(fn.col("day") == 1)]),
    Case("writeTo overwritePartitions", [lambda s, t: _frame(s).writeTo(t).overwritePartitions()]),
    Case(
        "writeTo create",
        [lambda s, t: _frame(s).writeTo(t).create()],
        error="TABLE_OR_VIEW_ALREADY_EXISTS",
    ),
    Case("writeTo createOrReplace", [lambda s, t: _frame(s).writeTo(t).createOrReplace()]),
    Case(
        "writeTo replace",
        [lambda s, t: _frame(s).writeTo(t).using("iceberg").partitionedBy("id").replace()],
    ),
    Case("write append", [lambda s, t: _frame(s).write.mode("append").saveAsTable(t)]),
    Case("write overwrite", [lambda s, t: _frame(s).write.mode("overwrite").saveAsTable(t)]),
    Case("write ignore", [lambda s, t: _frame(s).write.mode("ignore").saveAsTable(t)]),
    Case(
        "write error",
        [lambda s, t: _frame(s).write.mode("error").saveAsTable(t)],
        error="TABLE_OR_VIEW_ALREADY_EXISTS",
    ),
    Case("write insertInto", [lambda s, t: _frame(s).write.insertInto(t)]),
    Case(
        "write insertInto overwrite", [lambda s, t: _frame(s).write.insertInto(t, overwrite=True)]
    ),
    Case(
        "write save append", [lambda s, t: _frame(s).write.format("iceberg").mode("append").save(t)]
    ),
    Case(
        "write save overwrite",
        [lambda s, t: _frame(s).write.format("iceberg").mode("overwrite").save(t)],
    ),
    Case(
        "mergeInto",
        [
            lambda s, t: (
                _frame(s)
                .alias("s")
                .mergeInto(t, fn.expr(f"{t}.id = s.id"))
                .whenMatched()
                .update({"v": fn.lit("m")})
                .whenNotMatched()
                .insertAll()
                .merge()
            )
        ],
    ),
]

SCRIPTS = [
    Case(
        "script",
        [
            (
                "BEGIN DECLARE n INT = 7; IF n > 3 THEN INSERT INTO {0} VALUES (5, 'e', n); "
                "END IF; UPDATE {0} SET v = 's' WHERE id = 1; END"
            )
        ],
    ),
    Case(
        "script that fails half way",
        ["BEGIN INSERT INTO {0} VALUES (5, 'e', 3); INSERT INTO {0} VALUES ('no', 'e', 3); END"],
        error="INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST",
    ),
    Case(
        "execute immediate", ["EXECUTE IMMEDIATE 'INSERT INTO {} VALUES (?, ?, ?)' USING 5, 'e', 3"]
    ),
    Case(
        "execute immediate update",
        ["EXECUTE IMMEDIATE 'UPDATE {} SET v = :v WHERE id = :id' USING 'z' AS v, 2 AS id"],
    ),
    Case("parameters", [lambda s, t: s.sql(f"DELETE FROM {t} WHERE id = :id", args={"id": 2})]),
    Case(
        "identifier clause",
        [lambda s, t: s.sql("UPDATE IDENTIFIER(:t) SET v = 'i'", args={"t": t})],
    ),
]

STATEMENTS = [*DML, *FRAMES, *SCRIPTS]

# One of each sort, for runs that are to be short; all of them are marked slow.
FAST = {
    "insert overwrite dynamic",
    "update",
    "update none",
    "merge not matched by source",
    "writeTo createOrReplace",
    "write save overwrite",
    "drop column",
    "replace partition field",
    "write ordered by",
    "branch and main",
    "fast forward",
    "write audit publish by branch",
    "tag, drop and create",
    "rollback to snapshot",
    "script that fails half way",
}
