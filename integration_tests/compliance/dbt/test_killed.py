"""A model killed between its DELETE and its INSERT: readers see the old table, a rerun is right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml
from pyiceberg.catalog.sql import SqlCatalog

import txns

if TYPE_CHECKING:
    from pathlib import Path

KILLS = int(os.environ.get("TXNS_DBT_KILLS", "20"))
MODEL = """
{{ config(materialized='incremental', incremental_strategy='slow', unique_key='id') }}
select id, {{ var('run') }} as run from range(100)
"""
# A strategy of the user's own: the adapter's delete+insert with a long pause between the two.
STRATEGY = """
{% macro get_incremental_slow_sql(arg_dict) %}
  {% set insert = txns__get_incremental_delete_insert_sql(arg_dict) %}
  {{ log('has deleted', info=true) }}
  {% if var('sleeps', false) %}
    {% do run_query("select reflect('java.lang.Thread', 'sleep', 600000L)") %}
  {% endif %}
  {% do return(insert) %}
{% endmacro %}
"""


class Project:
    """A dbt project in a folder, run by processes of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warehouse = folder / "lake"
        target = {
            "type": "txns",
            "schema": "shop",
            "warehouse": str(self.warehouse),
            "config": {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "1"},
        }
        self._write("dbt_project.yml", yaml.dump({"name": "killed", "profile": "killed"}))
        profile = {"killed": {"target": "t", "outputs": {"t": target}}}
        self._write("profiles.yml", yaml.dump(profile))
        self._write("models/facts.sql", MODEL)
        self._write("macros/slow.sql", STRATEGY)

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def start(self, run: int, *, sleeps: bool = False) -> subprocess.Popen[str]:
        variables = yaml.dump({"run": run, "sleeps": sleeps}, default_flow_style=True).strip()
        return subprocess.Popen(
            [sys.executable, "-m", "dbt.cli.main", "run", "--vars", variables],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, number: int) -> None:
        process = self.start(number)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output

    def run_and_kill(self, number: int) -> None:
        process = self.start(number, sleeps=True)
        assert process.stdout is not None
        seen = []
        for line in process.stdout:
            seen.append(line)
            if "has deleted" in line:
                break
        else:
            pytest.fail("".join(seen))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def runs(self) -> list[set[tuple[int, int]]]:
        """What readers see, through the protocol and past it: which run wrote each id."""
        catalog = SqlCatalog(
            "lake",
            uri=f"sqlite:///{self.warehouse}/catalog.db",
            warehouse=str(self.warehouse),
        )
        tables = [
            txns.open(catalog).catalog().load_table("shop.facts"),
            catalog.load_table("shop.facts"),
        ]
        rows = [table.scan().to_arrow().to_pydict() for table in tables]
        return [set(zip(each["id"], each["run"], strict=True)) for each in rows]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_between_delete_and_insert(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.run(0)
    whole = {(number, 0) for number in range(100)}
    for kill in range(KILLS):
        project.run_and_kill(kill + 1)
        assert [whole, whole] == project.runs()
    project.run(KILLS + 1)
    after = {(number, KILLS + 1) for number in range(100)}
    assert [after, after] == project.runs()
