"""A transaction that nobody ends: with its session, its connection, its driver, or by time."""

from __future__ import annotations

import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from integration_tests import front_ends, servers
from integration_tests.checks import affected as affected_in_session
from integration_tests.checks import count, one, refused, rows, state
from integration_tests.front_ends import SqlError, affected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from integration_tests.servers import ConnectServer, ThriftServer

_PATIENCE_S = 30


def _files(session: SparkSession, table: str) -> set[Path]:
    """Return the data files and manifests below a table's folder, whoever refers to them."""
    location = session.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").first()
    assert location is not None
    folder = Path(urlsplit(location.data_type).path)
    return {path for path in folder.rglob("*") if path.suffix in {".parquet", ".avro"}}


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it has not come true"
        time.sleep(0.2)


# ------------------------------------------------------------ the end of a session


@pytest.mark.parametrize("kind", ["connect", "thrift"])
def test_a_closed_session_leaves_nothing(
    kind: str,
    request: pytest.FixtureRequest,
    spark: SparkSession,
    two_tables: tuple[str, str],
) -> None:
    """Closing the session undoes its open transaction and deletes its files; others go on."""
    a, b = two_tables
    server: ConnectServer | ThriftServer = request.getfixturevalue(f"{kind}_server")
    make = front_ends.Connect if kind == "connect" else front_ends.Thrift
    front_end = make(server)  # type: ignore[arg-type]
    leaving, staying = front_end.client(), front_end.client()
    before = _files(spark, a)
    leaving.run("BEGIN")
    affected(leaving, f"INSERT INTO {a} VALUES (3, 0)")
    staying.run("BEGIN")
    affected(staying, f"INSERT INTO {b} VALUES (3, 0)")
    assert before < _files(spark, a)
    leaving.close()
    _until(lambda: _files(spark, a) == before)
    staying.run("COMMIT")
    assert (2, 3) == (count(spark, a), count(spark, b))
    staying.close()
    front_end.close()


def test_a_lost_connection(
    spark: SparkSession, thrift_server: ThriftServer, two_tables: tuple[str, str]
) -> None:
    """A connection that breaks without goodbye ends its transaction as well."""
    a, _ = two_tables
    client = front_ends.Thrift(thrift_server).client()
    before = _files(spark, a)
    client.run("BEGIN")
    affected(client, f"INSERT INTO {a} VALUES (3, 0)")
    assert before < _files(spark, a)
    client._connection._transport.close()
    _until(lambda: _files(spark, a) == before)
    assert 2 == count(spark, a)


@pytest.mark.slow
def test_the_end_of_a_program(
    spark: SparkSession, lake_folder: Path, tmp_path: Path, two_tables: tuple[str, str]
) -> None:
    """A program that ends inside a transaction leaves nothing."""
    a, _ = two_tables
    before = _files(spark, a)
    client = front_ends.SparkSql(lake_folder, tmp_path / "log").client()
    client.run("BEGIN")
    affected(client, f"INSERT INTO {a} VALUES (3, 0)")
    assert before < _files(spark, a)
    client.close()
    assert before == _files(spark, a)
    assert 2 == count(spark, a)


@pytest.mark.slow
def test_a_file_that_fails_half_way(
    spark: SparkSession, lake_folder: Path, tmp_path: Path, two_tables: tuple[str, str]
) -> None:
    """`spark-sql -f` stops at the first error: what its transaction wrote is gone."""
    a, _ = two_tables
    before = _files(spark, a)
    script = tmp_path / "script.sql"
    script.write_text(f"BEGIN; INSERT INTO {a} VALUES (3, 0); SELECT raise_error('no'); COMMIT;")
    ran = subprocess.run(
        [*servers.spark_submit(servers.SPARK_SQL, lake_folder), "-f", str(script)],
        cwd=lake_folder,
        env=servers.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode != 0
    assert "USER_RAISED_EXCEPTION" in ran.stderr
    assert before == _files(spark, a)
    assert 2 == count(spark, a)


# ------------------------------------------------------------ time


def test_an_idle_transaction(spark: SparkSession, two_tables: tuple[str, str]) -> None:
    """After the time-out it is undone; nothing goes on as if it had not been, until ROLLBACK."""
    a, _ = two_tables
    before = _files(spark, a)
    spark.sql("SET `spark.sql.txns.idle-timeout-s` = 1")
    spark.sql("BEGIN")
    spark.sql("SAVEPOINT s")
    affected_in_session(spark, f"INSERT INTO {a} VALUES (3, 0)")
    time.sleep(2.5)
    assert "aborted" == state(spark)
    for statement in (
        f"INSERT INTO {a} VALUES (4, 0)",
        f"SELECT * FROM {a}",
        "ROLLBACK TO s",
        "COMMIT",
    ):
        with refused("25P03") as refusal:
            spark.sql(statement)
        assert "idle-timeout-s" in refusal.error.message
    assert "rolled back" == one(spark, "ROLLBACK").state
    assert before == _files(spark, a)
    assert [(1, 0), (2, 0)] == rows(spark, f"SELECT * FROM {a}")


def test_a_long_query_is_not_idle(spark: SparkSession, two_tables: tuple[str, str]) -> None:
    """A statement may run longer than the time-out; statements that keep coming do, too."""
    a, _ = two_tables
    spark.sql("SET `spark.sql.txns.idle-timeout-s` = 1")
    spark.sql("BEGIN")
    affected_in_session(spark, f"INSERT INTO {a} VALUES (3, 0)")
    slow = "java_method('java.lang.Thread', 'sleep', 2500L)"
    spark.sql(f"SELECT {slow} FROM {a} WHERE id = 3").collect()
    for _turn in range(4):
        time.sleep(0.4)
        assert "active" == state(spark)
    assert "committed" == one(spark, "COMMIT").state
    assert 3 == count(spark, a)


def test_what_is_over_is_let_go(spark: SparkSession, two_tables: tuple[str, str]) -> None:
    """Who waits whether a transaction is idle keeps none alive: each holds its tables' metadata."""
    a, _ = two_tables
    for number in range(20):
        spark.sql("BEGIN")
        spark.sql(f"INSERT INTO {a} VALUES ({number}, 0)")
        spark.sql("COMMIT" if number % 2 else "ROLLBACK")
    assert _instances(spark, "io.txns.spark.session.OpenTransaction") < 20


def _instances(spark: SparkSession, name: str) -> int:
    """Count the objects of a class that the driver cannot collect."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    server = jvm.java.lang.Class.forName("javax.management.MBeanServerConnection")
    invoke = next(each for each in server.getMethods() if each.getName() == "invoke")
    arguments, types = gateway.new_array(jvm.Object, 4), gateway.new_array(jvm.String, 1)
    types[0] = "[Ljava.lang.String;"
    arguments[0] = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    arguments[1] = "gcClassHistogram"
    arguments[2] = gateway.new_array(jvm.Object, 1)
    arguments[2][0] = gateway.new_array(jvm.String, 0)
    arguments[3] = types
    beans = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    histogram = str(invoke.invoke(beans, arguments))
    lines = [line.split() for line in histogram.splitlines() if line.endswith(f" {name}")]
    return sum(int(line[1]) for line in lines)


@pytest.mark.parametrize("value", ["soon", "-1", "1.5"])
def test_a_wrong_time_out(spark: SparkSession, value: str) -> None:
    """A value that is none is refused by BEGIN, by name."""
    spark.sql(f"SET `spark.sql.txns.idle-timeout-s` = {value}")
    with refused("42000") as refusal:
        spark.sql("BEGIN")
    assert "idle-timeout-s" in refusal.error.message
    assert "none" == state(spark)


# ------------------------------------------------------------ many sessions


@pytest.mark.slow
def test_64_sessions(
    new_session: Callable[[], SparkSession], spark: SparkSession, two_tables: tuple[str, str]
) -> None:
    """
    64 sessions of one JVM, each in a transaction of its own at the same time.

    All begin and write before the first one commits, and a half of them rolls back: nobody
    sees or hinders anybody else, and what threads run a session's statements does not matter.
    Those that commit have not looked: who reads a table and appends to it clashes.
    An INSERT of one more session runs from before they begin until after they have ended.
    """
    a, b = two_tables
    sessions = [new_session() for _ in range(64)]
    begin = "BEGIN ISOLATION LEVEL SNAPSHOT"
    with _long_insert(new_session(), begin, b), ThreadPoolExecutor(8) as pool:
        begun = list(pool.map(lambda session: one(session, begin).txn_id, sessions))
        assert 64 == len(set(begun))

        def write(number: int) -> None:
            affected_in_session(sessions[number], f"INSERT INTO {a} VALUES ({100 + number}, 1)")

        def read(number: int) -> None:
            own = rows(sessions[number], f"SELECT id FROM {a} WHERE id >= 100")
            assert [(100 + number,)] == own

        def end(number: int) -> None:
            session = sessions[number]
            assert begun[number] == one(session, "SHOW TRANSACTION").txn_id
            session.sql("COMMIT" if number % 2 else "ROLLBACK")
            assert "none" == state(session)

        for step in (write, read, end):
            list(pool.map(step, range(0, 64, 2) if step is read else range(64)))
        expected = [(100 + number,) for number in range(1, 64, 2)]
        assert expected == rows(spark, f"SELECT id FROM {a} WHERE id >= 100")
        assert 2 == count(spark, b)
    assert 3 == count(spark, b)


@contextmanager
def _long_insert(session: SparkSession, begin: str, table: str) -> Iterator[None]:
    """Let a transaction of the session insert one row: it ends with the block, or after 500 s."""
    system = session.sparkContext._jvm.java.lang.System  # type: ignore[union-attr]
    gate = f"txns.test.gate.{uuid.uuid4()}"
    wait = (
        f"IF(java_method('java.lang.System', 'getProperty', '{gate}') = 'null',"
        " java_method('java.lang.Thread', 'sleep', 50L), NULL)"
    )
    insert = (
        f"INSERT INTO {table} SELECT 99, max(length(coalesce(waited, '')))"
        f" FROM (SELECT {wait} AS waited FROM range(0, 10000, 1, 1))"
    )
    with ThreadPoolExecutor(1) as pool:
        session.sql(begin)
        inserting = pool.submit(affected_in_session, session, insert)
        try:
            yield
            assert not inserting.done(), "the others waited for it"
        finally:
            system.setProperty(gate, "open")
        assert 1 == inserting.result(_PATIENCE_S)
        assert "committed" == one(session, "COMMIT").state


def test_a_statement_does_not_outlive_its_transaction(
    spark: SparkSession, two_tables: tuple[str, str]
) -> None:
    """
    A race that the user loses with an error.

    1. A thread runs an INSERT in a session's transaction; its tasks run.
    2. Another thread rolls the transaction back.
    3. The INSERT ends with an error: it does not commit by itself, and leaves no file.
    """
    a, _ = two_tables
    before = _files(spark, a)
    slow = "java_method('java.lang.Thread', 'sleep', 1000L)"
    spark.sql("BEGIN")
    with ThreadPoolExecutor(1) as pool:
        insert = pool.submit(
            spark.sql,
            f"INSERT INTO {a} SELECT id, length(coalesce({slow}, '')) FROM range(0, 6, 1, 1)",
        )
        _until(lambda: bool(spark.sparkContext.statusTracker().getActiveJobsIds()))
        spark.sql("ROLLBACK")
        with refused("25P01"):
            insert.result()
    assert 2 == count(spark, a)
    assert before == _files(spark, a)


def test_an_error_format_for_jdbc(
    thrift_server: ThriftServer, spark: SparkSession, table: str
) -> None:
    """Without a client's own setting the message tells condition and SQLSTATE."""
    del spark, table
    client = front_ends.Thrift(thrift_server).client()
    client.run("SET spark.sql.error.messageFormat=PRETTY")
    with pytest.raises(SqlError) as caught:
        client.run("COMMIT")
    assert "25P01" == caught.value.sqlstate
    assert "[TXNS_INVALID_USAGE]" in str(caught.value)
    client.close()
