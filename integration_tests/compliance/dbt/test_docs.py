"""Descriptions, which Spark keeps as comments, and `dbt docs generate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.tests.util import run_dbt

HARD = "it's, ${spark.app.name} and ${env:HOME}, $ and \\' and \\ and at its end \\"


class TestDocs:
    """A table and a view of two schemas."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        documented = {
            "description": HARD,
            "config": {"persist_docs": {"relation": True, "columns": True}},
            "columns": [{"name": "id", "description": HARD}],
        }
        names = ("as_table", "as_view")
        return {
            "as_table.sql": "{{ config(materialized='table') }} select 1 as id",
            "as_view.sql": "{{ config(schema='other') }} select * from {{ ref('as_table') }}",
            "schema.yml": yaml.dump({"models": [{"name": name, **documented} for name in names]}),
        }

    def test_generate(self, project: Any) -> None:
        run_dbt(["run"])
        run_dbt(["docs", "generate"])
        catalog = json.loads((Path(project.project_root) / "target/catalog.json").read_text())
        schemas = {"as_table": project.test_schema, "as_view": f"{project.test_schema}_other"}
        found = {
            node: (described["metadata"]["schema"], list(described["columns"]))
            for node, described in catalog["nodes"].items()
        }
        assert {f"model.test.{name}": (schemas[name], ["id"]) for name in schemas} == found

    @pytest.mark.parametrize("name", ["as_table", "as_view"])
    def test_comments(self, project: Any, name: str) -> None:
        schema = {"as_table": "{schema}", "as_view": "{schema}_other"}[name]
        described = f"describe table extended {{database}}.{schema}.{name}"
        rows = {row[0]: row for row in project.run_sql(described, fetch="all")}
        assert HARD == rows["id"][2]
        assert HARD == rows["Comment"][1]
