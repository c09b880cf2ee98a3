"""
The protocol's own tests of swaps that move several rows, over a PostgreSQL.

A database that locks single rows is another one than SQLite, which the tests of Java run on.
"""

from __future__ import annotations

import pytest

from integration_tests import java_suites
from integration_tests.cut_connections import Proxy
from integration_tests.postgres import running_postgres

SUITES = "AtomicTest,AtomicLockTest,AheadTest,AtomicOnServerTest"


@pytest.mark.slow
def test_rows_move_together_on_a_server() -> None:
    """Locks, their limits, and what becomes of lost answers are the same as on SQLite, or more."""
    with running_postgres() as server, Proxy(server.socket) as proxy:
        server.create_database("lake")
        uri = server.jdbc_uri("lake", port=proxy.port)
        java_suites.run(SUITES, jdbc_uri=uri)
