"""A model that two runs build for the first time: what the one has built, the other adds to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from dbt.adapters.txns.impl import TxnsAdapter
from dbt.tests.util import run_dbt, run_dbt_and_capture

from integration_tests.compliance.dbt.beside import run_beside
from integration_tests.compliance.dbt.reading import rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from txns_spark import dbapi

GROWN = """
{{{{ config(materialized='incremental', incremental_strategy='{strategy}'{more}) }}}}
select {{{{ var('day', 1) }}}} as day, '{{{{ "added" if is_incremental() else "first" }}}}' as how
"""
BATCHED = """
{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='at',
          batch_size='day', begin='2026-01-01') }}
select id from {{ ref('source') }}
"""
SOURCE = """
{{ config(materialized='view', event_time='at') }}
select id, timestamp '2026-01-01 12:00:00Z' + make_dt_interval(id) as at from range(4)
"""
SNAPSHOT = """
{% snapshot kept %}
  {{ config(target_schema=schema, unique_key='id', strategy='check', check_cols=['v']) }}
  select id, v from {{ target.database }}.{{ schema }}.given
{% endsnapshot %}
"""


@pytest.fixture
def before_begin(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Do something between dbt's question what there is and the model's BEGIN."""

    def arrange(deed: Callable[[], Any]) -> None:
        real = TxnsAdapter.pre_model_hook
        done: list[bool] = []

        def hook(adapter: TxnsAdapter, config: Any) -> None:
            if not done:
                done.append(True)
                deed()
            real(adapter, config)

        monkeypatch.setattr(TxnsAdapter, "pre_model_hook", hook)

    return arrange


class TestModels:
    """Each is built for a day of its own, as by jobs that load days at once."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "appended.sql": GROWN.format(strategy="append", more=""),
            "deleted.sql": GROWN.format(strategy="delete+insert", more=", unique_key='day'"),
            "merged.sql": GROWN.format(strategy="merge", more=", unique_key='day'"),
            "overwritten.sql": GROWN.format(
                strategy="insert_overwrite", more=", partition_by='day'"
            ),
        }

    @pytest.mark.parametrize(
        "meets", ["at_first_commit", pytest.param("before_begin", marks=pytest.mark.slow)]
    )
    @pytest.mark.parametrize(
        "model",
        [
            "appended",
            *(
                pytest.param(each, marks=pytest.mark.slow)
                for each in ("deleted", "merged", "overwritten")
            ),
        ],
    )
    def test_two_days(
        self,
        project: Any,
        request: pytest.FixtureRequest,
        tmp_path: Path,
        meets: str,
        model: str,
    ) -> None:
        """
        At SNAPSHOT.

        1. a run finds no table of the model;
        2. another run builds it, for day 2, and commits, before or after the first one's BEGIN;
        3. the first one adds day 1, and what depends on `is_incremental()` is of that.
        """
        project.run_sql(f"drop table if exists {{database}}.{{schema}}.{model}")
        arrange = request.getfixturevalue(meets)
        arrange(lambda: run_beside(project, model, tmp_path, day=2))
        _, log = run_dbt_and_capture(["run", "--select", model, "--vars", json.dumps({"day": 1})])
        assert [(1, "added"), (2, "first")] == rows(project, model)
        assert ("attempt 1 of 4 is run again" in log) == (meets == "at_first_commit")
        assert "built by somebody else meanwhile" in log


@pytest.mark.slow
class TestBatches:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        batched = BATCHED.replace("select id", "select id, at")
        return {"source.sql": SOURCE, "batched.sql": batched}

    def test_two_spans(self, project: Any, at_first_commit: Any, tmp_path: Path) -> None:
        run_dbt(["run", "--select", "source"])
        starts = ("--event-time-start", "2026-01-0{}", "--event-time-end", "2026-01-0{}")
        theirs = [each.format(day) for each, day in zip(starts, (0, 3, 0, 5), strict=True)]
        ours = [each.format(day) for each, day in zip(starts, (0, 1, 0, 3), strict=True)]
        at_first_commit(lambda: run_beside(project, "batched", tmp_path, *theirs))
        run_dbt(["run", "--select", "batched", *ours])
        assert list(range(4)) == [row[0] for row in rows(project, "batched")]


@pytest.mark.slow
class TestSnapshots:
    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"kept.sql": SNAPSHOT}

    def test_history_stays(
        self, project: Any, other: dbapi.Connection, at_first_commit: Any, tmp_path: Path
    ) -> None:
        """
        At SNAPSHOT.

        1. a run has made a snapshot that was not there;
        2. another run has made it, too, and committed; then the row is changed;
        3. the first one is run again: what the other one has kept is history.
        """
        given = f"lake.{project.test_schema}.given"
        other.cursor().execute(f"create table {given} as select 1 as id, 'old' as v")

        def win() -> None:
            run_beside(project, "kept", tmp_path, command="snapshot")
            other.cursor().execute(f"update {given} set v = 'new'")

        at_first_commit(win)
        run_dbt(["snapshot"])
        found = project.run_sql("select v, dbt_valid_to from {database}.{schema}.kept", fetch="all")
        assert {("old", False), ("new", True)} == {(v, until is None) for v, until in found}
