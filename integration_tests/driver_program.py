"""
A Spark driver of its own, which a test kills: `python -m integration_tests.driver_program`.

It works on the tables that the test has made, and prints a line for each step that is
done. It ends when its standard input does.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import txns_spark
from integration_tests import bank, fault_program, sessions
from txns_spark.errors import CommitStateUnknown, TransactionConflict, translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _stage(spark: SparkSession, name: str) -> None:
    """Change three tables and do not commit."""
    spark.sql("BEGIN")
    _change(spark, name, 0)
    _say("staged")


def _commit(spark: SparkSession, name: str) -> None:
    """Change three tables and commit."""
    spark.sql("BEGIN")
    _change(spark, name, 0)
    row = spark.sql("COMMIT").first()
    assert row is not None
    _say("committed", str(row.applied))


def _stream(spark: SparkSession, name: str) -> None:
    """Commit one transaction after the other, each with an id of its own."""
    for number in count():
        spark.sql(f"BEGIN ID '{name}/{number}'")
        _change(spark, name, number)
        _say("committing", str(number))
        spark.sql("COMMIT")
        _say("committed", str(number))


def _batches(spark: SparkSession, name: str) -> None:
    """Stream into two tables; stay between the COMMIT of a batch and Spark's own checkpoint."""
    folder = Path(name)

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.writeTo("lake.db.batches").append()
        batch.groupBy().count().writeTo("lake.db.sizes").append()
        _say("writing", str(batch_id))

    once = txns_spark.foreach_batch(write)

    def write_and_wait(batch: DataFrame, batch_id: int) -> None:
        once(batch, batch_id)
        _say("committed", str(batch_id))
        if sys.stdin.readline().strip() != "go":
            sys.exit(1)

    (
        spark.readStream.schema("id BIGINT")
        .option("maxFilesPerTrigger", "1")
        .json(str(folder / "source"))
        .writeStream.foreachBatch(write_and_wait)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    _say("done")


def _bank(spark: SparkSession, name: str) -> None:
    """Commit one transaction of the bank after the other; what lost a race, as an append."""
    for move in bank.moves(name, sys.maxsize, seed=0):
        _say("begins", move.label)
        try:
            with translated():
                bank.commit_by_spark(spark, move)
        except TransactionConflict:
            spark.sql("ROLLBACK")
            # An append conflicts with nothing: a slow driver gets to its end beside fast ones.
            bank.win_by_spark(spark, move._replace(transfers=False))
        _say("committed", move.label)


def _append(spark: SparkSession, name: str) -> None:
    """Append to the tables of a test of faults, as fault_program does; it says the same."""
    tables = spark.conf.get("spark.txns.test.tables").split()
    stopped = fault_program.stop_at_line()
    for number in count(1):
        if stopped.is_set():
            return
        _append_until_known(spark, f"{name}/{number}", tables)


def _append_until_known(spark: SparkSession, txn_id: str, tables: list[str]) -> None:
    while True:
        try:
            with translated():
                spark.sql(f"BEGIN ID '{txn_id}'")
                for table in tables:
                    spark.sql(f"INSERT INTO lake.{table} VALUES ('{txn_id}')")
                spark.sql("COMMIT")
        except TransactionConflict:
            fault_program.say("refused", txn_id)
            spark.sql("ROLLBACK")
            return
        except CommitStateUnknown:
            fault_program.say("unknown", txn_id)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is no outcome
            words = " ".join(str(error).split())[:600]
            fault_program.say("failed", txn_id, type(error).__name__, words)
        else:
            fault_program.say("committed", txn_id)
            return
        with suppress(Exception):  # it says 08007 and 25000 where the commit may have landed
            spark.sql("ROLLBACK")
        time.sleep(fault_program.PAUSE_S)


def _roles(spark: SparkSession, name: str) -> None:
    """Run statements, a line of JSON each: a role of the database, and the statement of it."""
    del name
    of_role: dict[str, SparkSession] = {}
    uri = spark.conf.get("spark.sql.catalog.lake.uri")
    for line in sys.stdin:
        role, statement = json.loads(line)
        if role not in of_role:
            of_role[role] = spark.newSession()
            own = uri.replace("user=postgres", f"user={role}")
            of_role[role].conf.set("spark.sql.catalog.lake.uri", own)
            initialize = str(role == "postgres").lower()
            of_role[role].conf.set("spark.sql.catalog.lake.jdbc.init-catalog-tables", initialize)
        try:
            found = [tuple(row) for row in of_role[role].sql(statement).collect()]
            print(json.dumps(["rows", found], default=str), flush=True)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is what a user sees
            print(json.dumps(["error", str(error)]), flush=True)


def _warm(spark: SparkSession, name: str) -> None:
    """Do once what tests do: tables, rows, a transaction, reads."""
    spark.sql("CREATE NAMESPACE lake.db")
    spark.sql(f"CREATE TABLE lake.db.{name} (id BIGINT, v BIGINT) USING iceberg")
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO lake.db.{name} VALUES (1, 0), (2, 0)")
    spark.sql(f"UPDATE lake.db.{name} SET v = 1 WHERE id = 1")
    spark.sql("COMMIT")
    spark.table(f"lake.db.{name}").groupBy("v").count().collect()


def _change(spark: SparkSession, name: str, number: int) -> None:
    spark.sql(f"INSERT INTO lake.db.a VALUES ('{name}', {number})")
    spark.sql(f"INSERT INTO lake.db.b VALUES ('{name}', {number})")
    spark.sql("UPDATE lake.db.counter SET n = n + 1")


def _say(*words: str) -> None:
    print(*words, flush=True)


def main() -> None:
    """Run `what` in a lake: arguments are what, the lake's folder, a name, options as JSON."""
    what, folder, name, options = sys.argv[1:]
    spark = sessions.start(Path(folder), **json.loads(options))
    parts = {
        "stage": _stage,
        "commit": _commit,
        "stream": _stream,
        "batches": _batches,
        "bank": _bank,
        "warm": _warm,
        "append": _append,
        "roles": _roles,
    }
    parts[what](spark, name)
    sys.stdin.read()


if __name__ == "__main__":
    main()
