"""What is run again, and what is not: beside lost races, in test_transactions."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from dbt.adapters.txns import connections
from dbt.adapters.txns.handle import Handle, HandleCursor
from dbt.tests.util import run_dbt, run_dbt_and_capture

from integration_tests.compliance.dbt.reading import rows
from txns_spark import dbapi
from txns_spark.dbapi._spark import ClassicSession

if TYPE_CHECKING:
    from collections.abc import Callable

FACTS = """
{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='id',
          transaction=var('transaction', 'model')) }}
select id, '{{ var("run", "first") }}' as run from range(2)
"""
INSERT = "insert into `lake`.`{schema}`.`facts` ("
HALF_WAY = """
{% materialization incremental, adapter='txns' %}
  {% call statement('main', auto_begin=True) -%} delete from {{ this }} {%- endcall %}
  {% do exceptions.raise_compiler_error('half-way') %}
{% endmaterialization %}
"""
LONG = """
{{ config(materialized='incremental', incremental_strategy='append',
          isolation='SERIALIZABLE') }}
select id, length(reflect('java.lang.Thread', 'sleep', ms)) as slept
from {{ target.database }}.{{ target.schema }}.waits
"""
BATCHED = """
{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='at',
          batch_size='day', begin='2026-01-01') }}
select timestamp '2026-01-01 12:00:00' as at
"""

COMMITTED = """
{{ config(materialized='incremental', incremental_strategy='append',
          post_hook=['commit', 'insert into {{ this }} select 7']) }}
select id from range(2)
"""


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, list[Exception]], list[str]]:
    """Let statements that hold some words fail, once for each of some errors."""

    def arrange(words: str, errors: list[Exception]) -> list[str]:
        real = HandleCursor.execute
        sent: list[str] = []

        def execute(cursor: HandleCursor, sql: str, bindings: Any = None) -> None:
            if words in sql:
                sent.append(sql)
                if len(sent) <= len(errors):
                    raise errors[len(sent) - 1]
            real(cursor, sql, bindings)

        monkeypatch.setattr(HandleCursor, "execute", execute)
        return sent

    return arrange


class TestRetries:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"facts.sql": FACTS}

    @pytest.fixture(autouse=True)
    def _built(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        run_dbt(["run", "--full-refresh"])
        assert [(0, "first"), (1, "first")] == rows(project, "facts")
        monkeypatch.setattr("dbt.adapters.txns.impl._WAIT_MS_MAX", 0)

    @pytest.mark.parametrize(
        "error",
        [
            dbapi.OperationalError("a job has failed: division by zero in a UDF"),
            *(
                pytest.param(each, marks=pytest.mark.slow)
                for each in (
                    dbapi.ProgrammingError("no such column", sqlstate="42703"),
                    dbapi.DataError("division by zero", sqlstate="22012"),
                    dbapi.OperationalError("cancelled", sqlstate="57014"),
                    dbapi.OperationalError("out of memory", sqlstate="53200"),
                    dbapi.ProgrammingError("too old", sqlstate="25P04"),
                )
            ),
        ],
    )
    def test_what_would_fail_again(self, project: Any, failing: Any, error: Exception) -> None:
        """Only a lost race and a lost session are no fault of the model's own."""
        sent = failing(INSERT.format(schema=project.test_schema), [error])
        run_dbt(["run", "--vars", "run: second"], expect_pass=False)
        assert 1 == len(sent)
        assert [(0, "first"), (1, "first")] == rows(project, "facts")

    def test_a_commit_that_fails_otherwise(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A failure of the server may come after the swap: only a lost race is sure."""
        sent: list[int] = []

        def commit(handle: Handle) -> dbapi.Status:
            sent.append(1)
            handle.connection.rollback()
            raise dbapi.OperationalError("an executor")

        monkeypatch.setattr(Handle, "commit", commit)
        run_dbt(["run", "--vars", "run: second"], expect_pass=False)
        assert [1] == sent
        assert [(0, "first"), (1, "first")] == rows(project, "facts")

    def test_a_session_that_is_found_lost_after_an_error(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        Nothing of it is committed, and the driver says so: the model is run again.

        1. A Spark that dies fails a statement. 2. Who asks what is open finds the session gone.
        """
        real = ClassicSession.run
        left = [
            (INSERT.format(schema=project.test_schema), dbapi.OperationalError("a job is aborted")),
            ("SHOW TRANSACTION", dbapi.ConnectionLost("gone")),
        ]

        def run(session: ClassicSession, sql: str, parameters: Any) -> Any:
            if left and left[0][0] in sql:
                raise left.pop(0)[1]
            return real(session, sql, parameters)

        monkeypatch.setattr(ClassicSession, "run", run)
        run_dbt(["run", "--vars", "run: second"])
        assert [] == left
        assert [(0, "second"), (1, "second")] == rows(project, "facts")

    def test_a_server_that_comes_back_later(
        self, project: Any, failing: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The session is lost, and the first attempt to open another fails."""
        sent = failing(INSERT.format(schema=project.test_schema), [dbapi.ConnectionLost("gone")])
        real = connections.connect
        refused: list[str] = []

        def connect(credentials: Any) -> Handle:
            if sent and not refused:
                refused.append("once")
                raise dbapi.OperationalError("connection refused", sqlstate="08001")
            return real(credentials)

        monkeypatch.setattr(connections, "connect", connect)
        _, log = run_dbt_and_capture(["run", "--vars", "run: second"])
        assert ["once"] == refused
        assert "attempt 2 of 4 is run again" in log
        assert [(0, "second"), (1, "second")] == rows(project, "facts")

    @pytest.mark.slow
    def test_without_transactions_what_a_failure_leaves_is_in_nobodys_way(
        self, project: Any, failing: Any
    ) -> None:
        insert = INSERT.format(schema=project.test_schema)
        failing(insert, [dbapi.DataError("division by zero", sqlstate="22012")])
        none = ["--vars", "{run: second, transaction: none}"]
        run_dbt(["run", *none], expect_pass=False)
        tables = project.run_sql("show tables in {database}.{schema}", fetch="all")
        assert ["facts"] == [row[1] for row in tables]
        run_dbt(["run", *none])
        assert [(0, "second"), (1, "second")] == rows(project, "facts")


class TestCommittedByAHook:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"facts.sql": COMMITTED}

    def test_what_a_hook_has_committed_is_not_run_again(
        self, project: Any, failing: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        The model's rows would be there twice.

        1. A hook commits what the model has written. 2. A hook after it loses a race.
        """
        monkeypatch.setattr("dbt.adapters.txns.impl._WAIT_MS_MAX", 0)
        lost = dbapi.TransactionConflict("lost a race", sqlstate="40001")
        sent = failing("select 7", [lost, lost])
        run_dbt(["run"], expect_pass=False)
        assert 1 == len(sent)
        assert [(0,), (1,)] == rows(project, "facts")


class TestBatchesOfOtherMaterializations:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"batched.sql": BATCHED}

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {"half_way.sql": HALF_WAY}

    def test_half_a_batch_is_not_committed(self, project: Any) -> None:
        """A batch's error is caught by dbt before it says that the model is over."""
        project.run_sql("create table {database}.{schema}.batched as select 1 as id")
        span = ["--event-time-start", "2026-01-01", "--event-time-end", "2026-01-02"]
        _, log = run_dbt_and_capture(["run", *span], expect_pass=False)
        assert "half-way" in log
        assert "adapter.in_transaction" in log
        assert [(1,)] == rows(project, "batched")


NESTED = """
{% macro insert_inner() %}
  {% call statement('main') -%} insert into {{ this }} (what) values ('inner') {%- endcall %}
{% endmacro %}
{% macro insert_both() %}
  {% call statement('outer') -%} insert into {{ this }} (what) values ('outer') {%- endcall %}
  {% do adapter.in_transaction(insert_inner, this) %}
  {% if var('fails', false) %} {% do exceptions.raise_compiler_error('late') %} {% endif %}
  {% do return([this.incorporate(type='table')]) %}
{% endmacro %}
{% materialization nested, adapter='txns' %}
  {% set relations = adapter.in_transaction(insert_both, this) %}
  {{ return({'relations': relations}) }}
{% endmaterialization %}
"""


class TestNested:
    """A macro that is run again as a whole may be made of others that may."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"nested.sql": "{{ config(materialized='nested') }} select 1"}

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {"nested.sql": NESTED}

    def test_all_of_it_or_none(
        self, project: Any, other: dbapi.Connection, at_first_commit: Any
    ) -> None:
        project.run_sql("create table {database}.{schema}.nested (what string)")
        run_dbt(["run", "--vars", "fails: true"], expect_pass=False)
        assert [] == rows(project, "nested")
        table = f"lake.{project.test_schema}.nested"
        at_first_commit(lambda: other.cursor().execute(f"alter table {table} add column more int"))
        _, log = run_dbt_and_capture(["run"])
        assert "attempt 1 of 4 is run again" in log
        assert ["inner", "outer"] == [row[0] for row in rows(project, "nested")]


class TestRehearsal:
    """A profile's setting has models lose, so that people see what that looks like."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"facts.sql": FACTS, "others.sql": FACTS}

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
        rehearsed = {"spark.sql.txns.rehearse-conflicts": 1}
        return dbt_profile_target | {"threads": 1, "server_side_parameters": rehearsed}

    def test_models_lose_and_are_run_again(self, project: Any) -> None:
        _, log = run_dbt_and_capture(["run"])
        assert 2 == log.count("attempt 1 of 4 is run again") == log.count("this is a rehearsal")
        assert "attempt 2 of 4" not in log
        for model in ("facts", "others"):
            assert [(0, "first"), (1, "first")] == rows(project, model)


class TestWhileItRuns:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
        """Sessions that are told early; those of tests are not."""
        early = {"spark.sql.txns.early-doom": "true"}
        return dbt_profile_target | {"server_side_parameters": early}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"long.sql": LONG}

    def test_a_model_that_has_lost_is_stopped(
        self, project: Any, other: dbapi.Connection, failing: Any
    ) -> None:
        """
        And run again, as by the error of its COMMIT.

        1. A model runs, for ten minutes. 2. Somebody writes what it has read.
        """
        waits = f"lake.{project.test_schema}.waits"
        other.cursor().execute(f"create table {waits} as select 1 as id, bigint(0) as ms")
        run_dbt(["run"])
        other.cursor().execute(f"update {waits} set ms = 600000")
        sent = failing("insert into", [])

        def write() -> None:
            while not sent:
                time.sleep(0.1)
            time.sleep(2)
            other.cursor().execute(f"update {waits} set ms = 0")

        somebody = threading.Thread(target=write)
        somebody.start()
        _, log = run_dbt_and_capture(["run"])
        somebody.join()
        assert 2 == len(sent)
        assert "attempt 1 of 4 is run again" in log
        assert "a table that it read was written" in log
        assert [(1, 4), (1, 4)] == rows(project, "long")
