"""What a model writes while it is compiled, and what commits before the model: done once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from dbt.adapters.txns.handle import HandleCursor
from dbt.tests.util import run_dbt, run_dbt_and_capture

from integration_tests.compliance.dbt.reading import rows
from txns_spark import dbapi
from txns_spark.dbapi._spark import ClassicSession

if TYPE_CHECKING:
    from collections.abc import Callable

# What `how` says comes right after the row that is written while the model is compiled.
AUDITED = """
{{ config(materialized=var('kind', 'incremental'), incremental_strategy='delete+insert',
          unique_key='id', transaction=var('transaction', 'model'),
          pre_hook=[{'sql': var('outside'), 'transaction': False}] if var('outside', '') else
                   var('inside', [])) }}
{% if execute %}
  {% do run_query("insert into " ~ this.include(identifier=false) ~ ".audit values ('asked')") %}
  {% if var('how', '') == 'adapter' or (var('how', '') == 'again' and
        run_query("select * from " ~ this.include(identifier=false) ~ ".audit") | length > 1) %}
    {% do adapter.commit() %}
  {% endif %}
  {% if var('how', '') == 'ask' %} {% do run_query("select 'compiled'") %} {% endif %}
  {% if var('how', '') == 'statement' %} {% do run_query('commit') %} {% endif %}
{% endif %}
select 1 as id {% if is_incremental() %} union all select 2 {% endif %}
"""
THEIR_OWN = """
{% materialization their_own, adapter='txns' %}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {% call statement('main') -%} create or replace table {{ this }} as {{ sql }} {%- endcall %}
  {{ adapter.commit() }}
  {{ return({'relations': [this.incorporate(type='table')]}) }}
{% endmaterialization %}
"""
DROPS = """
{% materialization drops, adapter='txns' %}
  {% do adapter.drop_relation(load_cached_relation(this)) %}
  {% call statement('main') -%} create or replace table {{ this }} as {{ sql }} {%- endcall %}
{% endmaterialization %}
"""
HIDDEN = "begin execute immediate 'commit'; end"
ASKED = [("asked",)]


class TestWritesWhileItIsCompiled:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"audited.sql": AUDITED}

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {"their_own.sql": THEIR_OWN, "drops.sql": DROPS}

    @pytest.fixture(autouse=True)
    def _empty(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        for what in ("table audit", "table audited"):
            project.run_sql(f"drop {what.replace(' ', ' if exists {database}.{schema}.')}")
        project.run_sql("create table {database}.{schema}.audit (what string)")
        project.run_sql("create table {database}.{schema}.audited as select 1 as id")
        monkeypatch.setattr("dbt.adapters.txns.impl._WAIT_MS_MAX", 0)

    @pytest.fixture
    def loses(self, project: Any, other: dbapi.Connection, at_commit: Any) -> Callable[..., None]:
        """Have a COMMIT that the adapter sends lose to an UPDATE of the model's table."""
        update = f"update lake.{project.test_schema}.audited set id = id"
        return lambda which=1: at_commit(which, lambda: other.cursor().execute(update))

    def test_are_the_transactions(self, project: Any, loses: Any) -> None:
        loses()
        _, log = run_dbt_and_capture(["run"])
        assert "attempt 1 of 4 is run again" in log
        assert ASKED == rows(project, "audit")

    def test_come_after_a_hook_outside(self, project: Any) -> None:
        """
        The hook comes before BEGIN, and the model is compiled again after it.

        1. the model writes a row while it is compiled;
        2. a hook is to run outside, so what was begun has to end;
        3. the model is compiled again, inside of its transaction, and writes its row again.
        """
        outside = "insert into {{ this.include(identifier=false) }}.audit values ('outside')"
        run_dbt(["run", "--vars", str({"outside": outside})])
        assert [*ASKED, ("outside",)] == rows(project, "audit")
        assert [(1,), (2,)] == rows(project, "audited")

    def test_are_not_lost_with_a_materialization_of_ones_own(self, project: Any) -> None:
        """Such a one is not compiled again: it is told so, before it has changed anything."""
        variables = {"kind": "their_own", "outside": "select 1"}
        [result] = run_dbt(["run", "--vars", str(variables)], expect_pass=False)
        assert "adapter.in_transaction" in result.message
        assert [] == rows(project, "audit")
        run_dbt(["run", "--vars", str({"kind": "their_own"})])
        assert ASKED == rows(project, "audit")

    @pytest.mark.slow
    def test_of_a_model_that_changes_its_kind(self, project: Any) -> None:
        """What steps aside does so at once, outside of any transaction."""
        run_dbt(["run", "--vars", "kind: view"])
        assert ASKED == rows(project, "audit")
        project.run_sql("drop view {database}.{schema}.audited")

    @pytest.mark.parametrize("how", ["adapter", "statement"])
    def test_that_have_committed_are_not_sent_again(
        self, project: Any, other: dbapi.Connection, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        """
        Neither because its transaction is another one, nor because that has lost.

        1. the model writes a row while it is compiled, and commits it;
        2. its transaction begins; 3. somebody updates its table: its COMMIT is refused.
        """
        real = HandleCursor.execute
        schema = project.test_schema

        def execute(cursor: HandleCursor, sql: str, bindings: Any = None) -> None:
            real(cursor, sql, bindings)
            if "`audited` (" in sql:
                other.cursor().execute(f"update lake.{schema}.audited set id = id")

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(HandleCursor, "execute", execute)
            results, log = run_dbt_and_capture(["run", "--vars", f"how: {how}"], expect_pass=False)
        assert "40001" in results.results[0].message
        assert "has committed a part of itself" in log
        assert ASKED == rows(project, "audit")
        assert 1 == len(rows(project, "audited"))
        run_dbt(["run", "--vars", f"how: {how}"])
        assert [*ASKED, *ASKED] == rows(project, "audit")

    def test_that_commit_as_it_is_compiled_again(self, project: Any, loses: Any) -> None:
        """
        As those of the first time.

        1. a hook is to run outside: the model is compiled again, writes a row and commits it;
        2. somebody updates its table: its next COMMIT, the second one that is sent, is refused.
        """
        outside = "insert into {{ this.include(identifier=false) }}.audit values ('outside')"
        loses(2)
        variables = {"how": "again", "outside": outside}
        _, log = run_dbt_and_capture(["run", "--vars", str(variables)], expect_pass=False)
        assert "has committed a part of itself" in log
        assert [*ASKED, ("outside",)] == rows(project, "audit")
        assert [(1,)] == rows(project, "audited")

    def test_of_statements_that_commit_by_themselves(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a transaction, what somebody has built since is no reason to compile again."""
        monkeypatch.setattr("dbt.adapters.txns.impl.built_by_others", lambda *_: True)
        [result] = run_dbt(["run", "--vars", "transaction: none"], expect_pass=False)
        assert "run it again" in result.message
        assert ASKED == rows(project, "audit")

    @pytest.mark.parametrize("commit", ["commit", HIDDEN])
    def test_after_a_hook_that_commits_the_rest_is_a_transaction(
        self, project: Any, monkeypatch: pytest.MonkeyPatch, commit: str
    ) -> None:
        """And is not run again when it loses: the first part would be there twice."""
        real = HandleCursor.execute
        sent: list[str] = []

        def execute(cursor: HandleCursor, sql: str, bindings: Any = None) -> None:
            real(cursor, sql, bindings)
            if "`audited` (" in sql:
                sent.append(sql)
                raise dbapi.TransactionConflict("lost", sqlstate="40001")

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(HandleCursor, "execute", execute)
            run_dbt(["run", "--vars", str({"inside": commit})], expect_pass=False)
        assert 1 == len(sent)
        assert ASKED == rows(project, "audit")
        assert [(1,)] == rows(project, "audited")

    @pytest.mark.parametrize(("commit", "unanswered"), [("commit", ""), (HIDDEN, "SHOW TRANS")])
    def test_a_commit_of_a_hook_that_nobody_answers_is_not_sent_again(
        self, project: Any, monkeypatch: pytest.MonkeyPatch, commit: str, unanswered: str
    ) -> None:
        """
        A session that is lost in any other statement has the model run again.

        1. a hook commits; 2. the session is lost, before that is told, or before it is asked for.
        """
        real = ClassicSession.run
        sent: list[str] = []

        def run(session: ClassicSession, sql: str, parameters: Any) -> Any:
            answer = real(session, sql, parameters)
            if sql.endswith(commit):
                sent.append(sql)
            if sent and sql.startswith(unanswered):
                raise dbapi.ConnectionLost("gone")
            return answer

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(ClassicSession, "run", run)
            variables = ["--vars", str({"inside": commit})]
            [result] = run_dbt(["run", *variables], expect_pass=False)
        assert "08007" in result.message
        assert 1 == len(sent)
        assert ASKED == rows(project, "audit")

    def test_a_session_that_is_lost_while_it_is_compiled(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The node fails as by any other error, wherever the session was lost, and so later."""
        real = ClassicSession.run

        def run(session: ClassicSession, sql: str, parameters: Any) -> Any:
            if sql.startswith("SAVEPOINT"):
                raise dbapi.ConnectionLost("gone")
            return real(session, sql, parameters)

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(ClassicSession, "run", run)
            _, log = run_dbt_and_capture(["run"], expect_pass=False)
        assert "Database Error in model audited" in log
        assert [] == rows(project, "audit")

    @pytest.mark.parametrize("lost_in", ["select 'compiled'", "create or replace"])
    def test_nothing_is_sent_to_a_lost_session(
        self, project: Any, monkeypatch: pytest.MonkeyPatch, lost_in: str
    ) -> None:
        """
        Over Spark Connect each statement would be tried for minutes.

        1. the session is lost, while the model is compiled or later, and is asked nothing more;
        2. what dbt has to do then, as to put its cache right, it does in a new one.
        """
        real = ClassicSession.run
        lost: list[ClassicSession] = []
        sent: list[str] = []

        def run(session: ClassicSession, sql: str, parameters: Any) -> Any:
            if session in lost:
                sent.append(sql)
            elif lost_in in sql and not lost:
                lost.append(session)
            if session in lost:
                raise dbapi.ConnectionLost("gone")
            return real(session, sql, parameters)

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(ClassicSession, "run", run)
            variables = {"kind": "drops", "how": "ask"}
            _, log = run_dbt_and_capture(["run", "--vars", str(variables)], expect_pass=False)
        assert 1 == len(lost)
        assert [] == sent
        assert "dbt may take" not in log
        assert [(1,)] == rows(project, "audited")
