"""How the command line reads and writes timestamps, times and tables of text."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from txns._log.limits import LENGTH_MS_LE
from txns._message import message, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import JustifyMethod

_WIDE = 240
"""Columns where nobody says how many there are: a pipe or a file."""

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DIGITS = len(str(LENGTH_MS_LE))
"""Python reads numbers of some thousand digits only."""
_DURATION = re.compile(r"([0-9]+)\s*(ms|s|m|h|d)", re.ASCII)


class Timestamp(click.ParamType[int]):
    """A logical timestamp: milliseconds since the epoch, or a time."""

    name = "ts"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read a timestamp; a time without a zone is of UTC."""
        if isinstance(value, int):
            return value
        if re.fullmatch(r"[0-9]{1,18}", value, re.ASCII):
            return int(value)
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is neither milliseconds since the epoch nor a time such as"
                " 2026-01-31T12:00:00Z",
                param,
                ctx,
            )
        zoned = at if at.tzinfo else at.replace(tzinfo=UTC)
        return round(zoned.timestamp() * 1000)


class Duration(click.ParamType[int]):
    """A length of time, as 90s, 15m, 12h or 7d."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read a length of time, in ms."""
        if isinstance(value, int):
            return value
        found = _DURATION.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is not a time such as 90s, 15m, 12h or 7d", param, ctx)
        digits = found[1].lstrip("0")
        length_ms = int(digits[:_DIGITS] or "0") * _UNITS_MS[found[2]]
        if len(digits) > _DIGITS or length_ms > LENGTH_MS_LE:
            self.fail(f"a length of time is {length_of(LENGTH_MS_LE)} at most", param, ctx)
        return length_ms


TS = Timestamp()
DURATION = Duration()


def age_of(ms: int) -> str:
    """Write a length of time in ms, to its largest unit."""
    for unit in ("d", "h", "m", "s"):
        if ms >= _UNITS_MS[unit]:
            return f"{ms / _UNITS_MS[unit]:.1f} {unit}"
    return f"{ms} ms"


def length_of(ms: int) -> str:
    """Write a length of time in ms exactly, as an option takes it: 90s, 15m, 48h or 7d."""
    unit = next(unit for unit in ("d", "h", "m", "s", "ms") if ms % _UNITS_MS[unit] == 0)
    return f"{ms // _UNITS_MS[unit]}{unit}"


def console() -> Console:
    """Give the console on standard output; what it prints is never markup."""
    width = None if sys.stdout.isatty() else _WIDE
    return Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)


def say(words: str = "", style: str | None = None) -> None:
    """Print a line: names, ids and comments are others' words, and move no terminal."""
    console().print(printable(words), style=style, soft_wrap=True)


def complain(words: str) -> None:
    """Print a line of what is wrong, to standard error."""
    click.echo(f"error: {message(words)}", err=True)


def say_json(value: Any) -> None:
    """Print a value as one line of JSON; what moves a terminal stands in it as JSON's escapes."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    if printable(text) == text:
        click.echo(text)
        return
    click.echo(
        "".join(each if printable(each) == each else json.dumps(each)[1:-1] for each in text)
    )


def say_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows below their columns' names; numbers stand to the right."""
    records = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        numbers = bool(records) and all(isinstance(row[index], int) for row in records)
        justify: JustifyMethod = "right" if numbers else "left"
        table.add_column(printable(name), justify=justify, overflow="fold")
    for record in records:
        table.add_row(*("" if value is None else printable(str(value)) for value in record))
    console().print(table)
