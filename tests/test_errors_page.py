"""docs/errors.md has every SQLSTATE that the code raises, and none that it does not."""

from __future__ import annotations

import re
from pathlib import Path

from txns._cli import main

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "errors.md"
SOURCES = (
    *(ROOT / "txns").rglob("*.py"),
    *(ROOT / "spark_extension" / "python").rglob("*.py"),
    *(ROOT / "sqlalchemy_dialect").rglob("*.py"),
    *(ROOT / "dbt_txns").rglob("*.py"),
    *(ROOT / "spark_extension" / "java").glob("*/src/main/java/**/*.java"),
)
SQLSTATE = r"[0-9][0-9A-Z]{4}|XX001"
CONDITION = re.compile(r"^  ([A-Z_]+)\(\"", re.MULTILINE)


def _raised() -> set[str]:
    """Give what stands in quotes and looks like a SQLSTATE: five characters, not all letters."""
    found: set[str] = set()
    for path in SOURCES:
        found.update(re.findall(rf"\"({SQLSTATE})\"", path.read_text("utf-8")))
    return found


def _rows() -> list[list[str]]:
    lines = PAGE.read_text("utf-8").splitlines()
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if "|" in line
    ]


def test_every_sqlstate_is_on_the_page() -> None:
    """With a cause, and a cure."""
    told = {row[0]: row[1:] for row in _rows() if re.fullmatch(SQLSTATE, row[0])}
    assert _raised() == told.keys()
    for sqlstate, cells in told.items():
        assert 2 == len(cells), sqlstate
        assert all(cells), sqlstate


def test_every_kind_of_error_is_on_the_page() -> None:
    """Python's classes, and the conditions of Spark."""
    page = PAGE.read_text("utf-8")
    errors = (ROOT / "txns" / "errors.py").read_text("utf-8")
    tree = errors.partition('"""')[2].partition('"""')[0]
    classes = set(re.findall(r"\+-- ([A-Za-z]+)", tree)) - {"NoNamespace"}
    assert {"Conflict", "CorruptLog"} < classes
    for name in classes:
        assert f"`{name}`" in page
    kinds = ROOT / "spark_extension/java/core/src/main/java/io/txns/iceberg/ErrorKind.java"
    names = CONDITION.findall(kinds.read_text("utf-8"))
    assert 7 == len(names)
    for name in names:
        assert f"`TXNS_{name}`" in page


def test_the_commands_of_the_page_are_there() -> None:
    """Whatever it says to run, the command line has."""
    commands = {name for cell in _rows() for name in re.findall(r"`txns ([a-z-]+)", " ".join(cell))}
    assert commands
    assert commands <= set(main.list_commands(None)), commands
