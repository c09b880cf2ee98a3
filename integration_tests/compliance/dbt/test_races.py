"""What people do about lost races: `dbt retry`, a full refresh beside, hooks, `dbt build`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture

from integration_tests.compliance.dbt.beside import run_beside
from integration_tests.compliance.dbt.reading import logged, rows

if TYPE_CHECKING:
    from pathlib import Path

    from txns_spark import dbapi

AGAIN = "attempt 1 of 4 is run again"
DAYS = """
{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by='day',
          retries=var('retries', 3)) }}
select id as day, '{{ var("run", "first") }}' as run from range(1, 3)
{% if is_incremental() %} where id = {{ var('day', 1) }} {% endif %}
"""
REPLACED = """
{{ config(materialized='incremental', incremental_strategy='append',
          on_schema_change='append_new_columns') }}
select id, '{{ var("run", "first") }}' as run {{ var('more', '') }} from range(2)
{% if is_incremental() %} where id = 1 {% endif %}
"""
COUNTED = """
{{ config(materialized='table', isolation=var('isolation', 'SERIALIZABLE')) }}
select count(*) as found, max(run) as run from {{ ref('replaced') }}
"""
HOOKED = """
{{{{ config(materialized='table', pre_hook=
  "update {{{{ target.database }}}}.{{{{ target.schema }}}}.audit set runs = runs + 1") }}}}
select 1 as id, '{}' as made
"""


class TestRetry:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"days.sql": DAYS, "more.sql": "select * from {{ ref('days') }}"}

    def test_a_run_that_has_lost_goes_on(
        self, project: Any, other: dbapi.Connection, at_first_commit: Any, tmp_path: Path
    ) -> None:
        """
        Without retries of its own.

        1. a run loses to another one, which is named, and fails;
        2. `dbt retry` builds what has failed, and what was skipped.
        """
        run_dbt(["run"])
        beside = {"day": 1, "run": "theirs"}
        at_first_commit(lambda: run_beside(project, "days", tmp_path, **beside))
        ours = ["--vars", json.dumps({"day": 1, "run": "ours", "retries": 0})]
        [lost, skipped] = run_dbt(["run", *ours], expect_pass=False)
        newest = logged(other)[-1]
        assert "model.test.days" == newest["comment"]["node_id"]
        invocation = newest["comment"]["invocation_id"]
        assert f"model.test.days came first, in the run {invocation}" in lost.message
        assert newest["txn_id"] in lost.message
        assert "`partition_by` what tells the two apart" in lost.message
        assert "skipped" == skipped.status
        assert [(1, "theirs"), (2, "first")] == rows(project, "days")
        again = run_dbt(["retry"])
        assert ["success", "success"] == [each.status for each in again]
        assert [(1, "ours"), (2, "first")] == rows(project, "days") == rows(project, "more")


@pytest.mark.slow
class TestFullRefresh:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"replaced.sql": REPLACED, "counted.sql": COUNTED}

    @pytest.fixture(autouse=True)
    def _built(self, project: Any) -> None:  # noqa: ARG002
        run_dbt(["run", "--full-refresh", "--select", "replaced"])

    def _refresh(self, project: Any, folder: Path, **variables: Any) -> None:
        run_beside(project, "replaced", folder, "--full-refresh", run="refreshed", **variables)

    def test_beside_an_incremental_run(
        self, project: Any, at_first_commit: Any, tmp_path: Path
    ) -> None:
        """What only appends adds to what the refresh has made, and loses no race."""
        at_first_commit(lambda: self._refresh(project, tmp_path))
        _, log = run_dbt_and_capture(["run", "--select", "replaced", "--vars", "run: added"])
        assert AGAIN not in log
        found = [(0, "refreshed"), (1, "added"), (1, "refreshed")]
        assert found == rows(project, "replaced")

    def test_with_another_column(self, project: Any, at_first_commit: Any, tmp_path: Path) -> None:
        """The run that adds loses, and knows the new column when it is run again."""
        at_first_commit(lambda: self._refresh(project, tmp_path, more=", 7 as extra"))
        _, log = run_dbt_and_capture(["run", "--select", "replaced", "--vars", "run: added"])
        assert AGAIN in log
        assert "model.test.replaced came first" in log
        assert "the table was altered or replaced meanwhile" in log
        found = project.run_sql(
            "select id, run, extra from {database}.{schema}.replaced", fetch="all"
        )
        assert {(0, "refreshed", 7), (1, "refreshed", 7), (1, "added", None)} == {
            *map(tuple, found)
        }

    def test_that_loses_to_an_incremental_run(
        self, project: Any, at_first_commit: Any, tmp_path: Path
    ) -> None:
        """It replaces what that has added, too."""
        at_first_commit(lambda: run_beside(project, "replaced", tmp_path, run="added"))
        refresh = ["run", "--select", "replaced", "--full-refresh", "--vars", "run: refreshed"]
        _, log = run_dbt_and_capture(refresh)
        assert AGAIN in log
        assert "let one run at a time build it" in log
        assert [(0, "refreshed"), (1, "refreshed")] == rows(project, "replaced")

    @pytest.mark.parametrize("isolation", ["SERIALIZABLE", "SNAPSHOT"])
    def test_beside_a_model_that_reads_it(
        self, project: Any, at_first_commit: Any, tmp_path: Path, isolation: str
    ) -> None:
        """One that protects its reads is run again, and counts what is there then."""
        at_first_commit(lambda: self._refresh(project, tmp_path))
        read = ["run", "--select", "counted", "--vars", f"isolation: {isolation}"]
        _, log = run_dbt_and_capture(read)
        protects = isolation == "SERIALIZABLE"
        assert (AGAIN in log) == protects
        assert ("`isolation: SNAPSHOT`" in log) == protects
        assert [(2, "refreshed" if protects else "first")] == rows(project, "counted")


@pytest.mark.slow
class TestHooks:
    """Two models whose hooks write one row of one table."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"one.sql": HOOKED.format("one"), "two.sql": HOOKED.format("two")}

    def test_a_hook_that_loses(
        self, project: Any, other: dbapi.Connection, at_first_commit: Any, tmp_path: Path
    ) -> None:
        """The model and its hook are run again, and what to change is said of the hook's table."""
        audit = f"lake.{project.test_schema}.audit"
        other.cursor().execute(f"create table {audit} as select 0 as runs")
        at_first_commit(lambda: run_beside(project, "two", tmp_path))
        _, log = run_dbt_and_capture(["run", "--select", "one"])
        assert AGAIN in log
        assert "model.test.two came first" in log
        assert "that is not the table that the model builds" in log
        assert [(2,)] == rows(project, "audit")

    def test_in_threads_of_one_run(self, project: Any, other: dbapi.Connection) -> None:
        """Each counts."""
        audit = f"lake.{project.test_schema}.audit"
        other.cursor().execute(f"create or replace table {audit} as select 0 as runs")
        run_dbt(["run", "--threads", "2"])
        assert [(2,)] == rows(project, "audit")


FACTS = """
{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='id') }}
select id, '{{ var("run", "first") }}' as run from range(3)
"""
KEPT = """
{% snapshot kept %}
  {{ config(target_schema=schema, unique_key='id', strategy='check', check_cols=['run']) }}
  select * from {{ ref('facts') }}
{% endsnapshot %}
"""
SCHEMA = """
models:
  - name: facts
    columns: [{name: id, data_tests: [unique, not_null]}]
snapshots:
  - name: kept
    columns: [{name: id, data_tests: [not_null]}]
"""


@pytest.mark.slow
class TestBuild:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"facts.sql": FACTS, "schema.yml": SCHEMA}

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"kept.sql": KEPT}

    def test_beside_another_one(self, project: Any, at_first_commit: Any, tmp_path: Path) -> None:
        """
        Models, tests and snapshots of both: each row is there once, and has one that is current.

        1. a build has written its model, and has not committed;
        2. another one builds all of it;
        3. the first one goes on.
        """
        run_dbt(["build"])
        at_first_commit(
            lambda: run_beside(project, "+kept", tmp_path, command="build", run="theirs")
        )
        results, log = run_dbt_and_capture(["build", "--vars", "run: ours"])
        assert {"success", "pass"} == {each.status for each in results}
        assert AGAIN in log
        assert [(number, "ours") for number in range(3)] == rows(project, "facts")
        found = project.run_sql(
            "select id, run, dbt_valid_to is null from {database}.{schema}.kept", fetch="all"
        )
        expected = [
            (number, run, run == "ours")
            for number in range(3)
            for run in ("first", "ours", "theirs")
        ]
        assert expected == sorted(map(tuple, found))
