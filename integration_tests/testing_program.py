"""
A Spark driver as Spark's own test classes make one: `python -m integration_tests.testing_program`.

There Spark watches what rules of its analyzer do. It runs statements of each kind over a lake below
a folder, and prints the rows that they leave.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from integration_tests import sessions, shared_classes

STATEMENTS = (
    "CREATE NAMESPACE lake.db",
    "CREATE TABLE lake.db.t (id BIGINT, v BIGINT) USING iceberg",
    "INSERT INTO lake.db.t VALUES (1, 0), (2, 0)",
    "BEGIN",
    "EXPLAIN DELETE FROM lake.db.t WHERE v = 0",
    "UPDATE lake.db.t SET v = 1 WHERE id IN (SELECT max(id) FROM lake.db.t)",
    "COMMIT",
    "BEGIN ATOMIC INSERT INTO lake.db.t SELECT 3, count(*) FROM lake.db.t; END",
)


def main() -> None:
    """Run the statements."""
    java = " ".join(
        [shared_classes.settings().get(shared_classes.OPTIONS, ""), "-Dspark.testing=1"]
    )
    spark = sessions.start(Path(sys.argv[1]), **{shared_classes.OPTIONS: java})
    for statement in STATEMENTS:
        spark.sql(statement)
    rows = spark.sql("SELECT id, v FROM lake.db.t ORDER BY id").collect()
    sys.stdout.write(json.dumps([list(row) for row in rows]) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
