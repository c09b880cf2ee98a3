"""A model killed or interrupted between its DELETE and its INSERT: readers see the old table."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import txns
from benchmarks._dbt_projects import SHORT, Project, plain, rows_of, transactional

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.table import Table

KILLS = int(os.environ.get("TXNS_DBT_KILLS", "20"))
ROWS = 100
MODEL = """
{{ config(materialized='incremental', incremental_strategy='slow', unique_key='id') }}
select id, {{ var('run') }} as run from range(100)
"""
# A strategy of the user's own: the adapter's delete+insert with a long pause between the two.
STRATEGY = """
{% macro get_incremental_slow_sql(arg_dict) %}
  {% set insert = txns__get_incremental_delete_insert_sql(arg_dict) %}
  {% do pause() %}
  {% do return(insert) %}
{% endmacro %}
"""
PAUSE = """
{% macro pause() %}
  {{ log('has deleted', info=true) }}
  {% if var('sleeps', false) %}
    {% do run_query("select max(hash(id)) from range(1000000000000)") %}
  {% endif %}
{% endmacro %}
"""
# dbt-spark has no delete+insert: its users delete in a hook, and append.
PLAIN_MODEL = """
{{ config(materialized='incremental', incremental_strategy='append', file_format='iceberg',
          pre_hook=["{% if is_incremental() %} delete from {{ this }} where id < 100 {% endif %}",
                    "{% if is_incremental() %}{% do pause() %}{% endif %}"]) }}
select id, {{ var('run') }} as run from range(100)
"""


def _project(folder: Path) -> Project:
    files = {"models/facts.sql": MODEL, "macros/slow.sql": STRATEGY, "macros/pause.sql": PAUSE}
    return Project(folder / "project", transactional(folder / "lake", SHORT), files)


def _started(project: Project, run: int) -> subprocess.Popen[str]:
    """Start a run, and wait until its DELETE is done."""
    process = project.start("run", run=run, sleeps=True)
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if "has deleted" in line:
            break
    else:
        pytest.fail("".join(seen))
    return process


def _killed(project: Project, run: int) -> None:
    """Start a run, and kill it when its DELETE is done."""
    process = _started(project, run)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _seen(project: Project) -> list[set[tuple[int, int]]]:
    """What readers see, past the protocol and through it: which run wrote each id."""
    through = txns.open(project.target.plain_catalog()).catalog()
    return [project.target.rows("shop.facts"), rows_of(through.load_table("shop.facts"))]


def _facts(project: Project) -> Table:
    return project.target.plain_catalog().load_table("shop.facts")


def _whole(run: int) -> set[tuple[int, int]]:
    return {(number, run) for number in range(ROWS)}


@pytest.mark.timeout(3600)
def test_killed_between_delete_and_insert(
    tmp_path: Path, record_property: Callable[[str, str], None]
) -> None:
    project = _project(tmp_path)
    project.run("run", run=0)
    for kill in range(KILLS):
        _killed(project, kill + 1)
        assert [_whole(0), _whole(0)] == _seen(project)
    project.run("run", run=KILLS + 1)
    assert [_whole(KILLS + 1), _whole(KILLS + 1)] == _seen(project)
    record_property("counted", f"killed between DELETE and INSERT: torn=0 of kills={KILLS}")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("pause_s", [0, 3])
def test_ctrl_c_between_delete_and_insert(tmp_path: Path, pause_s: int) -> None:
    """It stops the statement that runs, and those that have not begun yet; nothing is left."""
    project = _project(tmp_path)
    project.run("run", run=0)
    process = _started(project, 1)
    time.sleep(pause_s)
    os.killpg(process.pid, signal.SIGINT)
    try:
        output, _ = process.communicate(timeout=180)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode != 0, output
    assert "is run again" not in output
    assert [_whole(0), _whole(0)] == _seen(project)
    project.run("run", run=2)
    assert [_whole(2), _whole(2)] == _seen(project)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_dbt_spark_is_torn_by_the_same_kills(
    tmp_path: Path, record_property: Callable[[str, str], None]
) -> None:
    files = {"models/facts.sql": PLAIN_MODEL, "macros/pause.sql": PAUSE}
    project = Project(tmp_path / "project", plain(tmp_path / "plain", SHORT), files)
    project.run("run", run=0)
    whole = _facts(project).metadata.current_snapshot_id
    torn = 0
    for kill in range(KILLS):
        _killed(project, kill + 1)
        torn += project.target.rows("shop.facts") != _whole(0)
        _facts(project).manage_snapshots().set_current_snapshot(whole).commit()
        assert project.target.rows("shop.facts") == _whole(0)
    record_property("counted", f"the same on dbt-spark: torn={torn} of kills={KILLS}")
    assert torn > 0
