"""
dbt projects in folders of their own, run by processes as users run them.

Targets on the same kind of catalog, SQLite and local files: ours, and dbt-spark's on plain Iceberg
or on a transactional catalog. Jars and options are the same but for what makes it transactional.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml
from pyiceberg.catalog.sql import SqlCatalog

import txns_spark
from txns_spark import _catalog
from txns_spark._configure import (
    CATALOG_CLASS,
    EXTENSION,
    ICEBERG_CATALOG_CLASS,
    ICEBERG_EXTENSION,
    ICEBERG_PACKAGE,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyiceberg.table import Table

_RUN_TIMEOUT_S = 900
_SPARK = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
SHORT = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For programs that run for seconds: compiling well would take longer than running."""


@dataclass(frozen=True)
class Target:
    """
    Where a project is built.

    Attributes:
        profile: The target, as in profiles.yml.
        catalog: The catalog's name.
        warehouse: Where its tables are.
        environment: What dbt's process needs beside it.
    """

    profile: dict[str, Any]
    catalog: str
    warehouse: Path
    environment: dict[str, str] = field(default_factory=dict)

    def plain_catalog(self) -> SqlCatalog:
        """Return its catalog as an engine has it that knows no transactions."""
        return SqlCatalog(
            self.catalog,
            uri=f"sqlite:///{self.warehouse}/catalog.db",
            warehouse=str(self.warehouse),
        )

    def rows(self, table: str) -> set[tuple[Any, ...]]:
        """Return the rows of a table, as an engine sees them that knows no transactions."""
        return rows_of(self.plain_catalog().load_table(table))


def rows_of(table: Table) -> set[tuple[Any, ...]]:
    """Return the rows of a table."""
    columns = table.scan().to_arrow().to_pydict()
    return set(zip(*columns.values(), strict=True))


def transactional(warehouse: Path, spark: Mapping[str, str] = {}, **keys: Any) -> Target:
    """
    Return a target of our adapter: what a user writes, on two cores.

    Args:
        warehouse: Where its tables go.
        spark: Settings of Spark besides.
        **keys: Of the profile.
    """
    config = _SPARK | dict(spark)
    profile = {"type": "txns", "schema": "shop", "warehouse": str(warehouse), "config": config}
    return Target(profile | keys, "lake", warehouse)


def plain(warehouse: Path, spark: Mapping[str, str] = {}, **keys: Any) -> Target:
    """Return a target of dbt-spark over plain Iceberg; see `transactional`."""
    settings = {
        **spark,
        "spark.sql.extensions": ICEBERG_EXTENSION,
        "spark.sql.catalog.plain": ICEBERG_CATALOG_CLASS,
    }
    return _dbt_spark("plain", warehouse, settings, keys)


def dbt_spark(warehouse: Path, spark: Mapping[str, str] = {}, **keys: Any) -> Target:
    """Return a target of dbt-spark over a transactional catalog; see `transactional`."""
    return _dbt_spark("lake", warehouse, spark, keys)


def _dbt_spark(
    catalog: str, warehouse: Path, settings: Mapping[str, str], keys: dict[str, Any]
) -> Target:
    """
    Configure Spark in spark-defaults.conf, where dbt-spark takes it from.

    The catalog is the session's default, because dbt-spark's names have two parts.
    """
    found = _catalog.embedded(str(warehouse), catalog)
    defaults = {
        "spark.jars": txns_spark.jar_path(),
        "spark.jars.packages": f"{ICEBERG_PACKAGE},{found.driver}",
        "spark.sql.extensions": f"{ICEBERG_EXTENSION},{EXTENSION}",
        f"spark.sql.catalog.{catalog}": CATALOG_CLASS,
        **{f"spark.sql.catalog.{catalog}.{key}": value for key, value in found.options.items()},
        **_SPARK,
        **settings,
        "spark.sql.defaultCatalog": catalog,
    }
    folder = warehouse.with_name(f"{warehouse.name}-conf")
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{key} {value}\n" for key, value in defaults.items())
    (folder / "spark-defaults.conf").write_text(lines)
    profile = {"type": "spark", "method": "session", "host": "local", "schema": "shop"}
    return Target(profile | keys, catalog, warehouse, {"SPARK_CONF_DIR": str(folder)})


class Project:
    """A dbt project in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        target: Target,
        files: Mapping[str, str],
        configuration: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the project; `configuration` goes into dbt_project.yml."""
        self.folder = folder
        self.target = target
        profile = {"shop": {"target": "t", "outputs": {"t": target.profile}}}
        flags = {"send_anonymous_usage_stats": False}
        project = {"name": "shop", "profile": "shop", "flags": flags, **(configuration or {})}
        written = {"dbt_project.yml": yaml.dump(project), "profiles.yml": yaml.dump(profile)}
        for name, text in {**written, **files}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def start(self, *arguments: str, **variables: Any) -> subprocess.Popen[str]:
        """Start dbt; the process is the first of a group, so that its JVM can be killed with it."""
        given = ["--vars", json.dumps(variables)] if variables else []
        return subprocess.Popen(
            [sys.executable, "-m", "dbt.cli.main", *arguments, *given],
            cwd=self.folder,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | self.target.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, **variables: Any) -> str:
        """
        Run dbt to its end and return what it printed.

        Raises:
            RuntimeError: It failed; the message is what it printed.
        """
        process = self.start(*arguments, **variables)
        output, _ = process.communicate(timeout=_RUN_TIMEOUT_S)
        if process.returncode != 0:
            raise RuntimeError(output)
        return output

    def results(self) -> dict[str, Any]:
        """Return what dbt wrote to run_results.json about the last run."""
        return json.loads((self.folder / "target" / "run_results.json").read_text("utf-8"))
