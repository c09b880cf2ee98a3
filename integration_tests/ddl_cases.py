"""Changes of a table (id, v, day) and of its history, for tests that run them in several ways."""

from __future__ import annotations

from integration_tests.statement_cases import SOURCE, Case, conf

DDL = [
    Case(
        "add column",
        ["ALTER TABLE {} ADD COLUMN n INT COMMENT 'number' AFTER id", "UPDATE {} SET n = 1"],
    ),
    Case(
        "add column with default",
        ["ALTER TABLE {} ADD COLUMN n INT DEFAULT 3"],
        error="UnsupportedOperationException",
    ),
    Case(
        "add nested column",
        [
            "ALTER TABLE {} ADD COLUMNS (p STRUCT<a: INT, b: STRING>)",
            "ALTER TABLE {} ADD COLUMN p.c DOUBLE",
        ],
    ),
    Case("rename column", ["ALTER TABLE {} RENAME COLUMN v TO w", "UPDATE {} SET w = 'r'"]),
    Case("drop column", ["ALTER TABLE {} DROP COLUMN v", "INSERT INTO {} VALUES (5, 3)"]),
    Case(
        "drop column and add it again",
        ["ALTER TABLE {} DROP COLUMN v", "ALTER TABLE {} ADD COLUMN v STRING"],
    ),
    Case(
        "widen column",
        ["ALTER TABLE {} ADD COLUMN n INT", "ALTER TABLE {} ALTER COLUMN n TYPE BIGINT"],
    ),
    Case(
        "comment and place a column",
        ["ALTER TABLE {} ALTER COLUMN v COMMENT 'text'", "ALTER TABLE {} ALTER COLUMN v FIRST"],
    ),
    Case("drop not null", ["ALTER TABLE {} ALTER COLUMN id DROP NOT NULL"]),
    Case(
        "set not null",
        ["ALTER TABLE {} ALTER COLUMN v SET NOT NULL"],
        error="_LEGACY_ERROR_TEMP_2330",
    ),
    Case(
        "narrow column",
        ["ALTER TABLE {} ALTER COLUMN id TYPE INT"],
        error="NOT_SUPPORTED_CHANGE_COLUMN",
    ),
    Case(
        "drop an unknown column",
        ["ALTER TABLE {} DROP COLUMN nope"],
        error="UNRESOLVED_COLUMN.WITH_SUGGESTION",
    ),
    Case(
        "replace columns",
        ["ALTER TABLE {} REPLACE COLUMNS (id BIGINT, z STRING, day INT)"],
        error="ValidationException",
    ),
    Case(
        "add partition field",
        [
            "ALTER TABLE {} ADD PARTITION FIELD bucket(4, id) AS shard",
            "INSERT INTO {} VALUES (5, 'e', 3)",
        ],
    ),
    Case(
        "drop partition field",
        [
            "ALTER TABLE {} DROP PARTITION FIELD day",
            "INSERT INTO {} VALUES (5, 'e', 3)",
            "UPDATE {} SET v = 'p' WHERE id > 3",
        ],
    ),
    Case(
        "replace partition field",
        ["ALTER TABLE {} REPLACE PARTITION FIELD day WITH truncate(id, 10)"],
    ),
    Case(
        "write ordered by",
        [
            "ALTER TABLE {} WRITE ORDERED BY day, id DESC NULLS LAST",
            "INSERT INTO {} VALUES (5, 'e', 3)",
            "UPDATE {} SET v = 'o'",
        ],
    ),
    Case("write locally ordered by", ["ALTER TABLE {} WRITE LOCALLY ORDERED BY id"]),
    Case(
        "write distributed by partition",
        [
            "ALTER TABLE {} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id",
            "UPDATE {} SET v = 'o' WHERE id > 1",
        ],
    ),
    Case(
        "write unordered", ["ALTER TABLE {} WRITE ORDERED BY id", "ALTER TABLE {} WRITE UNORDERED"]
    ),
    Case(
        "set properties",
        [
            "ALTER TABLE {} SET TBLPROPERTIES ('a' = '1', 'b' = '2')",
            "ALTER TABLE {} UNSET TBLPROPERTIES ('a')",
        ],
    ),
    Case("comment on table", ["COMMENT ON TABLE {} IS 'words'"]),
    Case("identifier fields", ["ALTER TABLE {} SET IDENTIFIER FIELDS id, day"]),
    Case(
        "drop identifier fields",
        [
            "ALTER TABLE {} SET IDENTIFIER FIELDS id, day",
            "ALTER TABLE {} DROP IDENTIFIER FIELDS day",
        ],
    ),
    Case(
        "identifier field that may be null",
        ["ALTER TABLE {} SET IDENTIFIER FIELDS v"],
        error="IllegalArgumentException",
    ),
    Case(
        "branch",
        [
            "ALTER TABLE {} CREATE BRANCH b",
            "INSERT INTO {}.branch_b VALUES (5, 'e', 3)",
            "UPDATE {}.branch_b SET v = 'B' WHERE id = 1",
            "DELETE FROM {}.branch_b WHERE id = 2",
        ],
        "SELECT 'main' AS at, * FROM {0} UNION ALL SELECT 'b', * FROM {0} VERSION AS OF 'b'",
    ),
    Case(
        "branch with merge",
        [
            "ALTER TABLE {} CREATE BRANCH b",
            (
                f"MERGE INTO {{}}.branch_b t USING ({SOURCE}) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            ),
        ],
        "SELECT 'main' AS at, * FROM {0} UNION ALL SELECT 'b', * FROM {0}.branch_b",
    ),
    Case(
        "branch overwritten",
        ["ALTER TABLE {} CREATE BRANCH b", "INSERT OVERWRITE {}.branch_b VALUES (5, 'e', 3)"],
        "SELECT 'main' AS at, * FROM {0} UNION ALL SELECT 'b', * FROM {0}.branch_b",
    ),
    Case(
        "branch and main",
        [
            "ALTER TABLE {} CREATE BRANCH b",
            "INSERT INTO {} VALUES (5, 'e', 3)",
            "INSERT INTO {}.branch_b VALUES (6, 'f', 3)",
            "INSERT INTO {} VALUES (7, 'g', 3)",
            "UPDATE {}.branch_b SET v = 'B' WHERE day > 1",
        ],
        "SELECT 'main' AS at, * FROM {0} UNION ALL SELECT 'b', * FROM {0}.branch_b",
    ),
    Case(
        "branch retention",
        [
            (
                "ALTER TABLE {} CREATE BRANCH IF NOT EXISTS b RETAIN 7 DAYS "
                "WITH SNAPSHOT RETENTION 2 SNAPSHOTS"
            )
        ],
    ),
    Case(
        "branch replaced",
        [
            "ALTER TABLE {} CREATE BRANCH b",
            "INSERT INTO {} VALUES (5, 'e', 3)",
            "ALTER TABLE {} REPLACE BRANCH b RETAIN 2 DAYS",
        ],
        "SELECT * FROM {}.branch_b",
    ),
    Case("branch dropped", ["ALTER TABLE {} CREATE BRANCH b", "ALTER TABLE {} DROP BRANCH b"]),
    Case(
        "branch dropped that is not there",
        ["ALTER TABLE {} DROP BRANCH nope"],
        error="IllegalArgumentException",
    ),
    Case(
        "branch created twice",
        ["ALTER TABLE {} CREATE BRANCH b", "ALTER TABLE {} CREATE BRANCH b"],
        error="IllegalArgumentException",
    ),
    Case(
        "branch written that is not there",
        ["INSERT INTO {}.branch_nope VALUES (5, 'e', 3)"],
        error="ValidationException",
    ),
    Case(
        "tag",
        ["ALTER TABLE {} CREATE TAG old RETAIN 30 DAYS", "DELETE FROM {}"],
        "SELECT * FROM {} VERSION AS OF 'old'",
    ),
    Case(
        "tag dropped", ["ALTER TABLE {} CREATE OR REPLACE TAG old", "ALTER TABLE {} DROP TAG old"]
    ),
    Case(
        "tag written",
        ["ALTER TABLE {} CREATE TAG old", "INSERT INTO {}.branch_old VALUES (5, 'e', 3)"],
        error="IllegalArgumentException",
    ),
    Case(
        "fast forward",
        [
            "ALTER TABLE {} CREATE BRANCH b",
            "INSERT INTO {}.branch_b VALUES (5, 'e', 3)",
            lambda s, t: s.sql(
                f"CALL lake.system.fast_forward('{t.removeprefix('lake.')}', 'main', 'b')"
            ),
        ],
    ),
    Case(
        "write audit publish by branch",
        [
            "ALTER TABLE {} SET TBLPROPERTIES ('write.wap.enabled' = 'true')",
            "ALTER TABLE {} CREATE BRANCH audit",
            conf("spark.wap.branch", "audit"),
            "INSERT INTO {} VALUES (5, 'e', 3)",
            "UPDATE {} SET v = 'A' WHERE id = 1",
        ],
        "SELECT 'main' AS at, * FROM {0}.branch_main UNION ALL SELECT 'a', * FROM {0}.branch_audit",
    ),
    Case(
        "write audit publish by id",
        [
            "ALTER TABLE {} SET TBLPROPERTIES ('write.wap.enabled' = 'true')",
            conf("spark.wap.id", "w1"),
            "INSERT INTO {} VALUES (5, 'e', 3)",
        ],
    ),
    Case(
        "write audit publish by id, published",
        [
            "ALTER TABLE {} SET TBLPROPERTIES ('write.wap.enabled' = 'true')",
            conf("spark.wap.id", "w1"),
            "INSERT INTO {} VALUES (5, 'e', 3)",
            lambda s, _: s.conf.unset("spark.wap.id"),
            lambda s, t: s.sql(
                f"CALL lake.system.publish_changes('{t.removeprefix('lake.')}', 'w1')"
            ),
        ],
    ),
    Case(
        "replace table as select",
        ["CREATE OR REPLACE TABLE {0} USING iceberg PARTITIONED BY (id) AS SELECT id, v FROM {0}"],
    ),
    Case("replace table", ["REPLACE TABLE {} (z INT, w DOUBLE) USING iceberg"]),
    Case(
        "replace table and insert",
        ["CREATE OR REPLACE TABLE {} (z INT) USING iceberg", "INSERT INTO {} VALUES (1)"],
    ),
    Case(
        "replace that fails",
        ["CREATE OR REPLACE TABLE {0} USING iceberg AS SELECT CAST(v AS INT) AS z FROM {0}"],
        error="CAST_INVALID_INPUT",
    ),
    Case(
        "create that exists",
        ["CREATE TABLE {} (z INT) USING iceberg"],
        error="TABLE_OR_VIEW_ALREADY_EXISTS",
    ),
    Case("create if not exists", ["CREATE TABLE IF NOT EXISTS {} (z INT) USING iceberg"]),
    Case(
        "create as that exists",
        ["CREATE TABLE {} USING iceberg AS SELECT 1 AS z"],
        error="TABLE_OR_VIEW_ALREADY_EXISTS",
    ),
    Case(
        "drop and create",
        ["DROP TABLE {}", "CREATE TABLE {} (z INT) USING iceberg", "INSERT INTO {} VALUES (1)"],
    ),
    Case("drop and create as", ["DROP TABLE {}", "CREATE TABLE {} USING iceberg AS SELECT 1 AS z"]),
    Case(
        "order, drop and create",
        [
            "ALTER TABLE {} WRITE ORDERED BY v",
            "DROP TABLE {}",
            "CREATE TABLE {} (z INT) USING iceberg",
            "INSERT INTO {} VALUES (1)",
            "UPDATE {} SET z = 2",
        ],
    ),
    Case(
        "tag, drop and create",
        ["ALTER TABLE {} CREATE TAG old", "DROP TABLE {}", "CREATE TABLE {} (z INT) USING iceberg"],
    ),
    Case(
        "drop twice",
        ["DROP TABLE {}", "DROP TABLE {}"],
        "SELECT 1",
        error="TABLE_OR_VIEW_NOT_FOUND",
    ),
    Case("drop if exists twice", ["DROP TABLE {}", "DROP TABLE IF EXISTS {}"], "SELECT 1"),
    Case(
        "show and describe",
        [
            lambda s, t: s.sql(f"DESCRIBE EXTENDED {t}").collect(),
            lambda s, t: s.sql(f"SHOW COLUMNS IN {t}").collect(),
            lambda s, t: s.sql(f"SHOW TBLPROPERTIES {t}").collect(),
        ],
    ),
    Case(
        "show partitions",
        ["SHOW PARTITIONS {}"],
        error="INVALID_PARTITION_OPERATION.PARTITION_MANAGEMENT_IS_UNSUPPORTED",
    ),
]

TRAVEL = [
    Case(
        "time travel by snapshot",
        ["ALTER TABLE {} CREATE TAG first", "DELETE FROM {}"],
        "SELECT * FROM {}.tag_first",
    ),
    Case(
        "metadata tables",
        ["INSERT INTO {} VALUES (5, 'e', 3)", "DELETE FROM {} WHERE id = 1"],
        "SELECT partition.day, sum(record_count) - sum(IF(content = 0, 0, 2 * record_count)) "
        "FROM {}.files GROUP BY 1",
    ),
    Case(
        "partitions",
        ["INSERT INTO {} VALUES (5, 'e', 3)"],
        "SELECT partition.day, record_count, file_count FROM {}.partitions",
    ),
    Case(
        "rollback to snapshot",
        [
            "ALTER TABLE {} CREATE TAG first",
            "DELETE FROM {} WHERE id > 1",
            lambda s, t: s.sql(
                f"CALL lake.system.rollback_to_snapshot('{t.removeprefix('lake.')}', "
                + str(s.sql(f"SELECT snapshot_id FROM {t}.refs WHERE name = 'first'").first()[0])
                + ")"
            ),
        ],
    ),
    Case(
        "rollback to timestamp",
        [
            "ALTER TABLE {} CREATE TAG first",
            "DELETE FROM {} WHERE id > 1",
            lambda s, t: s.sql(
                f"CALL lake.system.rollback_to_timestamp('{t.removeprefix('lake.')}', TIMESTAMP '"
                + str(
                    s.sql(
                        f"SELECT committed_at + INTERVAL 1 MILLISECOND FROM {t}.snapshots JOIN"
                        f" {t}.refs USING (snapshot_id) WHERE name = 'first'"
                    ).first()[0]
                )
                + "')"
            ),
        ],
    ),
    Case(
        "set current snapshot",
        [
            "ALTER TABLE {} CREATE TAG first",
            "DELETE FROM {} WHERE id > 1",
            lambda s, t: s.sql(
                f"CALL lake.system.set_current_snapshot("
                f"table => '{t.removeprefix('lake.')}', ref => 'first')"
            ),
        ],
    ),
    Case(
        "cherry-pick",
        [
            "ALTER TABLE {} CREATE BRANCH b",
            "INSERT INTO {}.branch_b VALUES (5, 'e', 3)",
            "INSERT INTO {} VALUES (6, 'f', 3)",
            lambda s, t: s.sql(
                f"CALL lake.system.cherrypick_snapshot('{t.removeprefix('lake.')}', "
                + str(s.sql(f"SELECT snapshot_id FROM {t}.refs WHERE name = 'b'").first()[0])
                + ")"
            ),
        ],
    ),
]

CHANGES = [*DDL, *TRAVEL]
