"""
What the house looks like, in figures: `python -m tests.house`.

Lines of code per part (no blanks, comments or docstrings), modules per room of the Python core, and
the modules that one commit and one read pass through, traced on a catalog of their own.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tempfile
import tokenize
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

import txns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[1]
PARTS = {
    "txns": "txns/**/*.py",
    "txns_spark": "spark_extension/python/**/*.py",
    "sqlalchemy_txns": "sqlalchemy_dialect/**/*.py",
    "dbt.adapters.txns": "dbt_txns/**/*.py",
    "dbt.include.txns": "macros/**/*.sql",
    "java": "spark_extension/java/**/src/main/**/*.java",
    "java tests": "spark_extension/java/**/src/test/**/*.java",
    "tests": "tests/**/*.py",
    "integration_tests": "integration_tests/**/*.py",
}
_JAVA_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_JINJA_COMMENT = re.compile(r"{#.*?#}|--[^\n]*", re.DOTALL)


def lines_of(path: Path) -> int:
    """Count a file's lines with code on them."""
    text = path.read_text("utf-8")
    if path.suffix == ".java":
        return _filled(_JAVA_COMMENT.sub("", text))
    if path.suffix == ".sql":
        return _filled(_JINJA_COMMENT.sub("", text))
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if isinstance(node.value.value, str)
    }
    nothing = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {
        line
        for token in tokens
        if token.type not in nothing and token.string
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - docstrings)


def _filled(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


def rooms() -> Counter[str]:
    """Count the modules of each room of the core; what is in none stands under `txns`."""
    found = (path.relative_to(ROOT).parts for path in (ROOT / "txns").rglob("*.py"))
    return Counter("/".join(parts[:-1]) for parts in found if parts[-1] != "__init__.py")


def walked(work: Callable[[], object]) -> list[str]:
    """Give the modules of the core that are entered while something is done, in their order."""
    entered: dict[str, None] = {}

    def note(frame: Any, event: str, _argument: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("txns."):
            entered[name] = None

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return list(entered)


def walks() -> Iterator[tuple[str, list[str]]]:
    """Walk a commit that is applied, and a read, over a catalog in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
        catalog.create_namespace("shop")
        rows = pa.table({"id": [1]})
        catalog.create_table("shop.orders", rows.schema)
        with txns.open(catalog) as handle:
            handle.register("shop.orders")
            txn = handle.begin()
            txn.load_table("shop.orders").append(rows)
            yield "a commit", walked(txn.commit)
            yield "a read", walked(lambda: handle.snapshot().load_table("shop.orders").scan())


def main() -> None:
    """Print it all."""
    for part, pattern in PARTS.items():
        files = list(ROOT.glob(pattern))
        print(f"lines={sum(map(lines_of, files))} files={len(files)} part={part}")
    for room, modules in sorted(rooms().items()):
        print(f"modules={modules} room={room}")
    for walk, modules in walks():
        print(f"modules={len(modules)} walk={walk}: {' '.join(modules)}")


if __name__ == "__main__":
    main()
