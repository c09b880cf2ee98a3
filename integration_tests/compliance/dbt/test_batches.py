"""Batches of a microbatch model that fail: what is told, what stays, what `dbt retry` does."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from dbt.adapters.txns.handle import Handle
from dbt.tests.util import run_dbt, run_dbt_and_capture

from integration_tests.compliance.dbt.beside import run_beside
from integration_tests.compliance.dbt.reading import rows

if TYPE_CHECKING:
    from pathlib import Path

    from txns_spark import dbapi

MEET_S = 600
AGAIN = "is run again"
SOURCE = """
{{ config(materialized='table', event_time='at') }}
select id, timestamp '2026-01-01 12:00:00Z' + make_dt_interval(id) as at from range(4)
"""
BATCHED = """
{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='at',
          batch_size='day', begin='2026-01-01', partition_by='days(at)',
          retries=var('retries', 3)) }}
select id, at, '{{ var("run", "first") }}' as run,
  if(id = {{ var('breaks', -1) }}, raise_error('it is broken'), 1) as one
from {{ ref('source') }}
"""


def _span(first: int, last: int) -> list[str]:
    """Give the options of days of January, both inclusive."""
    begin, end = (f"2026-01-{day:02}" for day in (first, last + 1))
    return ["--threads", "4", "--event-time-start", begin, "--event-time-end", end]


@pytest.mark.slow
class TestFailingBatches:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "source.sql": SOURCE,
            "batched.sql": BATCHED,
            "after.sql": "select * from {{ ref('batched') }}",
        }

    @pytest.fixture(autouse=True)
    def _built(self, project: Any) -> None:  # noqa: ARG002
        run_dbt(["run", "--full-refresh", *_span(1, 4)])

    def _runs(self, project: Any) -> list[str]:
        """Give which run has made the row of each day; nothing else is there."""
        tables = project.run_sql("show tables in {database}.{schema}", fetch="all")
        assert {"batched", "source"} == {row[1] for row in tables} - {"after"}
        found = rows(project, "batched")
        assert list(range(4)) == [row[0] for row in found]
        return [row[2] for row in found]

    def _run(self, *words: str, **variables: Any) -> tuple[list[Any], str]:
        """Run dbt on what depends on it, too; one batch fails."""
        given = ["--vars", json.dumps(variables)] if variables else []
        results, log = run_dbt_and_capture([*words, *given], expect_pass=False)
        assert "skipped" == results[1].status
        return results, log

    def test_two_that_have_lost_in_the_middle(
        self, project: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """
        Without retries of its own.

        1. a run has written the second of four days, and the third, and has committed neither;
        2. another run, a process of its own, writes these, and commits;
        3. the first one's batches lose, are told to whom, and the last day's commits;
        4. `dbt retry` builds these two alone, and what was skipped.
        """
        real = Handle.commit
        commits: list[int] = []
        theirs = _span(2, 3)
        both = threading.Barrier(
            2, lambda: run_beside(project, "batched", tmp_path, *theirs, run="theirs")
        )

        def commit(handle: Handle) -> dbapi.Status:
            commits.append(1)
            if len(commits) in (2, 3):
                both.wait(MEET_S)
            return real(handle)

        monkeypatch.setattr(Handle, "commit", commit)
        words = ("run", "--select", "batched+", *_span(1, 4))
        results, log = self._run(*words, run="ours", retries=0)
        assert "partial success" == results[0].status
        assert "model.test.batched came first, in the run" in log
        assert AGAIN not in log
        monkeypatch.undo()
        assert ["ours", "theirs", "theirs", "ours"] == self._runs(project)
        _, log = run_dbt_and_capture(["retry"])
        assert 2 == log.count("OK created batch")
        assert 4 * ["ours"] == self._runs(project)
        assert 4 == len(rows(project, "after"))

    def test_one_that_is_broken_in_the_middle(self, project: Any) -> None:
        """Its day stays as it was, and nothing of it is left; it is not tried again by itself."""
        words = ("run", "--select", "batched+", *_span(1, 4))
        results, log = self._run(*words, run="ours", breaks=2)
        assert "partial success" == results[0].status
        assert "it is broken" in log
        assert AGAIN not in log
        assert ["ours", "ours", "first", "ours"] == self._runs(project)
        _, log = run_dbt_and_capture(["retry", "--vars", json.dumps({"run": "ours"})])
        assert 1 == log.count("OK created batch")
        assert 4 * ["ours"] == self._runs(project)

    def test_one_that_is_broken_in_a_full_refresh(self, project: Any) -> None:
        """
        What the refresh has built stays when `dbt retry`, which is one too, adds what it lacks.

        It gives only the batches that failed, and the first of these is to replace the table.
        """
        words = ("run", "--full-refresh", "--select", "batched+", *_span(1, 4))
        self._run(*words, run="ours", breaks=2)
        _, log = run_dbt_and_capture(["retry", "--vars", json.dumps({"run": "ours"})])
        assert 1 == log.count("OK created batch")
        assert 4 * ["ours"] == self._runs(project)

    def test_two_runs_of_other_days(
        self, project: Any, at_first_commit: Any, tmp_path: Path
    ) -> None:
        """Both commit, at the first attempt."""
        beside: list[str] = []
        at_first_commit(
            lambda: beside.append(
                run_beside(project, "batched", tmp_path, *_span(3, 4), run="theirs")
            )
        )
        words = ["run", "--select", "batched", *_span(1, 2), "--vars", "run: ours"]
        _, log = run_dbt_and_capture(words)
        assert AGAIN not in log + beside[0]
        assert ["ours", "ours", "theirs", "theirs"] == self._runs(project)

    def test_a_day_without_events_beside_others(
        self, project: Any, at_first_commit: Any, tmp_path: Path
    ) -> None:
        """It has deleted nothing and inserted nothing: both commit, at the first attempt."""
        beside: list[str] = []
        at_first_commit(
            lambda: beside.append(
                run_beside(project, "batched", tmp_path, *_span(3, 4), run="theirs")
            )
        )
        words = ["run", "--select", "batched", *_span(7, 8), "--vars", "run: ours"]
        _, log = run_dbt_and_capture(words)
        assert AGAIN not in log + beside[0]
        assert ["first", "first", "theirs", "theirs"] == self._runs(project)
