"""The package of macros for dbt-spark on a transactional catalog, as users of dbt v2 have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from dbt.include import txns as macros

import txns
from benchmarks._dbt_projects import SHORT, Project, dbt_spark, rows_of

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = "for_spark"
FACTS = """
{{ config(materialized='incremental', incremental_strategy='append',
   pre_hook="{% if is_incremental() %} delete from {{ this }} {% endif %}") }}
select id, {{ var('run') }} as run,
       if({{ var('fails', false) }} and id = 2, raise_error('no'), 1) as one
from range(3)
"""
TOTAL = "{{ config(materialized='table') }} select sum(run) as total from {{ ref('facts') }}"
HOOKS = {
    "+file_format": "iceberg",
    "+pre-hook": "{{ txns_for_spark.begin() }}",
    "+post-hook": "{{ txns_for_spark.commit() }}",
}


@pytest.mark.slow
def test_models_of_dbt_spark_commit_or_do_not(tmp_path: Path) -> None:
    """A model that fails after its DELETE leaves the old rows, and the next run is right."""
    package = str(macros.__path__[0]) + f"/{PACKAGE}"
    files = {
        "models/facts.sql": FACTS,
        "models/total.sql": TOTAL,
        "seeds/shops.csv": "id,name\n1,a\n2,b\n",
        "packages.yml": yaml.dump({"packages": [{"local": package}]}),
    }
    hooks = {"models": HOOKS, "seeds": HOOKS}
    project = Project(tmp_path / "project", dbt_spark(tmp_path / "lake", SHORT), files, hooks)
    project.run("deps")
    project.run("build", run=1)
    first = {(id_, 1, 1) for id_ in range(3)}
    assert first == _seen(project, "facts")
    with pytest.raises(RuntimeError, match="USER_RAISED_EXCEPTION"):
        project.run("build", run=2, fails=True)
    assert first == _seen(project, "facts")
    project.run("build", run=3)
    assert {(id_, 3, 1) for id_ in range(3)} == _seen(project, "facts")
    assert {(9,)} == _seen(project, "total")
    assert {(1, "a"), (2, "b")} == _seen(project, "shops")


def _seen(project: Project, table: str) -> set[tuple[object, ...]]:
    catalog = txns.open(project.target.plain_catalog()).catalog()
    return rows_of(catalog.load_table(f"shop.{table}"))
