"""
What Spark's statements ask a catalog in PostgreSQL for: exact numbers, no clock.

The server's own log tells. Plain Iceberg asks 4 or 5 times for an INSERT of one row, three of them
for the table, and once for each table of a SELECT that its session has not cached.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from integration_tests.cut_connections import Proxy
from integration_tests.drivers import Driver
from integration_tests.faults import Lake
from integration_tests.postgres import running_postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_ASKED = re.compile(r"LOG: +(?:execute [^:]*|statement): *(\w+)(.*)")


def _questions(log: str) -> Counter[str]:
    """Count what a server was asked for: `BEGIN` with its settings is one question."""
    asked = Counter[str]()
    for word, rest in _ASKED.findall(log):
        if word == "SELECT" and "iceberg_tables" in rest:
            asked["lock" if "FOR UPDATE" in rest else "look"] += 1
        elif word in {"BEGIN", "UPDATE", "INSERT", "COMMIT", "ROLLBACK"}:
            asked[word.lower()] += 1
    return asked


@pytest.fixture
def asked(
    tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., dict[str, int]]]:
    """Give what runs statements in a session of Spark, and counts what the catalog is asked."""
    with running_postgres() as server, Proxy(server.socket) as proxy:
        server.create_database("lake")
        Lake(tmp_path, server.uri("lake")).make()
        uri = server.jdbc_uri("lake", port=proxy.port)
        options = {"uri": uri, "txns.apply": request.param}
        with Driver("roles", tmp_path / "files", "-", tmp_path / "log", **options) as driver:

            def run(*statements: str) -> dict[str, int]:
                before = server.log()
                for statement in statements:
                    driver.say(json.dumps(["postgres", statement]))
                    what, found = json.loads(driver.wait_for_line())
                    assert "rows" == what, found
                return dict(_questions(server.log()[len(before) :]))

            for name in ("a", "b"):
                run(f"INSERT INTO lake.shop.{name} VALUES ('0')")
            server.log_statements()
            yield run


IN_A_TRANSACTION = (
    "INSERT INTO lake.shop.a VALUES ('1')",
    "INSERT INTO lake.shop.b VALUES ('1')",
    "DELETE FROM lake.shop.a WHERE id = '0'",
    "UPDATE lake.shop.b SET id = '2' WHERE id = '0'",
    "INSERT INTO lake.shop.a VALUES ('3')",
)
LOCKED = {"begin": 1, "lock": 1, "commit": 1}


@pytest.mark.parametrize("asked", ["atomic"], indirect=True)
def test_where_one_swap_moves_the_tables(asked):
    """A table is looked for once in a transaction, and COMMIT moves all rows in one statement."""
    assert {"look": 1} == asked("BEGIN")
    assert {"look": 2} == asked(*IN_A_TRANSACTION)
    assert {"look": 1, **LOCKED, "update": 1} == asked("COMMIT")
    assert {"look": 6, **LOCKED, "update": 1} == asked("INSERT INTO lake.shop.a VALUES ('4')")


@pytest.mark.parametrize("asked", ["inline"], indirect=True)
def test_where_tables_are_applied_afterwards(asked):
    """Who has read looks once more for strangers' rows on each table that he writes."""
    assert {"look": 1} == asked("BEGIN")
    assert {"look": 2} == asked(*IN_A_TRANSACTION)
    assert {"look": 8, **LOCKED, "update": 3} == asked("COMMIT")
    assert {"look": 9, **LOCKED, "update": 2} == asked("INSERT INTO lake.shop.a VALUES ('4')")


@pytest.mark.parametrize("asked", ["inline"], indirect=True)
def test_a_query_asks_for_the_log_and_each_table(asked):
    """And for the log once more before it runs, which may be long after it was analysed."""
    join = "SELECT * FROM lake.shop.a JOIN lake.shop.b USING (id)"
    assert {"look": 4} == asked(join)
    assert {"look": 4} == asked(join)
    assert {"look": 3} == asked("SELECT count(*) FROM lake.shop.a WHERE id > '0'")
