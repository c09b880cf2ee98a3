"""Models that commit or do not: what dbt-spark cannot do."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.txns.handle import Handle
from dbt.tests.util import run_dbt, run_dbt_and_capture

from integration_tests.compliance.dbt.reading import logged, rows
from txns_spark import dbapi

FACTS = """
{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='id',
          retries=var('retries', 3)) }}
select id, '{{ var("run", "first") }}' as run from range(3)
{% if is_incremental() %} where id > 0 {% endif %}
"""
FAILS_LATE = """
{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='id',
          post_hook="select raise_error('late') from {{ this }}"
                    if var("run", "first") != "first" else []) }}
select id, '{{ var("run", "first") }}' as run from range(3)
"""
HOOKED = """
{{ config(materialized='table',
   pre_hook=[{'sql': "insert into {{ this.include(identifier=false) }}.seen values ('before')",
              'transaction': False},
             "insert into {{ this.include(identifier=false) }}.seen values ('first inside')"],
   post_hook=["insert into {{ this.include(identifier=false) }}.seen values ('last inside')",
              {'sql': "insert into {{ this.include(identifier=false) }}.seen"
                      " select concat('after ', count(*)) from {{ this }}",
               'transaction': False}]) }}
select 1 as id
{% if var('fails', false) %} , raise_error('no') as x {% endif %}
"""


def _run_results(project: Any) -> dict[str, Any]:
    return json.loads((Path(project.project_root) / "target/run_results.json").read_text())


def _results(project: Any) -> list[dict[str, Any]]:
    return _run_results(project)["results"]


def _git(project: Any, *arguments: str) -> str:
    who = ("-c", "user.name=Mara", "-c", "user.email=mara@example.org")
    command = ["git", *who, *arguments]
    return subprocess.check_output(command, cwd=project.project_root, text=True).strip()


@pytest.mark.usefixtures("project")
class TestModels:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"facts.sql": FACTS, "fails_late.sql": FAILS_LATE}

    def test_a_failure_after_the_statements_leaves_nothing(self, project: Any) -> None:
        run_dbt(["run"])
        before = rows(project, "fails_late")
        results = run_dbt(["run", "--vars", "run: second"], expect_pass=False)
        assert {"success", "error"} == {str(result.status) for result in results}
        assert before == rows(project, "fails_late")
        assert [(0, "first"), (1, "second"), (2, "second")] == rows(project, "facts")

    def test_run_results_name_the_transaction(self, project: Any, other: dbapi.Connection) -> None:
        _git(project, "init", "--quiet")
        _git(project, "commit", "--quiet", "--allow-empty", "--message", "the project")
        run_dbt(["run", "--select", "facts"])
        response = _results(project)[0]["adapter_response"]
        assert response["rows_affected"] in {2, 3}
        [entry] = [row for row in logged(other) if row["txn_id"] == response["txn_id"]]
        assert entry["commit_ts"] == response["commit_ts"]
        assert entry["comment"] == {
            "app": "dbt",
            "invocation_id": _run_results(project)["metadata"]["invocation_id"],
            "node_id": "model.test.facts",
            "target_name": "default",
            "git_sha": _git(project, "rev-parse", "HEAD"),
        }

    def test_a_lost_race_is_run_again(
        self, project: Any, other: dbapi.Connection, at_first_commit: Any
    ) -> None:
        run_dbt(["run", "--select", "facts", "--full-refresh"])
        table = project.adapter.Relation.create("lake", project.test_schema, "facts")
        at_first_commit(
            lambda: other.cursor().execute(f"update {table} set run = 'theirs' where id < 2")
        )
        _, log = run_dbt_and_capture(["run", "--select", "facts", "--vars", "run: second"])
        assert "attempt 1 of 4 is run again" in log
        assert [(0, "theirs"), (1, "second"), (2, "second")] == rows(project, "facts")

    def test_a_lost_race_says_who_has_won(
        self, project: Any, other: dbapi.Connection, at_first_commit: Any
    ) -> None:
        """Another run builds the same table: its node and its invocation are in its comment."""
        run_dbt(["run", "--select", "facts", "--full-refresh"])
        table = project.adapter.Relation.create("lake", project.test_schema, "facts")
        winner = {"app": "dbt", "invocation_id": "their-run", "node_id": "model.theirs.facts"}

        def win() -> None:
            other.begin(comment=json.dumps(winner))
            other.cursor().execute(f"update {table} set run = 'theirs' where id < 2")
            other.commit()

        at_first_commit(win)
        none = ["--select", "facts", "--vars", "{run: second, retries: 0}"]
        [result] = run_dbt(["run", *none], expect_pass=False)
        assert "model.theirs.facts came first, in the run their-run" in result.message

    def test_a_full_refresh_replaces_the_table_at_its_commit(
        self, project: Any, other: dbapi.Connection, at_first_commit: Any
    ) -> None:
        run_dbt(["run", "--select", "facts", "--full-refresh"])
        table = project.adapter.Relation.create("lake", project.test_schema, "facts")
        seen: list[tuple[Any, ...]] = []

        def read() -> None:
            cursor = other.cursor()
            cursor.execute(f"select * from {table}")
            seen.extend(cursor.fetchall())

        at_first_commit(read)
        run_dbt(["run", "--select", "facts", "--full-refresh", "--vars", "run: second"])
        assert [(0, "first"), (1, "first"), (2, "first")] == sorted(seen)
        assert [(0, "second"), (1, "second"), (2, "second")] == rows(project, "facts")

    def test_an_unknown_outcome_is_asked_for(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = Handle.commit

        def commit(handle: Handle) -> dbapi.Status:
            status = real(handle)
            raise dbapi.CommitStateUnknown("lost", sqlstate="08007", txn_id=status.txn_id)

        monkeypatch.setattr(Handle, "commit", commit)
        run_dbt(["run", "--select", "facts", "--full-refresh"])
        assert [(0, "first"), (1, "first"), (2, "first")] == rows(project, "facts")
        assert _results(project)[0]["adapter_response"]["commit_ts"] > 0

    def test_an_outcome_that_stays_unknown_is_not_run_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sent: list[int] = []

        def commit(handle: Handle) -> dbapi.Status:
            sent.append(1)
            handle.connection.rollback()
            raise dbapi.CommitStateUnknown("lost", sqlstate="08007", txn_id="nobody's")

        monkeypatch.setattr(Handle, "commit", commit)
        monkeypatch.setattr("dbt.adapters.txns.connections._OUTCOME_PAUSE_S", 0)
        results = run_dbt(["run", "--select", "facts"], expect_pass=False)
        assert [1] == sent
        assert "08007" in results[0].message


class TestRunResults:
    """What has written names its transaction; what has only read names no commit."""

    # No name that Spark takes without quotes.
    SEED = "1st.shops-2"

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {f"{self.SEED}.csv": "id,name\n1,a\n2,b\n", "nobody.csv": "id,name\n"}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        shops = f"select * from {{{{ ref('{self.SEED}') }}}}"
        test = "{models: [{name: shops, columns: [{name: id, data_tests: [unique]}]}]}"
        return {
            "shops.sql": f"{{{{ config(materialized='table') }}}} {shops}",
            "seen.sql": f"{{{{ config(materialized='view') }}}} {shops}",
            "schema.yml": test,
        }

    def test_of_each_kind(self, project: Any, other: dbapi.Connection) -> None:
        run_dbt(["build"])
        assert [(1, "a"), (2, "b")] == rows(project, f"`{self.SEED}`")
        found = {
            result["unique_id"].split(".", 2)[2]: result["adapter_response"]
            for result in _results(project)
        }
        entries = {(row["txn_id"], row["commit_ts"]) for row in logged(other)}
        written = [found.pop(name) for name in (self.SEED, "nobody", "shops")]
        assert all((each["txn_id"], each["commit_ts"]) in entries for each in written)
        assert [2, 0, None] == [each.get("rows_affected") for each in written]
        assert 2 == len(found)
        assert not any("commit_ts" in each for each in found.values())


class TestHooks:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"hooked.sql": HOOKED}

    def test_hooks_inside_and_outside(self, project: Any) -> None:
        project.run_sql("create table {database}.{schema}.seen (what string)")
        run_dbt(["run"])
        assert [("after 1",), ("before",), ("first inside",), ("last inside",)] == rows(
            project, "seen"
        )
        project.run_sql("delete from {database}.{schema}.seen")
        run_dbt(["run", "--vars", "fails: true"], expect_pass=False)
        assert [("before",)] == rows(project, "seen")


class TestAdoption:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"facts.sql": FACTS, "cared_for.sql": FACTS}

    def test_a_table_from_before(self, project: Any) -> None:
        run_dbt(["run"])
        project.run_sql("call {database}.system.forget('{schema}.facts')")
        [result] = run_dbt(["run", "--select", "facts"], expect_pass=False)
        assert "dbt run-operation txns_adopt_project" in result.message
        adopt = ["run-operation", "txns_adopt_project"]
        _, log = run_dbt_and_capture([*adopt, "--args", "dry_run: true"])
        assert f"would register `lake`.`{project.test_schema}`.`facts`" in log
        assert "cared_for" not in log
        run_dbt(["run", "--select", "facts"], expect_pass=False)
        _, log = run_dbt_and_capture(adopt)
        assert f"registering `lake`.`{project.test_schema}`.`facts`" in log
        assert "cared_for" not in log
        run_dbt(["run", "--vars", "run: second"])
        assert [(0, "first"), (1, "second"), (2, "second")] == rows(project, "facts")
        _, log = run_dbt_and_capture(adopt)
        assert "no table of the project is left to register" in log
