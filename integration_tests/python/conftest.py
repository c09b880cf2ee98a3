"""Fixtures of what Python does alone: a PostgreSQL server, for catalogs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from integration_tests.postgres import Postgres, running_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Postgres]:
    """A PostgreSQL server that all tests share."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgresql_database(postgresql: Postgres) -> str:
    """The URI of a database that nobody else uses."""
    name = f"lake_{next(_NUMBERS)}"
    postgresql.create_database(name)
    return postgresql.uri(name)
