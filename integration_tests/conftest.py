"""Fixtures of the integration tests: one Spark for all of them, new sessions for each."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests import rest_server as rest
from integration_tests import servers, sessions
from txns._catalog import early_doom
from txns_spark import dbapi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

_NUMBERS = itertools.count(1)

# Two processes take a file each, in this order: a long one at the end would leave the other idle.
_LONGEST = (
    "spark/test_statements.py",
    "spark/test_write_matrix.py",
    "spark/test_crash.py",
    "spark/test_configure.py",
    "python/test_processes.py",
    "spark/test_atomic_reads.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first."""
    order = {name: number for number, name in enumerate(_LONGEST)}

    def rank(item: pytest.Item) -> int:
        path = item.path
        return order.get(f"{path.parent.name}/{path.name}", len(order))

    items.sort(key=rank)


@pytest.fixture(autouse=True)
def nobody_looks_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine a look would tell a test of its conflict before the commit."""
    monkeypatch.setattr(early_doom, "_PAUSE_MS", 3_600_000)


@pytest.fixture(scope="session")
def lake_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the catalog `lake`, which all sessions and servers of a run share."""
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="session")
def root_session(lake_folder: Path) -> Iterator[SparkSession]:
    """
    The session that all others are made from.

    A JVM stays for the life of its process, and starting it is most of a short test's time.
    """
    session = sessions.start(lake_folder)
    session.sql("CREATE NAMESPACE lake.db")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rest.Server]:
    """Iceberg's REST catalog, one for the whole run."""
    with rest.running_server(tmp_path_factory.mktemp("rest")) as server:
        yield server


def _server_fixture(server: Callable[[Path, Path], servers.Server], name: str) -> Any:
    """Return a fixture: one server over `lake` for the whole run."""

    @pytest.fixture(scope="session", name=name)
    def fixture(
        root_session: SparkSession, lake_folder: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[servers.Server]:
        del root_session  # it makes the namespace lake.db
        with server(lake_folder, tmp_path_factory.mktemp(name) / "log") as running:
            yield running

    return fixture


connect_server = _server_fixture(servers.ConnectServer, "connect_server")
thrift_server = _server_fixture(servers.ThriftServer, "thrift_server")


@pytest.fixture(params=["session", "connect", "thrift"])
def open_connection(request: pytest.FixtureRequest) -> Iterator[Callable[..., dbapi.Connection]]:
    """Open connections of the DB-API to `lake.db`, by each of its three ways."""
    made: list[dbapi.Connection] = []

    def make(**options: Any) -> dbapi.Connection:
        options = {"schema": "db"} | options
        if request.param == "session":
            made.append(dbapi.connect(request.getfixturevalue("root_session"), **options))
        elif request.param == "connect":
            address = request.getfixturevalue("connect_server").address
            made.append(dbapi.connect_remote(*address, **options))
        else:
            address = request.getfixturevalue("thrift_server").address
            made.append(dbapi.connect_thrift(*address, **options))
        return made[-1]

    yield make
    for connection in made:
        connection.close()


@pytest.fixture
def new_session(root_session: SparkSession) -> Iterator[Callable[[], SparkSession]]:
    """Make sessions; those that are still in a transaction when the test ends leave it."""
    made: list[SparkSession] = []

    def make() -> SparkSession:
        made.append(root_session.newSession())
        return made[-1]

    yield make
    for session in made:
        session.sql("ROLLBACK")


@pytest.fixture
def spark(new_session: Callable[[], SparkSession]) -> SparkSession:
    """A session over `lake`."""
    return new_session()


@pytest.fixture
def other(new_session: Callable[[], SparkSession]) -> SparkSession:
    """Another session over `lake`."""
    return new_session()


@pytest.fixture
def outsider(root_session: SparkSession) -> SparkSession:
    """A session that sees the tables of `lake` through plain Iceberg."""
    return sessions.outsider(root_session)


@pytest.fixture
def own_lake(
    new_session: Callable[[], SparkSession], tmp_path: Path
) -> Callable[..., SparkSession]:
    """
    Make sessions over a catalog `own`, which no other test sees, with options of their own.

    Option names are given as txns_apply, for txns.apply; the log is set to `next` as well.
    """

    def make(*, catalog_class: str = sessions.TXNS, **options: str) -> SparkSession:
        session = new_session()
        named = {name.replace("_", ".", 1).replace("_", "-"): v for name, v in options.items()}
        sessions.add_catalog(session, "own", tmp_path / "own", catalog_class, **named)
        session.sql("CREATE NAMESPACE IF NOT EXISTS own.db")
        if options.get("txns_apply") == "next":
            session.sql("CALL own.system.settings(apply => 'next')")
        return session

    return make


@pytest.fixture
def table() -> str:
    """A table's name in `lake` that no other test uses."""
    return f"lake.db.t{next(_NUMBERS)}"


@pytest.fixture
def two_tables(spark: SparkSession, table: str) -> tuple[str, str]:
    """Two tables (id, v) of two rows each, the same rows, v = 0."""
    names = (f"{table}_a", f"{table}_b")
    for name in names:
        spark.sql(f"CREATE TABLE {name} (id BIGINT, v BIGINT) USING iceberg")
        spark.sql(f"INSERT INTO {name} VALUES (1, 0), (2, 0)")
    return names
