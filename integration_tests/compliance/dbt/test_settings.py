"""What profiles and models say: transactions or none, isolation, catalogs, ANSI mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from dbt.adapters.txns.handle import Handle
from dbt.tests.util import run_dbt

from benchmarks._dbt_projects import SHORT, Project, Target, transactional
from integration_tests import sessions
from txns_spark import _catalog, dbapi
from txns_spark._configure import CATALOG_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

FAILS_LATE = """
{{{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='id',
           post_hook="select raise_error('late') from {{{{ this }}}}"
                     if var('run') == 2 else [], {settings}) }}}}
select id, {{{{ var('run') }}}} as run from range(2)
"""
WRONG = {
    "dirty": ("isolation='dirty'", "there is no such isolation level"),
    "whole_run": ("transaction='run'", "transaction is 'model' or 'none'"),
    "unquoted": ("transaction=none", "none without quotes"),
    "never": ("retries=-1", "retries must be a whole number, 0 or more: retries=-1"),
}
TABLE = "{{{{ config(materialized='table', {settings}) }}}} {query}"


def _rows(project: Any, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in project.run_sql(f"select * from {table}", fetch="all"))


class TestOfModels:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "one.sql": FAILS_LATE.format(settings="transaction='model'"),
            "none.sql": FAILS_LATE.format(settings="transaction='none'"),
            "serializable.sql": TABLE.format(
                settings="isolation='serializable'", query="select 1 as id"
            ),
            **{
                f"{name}.sql": TABLE.format(settings=settings, query="select 1 as id")
                for name, (settings, _) in WRONG.items()
            },
        }

    def test_transaction(self, project: Any) -> None:
        """Without a transaction of dbt's each statement has committed when a hook fails."""
        run_dbt(["run", "--select", "one", "none", "--vars", "run: 1"])
        run_dbt(["run", "--select", "one", "none", "--vars", "run: 2"], expect_pass=False)
        schema = f"lake.{project.test_schema}"
        assert [(0, 1), (1, 1)] == _rows(project, f"{schema}.one")
        assert [(0, 2), (1, 2)] == _rows(project, f"{schema}.none")

    def test_isolation(self, project: Any) -> None:  # noqa: ARG002
        [result] = run_dbt(["run", "--select", "serializable"])
        with dbapi.connect(autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("call lake.system.transactions()")
            names = [column.name for column in cursor.description]
            logged = [dict(zip(names, row, strict=True)) for row in cursor]
        txn_id = result.adapter_response["txn_id"]
        levels = {row["isolation"].upper() for row in logged if row["txn_id"] == txn_id}
        assert {"SERIALIZABLE"} == levels

    def test_values_that_there_are_not(self, project: Any) -> None:  # noqa: ARG002
        results = run_dbt(["run", "--select", *WRONG], expect_pass=False)
        for result in results:
            assert WRONG[result.node.name][1] in result.message


@pytest.mark.timeout(900)
def test_of_the_profile(tmp_path: Path) -> None:
    """A target without transactions and with a second catalog; one model goes before it."""
    options = _catalog.embedded(str(tmp_path / "other"), "other").options
    other = {f"spark.sql.catalog.other.{key}": value for key, value in options.items()}
    spark = SHORT | other | {"spark.sql.catalog.other": CATALOG_CLASS}
    target = transactional(tmp_path / "lake", spark, transaction="none")
    files = {
        "models/none.sql": FAILS_LATE.format(settings="database='other'"),
        "models/one.sql": FAILS_LATE.format(settings="transaction='model', database='other'"),
        "models/reader.sql": TABLE.format(settings="", query="select run from {{ ref('one') }}"),
    }
    project = Project(tmp_path / "project", target, files)
    project.run("run", run=1)
    with pytest.raises(RuntimeError, match="late"):
        project.run("run", "--select", "one", "none", run=2)
    elsewhere = Target({}, "other", tmp_path / "other")
    assert {(0, 1), (1, 1)} == elsewhere.rows("shop.one")
    assert {(0, 2), (1, 2)} == elsewhere.rows("shop.none")
    assert {(1,)} == target.rows("shop.reader")


class TestAnsi:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"cast.sql": TABLE.format(settings="", query="select cast('x' as int) as id")}

    def test_what_cannot_be_cast_is_an_error(self, project: Any) -> None:  # noqa: ARG002
        [result] = run_dbt(["run"], expect_pass=False)
        assert "22018" in result.message


class TestServerSideParameters:
    @pytest.fixture(scope="class")
    def dbt_profile_target(
        self, dbt_profile_target: dict[str, Any], warehouse: Path, spark_config: dict[str, str]
    ) -> Iterator[dict[str, Any]]:
        settings = {
            "spark.sql.session.timeZone": "Asia/Tokyo",
            "shop.answer": 42,
            "spark.driver.memory": "1234m",
        }
        with dbapi.connect(warehouse=str(warehouse), config=spark_config):
            yield dbt_profile_target | {"server_side_parameters": settings}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        query = "select current_timezone() as zone, ${shop.answer} as answer"
        return {"zone.sql": TABLE.format(settings="", query=query)}

    def test_a_session_has_them_where_spark_runs_already(self, project: Any) -> None:
        run_dbt(["run"])
        assert [("Asia/Tokyo", 42)] == _rows(project, f"lake.{project.test_schema}.zone")


class TestTheSessionCatalog:
    """Models in spark_catalog, next to Spark's own tables."""

    @pytest.fixture(scope="class")
    def dbt_profile_target(
        self, dbt_profile_target: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
    ) -> dict[str, Any]:
        name = "spark.sql.catalog.spark_catalog"
        options = sessions.catalog_settings(tmp_path_factory.mktemp("spark_catalog"))
        settings = {f"{name}.{key}": value for key, value in options.items()}
        settings[name] = "io.txns.spark.TxnSparkSessionCatalog"
        return dbt_profile_target | {"server_side_parameters": settings}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "one.sql": FAILS_LATE.format(settings="database='spark_catalog'"),
            "reader.sql": TABLE.format(
                settings="database='spark_catalog'", query="select run from {{ ref('one') }}"
            ),
        }

    def test_models_commit_or_do_not(self, project: Any) -> None:
        run_dbt(["run", "--vars", "run: 1"])
        run_dbt(["run", "--vars", "run: 2", "--select", "one"], expect_pass=False)
        schema = f"spark_catalog.{project.test_schema}"
        assert [(0, 1), (1, 1)] == _rows(project, f"{schema}.one")
        assert [(1,), (1,)] == _rows(project, f"{schema}.reader")

    def test_an_unknown_outcome_is_asked_for_there(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The log of the target's own catalog knows nothing of it."""
        real = Handle.commit

        def commit(handle: Handle) -> dbapi.Status:
            status = real(handle)
            raise dbapi.CommitStateUnknown("lost", sqlstate="08007", txn_id=status.txn_id)

        monkeypatch.setattr(Handle, "commit", commit)
        monkeypatch.setattr("dbt.adapters.txns.connections._OUTCOME_PAUSE_S", 0)
        run_dbt(["run", "--vars", "run: 1", "--select", "one", "--full-refresh"])
        assert [(0, 1), (1, 1)] == _rows(project, f"spark_catalog.{project.test_schema}.one")


class TestGrants:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        grants = "grants={'select': ['mara']} if var('grants') else {}"
        query = "select '{{ var(\"grants\") }}' as grants"
        return {"granted.sql": TABLE.format(settings=grants, query=query)}

    def test_are_refused_where_spark_has_none(self, project: Any) -> None:
        """The first time it is GRANT that Spark refuses, later SHOW GRANTS."""
        [result] = run_dbt(["run", "--vars", "grants: true"], expect_pass=False)
        assert "remove `grants`" in result.message
        run_dbt(["run", "--vars", "grants: false"])
        [result] = run_dbt(["run", "--vars", "grants: true"], expect_pass=False)
        assert "remove `grants`" in result.message
        assert [("False",)] == _rows(project, f"lake.{project.test_schema}.granted")
