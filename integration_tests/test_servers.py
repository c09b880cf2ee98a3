"""The servers that the tests of the front ends start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyhive import hive

from integration_tests.checks import count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration_tests.servers import ThriftServer


def test_a_server_shares_the_lake(
    spark: SparkSession, thrift_server: ThriftServer, table: str
) -> None:
    """What a server commits is seen by a session of another process on the same lake."""
    host, port = thrift_server.address
    with hive.connect(host, port) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} (id BIGINT) USING iceberg")
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO {table} VALUES (1), (2)")
        assert [(2,)] == cursor.fetchall()
        assert 0 == count(spark, table)
        cursor.execute("COMMIT")
    assert 2 == count(spark, table)
