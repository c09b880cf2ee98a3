"""Print what the demo does: headings, text, tables, and how long the steps take."""

from __future__ import annotations

import textwrap
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Row, SparkSession

_STARTED = time.monotonic()
_WIDTH = 100
_CELL_WIDTH_MAX = 40


def elapsed_s() -> float:
    """Return the seconds since the demo started."""
    return time.monotonic() - _STARTED


def heading(title: str) -> None:
    """Begin a section, with the time that has passed since the demo started."""
    clock = f"{elapsed_s():.0f} s"
    print(f"\n{title}{clock:>{_WIDTH - len(title)}}\n{'=' * _WIDTH}", flush=True)


def say(text: str) -> None:
    """Print a paragraph."""
    print(textwrap.fill(textwrap.dedent(text).strip(), _WIDTH), flush=True)


@contextmanager
def step(label: str) -> Iterator[None]:
    """Name a step that takes a while, and say how long it took."""
    print(f"  {label} ...", end=" ", flush=True)
    started = time.monotonic()
    yield
    print(f"{time.monotonic() - started:.1f} s", flush=True)


def run(session: SparkSession, statement: str, *, who: str = "") -> Row | None:
    """Run a statement of a transaction, print it with what it returns, and return its row."""
    started = time.monotonic()
    rows = session.sql(statement).collect()
    taken_s = time.monotonic() - started
    text = " ".join(statement.split())
    lines = textwrap.wrap(text, _WIDTH - 40, subsequent_indent="    ")
    margin = f"{who:<4}" if who else "  "
    print(f"{margin}{lines[0]:<{_WIDTH - 36}} {_outcome(rows):<24}{taken_s:5.1f} s")
    for line in lines[1:]:
        print(f"{' ' * len(margin)}{line}")
    print(end="", flush=True)
    return rows[0] if rows else None


def _outcome(rows: list[Row]) -> str:
    """Say in a few words what a statement returned."""
    answer = rows[0].asDict() if rows else {}
    if "num_affected_rows" in answer:
        count = answer["num_affected_rows"]
        return "1 row" if count == 1 else f"{count} rows"
    if "state" in answer:
        return str(answer["state"])
    return ", ".join(f"{name} = {value}" for name, value in answer.items())


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print rows below their columns' names; numbers to the right."""
    names = list(columns)
    records = [list(row) for row in rows]
    cells = [names, *([_cell(value) for value in record] for record in records)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    is_number = [
        all(isinstance(record[i], int | float | None) for record in records)
        for i in range(len(names))
    ]
    for number, line in enumerate(cells):
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        ]
        print("  " + "  ".join(padded).rstrip())
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))
    print(end="", flush=True)


def _cell(value: object) -> str:
    text = f"{value:.2f}" if isinstance(value, float) else "" if value is None else str(value)
    return text if len(text) <= _CELL_WIDTH_MAX else text[: _CELL_WIDTH_MAX - 3] + "..."
