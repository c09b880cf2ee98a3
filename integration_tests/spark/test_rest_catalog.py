"""
The protocol's own tests over an Iceberg REST catalog.

REST catalogs guard refs and schemas, not properties: what is a swap on a catalog that swaps
metadata locations has to be one there too. The server is Iceberg's test fixture, started here on
loopback.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from integration_tests.rest_server import ROOT

if TYPE_CHECKING:
    from integration_tests.rest_server import Server

SUITES = "TransactionTest,StrangerTest,SwitchedOffTest,RaceTest,ProtocolEdgesTest"


@pytest.mark.slow
def test_the_protocol_holds_over_a_rest_catalog(rest_server: Server) -> None:
    """Transactions, strangers and races end the same over REST as over SQLite."""
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
        f"-Dtxns.test.rest.uri={rest_server.uri}",
        f"-Dtxns.test.rest.warehouse={rest_server.warehouse}",
    ]
    result = subprocess.run(
        command,
        cwd=ROOT / "spark_extension" / "java",
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-8000:]
