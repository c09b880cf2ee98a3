"""Models side by side: in threads of one run, and in two runs at once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from dbt.tests.util import run_dbt

from benchmarks._dbt_projects import SHORT, Project, transactional

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODELS = 20
RUNS = 10
ROWS = 10
RETRIES_SEEN = 5
PAIRS_MAX = 12
# All models use one name for a temporary view, and one setting of the session: a model that shared
# its session with another would fail, or have the other's number.
MODEL = """
{{{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='id',
   pre_hook=["create temporary view mine as select {number} as number",
             "set shop.model = {number}"]) }}}}
select id, {{{{ var('run') }}}} as run, number, cast('${{shop.model}}' as int) as setting
from mine cross join range({rows})
"""
COUNTER = """
{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='id',
          retries=20) }}
{% if is_incremental() %} select id, n + 1 as n from {{ this }}
{% else %} select id, 0 as n from range(3) {% endif %}
"""


class TestThreads:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            f"model_{number}.sql": MODEL.format(number=number, rows=ROWS)
            for number in range(MODELS)
        }

    def _run(self, project: Any, run: int) -> None:
        results = run_dbt(["run", "--threads", "4", "--vars", f"run: {run}"])
        ids = {result.adapter_response["txn_id"] for result in results}
        assert len(ids) == MODELS
        parts = [f"select * from {{database}}.{{schema}}.model_{n}" for n in range(MODELS)]
        rows = project.run_sql(" union all ".join(parts), fetch="all")
        expected = [(i, run, number, number) for number in range(MODELS) for i in range(ROWS)]
        assert sorted(expected) == sorted(rows)

    def test_each_model_has_a_session_and_a_transaction(self, project: Any) -> None:
        self._run(project, 0)

    @pytest.mark.slow
    @pytest.mark.timeout(1800)
    def test_in_ten_runs(self, project: Any, record_property: Callable[[str, str], None]) -> None:
        for run in range(1, RUNS + 1):
            self._run(project, run)
        record_property("counted", f"4 threads: models={MODELS} runs={RUNS}, all results right")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_runs_at_once(tmp_path: Path, record_property: Callable[[str, str], None]) -> None:
    """What two runs at once leave is what one after the other leaves, whoever lost a race."""
    target = transactional(tmp_path / "lake", SHORT, threads=4)
    files = {f"models/counter_{number}.sql": COUNTER for number in range(8)}
    projects = [Project(tmp_path / name, target, files) for name in ("one", "two")]
    projects[0].run("run")
    retries, runs = 0, 0
    while retries < RETRIES_SEEN and runs < 2 * PAIRS_MAX:
        processes = [project.start("run") for project in projects]
        for process in processes:
            output, _ = process.communicate(timeout=600)
            assert process.returncode == 0, output
            assert f"PASS={len(files)} WARN=0 ERROR=0" in output
            retries += output.count("is run again")
        runs += 2
    text = f"two runs at once: retries={retries} runs={runs} cores={os.cpu_count()}"
    record_property("counted", text)
    assert retries >= RETRIES_SEEN
    assert [{(i, runs) for i in range(3)}] * 8 == [
        target.rows(f"shop.counter_{number}") for number in range(8)
    ]
