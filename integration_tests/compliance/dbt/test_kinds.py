"""Models that change between table and view: what was there stays until the new one is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from dbt.adapters.txns.handle import Handle
from dbt.adapters.txns.impl import TxnsAdapter
from dbt.tests.util import run_dbt_and_capture

from integration_tests.compliance.dbt.reading import rows
from txns_spark import dbapi

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = """
{{ config(materialized=var('kind'),
          pre_hook=var('before', []),
          post_hook=var('after', []) +
                    (["select raise_error('late')"] if var('late', false) else [])) }}
select {{ var('id', '1') }} as id
"""
AUDIT = "create table {{ this.include(identifier=false) }}.audit as select 1 as id"
GROWN = """
{{ config(materialized=var('kind')) }}
select {{ "(select max(id) from " ~ this ~ ") + 1" if is_incremental() else "1" }} as id
"""


def _run(*, expect_pass: bool = True, **variables: object) -> str:
    select = ["--select", "model", "--vars", json.dumps(variables)]
    return run_dbt_and_capture(["run", *select], expect_pass=expect_pass)[1]


def _there(project: Any) -> list[tuple[str, str]]:
    with project.adapter.connection_named("_there"):
        schema = project.adapter.Relation.create(project.database, project.test_schema)
        found = project.adapter.list_relations_without_caching(schema)
    return sorted((relation.identifier, str(relation.type)) for relation in found)


class TestChanges:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"model.sql": MODEL}

    @pytest.fixture(autouse=True)
    def _empty(self, project: Any) -> Iterator[None]:
        yield
        there = _there(project)
        with project.adapter.connection_named("_empty"):
            for name, kind in there:
                relation = project.adapter.Relation.create(
                    project.database, project.test_schema, name, type=kind
                )
                project.adapter.remove(relation)

    @pytest.mark.parametrize("kinds", [("table", "view"), ("view", "table")])
    @pytest.mark.parametrize("wrong", [{"id": "no_such_column"}, {"late": True}])
    def test_one_that_fails_leaves_what_was_there(
        self, project: Any, kinds: tuple[str, str], wrong: dict[str, str]
    ) -> None:
        before, after = kinds
        _run(kind=before)
        _run(kind=after, expect_pass=False, **({"id": 2} | wrong))
        assert [("model", before)] == _there(project)
        assert [(1,)] == rows(project, "model")
        _run(kind=after, id=2)
        assert [("model", after)] == _there(project)
        assert [(2,)] == rows(project, "model")

    @pytest.mark.parametrize("kinds", [("table", "view"), ("view", "table")])
    def test_a_refused_commit_leaves_what_was_there(
        self, project: Any, monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, str]
    ) -> None:
        """Whatever it was refused for: the driver has rolled it back."""
        before, after = kinds
        _run(kind=before)
        with monkeypatch.context() as refused:
            refused.setattr(Handle, "commit", _refuses(dbapi.OperationalError("an executor")))
            _run(kind=after, id=2, expect_pass=False)
        assert [("model", before)] == _there(project)
        assert [(1,)] == rows(project, "model")

    @pytest.mark.parametrize("kinds", [("table", "view"), ("view", "table")])
    def test_what_a_hook_has_committed_stays(self, project: Any, kinds: tuple[str, str]) -> None:
        """
        The old one does not take the place of what has committed.

        1. the old one steps aside; 2. the new one is built, and a hook commits; 3. one fails.
        """
        before, after = kinds
        _run(kind=before)
        hooks = [AUDIT, "commit"]
        log = _run(kind=after, id=2, late=True, after=hooks, expect_pass=False)
        assert "a part of" in log
        assert [("audit", "table"), ("model", after), ("model__dbt_old", before)] == _there(project)
        assert [(2,)] == rows(project, "model")

    def test_one_that_fails_after_a_commit_before_it_comes_back(self, project: Any) -> None:
        """What has committed is not in its place."""
        _run(kind="view")
        _run(kind="table", id="no_such_column", before=[AUDIT, "commit"], expect_pass=False)
        assert [("audit", "table"), ("model", "view")] == _there(project)
        assert [(1,)] == rows(project, "model")

    def test_an_outcome_that_nobody_knows_is_no_refusal(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Both are there to be looked at."""
        _run(kind="table")
        unknown = dbapi.CommitStateUnknown("nobody knows", sqlstate="08007")
        with monkeypatch.context() as lost:
            lost.setattr(Handle, "commit", _refuses(unknown))
            log = _run(kind="view", id=2, expect_pass=False)
        assert "is run again" not in log
        assert [("model", "view"), ("model__dbt_old", "table")] == _there(project)

    def test_what_a_run_that_died_has_left_aside_comes_back(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        It fails as it dies: nothing gives the table its name back.

        1. the table steps aside;
        2. the process is gone before the view is there;
        3. the next run, of the table again, finds its rows.
        """
        _run(kind="incremental")
        with monkeypatch.context() as dying:
            dying.setattr("dbt.adapters.txns.aside._come_back", lambda *_: None)
            _run(kind="view", id="no_such_column", expect_pass=False)
        assert [("model__dbt_old", "table")] == _there(project)
        log = _run(kind="incremental", id=2)
        assert "aside" in log
        assert [("model", "table")] == _there(project)
        assert [(1,), (2,)] == rows(project, "model")


class TestRowsThatComeBack:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"model.sql": GROWN}

    def test_count_for_the_models_text(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """The text was compiled while the table was aside, as one that builds it anew."""
        _run(kind="incremental")
        with monkeypatch.context() as dying:
            dying.setattr("dbt.adapters.txns.aside._come_back", lambda *_: None)
            dying.setattr(TxnsAdapter, "_attempts", _dies)
            _run(kind="view", expect_pass=False)
        assert [("model__dbt_old", "table")] == _there(project)
        _run(kind="incremental")
        assert [(1,), (2,)] == rows(project, "model")


def _refuses(error: Exception) -> Any:
    def commit(handle: Handle) -> dbapi.Status:
        handle.connection.rollback()
        raise error

    return commit


def _dies(*_: object) -> None:
    raise RuntimeError("the process is gone")
