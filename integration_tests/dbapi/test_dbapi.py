"""PEP 249 over a Spark session: the same over this process, Spark Connect and Thrift."""

from __future__ import annotations

import datetime as dt
import threading
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from integration_tests import sessions
from integration_tests.ways import DRIVERS, through
from txns_spark import dbapi, errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    Open = Callable[..., dbapi.Connection]

pytestmark = pytest.mark.sampled

UTC = dt.UTC
CEST = dt.timezone(dt.timedelta(hours=2))
VALUES: list[tuple[str, Any]] = [
    ("BOOLEAN", True),
    ("INT", -7),
    ("BIGINT", -(2**63)),
    ("FLOAT", 0.5),
    ("DOUBLE", -1.5e300),
    ("DECIMAL(10,2)", Decimal("-1.50")),
    ("DECIMAL(38,0)", Decimal(10**38 - 1)),
    ("STRING", "plain"),
    ("STRING", "quote ' double \" back \\ tick ` nul \x00 line \n dollar ${x} ? -- /* é 😀"),
    ("STRING", ""),
    ("BINARY", b"\x00\xff'"),
    ("DATE", dt.date(1, 1, 1)),
    ("DATE", dt.date(9999, 12, 31)),
    ("TIMESTAMP_NTZ", dt.datetime(1583, 1, 1, 1, 2, 3, 4)),  # noqa: DTZ001  (has no zone)
    ("TIMESTAMP", dt.datetime(2020, 6, 1, 12, 0, 0, 123456, tzinfo=CEST)),
    ("ARRAY<BIGINT>", [1, None, 3]),
    ("ARRAY<STRING>", []),
    ("MAP<STRING,DECIMAL(5,2)>", {"a": Decimal("1.25"), "it's": None}),
    ("STRUCT<a:BIGINT,b:ARRAY<DATE>>", dbapi.Struct(a=1, b=[dt.date(2020, 2, 29)])),
    ("STRUCT<t:TIMESTAMP,x:BINARY>", dbapi.Struct(t=dt.datetime(2020, 1, 1, tzinfo=UTC), x=b"1")),
]


def test_each_type_comes_back_as_it_was_bound(open_connection: Open, table: str) -> None:
    connection = open_connection()
    cursor = connection.cursor()
    columns = ", ".join(f"c{i} {kind}" for i, (kind, _) in enumerate(VALUES))
    cursor.execute(f"CREATE TABLE {table} ({columns}) USING iceberg")
    markers = ", ".join(["?"] * len(VALUES))
    row = tuple(value for _, value in VALUES)
    cursor.execute(f"INSERT INTO {table} VALUES ({markers})", row)
    assert 1 == cursor.rowcount
    assert cursor.description is None
    cursor.executemany(f"INSERT INTO {table} VALUES ({markers})", [row, (None,) * len(row)])
    assert 2 == cursor.rowcount

    cursor.execute(f"SELECT * FROM {table} ORDER BY c0 NULLS LAST")
    assert [row, row, (None,) * len(row)] == cursor.fetchall()
    described = [column.type_code.upper() for column in cursor.description or ()]
    assert [kind.upper() for kind, _ in VALUES] == described
    assert 3 == cursor.rowcount

    cursor.execute("SELECT ? AS span, ? AS nothing", (dt.timedelta(days=-1, microseconds=5), None))
    assert [(dt.timedelta(days=-1, microseconds=5), None)] == cursor.fetchall()
    assert cursor.description is not None
    assert cursor.description[0].type_code == dbapi.DATETIME


def test_a_transaction_is_all_or_nothing(open_connection: Open, table: str) -> None:
    """The first statement begins, commit and rollback end, others see only what committed."""
    one, other = open_connection(), open_connection(autocommit=True)
    seen = other.cursor()
    cursor = one.cursor()
    assert not one.in_transaction
    one.rollback()
    one.commit()
    cursor.execute(f"CREATE TABLE {table} (id BIGINT, v BIGINT) USING iceberg")
    assert one.in_transaction
    one.commit()
    assert one.last_status is not None
    assert ("committed", True) == (one.last_status.state, one.last_status.applied)

    cursor.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(i, 0) for i in range(5)])
    one.savepoint("a`b")
    cursor.execute(f"UPDATE {table} SET v = 1 WHERE id < ?", (3,))
    assert 3 == cursor.rowcount
    cursor.execute(f"DELETE FROM {table} WHERE id = ?", (4,))
    assert 1 == cursor.rowcount
    one.rollback_to_savepoint("a`b")
    cursor.execute(f"SELECT count(*), sum(v) FROM {table}")
    assert (5, 0) == cursor.fetchone()
    assert cursor.fetchone() is None
    assert [(0,)] == seen.execute(f"SELECT count(*) FROM {table}").fetchall()
    one.release_savepoint("a`b")
    one.commit()
    assert [(5,)] == seen.execute(f"SELECT count(*) FROM {table}").fetchall()

    cursor.execute(f"DELETE FROM {table}")
    one.close()
    one.close()
    assert [(5,)] == seen.execute(f"SELECT count(*) FROM {table}").fetchall()
    with pytest.raises(dbapi.InterfaceError, match="closed"):
        cursor.execute("SELECT 1")


def test_has_table_sees_the_transaction_and_begins_none(open_connection: Open, table: str) -> None:
    """What create_all asks for each table; on Thrift only a statement can tell."""
    connection, other = open_connection(), open_connection()
    knows = (True, False) if connection.driver != "thrift" else (None, None)
    assert knows[1] == connection.has_table(table)
    assert not connection.in_transaction
    connection.cursor().execute(f"CREATE TABLE {table} (id INT) USING iceberg")
    assert knows == (connection.has_table(table), other.has_table(table))
    connection.commit()
    assert knows[0] == other.has_table(table)


@through("open_connection", "session", DRIVERS)
def test_a_savepoint_may_be_the_first_statement(open_connection: Open) -> None:
    """As of SQLAlchemy's begin_nested, which sends it as SQL."""
    connection = open_connection()
    cursor = connection.cursor()
    cursor.execute("SAVEPOINT a")
    assert connection.in_transaction
    cursor.execute("ROLLBACK TO SAVEPOINT a")
    connection.rollback()
    assert not connection.in_transaction


def test_a_lost_race_is_an_operational_error(open_connection: Open, table: str) -> None:
    """
    Two change the same row.

    1. Two transactions change it.
    2. The first commits, the second gets 40001 and is rolled back.
    3. Its connection goes on with the next transaction.
    """
    one, other = open_connection(isolation_level="snapshot"), open_connection()
    one.cursor().execute(f"CREATE TABLE {table} (id BIGINT, v BIGINT) USING iceberg")
    one.cursor().execute(f"INSERT INTO {table} VALUES (1, 0)")
    one.commit()
    for connection in (one, other):
        connection.cursor().execute(f"UPDATE {table} SET v = v + 1")
    one.commit()
    with pytest.raises(dbapi.OperationalError) as caught:
        other.commit()
    error = caught.value
    assert isinstance(error, errors.TransactionConflict)
    assert ("40001", "40001") == (error.sqlstate, error.pgcode)
    assert table.removeprefix("lake.") == error.table
    assert other.transaction_id == error.txn_id
    assert one.transaction_id == error.other_txn_id
    words = ("no such", "not found", "not exist", "unknown")
    assert not any(word in str(error).lower() for word in words)
    assert not other.in_transaction
    other.cursor().execute(f"UPDATE {table} SET v = v + 1")
    other.commit()
    assert [(2,)] == one.cursor().execute(f"SELECT v FROM {table}").fetchall()


@pytest.mark.parametrize(
    ("sql", "kind", "sqlstate"),
    [
        ("SELECT 1/0", dbapi.DataError, "22012"),
        ("SELECT CAST('x' AS INT)", dbapi.DataError, "22018"),
        ("SELEC 1", dbapi.ProgrammingError, "42601"),
        ("SELECT * FROM nowhere_at_all", dbapi.ProgrammingError, "42P01"),
        ("RELEASE SAVEPOINT nobody", dbapi.ProgrammingError, "25P01"),
        (
            "CREATE TABLE {table} (id BIGINT CHECK (id > 0)) USING iceberg",
            dbapi.NotSupportedError,
            "0A000",
        ),
        ("INSERT INTO {table} VALUES (CAST(NULL AS BIGINT))", dbapi.IntegrityError, None),
    ],
)
def test_an_error_has_the_class_of_its_sqlstate(
    open_connection: Open, table: str, sql: str, kind: type[dbapi.Error], sqlstate: str | None
) -> None:
    connection = open_connection(autocommit=True)
    cursor = connection.cursor()
    if sql.startswith("INSERT"):
        cursor.execute(f"CREATE TABLE {table} (id BIGINT NOT NULL) USING iceberg")
    with pytest.raises(kind) as caught:
        cursor.execute(sql.format(table=table)).fetchall()
    if sqlstate is not None:
        assert sqlstate == caught.value.sqlstate


def test_a_failed_write_aborts_until_rollback(open_connection: Open, table: str) -> None:
    connection = open_connection()
    cursor = connection.cursor()
    cursor.execute(f"CREATE TABLE {table} (id BIGINT) USING iceberg")
    with pytest.raises(dbapi.DataError):
        cursor.execute(f"INSERT INTO {table} SELECT 1/0")
    with pytest.raises(dbapi.ProgrammingError) as caught:
        connection.commit()
    assert "25P02" == caught.value.sqlstate
    assert not connection.in_transaction
    with pytest.raises(dbapi.ProgrammingError) as caught:
        cursor.execute(f"SELECT * FROM {table}")
    assert "42P01" == caught.value.sqlstate


def test_rows_whose_count_is_not_known(open_connection: Open, table: str) -> None:
    """A range partitioning lets Spark count twice, so there is no count."""
    connection = open_connection(autocommit=True)
    cursor = connection.cursor()
    cursor.execute(
        f"CREATE TABLE {table} USING iceberg TBLPROPERTIES ("
        "'write.update.distribution-mode' = 'range') AS SELECT id FROM range(100)"
    )
    cursor.execute(f"ALTER TABLE {table} WRITE ORDERED BY id")
    cursor.execute("SET spark.sql.shuffle.partitions = 2")
    cursor.execute(f"UPDATE {table} SET id = 300 WHERE id = ?", (1,))
    assert -1 == cursor.rowcount
    cursor.executemany(f"UPDATE {table} SET id = 400 WHERE id = ?", [(300,), (500,)])
    assert -1 == cursor.rowcount
    cursor.execute(f"UPDATE {table} SET id = 1 WHERE id = ?", (500,))
    assert 0 == cursor.rowcount


def test_rows_can_be_streamed_and_fetched_as_arrow(open_connection: Open) -> None:
    connection = open_connection()
    query = "SELECT id, CAST(id AS STRING) AS text FROM range(2500)"
    table = connection.cursor().execute(query).fetch_arrow_table()
    assert pa.schema([("id", pa.int64()), ("text", pa.string())]) == pa.schema(
        [(field.name, field.type) for field in table.schema]
    )
    assert 2500 == table.num_rows
    cursor = connection.cursor(streaming=True)
    cursor.execute(query)
    assert -1 == cursor.rowcount
    assert (0, "0") == cursor.fetchone()
    assert [(1, "1"), (2, "2")] == cursor.fetchmany(2)
    assert 2497 == len(list(cursor))
    batches = list(cursor.execute(query).fetch_record_batches())
    assert 2500 == sum(batch.num_rows for batch in batches)
    assert 1 < len(batches)
    cursor.execute(query).fetchone()
    with pytest.raises(dbapi.InterfaceError, match="fetched already"):
        list(cursor.fetch_record_batches())
    fails = "SELECT id / (id - 2400) FROM range(2500)"
    for name in ("fetchall", "fetch_arrow_table", "fetch_record_batches"):
        with pytest.raises(dbapi.DataError):
            list(getattr(cursor.execute(fails), name)())
    cursor.close()
    with pytest.raises(dbapi.InterfaceError):
        cursor.fetchone()
    with pytest.raises(dbapi.InterfaceError, match="no rows"):
        connection.cursor().fetchall()


def test_another_thread_cancels(open_connection: Open) -> None:
    connection = open_connection(autocommit=True)
    cursor = connection.cursor()
    done: list[BaseException | None] = []

    def run() -> None:
        try:
            cursor.execute(
                "SELECT count(*) FROM range(1000000) a JOIN range(300000) b ON a.id % 7 = b.id % 7"
            )
            done.append(None)
        except dbapi.Error as error:
            done.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 60
    while thread.is_alive() and time.monotonic() < deadline:
        time.sleep(1)
        cursor.cancel()
    thread.join(timeout=60)
    [error] = done
    assert isinstance(error, dbapi.DatabaseError)
    assert [(1,)] == connection.cursor().execute("SELECT 1").fetchall()


def test_an_id_commits_once_and_its_outcome_can_be_asked(open_connection: Open, table: str) -> None:
    connection = open_connection()
    cursor = connection.cursor()
    cursor.execute(f"CREATE TABLE {table} (id BIGINT) USING iceberg")
    connection.commit()
    for _ in range(2):
        connection.begin(transaction_id=f"load/{table}", comment="it's a load")
        cursor.execute(f"INSERT INTO {table} VALUES (1)")
        connection.commit()
    assert [(1,)] == cursor.execute(f"SELECT count(*) FROM {table}").fetchall()
    connection.rollback()
    found = connection.outcome(f"load/{table}")
    assert found is not None
    assert "committed" == found.state
    assert connection.outcome(f"another/{table}") is None
    connection.begin(read_only=True, as_of=found.commit_ts)
    assert [(1,)] == cursor.execute(f"SELECT count(*) FROM {table}").fetchall()
    with pytest.raises(dbapi.ProgrammingError) as caught:
        cursor.execute(f"INSERT INTO {table} VALUES (2)")
    assert "25006" == caught.value.sqlstate


@through("open_connection", "session", DRIVERS)
def test_variables_in_an_id_are_replaced_as_in_every_statement(
    open_connection: Open, table: str
) -> None:
    """
    Each day's load runs.

    1. A load names its transaction after a variable, and commits.
    2. The next day the same text stands for another id.
    """
    connection = open_connection(autocommit=True)
    cursor = connection.cursor()
    for day in (1, 2):
        cursor.execute(f"SET day = {day}")
        cursor.execute(f"BEGIN ID '{table}/${{day}}', COMMENT 'of ${{day}}'")
        assert connection.last_status is not None
        assert ("active", f"{table}/{day}") == connection.last_status[:2]
        connection.commit()
    with pytest.raises(dbapi.ProgrammingError, match="SET it before") as caught:
        cursor.execute("BEGIN ID 'load/${no_such_variable}'")
    assert "42601" == caught.value.sqlstate
    assert not connection.in_transaction


@through("open_connection", "session", DRIVERS)
def test_an_id_is_the_text_that_was_given(open_connection: Open, table: str) -> None:
    """Quotes, backslashes and what looks like a variable stay as they are, also as parameters."""
    connection = open_connection(autocommit=True)
    cursor = connection.cursor()
    cursor.execute("SET day = 1")
    txn_id = f"{table}: it's \\n ${{day}} -- ?"
    assert txn_id == connection.begin(transaction_id=txn_id, comment=txn_id).txn_id
    connection.rollback()
    cursor.execute("BEGIN ID ?, COMMENT ?", [txn_id, "plain"])
    assert txn_id == connection.transaction_id
    connection.rollback()
    assert connection.outcome(txn_id) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"catalog": "nowhere"}, "spark.sql.catalog.nowhere=io.txns.spark.TxnSparkCatalog"),
        ({"schema": "nowhere"}, "CREATE NAMESPACE lake.nowhere"),
        ({"isolation_level": "chaos"}, "STRICT SERIALIZABLE"),
    ],
)
def test_a_wrong_name_is_refused_with_the_cure(
    open_connection: Open, options: dict[str, str], words: str
) -> None:
    with pytest.raises(dbapi.ProgrammingError) as caught:
        open_connection(**options)
    assert words in str(caught.value)


@through("open_connection", "session", DRIVERS)
def test_parameters_are_counted(open_connection: Open) -> None:
    cursor = open_connection().cursor()
    with pytest.raises(dbapi.ProgrammingError, match="markers=1, parameters=2"):
        cursor.execute("SELECT ?, '?' -- ?", (dt.date(2020, 1, 1), dt.date(2020, 1, 1)))
    with pytest.raises(dbapi.ProgrammingError, match="class=object"):
        cursor.execute("SELECT ?", (object(),))


def test_connecting_makes_no_namespace(root_session: SparkSession, tmp_path: Path) -> None:
    """Without a schema, `default` is the current one where it is; nobody creates it."""
    settings = sessions.catalog_settings(tmp_path)
    config = {f"spark.sql.catalog.own.{name}": value for name, value in settings.items()}
    config["spark.sql.catalog.own"] = sessions.TXNS
    where = "SELECT current_catalog(), current_schema()"
    with dbapi.connect(root_session, catalog="own", config=config) as connection:
        cursor = connection.cursor()
        assert [("own", "")] == cursor.execute(where).fetchall()
        assert ("default",) not in cursor.execute("SHOW NAMESPACES").fetchall()
        cursor.execute("CREATE NAMESPACE default")
    with dbapi.connect(root_session, catalog="own", config=config) as connection:
        assert [("own", "default")] == connection.cursor().execute(where).fetchall()


@pytest.mark.usefixtures("root_session")
def test_a_session_has_its_options_where_spark_runs_already() -> None:
    """What only a start sets is left as it is, and other sessions are not touched."""
    config = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.driver.memory": "1234m"}
    zone = "SELECT current_timezone()"
    with dbapi.connect(config=config) as mine, dbapi.connect() as other:
        assert [("Asia/Tokyo",)] == mine.cursor().execute(zone).fetchall()
        assert [("Asia/Tokyo",)] != other.cursor().execute(zone).fetchall()
        [[_, memory]] = mine.cursor().execute("SET spark.driver.memory").fetchall()
        assert memory != "1234m"
