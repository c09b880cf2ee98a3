"""One lake for both languages: sessions and handles over it, and readers that know no txns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from integration_tests import sessions
from integration_tests.checks import rows
from integration_tests.python_lake import open_lake, plain
from integration_tests.python_lake import rows as python_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

    import txns

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64())])
T = "SELECT * FROM lake.db.t"


class Lake(NamedTuple):
    """A lake of one test: sessions and handles over it, and catalogs that know no txns."""

    folder: Path
    session: Callable[..., SparkSession]

    def spark(self, **options: str) -> SparkSession:
        """Return a Spark session; options: txns_apply for txns.apply; `next` sets the log, too."""
        given = {"txns_apply": "inline", **options}
        named = {name.replace("_", ".", 1).replace("_", "-"): v for name, v in given.items()}
        made = self.session(sessions.TXNS, **named)
        if given["txns_apply"] == "next":
            made.sql("CALL lake.system.settings(apply => 'next')")
        return made

    def plain_spark(self) -> SparkSession:
        """Return a Spark session that knows no txns."""
        return self.session(sessions.PLAIN)

    def python(self, **options: Any) -> txns.Handle:
        """Return a handle over a catalog object of its own."""
        return open_lake(self.folder, **options)

    def plain_python(self) -> Catalog:
        """Return a pyiceberg catalog that knows no txns."""
        return plain(self.folder)


def make_lake(new_session: Callable[[], SparkSession], folder: Path) -> Lake:
    """Make a lake with the table db.t (id, v) and its rows (1, 10), (2, 20)."""

    def session(catalog_class: str, **options: str) -> SparkSession:
        made = new_session()
        # Python knows it under this name, and a SQL catalog keeps it with its tables.
        sessions.add_catalog(made, "lake", folder, catalog_class, **options)
        return made

    made = Lake(folder, session)
    spark = made.spark()
    spark.sql("CREATE NAMESPACE lake.db")
    spark.sql("CREATE TABLE lake.db.t (id BIGINT, v BIGINT) USING iceberg")
    spark.sql("INSERT INTO lake.db.t VALUES (1, 10), (2, 20)")
    return made


def batch(*values: tuple[int, int]) -> pa.Table:
    """Return rows for db.t."""
    return pa.table({"id": [v[0] for v in values], "v": [v[1] for v in values]}, schema=SCHEMA)


def everywhere(lake: Lake, table: str = "db.t") -> list[tuple[Any, ...]]:
    """Return a table's rows, which have to be the same for all four kinds of readers."""
    query = f"SELECT * FROM lake.{table}"
    found = rows(lake.spark(), query)
    assert found == rows(lake.plain_spark(), query)
    assert found == python_rows(lake.python().catalog(), table)
    assert found == python_rows(lake.plain_python(), table)
    return found
