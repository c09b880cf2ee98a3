"""The same statements through every front end: what they return, and what they are refused with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from integration_tests import front_ends
from integration_tests.case_tables import KINDS, fill, state_of
from integration_tests.checks import affected as affected_in_session
from integration_tests.checks import count, one, rows
from integration_tests.ddl_cases import CHANGES
from integration_tests.front_ends import SqlError, affected
from integration_tests.statement_cases import STATEMENTS, Case
from integration_tests.ways import FRONT_ENDS, through

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from integration_tests.front_ends import Client, FrontEnd

STATE, TXN_ID, READ_TS, COMMIT_TS, TABLES, _, APPLIED = range(7)


@pytest.fixture(
    scope="module",
    params=[
        "classic",
        "connect",
        "thrift",
        pytest.param("spark-sql", marks=pytest.mark.slow),
    ],
)
def front_end(
    request: pytest.FixtureRequest,
    root_session: SparkSession,
    lake_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[FrontEnd]:
    """Each way in which users send SQL, over the lake that the test's sessions have."""
    made: FrontEnd
    if request.param == "classic":
        made = front_ends.Classic(root_session)
    elif request.param == "connect":
        made = front_ends.Connect(request.getfixturevalue("connect_server"))
    elif request.param == "thrift":
        made = front_ends.Thrift(request.getfixturevalue("thrift_server"))
    else:
        log = tmp_path_factory.mktemp("spark-sql") / "log"
        made = front_ends.SparkSql(lake_folder, log)
    yield made
    made.close()


@pytest.fixture
def client(front_end: FrontEnd) -> Iterator[Client]:
    """A client that leaves its transaction when the test ends."""
    made = front_end.client()
    yield made
    made.run("ROLLBACK")


def test_a_transaction(client: Client, other: SparkSession, two_tables: tuple[str, str]) -> None:
    """BEGIN .. COMMIT is seen by other processes at once and as a whole, each DML is counted."""
    a, b = two_tables
    begun = client.run("BEGIN")[0]
    assert "active" == begun[STATE]
    assert 2 == affected(client, f"INSERT INTO {a} VALUES (3, 0), (4, 0)")
    assert 4 == affected(client, f"UPDATE {a} SET v = 1")
    assert 1 == affected(client, f"DELETE FROM {b} WHERE id = 1")
    merged = client.run(
        f"MERGE INTO {b} t USING {a} s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    # affected, updated, deleted, inserted
    assert [("4", "1", "0", "3")] == merged
    assert [(1, 0), (2, 0)] == rows(other, f"SELECT * FROM {a}")
    committed = client.run("COMMIT")[0]
    assert ("committed", begun[TXN_ID]) == (committed[STATE], committed[TXN_ID])
    assert int(begun[READ_TS]) < int(committed[COMMIT_TS])
    tables = [name.removeprefix("lake.") for name in two_tables]
    assert (str(tables).replace("'", '"').replace(" ", ""), "true") == (
        committed[TABLES],
        committed[APPLIED],
    )
    for table in two_tables:
        assert [(1, 1), (2, 1), (3, 1), (4, 1)] == rows(other, f"SELECT * FROM {table}")


def test_a_rollback(client: Client, other: SparkSession, two_tables: tuple[str, str]) -> None:
    """ROLLBACK leaves nothing, and the session goes on with statements of their own."""
    a, b = two_tables
    client.run("BEGIN")
    affected(client, f"DELETE FROM {a}")
    client.run("SAVEPOINT half")
    affected(client, f"INSERT INTO {b} VALUES (3, 0)")
    client.run("ROLLBACK TO half")
    assert [("2",)] == client.run(f"SELECT count(*) FROM {b}")
    assert "rolled back" == client.run("ROLLBACK")[0][STATE]
    assert "none" == client.run("SHOW TRANSACTION")[0][STATE]
    assert 1 == affected(client, f"INSERT INTO {a} VALUES (3, 0)")
    assert (3, 2) == (count(other, a), count(other, b))


def test_a_conflict(client: Client, other: SparkSession, two_tables: tuple[str, str]) -> None:
    """A lost race is 40001 with the table and the winner as parameters, and leaves nothing."""
    a, b = two_tables
    begun = client.run("BEGIN")[0]
    affected(client, f"INSERT INTO {b} SELECT id + 10, v FROM {a}")
    affected(client, f"UPDATE {a} SET v = 1")
    winner = one(other, "BEGIN").txn_id
    affected_in_session(other, f"UPDATE {a} SET v = 2")
    other.sql("COMMIT")
    with pytest.raises(SqlError) as caught:
        client.run("COMMIT")
    error = caught.value
    assert ("40001", "TXNS_CONFLICT") == (error.sqlstate, error.condition)
    parameters = error.parameters
    assert (a.removeprefix("lake."), begun[TXN_ID], winner) == (
        parameters["table"],
        parameters["txnId"],
        parameters["otherTxnId"],
    )
    assert int(begun[READ_TS]) < int(parameters["leastTs"])
    assert "none" == client.run("SHOW TRANSACTION")[0][STATE]
    assert [(1, 2), (2, 2)] == rows(other, f"SELECT * FROM {a}")
    assert 2 == count(other, b)


def test_a_failed_statement(client: Client, two_tables: tuple[str, str]) -> None:
    """A failed write aborts the transaction until ROLLBACK: nobody commits half by accident."""
    a, _ = two_tables
    client.run("BEGIN")
    affected(client, f"INSERT INTO {a} VALUES (3, 0)")
    with pytest.raises(SqlError):
        client.run(f"UPDATE {a} SET nosuch = 1")
    for statement in (f"SELECT * FROM {a}", "COMMIT"):
        with pytest.raises(SqlError) as caught:
            client.run(statement)
        assert "25P02" == caught.value.sqlstate, statement
    client.run("ROLLBACK")
    assert [("2",)] == client.run(f"SELECT count(*) FROM {a}")


@through("front_end", "connect", FRONT_ENDS)
def test_exactly_once(client: Client, other: SparkSession, two_tables: tuple[str, str]) -> None:
    """A transaction with an id of the caller's is committed once, whoever sends it again."""
    a, _ = two_tables
    client.run(f"ALTER TABLE {a} CREATE TAG before")
    back = f"CALL lake.system.set_current_snapshot('{a.removeprefix('lake.')}', NULL, 'before')"
    for turn in range(2):
        begun = client.run(f"BEGIN ID 'once/{a}'")[0]
        assert ("active", "committed")[turn] == begun[STATE]
        assert 1 - turn == len(client.run(back))
        assert 1 - turn == affected(client, f"INSERT INTO {a} VALUES (3, 0)")
        assert "committed" == client.run("COMMIT")[0][STATE]
    assert 3 == count(other, a)


@through("front_end", "connect", FRONT_ENDS)
def test_a_block(
    client: Client, other: SparkSession, two_tables: tuple[str, str], front_end: FrontEnd
) -> None:
    """BEGIN ATOMIC ... END commits as one, or nothing of it, and leaves the session outside."""
    a, b = two_tables
    # spark-sql cuts at semicolons.
    end = "\\;" if isinstance(front_end, front_ends.SparkSql) else ";"
    inserts = f"INSERT INTO {a} VALUES (3, 0){end} INSERT INTO {b} SELECT id + 9, v FROM {a}{end}"
    assert "committed" == client.run(f"BEGIN ATOMIC {inserts} END")[0][STATE]
    assert (3, 5) == (count(other, a), count(other, b))
    with pytest.raises(SqlError):
        client.run(f"BEGIN ATOMIC {inserts} SELECT raise_error('no'){end} END")
    assert "none" == client.run("SHOW TRANSACTION")[0][STATE]
    assert (3, 5) == (count(other, a), count(other, b))


@through("front_end", "thrift", FRONT_ENDS)
def test_ddl(client: Client, other: SparkSession, table: str) -> None:
    """CREATE, ALTER and DROP are part of the transaction."""
    client.run("BEGIN")
    client.run(f"CREATE TABLE {table} USING iceberg AS SELECT 1 AS id")
    client.run(f"ALTER TABLE {table} ADD COLUMN v STRING")
    affected(client, f"INSERT INTO {table} VALUES (2, 'b')")
    name = table.rpartition(".")[2]
    assert not other.catalog.tableExists(table)
    client.run("COMMIT")
    assert [(1, None), (2, "b")] == rows(other, f"SELECT * FROM {table}")
    client.run("BEGIN")
    client.run(f"DROP TABLE {table}")
    listed = [value for row in client.run("SHOW TABLES IN lake.db") for value in row]
    assert name not in listed
    client.run("ROLLBACK")
    assert [("2",)] == client.run(f"SELECT count(*) FROM {table}")


@through("front_end", "connect", FRONT_ENDS)
def test_reads_of_one_moment(
    client: Client, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """A transaction reads what BEGIN found, also by subqueries and views of the session."""
    a, b = two_tables
    client.run(
        f"CREATE OR REPLACE TEMPORARY VIEW both_rows AS SELECT * FROM {a} UNION ALL FROM {b}"
    )
    client.run("BEGIN READ ONLY")
    other.sql("BEGIN")
    affected_in_session(other, f"INSERT INTO {a} VALUES (3, 0)")
    affected_in_session(other, f"INSERT INTO {b} VALUES (3, 0)")
    other.sql("COMMIT")
    assert [("4",)] == client.run("SELECT count(*) FROM both_rows")
    assert [("2", "2")] == client.run(
        f"SELECT (SELECT count(*) FROM {a}), (SELECT count(*) FROM {b})"
    )
    client.run("COMMIT")
    assert [("6",)] == client.run("SELECT count(*) FROM both_rows")


@through("front_end", "thrift", FRONT_ENDS)
def test_procedures(client: Client, two_tables: tuple[str, str]) -> None:
    """Procedures are called through every front end."""
    a, _ = two_tables
    assert [("0",)] == client.run(f"CALL lake.system.apply('{a.removeprefix('lake.')}')")


@through("front_end", "thrift", FRONT_ENDS)
def test_what_is_refused(client: Client, other: SparkSession, two_tables: tuple[str, str]) -> None:
    """What is no part of a transaction gets 0A000 and leaves nothing; the rest commits."""
    a, b = two_tables
    client.run("BEGIN")
    affected(client, f"INSERT INTO {a} VALUES (3, 0)")
    client.run("SAVEPOINT before")
    for statement in (
        f"DROP TABLE {b} PURGE",
        f"ALTER TABLE {b} RENAME TO {b}_renamed",
        f"CALL lake.system.rewrite_data_files('{b.removeprefix('lake.')}')",
        f"CALL lake.system.expire_snapshots('{b.removeprefix('lake.')}')",
        "CREATE TABLE spark_catalog.default.refused USING parquet AS SELECT 1 AS id",
    ):
        with pytest.raises(SqlError) as caught:
            client.run(statement)
        assert ("0A000", "TXNS_UNSUPPORTED") == (caught.value.sqlstate, caught.value.condition), (
            statement
        )
        client.run("ROLLBACK TO before")
    client.run("COMMIT")
    assert (3, 2) == (count(other, a), count(other, b))


# One of each kind of statement; test_statement_matrix runs all of them in classic sessions.
OF_EACH_KIND = [
    "insert with",
    "insert overwrite partition",
    "insert replace where",
    "update with subquery",
    "delete exists",
    "merge not matched by source",
    "truncate",
    "everything after everything",
    "add column",
    "replace partition field",
    "write ordered by",
    "set properties",
    "identifier fields",
    "branch and main",
    "tag",
    "replace table as select",
    "drop and create",
    "execute immediate",
    "time travel by snapshot",
    "update an unknown column",
    "merge twice matched",
]


@pytest.mark.slow
@pytest.mark.parametrize("front_end", ["connect", "thrift", "spark-sql"], indirect=True)
@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_a_statement_of_each_kind(
    client: Client, other: SparkSession, outsider: SparkSession, table: str, name: str
) -> None:
    """In a transaction of another process it does what it does on a plain table, or fails too."""
    number = OF_EACH_KIND.index(name)
    kind = KINDS[number % len(KINDS)]
    case = next(case for case in (*STATEMENTS, *CHANGES) if case.name == name)
    plain, ours = f"{table}_plain", f"{table}_ours"
    fill(outsider, plain, kind)
    fill(other, ours, kind)
    as_it_is = Case("", [])
    before = state_of(other, ours, as_it_is)
    assert case.error == _condition(lambda step: outsider.sql(step).collect(), plain, case)
    client.run("BEGIN")
    assert case.error == _condition(client.run, ours, case)
    assert before == state_of(other, ours, as_it_is)
    if case.error:
        client.run("ROLLBACK")
        assert before == state_of(other, ours, as_it_is)
    else:
        client.run("COMMIT")
        expected = state_of(outsider, plain, case)
        assert expected == state_of(other, ours, case)
        assert len(expected["rows"]) == len(client.run(case.rows.format(ours)))


def _condition(run: Callable[[str], object], table: str, case: Case) -> str:
    """Run a case's steps; return the condition of the error that ended it."""
    try:
        for step in case.steps:
            assert isinstance(step, str)
            run(step.format(table))
    except SqlError as error:
        return str(error.condition)
    except PySparkException as error:
        return str(error.getCondition())
    return ""
