"""
Hooks in and outside of transactions: dbt's own classes, with Spark's types and quotes.

dbt's classes run VACUUM outside, which PostgreSQL refuses inside of a transaction. A procedure
that our transactions refuse (0A000) takes its place.
"""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.hooks import test_model_hooks as model_hooks
from dbt.tests.adapter.hooks import test_run_hooks as run_hooks
from dbt.tests.util import run_dbt

pytestmark = pytest.mark.slow

OUTSIDE = {
    "sql": "call {{ this.database }}.system.register('{{ this.schema }}.on_model_hook')",
    "transaction": False,
}
COLUMNS = [
    "test_state",
    "target_dbname",
    "target_host",
    "target_name",
    "target_schema",
    "target_type",
    "target_user",
    "target_pass",
]
TEXTS = ["run_started_at", "invocation_id", "thread_id"]
THREADS = 2


def _create(project: Any, table: str) -> None:
    project.run_sql(f"drop table if exists {{schema}}.{table}")
    columns = [
        *(f"{name} string" for name in COLUMNS),
        "target_threads int",
        *(f"{name} string" for name in TEXTS),
    ]
    project.run_sql(f"create table {{schema}}.{table} ({', '.join(columns)})")


def _check(project: Any, table: str, state: str, count: int) -> None:
    """Check what the hooks wrote of the target and the run."""
    names = [*COLUMNS, "target_threads", *TEXTS]
    rows = project.run_sql(
        f"select {', '.join(names)} from {{schema}}.{table} where test_state = '{state}'",
        fetch="all",
    )
    assert len(rows) == count
    for row in rows:
        found = dict(zip(names, row, strict=True))
        assert ("default", project.test_schema) == (found["target_name"], found["target_schema"])
        assert ("txns", THREADS) == (found["target_type"], found["target_threads"])
        assert all(found[name] for name in TEXTS)


class _ModelHooks:
    @pytest.fixture(scope="class", autouse=True)
    def setUp(self, project: Any) -> None:
        _create(project, "on_model_hook")

    def check_hooks(self, state: str, project: Any, host: Any, count: int = 1) -> None:  # noqa: ARG002
        _check(project, "on_model_hook", state, count)


class _InAndOutside:
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {
            "models": {
                "test": {
                    "pre-hook": [model_hooks.MODEL_PRE_HOOK, OUTSIDE],
                    "post-hook": [OUTSIDE, model_hooks.MODEL_POST_HOOK],
                }
            }
        }


class TestModelHooks(_InAndOutside, _ModelHooks, model_hooks.BasePrePostModelHooks):
    pass


class TestHookRefs(_ModelHooks, model_hooks.BaseHookRefs):
    pass


class TestHooksInConfig(_ModelHooks, model_hooks.BasePrePostModelHooksInConfig):
    pass


class TestHooksInConfigWithCount(
    _InAndOutside, _ModelHooks, model_hooks.BasePrePostModelHooksInConfigWithCount
):
    pass


class TestHooksInConfigKwargs(_ModelHooks, model_hooks.BasePrePostModelHooksInConfigKwargs):
    pass


class TestDuplicateHooks(model_hooks.BaseDuplicateHooksInConfigs):
    pass


class TestHooksOnSeeds(model_hooks.BasePrePostModelHooksOnSeeds):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {
            "seed-paths": ["seeds"],
            "models": {},
            "seeds": {
                "post-hook": [
                    "alter table {{ this }} add column new_col int",
                    "update {{ this }} set new_col = 1",
                    "select cast(null as {{ dbt.type_int() }}) as id",
                ],
                "quote_columns": False,
            },
        }


class TestHooksRefsOnSeeds(model_hooks.BaseHooksRefsOnSeeds):
    pass


class TestHooksOnSeedsPlusPrefixed(model_hooks.BasePrePostModelHooksOnSeedsPlusPrefixed):
    pass


class TestHooksOnSeedsPlusPrefixedWhitespace(
    model_hooks.BasePrePostModelHooksOnSeedsPlusPrefixedWhitespace
):
    pass


class TestHooksOnSnapshots(model_hooks.BasePrePostModelHooksOnSnapshots):
    pass


class TestSnapshotHooksInConfigKwargs(model_hooks.BasePrePostSnapshotHooksInConfigKwargs):
    pass


class TestRunHooks(run_hooks.BasePrePostRunHooks):
    @pytest.fixture
    def setUp(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        for table in ("schemas", "db_schemas"):
            project.run_sql(f"drop table if exists {{schema}}.{table}")
        _create(project, "on_run_hook")
        monkeypatch.setenv("TERM_TEST", "TESTING")

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        def in_spark(statement: str) -> str:
            return statement.replace(" text", " string")

        theirs = run_hooks.BasePrePostRunHooks.project_config_update.__wrapped__(self)
        return {
            key: [in_spark(each) for each in value] if key.startswith("on-run") else value
            for key, value in theirs.items()
        }

    def check_hooks(self, state: str, project: Any, host: Any) -> None:  # noqa: ARG002
        _check(project, "on_run_hook", state, 1)


class TestAfterRunHooks(run_hooks.BaseAfterRunHooks):
    pass


class TestFailingHook:
    """A hook inside takes what the model did with it; a hook outside does not."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        model = "{{{{ config(materialized='table', post_hook={hook}) }}}} select {value} as id"
        fails = "select raise_error('no') from {{ this }}"
        return {
            "inside.sql": model.format(hook=[fails], value="{{ var('value') }}"),
            "outside.sql": model.format(
                hook=[{"sql": fails, "transaction": False}], value="{{ var('value') }}"
            ),
        }

    def test_what_is_left(self, project: Any) -> None:
        run_dbt(["run", "--vars", "value: 1"], expect_pass=False)
        seen = project.run_sql("show tables in {database}.{schema}", fetch="all")
        assert ["outside"] == [row[1] for row in seen]
