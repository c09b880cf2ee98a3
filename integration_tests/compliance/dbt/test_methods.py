"""Models over Spark Connect and Thrift servers, and what `dbt debug` and `dbt init` say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dbt
import pytest
import yaml
from dbt.adapters import txns as adapter
from dbt.adapters.txns.connections import StatementError
from dbt.adapters.txns.handle import HandleCursor
from dbt.include import txns as macros
from dbt.tests.util import run_dbt, run_dbt_and_capture
from pyspark.errors import AnalysisException

from integration_tests import servers
from txns_spark import JAR_VERSION, dbapi

if TYPE_CHECKING:
    from collections.abc import Iterator

FACTS = """
{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='id',
          post_hook="select raise_error('late') from {{ this }}"
                    if var("fails", false) else []) }}
select id, name, {{ var("run") }} as run from {{ ref('names') }}
{% if is_incremental() %} where id > 1 {% endif %}
"""


@pytest.fixture(scope="module")
def server_folder(
    warehouse: Path, spark_config: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A folder for a server's catalog. Servers take their jars from a Spark that runs here."""
    connection = dbapi.connect(warehouse=str(warehouse), config=spark_config)
    yield tmp_path_factory.mktemp("served")
    connection.close()


class _Served:
    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"names.csv": "id,name\n1,it's\n2,b\n3,\n"}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"facts.sql": FACTS}

    def test_models_commit_or_do_not(self, project: Any) -> None:
        run_dbt(["debug"])
        run_dbt(["build", "--vars", "run: 1"])
        response = run_dbt(["run", "--vars", "run: 2"])[0].adapter_response
        assert (2, True) == (response["rows_affected"], response["commit_ts"] > 0)
        run_dbt(["run", "--vars", "{run: 3, fails: true}"], expect_pass=False)
        assert [(1, "it's", 1), (2, "b", 2), (3, None, 2)] == self._rows(project)

    def _rows(self, project: Any) -> list[tuple[Any, ...]]:
        rows = project.run_sql("select * from {database}.{schema}.facts", fetch="all")
        return sorted(tuple(row) for row in rows)

    def lose(self, connection: dbapi.Connection) -> None:
        """End the session of a connection, which does not know."""
        raise NotImplementedError

    def test_a_lost_session_is_run_again(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The session is lost after the DELETE: the model's transaction runs in a new one."""
        run_dbt(["build", "--full-refresh", "--vars", "run: 1"])
        lost: list[str] = []
        real = HandleCursor.execute

        def execute(cursor: HandleCursor, sql: str, bindings: Any = None) -> None:
            if "insert into" in sql and not lost:
                lost.append(sql)
                self.lose(cursor._cursor.connection)
            real(cursor, sql, bindings)

        monkeypatch.setattr(HandleCursor, "execute", execute)
        _, log = run_dbt_and_capture(["run", "--vars", "run: 4"])
        assert "attempt 1 of 4 is run again" in log
        assert [(1, "it's", 1), (2, "b", 4), (3, None, 4)] == self._rows(project)


@pytest.mark.slow
class TestConnect(_Served):
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, server_folder: Path) -> Iterator[dict[str, Any]]:
        log = server_folder / "connect.log"
        with servers.ConnectServer(server_folder, log) as server:
            host, port = server.address
            yield {"type": "txns", "method": "connect", "host": host, "port": port}

    def lose(self, connection: dbapi.Connection) -> None:
        connection._session._spark.client.release_session()


@pytest.fixture(scope="module")
def thrift_target(server_folder: Path) -> Iterator[dict[str, Any]]:
    """A target of a Thrift server."""
    with servers.ThriftServer(server_folder, server_folder / "thrift.log") as server:
        host, port = server.address
        yield {"type": "txns", "method": "thrift", "host": host, "port": port, "user": "dbt"}


@pytest.mark.slow
class TestThrift(_Served):
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, thrift_target: dict[str, Any]) -> dict[str, Any]:
        return dict(thrift_target)

    def lose(self, connection: dbapi.Connection) -> None:
        connection._session._connection.close()


def _keystore(folder: Path) -> dict[str, str]:
    """Make a certificate of this machine's own; return the server's settings for TLS."""
    path = folder / "keys.p12"
    options = {"alias": "lake", "dname": "CN=localhost", "keyalg": "RSA", "storepass": "secret1"}
    words = [word for key, value in options.items() for word in (f"-{key}", value)]
    command = ["keytool", "-genkeypair", "-keystore", str(path), "-storetype", "PKCS12", *words]
    subprocess.run(command, check=True, capture_output=True)
    return {
        "spark.hive.server2.use.SSL": "true",
        "spark.hive.server2.keystore.path": str(path),
        "spark.hive.server2.keystore.password": options["storepass"],
    }


@pytest.mark.slow
class TestThriftOverTls:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, server_folder: Path) -> Iterator[dict[str, Any]]:
        settings = _keystore(server_folder)
        with servers.ThriftServer(server_folder, server_folder / "tls.log", **settings) as server:
            host, port = server.address
            yield {"type": "txns", "method": "thrift", "host": host, "port": port, "use_ssl": True}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"one.sql": "{{ config(materialized='table') }} select 1 as id"}

    def test_models_commit(self, project: Any) -> None:
        run_dbt(["debug"])
        run_dbt(["run"])
        rows = project.run_sql("select * from {database}.{schema}.one", fetch="all")
        assert [(1,)] == [tuple(row) for row in rows]


@pytest.mark.slow
@pytest.mark.usefixtures("project")
class TestDebugOfAPlainCatalog:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, thrift_target: dict[str, Any]) -> dict[str, Any]:
        plain = "org.apache.iceberg.spark.SparkCatalog"
        return thrift_target | {"server_side_parameters": {"spark.sql.catalog.lake": plain}}

    def test_names_the_cure(self) -> None:
        _, log = run_dbt_and_capture(["debug"], expect_pass=False)
        assert "set spark.sql.catalog.lake=io.txns.spark.TxnSparkCatalog" in log


@pytest.mark.usefixtures("project")
class TestDebug:
    def test_says_what_it_has_found(self) -> None:
        _, log = run_dbt_and_capture(["debug"])
        assert "catalog lake with transactions, commit table txns.commits" in log
        assert "transaction: model, isolation: SNAPSHOT, retries: 3" in log
        assert f"jar of txns_spark {JAR_VERSION}," in log
        assert "install the same version" not in log

    def test_warns_of_a_jar_of_another_version(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dbt.adapters.txns.debug.JAR_VERSION", "9.9.9")
        _, log = run_dbt_and_capture(["debug"])
        assert f"runs the jar of txns_spark {JAR_VERSION}, and this is 9.9.9" in log


@pytest.mark.usefixtures("project")
class TestCancelled:
    def test_also_the_session_that_follows_a_lost_one(self, adapter: Any) -> None:
        """Ctrl-C while a model is about to be run again in a new session."""
        connections = adapter.connections
        with adapter.connection_named("cancelled"):
            connection = connections.get_thread_connection()
            assert [(1,)] == [tuple(row) for row in adapter.execute("select 1", fetch=True)[1]]
            connections.cancel(connection)
            connections.reconnect(connection)
            with pytest.raises(StatementError, match="57014"):
                adapter.execute("select 1", fetch=True)


@pytest.mark.usefixtures("project")
class TestPooled:
    @pytest.mark.parametrize("left", ["BEGIN", "BEGIN; INSERT INTO lake.nowhere.t VALUES (1)"])
    def test_what_a_session_was_left_with_is_undone(self, adapter: Any, left: str) -> None:
        with adapter.connection_named("pooled"):
            handle = adapter.connections.get_thread_connection().handle
            session = handle.connection._session
            for sql in left.split("; "):
                with suppress(AnalysisException):
                    session.run(sql, ())
            status = handle.begin("SNAPSHOT", "{}", "lake")
            assert status.state == "active"
            handle.rollback()


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """
    An environment with the adapter in dbt's own folders, where pip puts it.

    `dbt init` looks nowhere else, so it does not offer an adapter that runs from its sources.
    """
    site = tmp_path / "site" / "dbt"
    theirs = Path(dbt.__path__[0])
    for name in ("", "adapters", "include"):
        (site / name).mkdir(parents=True)
        for each in (theirs / name).iterdir():
            if each.name not in {"adapters", "include"}:
                (site / name / each.name).symlink_to(each)
    for name, ours in (("adapters", adapter), ("include", macros)):
        (site / name / "txns").symlink_to(ours.__path__[0])
    return os.environ | {"PYTHONPATH": str(site.parent)}


@pytest.mark.slow
def test_init_proposes_a_commit_table_of_the_target(
    tmp_path: Path, installed: dict[str, str]
) -> None:
    """Who accepts every proposal of `dbt init` has a profile that `dbt debug` passes."""
    command = [sys.executable, "-m", "dbt.cli.main"]
    where = ["--profiles-dir", str(tmp_path)]

    def run(*arguments: str, folder: Path, answers: str = "") -> tuple[int, str]:
        done = subprocess.run(
            [*command, *arguments, *where],
            cwd=folder,
            env=installed,
            input=answers,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    assert 0 == run("init", "shop", "--skip-profile-setup", folder=tmp_path)[0]
    project = tmp_path / "shop"
    _, offered = run("init", folder=project)
    [number] = re.findall(r"^\[(\d+)\] txns$", offered, re.MULTILINE)
    # The adapter, the first method of three, and the proposals for all but the schema.
    status, said = run("init", folder=project, answers=f"{number}\n1\n\n\n\nshop\n\n")
    assert 0 == status, said
    profile = yaml.safe_load((tmp_path / "profiles.yml").read_text())["shop"]["outputs"]["dev"]
    assert ("txns", "session") == (profile["type"], profile["method"])
    assert "txns.commits_dev" == profile["commit_table"]
    status, said = run("debug", folder=project)
    assert 0 == status, said
    assert "commit table txns.commits_dev" in said
