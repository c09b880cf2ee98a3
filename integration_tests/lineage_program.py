"""
A Spark driver with OpenLineage: `python -m integration_tests.lineage_program FOLDER`.

It runs the same statements over plain Iceberg and over a catalog of transactions, and leaves
OpenLineage's events in FOLDER/events.json. Both catalogs are of Iceberg's kind `hadoop`:
OpenLineage does not know tables of JDBC catalogs (its issue 4677).
"""

from __future__ import annotations

import sys
from pathlib import Path

import txns_spark
from integration_tests import sessions

OPEN_LINEAGE = "io.openlineage:openlineage-spark_2.13:1.53.0"
CATALOGS = {"plain": sessions.PLAIN, "ours": sessions.TXNS}
STATEMENTS = (
    "CREATE TABLE {c}.db.s (id BIGINT, v STRING) USING iceberg",
    "CREATE TABLE {c}.db.t (id BIGINT, v STRING) USING iceberg",
    "INSERT INTO {c}.db.s VALUES (1, 'a'), (2, 'b')",
    "INSERT INTO {c}.db.t SELECT * FROM {c}.db.s",
    "UPDATE {c}.db.t SET v = 'x' WHERE id IN (SELECT id FROM {c}.db.s)",
    "DELETE FROM {c}.db.t WHERE id = 1",
    (
        "MERGE INTO {c}.db.t t USING {c}.db.s s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    ),
    "INSERT OVERWRITE {c}.db.t SELECT * FROM {c}.db.s",
    "CREATE TABLE {c}.db.u USING iceberg AS SELECT * FROM {c}.db.t",
)


def main() -> None:
    """Run the statements over both catalogs."""
    folder = Path(sys.argv[1])
    builder = sessions.builder().config("spark.jars.packages", OPEN_LINEAGE)
    builder = txns_spark.configure(builder, warehouse=str(folder / "lake"))
    settings = {
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.transport.type": "file",
        "spark.openlineage.transport.location": str(folder / "events.json"),
    }
    for name, catalog_class in CATALOGS.items():
        settings[f"spark.sql.catalog.{name}"] = catalog_class
        settings[f"spark.sql.catalog.{name}.type"] = "hadoop"
        settings[f"spark.sql.catalog.{name}.warehouse"] = str(folder / name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for name in CATALOGS:
        spark.sql(f"CREATE NAMESPACE {name}.db")
        for statement in STATEMENTS:
            spark.sql(statement.format(c=name))
        spark.table(f"{name}.db.s").writeTo(f"{name}.db.t").append()
    spark.stop()


if __name__ == "__main__":
    main()
