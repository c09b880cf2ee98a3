"""docs/python.md, README's Python and examples/python_ingest do what they say."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import txns
from tests.guides import blocks, five_minutes
from txns import errors

if TYPE_CHECKING:
    from pathlib import Path


def test_the_five_minutes_run_as_they_stand(tmp_path, monkeypatch, capsys) -> None:
    (program,) = five_minutes("docs/python.md")
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "docs/python.md", "exec", dont_inherit=True), {})
    conflict, stock, sold = capsys.readouterr().out.splitlines()
    assert "clashed_with" in conflict
    assert "other_comment=`the faster clerk`" in conflict
    assert "[{'item': 'nut', 'amount': 5}]" == stock
    assert {3, 2} == {row["amount"] for row in ast.literal_eval(sold)}


def test_the_readme_runs_as_it_stands(tmp_path, monkeypatch) -> None:
    (program,) = [block for block in blocks("README.md") if "pyiceberg" in block]
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(program, "README.md", "exec", dont_inherit=True), names)
    stock, sold = (names["catalog"].load_table(f"shop.{name}") for name in ("stock", "sold"))
    assert [[{"item": "nut", "amount": 7}], []] == [
        table.scan().to_arrow().to_pylist() for table in (stock, sold)
    ]


def test_the_programs_of_the_guide_run_one_after_the_other(tmp_path: Path) -> None:
    """After the five minutes, which are a program of their own."""
    _first, *later = blocks("docs/python.md")
    program = "\n".join(later).replace("/data/lake", str(tmp_path))
    names: dict[str, object] = {}
    exec(compile(program, "docs/python.md", "exec", dont_inherit=True), names)
    assert 13 == names["new_price"]


def test_a_task_that_is_run_again_loads_once(tmp_path: Path) -> None:
    """The block for schedulers, with a catalog of pyiceberg's own configuration."""
    (block,) = [block for block in blocks("docs/retries.md") if "@task" in block]
    program = f"""
import sys
from types import ModuleType

import pyarrow as pa
import txns
from pyiceberg.catalog import load_catalog

sys.modules["airflow.sdk"] = sdk = ModuleType("airflow.sdk")  # it has hundreds of dependencies
sdk.task = lambda retries: lambda function: function

def sales_of_the_day():
    return pa.table({{"amount": [7]}})

catalog = load_catalog("lake")
catalog.create_namespace("shop")
txns.open(catalog).catalog().create_table("shop.sold", sales_of_the_day().schema)
{block}
for _ in range(2):
    load_day(run_id="monday")
load_day(run_id="tuesday")
print(catalog.load_table("shop.sold").scan().to_arrow().num_rows)
"""
    catalog = {"URI": f"sqlite:///{tmp_path}/catalog.db", "WAREHOUSE": f"file://{tmp_path}"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {f"PYICEBERG_CATALOG__LAKE__{key}": catalog[key] for key in catalog},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "2\n" == done.stdout, done.stderr


def test_every_error_is_in_the_guide(root: Path) -> None:
    """Or on the page of errors, which the guide names."""
    pages = "".join(
        (root / "docs" / name).read_text("utf-8") for name in ("python.md", "errors.md")
    )
    kinds = [name for name in txns.__all__ if hasattr(errors, name)]
    assert [] == [name for name in kinds if f"`{name}`" not in pages and f".{name}`" not in pages]


def test_every_option_is_in_the_guide(root: Path) -> None:
    guide = (root / "docs" / "python.md").read_text("utf-8")
    options = set(txns.open.__kwdefaults__ or ()) - {"clock"}
    assert set() == {name for name in options if f"| `{name}` |" not in guide}


def test_the_example_does_what_it_says(root: Path) -> None:
    """It stops with an error where something is not so."""
    script = root / "examples" / "python_ingest" / "ingest.py"
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "run it again" in done.stdout
    assert "Done in" in done.stdout
