"""
Roles of PostgreSQL that may not do everything, through Spark's JDBC catalog (docs/security.md).

The rights are those of python/test_rights.py: grants on the catalog's tables, and policies on their
rows. Python looks on as the owner.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import txns
from integration_tests.cut_connections import Proxy
from integration_tests.drivers import Driver
from integration_tests.faults import Lake
from integration_tests.postgres import running_postgres
from txns._admin.health import health
from txns._admin.invariants import check_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GRANTS = (
    "CREATE ROLE reader LOGIN",
    "CREATE ROLE writer LOGIN",
    "GRANT SELECT ON iceberg_tables, iceberg_namespace_properties TO reader, writer",
    "GRANT UPDATE ON iceberg_tables TO writer",
    "ALTER TABLE iceberg_tables ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY reads ON iceberg_tables FOR SELECT USING (true)",
    (
        "CREATE POLICY writes ON iceberg_tables FOR UPDATE TO writer"
        " USING (table_name IN ('commits', 'a'))"
    ),
)


@pytest.fixture(params=["inline", pytest.param("atomic", marks=pytest.mark.slow)])
def lake(
    tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[Lake, Callable[[str, str], Any]]]:
    """Give a lake with a and b, and what runs a statement in Spark as a role."""
    with running_postgres() as server, Proxy(server.socket) as proxy:
        server.create_database("lake")
        lake = Lake(tmp_path, server.uri("lake")).make()
        server.run(*GRANTS, database="lake")
        options = {
            "uri": server.jdbc_uri("lake", port=proxy.port),
            "txns.apply": request.param,
        }
        with Driver("roles", tmp_path / "files", "-", tmp_path / "spark.log", **options) as driver:

            def run(role: str, statement: str) -> Any:
                driver.say(json.dumps([role, statement]))
                _, found = json.loads(driver.wait_for_line())
                return found

            yield lake, run


def test_roles_through_spark(lake):
    """
    Who may not write is refused at once; who may write the log and a alone leaves b to others.

    1. A writer commits to both: a is applied, b is not, and every reader of the log sees both.
    2. A reader reads both, and is told by the database that it may not write; it rolls back.
    3. Nobody waits for b: the writer goes on with a.
    4. The owner applies b.
    5. Who may write b and not the log is told so, and nothing is committed.
    """
    lake, run = lake
    for statement in ("BEGIN", "INSERT INTO lake.shop.a VALUES ('1')"):
        run("writer", statement)
    run("writer", "INSERT INTO lake.shop.b VALUES ('1')")
    [committed] = run("writer", "COMMIT")
    assert "committed" == committed[0]
    owner = lake.catalog()
    assert 1 == owner.load_table("shop.a").scan().to_arrow().num_rows
    assert 0 == owner.load_table("shop.b").scan().to_arrow().num_rows
    states = {each.name: each.state for each in health(txns.open(owner).parts).tables}
    assert {"shop.a": "ok", "shop.b": "unapplied"} == states

    joined = "SELECT count(*) FROM lake.shop.a JOIN lake.shop.b USING (id)"
    assert [[1]] == run("reader", joined)
    run("reader", "BEGIN")
    run("reader", "INSERT INTO lake.shop.a VALUES ('2')")
    assert "permission denied" in run("reader", "COMMIT")
    assert "rolled back" == run("reader", "ROLLBACK")[0][0]

    run("writer", "INSERT INTO lake.shop.a VALUES ('3')")
    assert 2 == owner.load_table("shop.a").scan().to_arrow().num_rows
    assert [[1]] == run("reader", joined)

    run("postgres", "CALL lake.system.apply()")
    assert 1 == owner.load_table("shop.b").scan().to_arrow().num_rows
    assert [] == check_all(txns.open(owner).parts).violations

    with owner.engine.begin() as connection:
        connection.exec_driver_sql(
            "ALTER POLICY writes ON iceberg_tables USING (table_name IN ('a', 'b'))"
        )
    assert "and not write it: nothing was committed" in run(
        "writer", "INSERT INTO lake.shop.b VALUES ('4')"
    )
    assert [[1]] == run("reader", joined)
