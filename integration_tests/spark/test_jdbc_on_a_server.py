"""
The protocol's own tests of swaps that move several rows, over a PostgreSQL.

A database that locks single rows is another one than SQLite, which the tests of Java run on.
"""

from __future__ import annotations

import subprocess

import pytest

from integration_tests.cut_connections import Proxy
from integration_tests.postgres import running_postgres
from integration_tests.rest_server import ROOT

SUITES = "AtomicTest,AtomicOnServerTest"


@pytest.mark.slow
def test_rows_move_together_on_a_server() -> None:
    """Locks, their limits, and what becomes of lost answers are the same as on SQLite, or more."""
    with running_postgres() as server, Proxy(server.socket) as proxy:
        server.create_database("lake")
        command = [
            "mvn",
            "-q",
            "-B",
            "test",
            "-Dspotless.check.skip=true",
            "-pl",
            "core",
            f"-Dtest={SUITES}",
            "-Dsurefire.failIfNoSpecifiedTests=true",
            "-Dtxns.test.forks=1",  # their tables have the same names, and the server is one
            f"-Dtxns.test.jdbc.uri={server.jdbc_uri('lake', port=proxy.port)}",
        ]
        result = subprocess.run(
            command,
            cwd=ROOT / "spark_extension" / "java",
            capture_output=True,
            text=True,
            check=False,
        )
    assert result.returncode == 0, result.stdout[-8000:]
