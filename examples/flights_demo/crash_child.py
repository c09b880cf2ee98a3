"""
A driver process that commits and then waits to be killed; started by crash.py.

It corrects another day where the log leaves the apply to others (`txns.apply=next`), so that its
COMMIT ends with the entry in the commit table, and the data tables still as they were. It prints
the commit_ts.
"""

from __future__ import annotations

import sys

import data
import lake
from correction import MONTH, statements


def main(day: int) -> None:
    """Commit the correction of a day of January, print its commit_ts, and wait."""
    spark = lake.start(**{"txns.apply": "next"})
    spark.sql("CALL lake.system.settings(apply => 'next')")
    corrected = data.corrected(data.read("flights"), month=MONTH, day=day)
    spark.createDataFrame(corrected).createOrReplaceTempView("corrected")
    spark.sql("BEGIN")
    spark.sql(f"SET TRANSACTION COMMENT 'correction of {day} January, then killed'")
    for statement in statements("lake", rows=corrected.num_rows, day=day):
        spark.sql(statement)
    committed = spark.sql("COMMIT").first()
    assert committed is not None
    assert not committed.applied
    print(f"committed {committed.commit_ts}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]))
