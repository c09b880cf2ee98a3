"""Which catalog the command line opens where little or nothing is said of it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

import txns
import txns_spark
from tests.txns.lake import rows
from txns._cli import main

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, in which nothing is configured."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TXNS_CATALOG", raising=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def status(*arguments: str) -> Any:
    result = run(*arguments, "status", "--json")
    assert 0 == result.exit_code, result.output
    return json.loads(result.stdout)


def lake(name: str, folder: Path, commit_table: str = "txns.commits") -> None:
    """Make a catalog with one table under care, in the database of an embedded default."""
    folder.mkdir(exist_ok=True)
    catalog = SqlCatalog(name, uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("shop")
    with closing(txns.open(catalog, commit_table=commit_table)) as handle, handle.begin() as txn:
        txn.create_table(f"shop.of_{name}", rows(1).schema).append(rows(1))


def test_without_options_it_is_the_embedded_default_of_the_folder(folder):
    lake("lake", folder / "txns-warehouse")
    found = status()
    assert ("lake", ["shop.of_lake"]) == (found["catalog"], [at["name"] for at in found["tables"]])


def test_a_warehouse_alone_is_an_embedded_one_there(folder):
    lake("lake", folder / "elsewhere")
    assert "lake" == status("--warehouse", "elsewhere")["catalog"]
    assert "lake" == status("--warehouse", f"file://{folder}/elsewhere")["catalog"]


@pytest.mark.parametrize("options", [(), ("--uri", "sqlite:///txns-warehouse/catalog.db")])
def test_the_name_is_the_one_that_has_the_commit_table(folder, options):
    """Catalogs in a database keep their tables by the catalog's name."""
    lake("prod", folder / "txns-warehouse")
    lake("other", folder / "txns-warehouse", commit_table="txns.others")
    assert "prod" == status(*options)["catalog"]
    assert "other" == status(*options, "--commit-table", "txns.others")["catalog"]


@pytest.mark.parametrize("options", [(), ("--uri", "sqlite:///txns-warehouse/catalog.db")])
def test_several_names_are_listed(folder, options):
    lake("prod", folder / "txns-warehouse")
    lake("dev", folder / "txns-warehouse")
    result = run(*options, "status")
    assert 2 == result.exit_code
    assert "hold txns.commits: give the --catalog, one of dev, prod" in result.stderr
    assert "dev" == status(*options, "--catalog", "dev")["catalog"]


def test_a_name_without_the_commit_table_names_those_that_have_it(folder):
    lake("prod", folder / "txns-warehouse")
    result = run("status", "--catalog", "lake")
    assert (2, True) == (result.exit_code, "it is there with --catalog prod" in result.stderr)


def test_what_is_configured_for_pyiceberg_goes_before_the_embedded_default(folder, run_script):
    lake("lake", folder / "txns-warehouse")
    lake("default", folder / "elsewhere")
    printed = run_script(
        "from txns._cli import main; main(['status', '--json'])",
        PYICEBERG_CATALOG__DEFAULT__URI=f"sqlite:///{folder}/elsewhere/catalog.db",
    )
    assert "default" == json.loads(printed)["catalog"]


def test_looking_makes_nothing(folder):
    result = run("status")
    assert (2, True) == (result.exit_code, "make one there with `txns init`" in result.stderr)
    assert [] == list(folder.iterdir())


def test_a_name_that_is_configured_nowhere_makes_nothing(folder):
    result = run("init", "--catalog", "prod")
    assert (2, True) == (result.exit_code, "no catalog named prod is configured" in result.stderr)
    assert [] == list(folder.iterdir())


def test_init_makes_the_embedded_default_once(folder):
    assert f"SQLite, and files in {folder}/txns-warehouse" in run("init").stdout
    assert "is there already" in run("init").stdout
    found = status()
    assert ("lake", "txns.commits", []) == (
        found["catalog"],
        found["commit_table"],
        found["tables"],
    )


def test_init_and_configure_make_the_same(folder):
    """The same database at the same place, with one namespace in the same catalog."""
    assert 0 == run("init", "--warehouse", "ours").exit_code
    txns_spark.configure(SparkSession.Builder(), warehouse="sparks")
    databases = [folder / name / "catalog.db" for name in ("ours", "sparks")]
    of_ours, of_spark = ([row for row in _namespaces(at) if "txns" not in row] for at in databases)
    assert [("lake", "default", "exists", "true")] == of_ours == of_spark
    builder = SparkSession.Builder()
    txns_spark.configure(builder, warehouse="ours")
    at = "spark.sql.catalog.lake.warehouse"
    assert str(folder / "ours") == builder._options[at]
    uri = f"sqlite:///{folder}/ours/catalog.db"
    with closing(load_catalog("lake", uri=uri)) as catalog:
        location = catalog.load_table("txns.commits").location()
    assert str(folder / "ours" / "txns" / "commits") == location


def _namespaces(database: Path) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT * FROM iceberg_namespace_properties").fetchall()


@pytest.mark.parametrize("order", [0, 1], ids=["init first", "configure first"])
def test_init_and_configure_find_what_the_other_made(order):
    """Neither makes anything anew."""

    def configure() -> None:
        txns_spark.configure(SparkSession.Builder())

    def init() -> None:
        assert 0 == run("init").exit_code

    steps: list[Callable[[], None]] = [init, configure]
    for step in steps[order:] + steps[:order]:
        step()
    names = [row[1] for row in _namespaces(Path("txns-warehouse/catalog.db"))]
    assert {"default", "txns"} == set(names)
    assert "lake" == status()["catalog"]


def test_a_lost_commit_table_is_looked_for_where_its_tables_are(folder):
    """Nobody has to know the catalog's name: it said that there was nothing, and made a new log."""
    lake("prod", folder / "txns-warehouse")
    with closing(sqlite3.connect(folder / "txns-warehouse" / "catalog.db")) as database, database:
        database.execute("DELETE FROM iceberg_tables WHERE table_name = 'commits'")
    assert "`txns recover`" in run("status").stderr
    options = ("--uri", "sqlite:///txns-warehouse/catalog.db", "--warehouse")
    elsewhere = run("recover", "--dry-run", *options, f"{folder}/elsewhere")
    assert (5, True) == (elsewhere.exit_code, f"{folder}/elsewhere/txns" in elsewhere.stderr)
    found = run("recover", *options, f"{folder}/txns-warehouse")
    assert (0, True) == (found.exit_code, "1 tables belong to it" in found.stdout)
    assert "prod" == status()["catalog"]


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_nothing_is_recovered_where_nothing_says_that_there_was_a_log(folder, options):
    """It is the wrong catalog: a new log there would look like success."""
    lake("prod", folder / "txns-warehouse")
    result = run("recover", "--catalog", "lake", *options)
    assert (2, True) == (result.exit_code, "it is there with --catalog prod" in result.stderr)
