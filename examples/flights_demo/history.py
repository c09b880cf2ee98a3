"""Scene: the archive of what has committed, and two tables read at one moment of the past."""

from __future__ import annotations

from typing import TYPE_CHECKING

from correction import DAY, MONTH
from show import run, say, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READABLE = [
    *["commit_ts", "committed_at", "kind", "table_name", "operation"],
    *["added_records", "deleted_records", "comment"],
]


def show_archive(spark: SparkSession) -> None:
    """Move what is applied to the archive, and print the archive."""
    run(spark, "CALL lake.system.tidy()")
    say("  SELECT * FROM lake.txns.commits")
    archive = spark.sql("SELECT * FROM lake.txns.commits").orderBy("commit_ts", "table_name")
    rows = archive.select(*_READABLE).collect()
    table(_READABLE, ([_seconds(name, row[name]) for name in _READABLE] for row in rows))


def _seconds(name: str, value: object) -> object:
    return str(value)[:19] if name == "committed_at" else value


def travel(spark: SparkSession) -> None:
    """Read two tables as they were right before, and right after, the correction."""
    first = spark.sql(
        "SELECT commit_ts FROM lake.txns.commits WHERE comment = 'correction of 5 January'"
    ).first()
    assert first is not None
    states = [_at(spark, first.commit_ts - 1), _at(spark, first.commit_ts)]
    table(["TIMESTAMP AS OF", "flights", "in carrier_daily"], states)
    for _, counted, reported in states:
        assert counted == reported
    assert states[0] != states[1]


def _at(spark: SparkSession, ts: int) -> tuple[str, int, int]:
    """Read both tables of the day with one AS OF timestamp."""
    moment = spark.sql(f"SELECT CAST(timestamp_millis({ts}) AS STRING) AS text").first()
    assert moment is not None
    row = spark.sql(
        f"""
        SELECT (SELECT count(*) FROM lake.nyc.flights TIMESTAMP AS OF '{moment.text}'
                WHERE month = {MONTH} AND day = {DAY}) AS counted,
               (SELECT sum(flights) FROM lake.nyc.carrier_daily TIMESTAMP AS OF '{moment.text}'
                WHERE month = {MONTH} AND day = {DAY}) AS reported"""
    ).first()
    assert row is not None
    return moment.text, row.counted, row.reported
