"""The target of dbt's own test suite: an embedded lake, one Spark for all tests of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from dbt.adapters.txns.handle import Handle

from integration_tests import sessions
from txns_spark import dbapi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytest_plugins = ["dbt.tests.fixtures.project"]


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the tables of the whole run."""
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="session")
def spark_config() -> dict[str, str]:
    """Settings for small data on a small machine."""
    return sessions.SMALL | {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "1"}


@pytest.fixture(scope="session")
def dbt_profile_target(warehouse: Path, spark_config: dict[str, str]) -> dict[str, Any]:
    """A profile with nothing but what a user of the embedded default writes."""
    return {
        "type": "txns",
        "method": "session",
        "warehouse": str(warehouse),
        "config": spark_config,
        "threads": 2,
    }


@pytest.fixture
def other() -> Iterator[dbapi.Connection]:
    """A session of somebody else, over the same catalog."""
    connection = dbapi.connect(autocommit=True)
    yield connection
    connection.close()


@pytest.fixture
def at_commit(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], Any]], None]:
    """Do something right before a COMMIT that is sent: the first, the second, ..."""

    def arrange(which: int, deed: Callable[[], Any]) -> None:
        sent: list[Handle] = []
        real = Handle.commit

        def commit(handle: Handle) -> dbapi.Status:
            sent.append(handle)
            if len(sent) == which:
                deed()
            return real(handle)

        monkeypatch.setattr(Handle, "commit", commit)

    return arrange


@pytest.fixture
def at_first_commit(
    at_commit: Callable[[int, Callable[[], Any]], None],
) -> Callable[[Callable[[], Any]], None]:
    """Do something right before the first COMMIT that is sent."""
    return lambda deed: at_commit(1, deed)
