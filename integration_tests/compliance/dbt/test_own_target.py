"""A model that reads its own target: what it adds fits what is there when it commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from dbt.adapters.txns.impl import TxnsAdapter
from dbt.tests.util import run_dbt, run_dbt_and_capture

from integration_tests.compliance.dbt.beside import run_beside
from integration_tests.compliance.dbt.reading import logged, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from txns_spark import dbapi

APPENDED = """
{{ config(materialized='incremental', incremental_strategy='append') }}
select id from {{ ref('five') }}
where id {% if is_incremental() %} > (select max(id) from {{ this }}) {% else %} < 2 {% endif %}
"""
# The macros ask for what is missing, too, which must not end the transaction.
COMPILED = """
{{ config(materialized='incremental', incremental_strategy='append') }}
{% if is_incremental() %}
  {% set nowhere = this.incorporate(path={'identifier': 'nowhere'}) %}
  {% set there = adapter.get_columns_in_relation(nowhere) %}
  {% set newest = run_query('select max(id) from ' ~ this).columns[0][0] + there | length %}
{% endif %}
select id from {{ ref('five') }}
where id {% if is_incremental() %} > {{ newest }} {% else %} < 2 {% endif %}
"""
HOOKED = COMPILED.replace(
    "append'",
    "append', pre_hook={'sql': 'insert into {{ this }} values (2)' if var('hook', false) else '',"
    " 'transaction': False}",
)
MERGED = """
{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}
select id from {{ ref('five') }} where id {% if is_incremental() %} > 1 {% else %} < 2 {% endif %}
"""
ONCE = [(n,) for n in range(5)]


class TestOfItsOwnTarget:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            # dbt puts an ephemeral model's text into that of those who read it.
            "five.sql": "{{ config(materialized='ephemeral') }} select id from range(5)",
            "appended.sql": APPENDED,
            "compiled.sql": COMPILED,
            "hooked.sql": HOOKED,
            "merged.sql": MERGED,
        }

    @pytest.fixture(scope="class", autouse=True)
    def _built(self, project: Any) -> None:  # noqa: ARG002
        run_dbt(["run"])

    @pytest.fixture
    def add(self, project: Any, other: dbapi.Connection) -> Callable[[str], None]:
        """Let somebody else add a row to a model's table, which the model would have added."""

        def add(model: str) -> None:
            table = f"lake.{project.test_schema}.{model}"
            rows_added = "select id from range(2, 4)"
            other.cursor().execute(
                f"merge into {table} t using ({rows_added}) s on t.id = s.id"
                " when not matched then insert *"
                if model == "merged"
                else f"insert into {table} {rows_added}"
            )

        return add

    @pytest.mark.parametrize("model", ["appended", "compiled", "merged"])
    def test_two_writers_add_a_row_once(
        self, project: Any, add: Any, at_first_commit: Any, model: str
    ) -> None:
        """
        At SNAPSHOT.

        1. the model reads its target, when it is compiled or when it runs;
        2. another writer adds the next rows, and commits;
        3. the model has added the same ones: its COMMIT is refused;
        4. it is run again, and compiled again.
        """
        at_first_commit(lambda: add(model))
        _, log = run_dbt_and_capture(["run", "--select", model])
        assert "attempt 1 of 4 is run again" in log
        assert ONCE == rows(project, model)

    @pytest.mark.slow
    def test_two_runs_merge_one_new_key(
        self, project: Any, other: dbapi.Connection, at_first_commit: Any, tmp_path: Path
    ) -> None:
        """
        At SNAPSHOT, and both are runs of dbt's, the second a process of its own.

        1. a run has merged new keys into its target, and has not committed;
        2. another run merges the same ones, and commits;
        3. the COMMIT of the first is refused, and its model run again: each key is there once.
        """
        other.cursor().execute(f"delete from lake.{project.test_schema}.merged where id > 1")
        beside: list[str] = []
        at_first_commit(lambda: beside.append(run_beside(project, "merged", tmp_path)))
        _, log = run_dbt_and_capture(["run", "--select", "merged"])
        assert "attempt 1 of 4 is run again" in log
        assert "is run again" not in beside[0]
        assert ONCE == rows(project, "merged")

    def test_a_row_that_is_added_between_compiling_and_running(
        self, project: Any, add: Any, other: dbapi.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other.cursor().execute(f"delete from lake.{project.test_schema}.compiled where id > 1")
        added: list[str] = []
        real = TxnsAdapter.pre_model_hook

        def hook(adapter: TxnsAdapter, config: Any) -> None:
            if not added:
                added.append("once")
                add("compiled")
            real(adapter, config)

        monkeypatch.setattr(TxnsAdapter, "pre_model_hook", hook)
        _, log = run_dbt_and_capture(["run", "--select", "compiled"])
        assert "attempt 1 of 4 is run again" in log
        assert ONCE == rows(project, "compiled")

    def test_a_hook_before_the_transaction_is_seen(self, project: Any) -> None:
        """It ends what was read while the model was compiled: the model is compiled again."""
        run_dbt(["run", "--select", "hooked", "--vars", "hook: true"])
        assert ONCE == rows(project, "hooked")

    def test_compiling_alone_commits_nothing(self, other: dbapi.Connection) -> None:
        before = logged(other)
        run_dbt(["compile", "--select", "compiled"])
        assert before == logged(other)
