"""Structured Streaming: batches through the protocol, each committed once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

import txns_spark
from integration_tests import sessions
from integration_tests.checks import affected, count, one, rows, state
from integration_tests.drivers import Driver
from txns_spark.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter


def _add_file(folder: Path, name: str, ids: range) -> None:
    """Add a file of rows to what the stream reads; it appears whole."""
    source = folder / "source"
    source.mkdir(parents=True, exist_ok=True)
    partial = folder / name
    partial.write_text("".join(json.dumps({"id": id_}) + "\n" for id_ in ids))
    partial.rename(source / name)


def _stream(
    session: SparkSession, folder: Path, checkpoint: str = "checkpoint"
) -> DataStreamWriter:
    return (
        session.readStream.schema("id BIGINT")
        .option("maxFilesPerTrigger", "1")
        .json(str(folder / "source"))
        .writeStream.option("checkpointLocation", str(folder / checkpoint))
        .trigger(availableNow=True)
    )


def _log(session: SparkSession, table: str) -> list[str]:
    """Return the ids of the transactions that wrote a table, in their order."""
    name = table.removeprefix("lake.")
    found = session.sql("CALL lake.system.transactions()").where(f"table_name = '{name}'")
    written = found.where("kind = 'commit' AND operation = 'append'").orderBy("commit_ts")
    return [row.txn_id for row in written.collect()]


@pytest.fixture
def sink(spark: SparkSession, table: str) -> str:
    """A table (id)."""
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING iceberg")
    return table


def test_to_table(spark: SparkSession, other: SparkSession, sink: str, tmp_path: Path) -> None:
    """Each batch of writeStream.toTable is an entry with the query's and the batch's id."""
    for number in range(2):
        _add_file(tmp_path, f"{number}.json", range(10 * number, 10 * number + 10))
    query = _stream(spark, tmp_path).toTable(sink)
    query.awaitTermination()
    assert 20 == count(other, sink)
    ids = _log(spark, sink)
    assert 2 == len(ids)
    for batch, txn_id in enumerate(ids):
        assert txn_id.startswith(f"stream/{query.id}/{batch}/")


def test_to_table_beside_a_transaction(
    spark: SparkSession, other: SparkSession, sink: str, two_tables: tuple[str, str], tmp_path: Path
) -> None:
    """A stream is no part of what its session has begun: neither kept back nor undone by it."""
    a, _ = two_tables
    _add_file(tmp_path, "0.json", range(10))
    spark.sql("BEGIN")
    affected(spark, f"INSERT INTO {a} VALUES (3, 0)")
    _stream(spark, tmp_path).toTable(sink).awaitTermination()
    assert 10 == count(other, sink)
    assert "active" == state(spark)
    spark.sql("ROLLBACK")
    assert (10, 2) == (count(spark, sink), count(spark, a))


def test_foreach_batch(
    spark: SparkSession, other: SparkSession, sink: str, two_tables: tuple[str, str], tmp_path: Path
) -> None:
    """Every batch is one transaction over all tables that its callback writes."""
    a, _ = two_tables
    for number in range(2):
        _add_file(tmp_path, f"{number}.json", range(10 * number, 10 * number + 10))
    seen = []

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.writeTo(sink).append()
        batch.sparkSession.sql(f"UPDATE {a} SET v = v + 1")
        seen.append((batch_id, count(other, sink), count(batch.sparkSession, sink)))

    query = _stream(spark, tmp_path).foreachBatch(txns_spark.foreach_batch(write)).start()
    query.awaitTermination()
    # What others see while it runs, and what the batch sees.
    assert [(0, 0, 10), (1, 10, 20)] == seen
    assert [(1, 2), (2, 2)] == rows(other, f"SELECT * FROM {a}")
    assert [f"stream/{query.id}/{batch}" for batch in range(2)] == _log(spark, sink)


def test_a_batch_that_loses_a_race(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str], tmp_path: Path
) -> None:
    """It is run again from BEGIN, and nothing of the lost attempt stays."""
    a, b = two_tables
    _add_file(tmp_path, "0.json", range(10, 20))
    attempts = []

    def write(batch: DataFrame, _batch_id: int) -> None:
        session = batch.sparkSession
        attempts.append(1)
        session.sql(f"UPDATE {a} SET v = v + 10")
        batch.selectExpr("id", "id AS v").writeTo(b).append()
        if len(attempts) == 1:
            affected(other, f"UPDATE {a} SET v = v + 1")

    writer = _stream(spark, tmp_path).foreachBatch(txns_spark.foreach_batch(write))
    writer.start().awaitTermination()
    assert 2 == len(attempts)
    assert [(1, 11), (2, 11)] == rows(spark, f"SELECT * FROM {a}")
    assert 12 == count(spark, b)


def test_a_new_checkpoint_under_an_old_name(
    spark: SparkSession, sink: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its batches count from 0 again: what has committed is skipped, and the log says so."""
    _add_file(tmp_path, "0.json", range(10))

    def write(batch: DataFrame, _batch_id: int) -> None:
        batch.writeTo(sink).append()

    for checkpoint in ("first", "second"):
        named = txns_spark.foreach_batch(write, query_id=sink)
        _stream(spark, tmp_path, checkpoint).foreachBatch(named).start().awaitTermination()
    assert 10 == count(spark, sink)
    [warning] = [each for each in caplog.records if "query_id" in each.getMessage()]
    assert f"stream/{sink}/0" == warning.txn
    assert warning.getMessage().endswith(f" txn=stream/{sink}/0")


def test_a_batch_that_fails(
    spark: SparkSession, sink: str, two_tables: tuple[str, str], tmp_path: Path
) -> None:
    """Its error ends the query, its writes are undone, and a new start goes on with it."""
    a, _ = two_tables
    _add_file(tmp_path, "0.json", range(10))
    broken = [True]

    def write(batch: DataFrame, _batch_id: int) -> None:
        batch.writeTo(sink).append()
        if broken:
            raise RuntimeError("a bug in the callback")
        batch.sparkSession.sql(f"UPDATE {a} SET v = v + 1")

    writer = _stream(spark, tmp_path).foreachBatch(txns_spark.foreach_batch(write))
    with pytest.raises(StreamingQueryException, match="a bug in the callback"):
        writer.start().awaitTermination()
    assert 0 == count(spark, sink)
    broken.clear()
    writer.start().awaitTermination()
    assert 10 == count(spark, sink)
    assert [(1, 1), (2, 1)] == rows(spark, f"SELECT * FROM {a}")


def test_a_batch_that_would_be_written_later(
    spark: SparkSession, sink: str, tmp_path: Path
) -> None:
    """A coroutine writes nothing, and the checkpoint would say that the batch is done."""
    _add_file(tmp_path, "0.json", range(10))

    async def later(batch: DataFrame, _batch_id: int) -> None:
        batch.writeTo(sink).append()

    def hidden(batch: DataFrame, batch_id: int) -> object:
        return later(batch, batch_id)

    with pytest.raises(ConfigurationError, match="later"):
        txns_spark.foreach_batch(later)
    writer = _stream(spark, tmp_path).foreachBatch(txns_spark.foreach_batch(hidden))
    with pytest.raises(StreamingQueryException, match="coroutine"):
        writer.start().awaitTermination()
    assert 0 == count(spark, sink)


def _restart(root: Path, folder: Path, go: Callable[[Driver], None]) -> list[str]:
    with Driver("batches", root, str(folder), folder / "log") as driver:
        go(driver)
        return driver.lines


@pytest.mark.slow
def test_kill_between_commit_and_checkpoint(
    own_lake: Callable[..., SparkSession], tmp_path: Path
) -> None:
    """
    A batch that is delivered again is committed once, over all its tables.

    1. A driver commits a batch into two tables.
    2. It is killed before Spark notes that the batch is done.
    3. Another one starts from the checkpoint: Spark delivers the batch again.
    """
    root = tmp_path / "lake"
    session = own_lake()
    sessions.add_catalog(session, "lake", root, sessions.TXNS)
    session.sql("CREATE NAMESPACE lake.db")
    session.sql("CREATE TABLE lake.db.batches (id BIGINT) USING iceberg")
    session.sql("CREATE TABLE lake.db.sizes (count BIGINT) USING iceberg")
    folder = tmp_path / "stream"
    for number in range(2):
        _add_file(folder, f"{number}.json", range(10 * number, 10 * number + 10))

    def first(driver: Driver) -> None:
        assert ["writing 0", "committed 0"] == [driver.wait_for_line(), driver.wait_for_line()]
        driver.kill()

    def second(driver: Driver) -> None:
        # Delivered again, and not written again.
        assert "committed 0" == driver.wait_for_line()
        driver.say("go")
        assert ["writing 1", "committed 1"] == [driver.wait_for_line(), driver.wait_for_line()]
        driver.say("go")
        assert "done" == driver.wait_for_line()

    _restart(root, folder, first)
    assert 10 == count(session, "lake.db.batches")
    _restart(root, folder, second)
    assert 20 == count(session, "lake.db.batches")
    assert [(10,), (10,)] == rows(session, "SELECT * FROM lake.db.sizes")
    assert (20, 20) == tuple(one(session, "SELECT count(DISTINCT id), sum(1) FROM lake.db.batches"))
