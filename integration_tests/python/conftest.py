"""Fixtures of what Python does alone: a PostgreSQL server, for catalogs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A PostgreSQL server of the package pgserver, on a socket of its own."""
    pgserver = pytest.importorskip("pgserver", reason="pgserver has no wheel for this platform")
    server = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    yield server
    server.cleanup()


@pytest.fixture
def postgresql_database(postgresql: Any) -> str:
    """The URI of a database that nobody else uses."""
    name = f"lake_{next(_NUMBERS)}"
    postgresql.psql(f"CREATE DATABASE {name}")
    return postgresql.get_uri(name).replace("postgresql://", "postgresql+psycopg2://")
