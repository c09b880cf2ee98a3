"""
The protocol's own tests over an Iceberg REST catalog.

REST catalogs guard refs and schemas, not properties: what is a swap on a catalog that swaps
metadata locations has to be one there too. The server is Iceberg's test fixture, started here on
loopback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration_tests import java_suites

if TYPE_CHECKING:
    from integration_tests.rest_server import Server

SUITES = "TransactionTest,StrangerTest,SwitchedOffTest,RaceTest,ProtocolEdgesTest"


@pytest.mark.slow
@pytest.mark.timeout(1800)  # five suites of Java's
def test_the_protocol_holds_over_a_rest_catalog(rest_server: Server) -> None:
    """Transactions, strangers and races end the same over REST as over SQLite."""
    server = {"rest_uri": rest_server.uri, "rest_warehouse": str(rest_server.warehouse)}
    java_suites.run(SUITES, **server)
