"""The tables that cases of statements run on, and what a user can see of them afterwards."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration_tests.statement_cases import Case

# How a table writes rows that change, and its format version.
KINDS = [
    ("copy-on-write", 2),
    ("merge-on-read", 3),
    ("copy-on-write", 3),
    ("merge-on-read", 2),
]


def fill(session: SparkSession, table: str, kind: tuple[str, int]) -> None:
    """Make a table (id, v, day) of a kind with four rows in two partitions."""
    mode, version = kind
    session.sql(
        f"CREATE TABLE {table} (id BIGINT NOT NULL, v STRING, day INT NOT NULL) USING iceberg "
        f"PARTITIONED BY (day) TBLPROPERTIES ('format-version' = '{version}', "
        f"'write.update.mode' = '{mode}', 'write.delete.mode' = '{mode}', "
        f"'write.merge.mode' = '{mode}')"
    )
    session.sql(f"INSERT INTO {table} VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2), (4, 'd', 2)")


def state_of(session: SparkSession, table: str, case: Case) -> dict[str, list[str] | str]:
    """What a user can see of a table."""
    found = sorted(map(str, session.sql(case.rows.format(table)).collect()))
    seen: dict[str, list[str] | str] = {"rows": found}
    if session.catalog.tableExists(table):
        created = str(session.sql(f"SHOW CREATE TABLE {table}").first()[0])
        created = re.sub(r"\n *'(txns\.|history\.expire\.|current-snapshot-id)[^\n]*", "", created)
        if any("DROP TABLE" in str(step) for step in case.steps):
            # Created again it is the same physical table, whose format version never goes down.
            created = re.sub(r"\n *'format-version'[^\n]*", "", created)
        seen["create"] = re.sub(r"LOCATION '[^']*'", "", created).replace(table, "t")
        # What a rollback brings back is kept by a tag that plain tables do not have.
        kept = "name NOT LIKE 'txns-kept-%'"
        refs = session.sql(f"SELECT name, type FROM {table}.refs WHERE {kept}").collect()
        seen["refs"] = sorted(map(str, refs)) or ["Row(name='main', type='BRANCH')"]
        columns = session.sql(f"DESCRIBE TABLE {table}").collect()
        seen["columns"] = [str(row) for row in columns]
    return seen
