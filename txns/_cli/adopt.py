"""`txns adopt`: take in what strangers append to tables under care, once or until it is stopped."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from txns._admin.adopt import adopt_all, adopt_named
from txns._cli import exit_codes
from txns._cli.options import TxnsCommand, pass_lake
from txns._cli.words import DURATION, complain, say
from txns._identifier import dotted_name
from txns._log.stored import table_of
from txns._message import time_of
from txns.errors import CorruptLog, InvalidUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

    from txns._admin.adopt import Adopted
    from txns._cli.options import Lake
    from txns._identifier import Identifier
    from txns._services import Parts

    Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None

_PAUSE_MS = 10_000
_STOPS = (signal.SIGINT, signal.SIGTERM)


@click.command(cls=TxnsCommand)
@click.argument("tables", nargs=-1, metavar="[TABLE...]")
@click.option("--watch", is_flag=True, help="Go on until it is stopped, by Ctrl-C or SIGTERM.")
@click.option(
    "--every",
    "pause_ms",
    type=DURATION,
    help="How long --watch pauses between two looks; 10s if not given.",
)
@pass_lake
def adopt(lake: Lake, tables: tuple[str, ...], watch: bool, pause_ms: int | None) -> int:  # noqa: FBT001 -- click's flag
    """
    Take in what strangers append to tables under care.

    To all of them, where none is named; a line is printed for each adoption. Who writes a table
    adopts as well: this is for tables that are read more often than the log's own writers come by.
    Exit code 1 where something that was appended cannot be adopted, or was not since others wrote
    the table each time, or a table that is named is in quarantine or not under care; 0 where
    --watch was stopped.
    """
    if pause_ms is not None and not (watch and pause_ms):
        raise click.UsageError("--every goes with --watch, and is more than 0s")
    parts = lake.parts
    head = parts.log.load()
    names = [table_of(table) for table in tables]
    for name in names:
        parts.tables.load_with_dropped(name, head, head.upper)
    if watch:
        _Watch(parts, names).run(_PAUSE_MS if pause_ms is None else pause_ms)
        return exit_codes.FINE
    failed = [each for each in _looked(parts, names, lambda: False) if not _said(each)]
    for each in failed:
        complain(_why(each))
    return exit_codes.VIOLATION if failed else exit_codes.FINE


def _looked(
    parts: Parts, names: list[Identifier], is_over: Callable[[], bool]
) -> Iterator[Adopted]:
    """Look once at all tables, or at those of some names."""
    return adopt_named(parts, names, is_over) if names else adopt_all(parts, is_over)


class _Watch:
    """Looks again and again; what cannot be adopted is told once for each reason."""

    def __init__(self, parts: Parts, names: list[Identifier]) -> None:
        self._parts = parts
        self._names = names
        self._told: dict[Identifier | None, str] = {}

    def run(self, pause_ms: int) -> None:
        """
        Adopt until a signal comes; an adoption that is being made is made to its end.

        Raises:
            CorruptLog: There is no sense in going on.
            InvalidUsage: The same.
        """
        with _stopping() as stopped:
            while not stopped.is_set():
                self._look(stopped)
                stopped.wait(pause_ms / 1000)

    def _look(self, stopped: threading.Event) -> None:
        looked: dict[Identifier | None, str] = {}
        try:
            for each in _looked(self._parts, self._names, stopped.is_set):
                if not _said(each):
                    looked[each.identifier] = _why(each)
        except (CorruptLog, InvalidUsage):
            raise
        except Exception as error:  # noqa: BLE001 -- a catalog that cannot be reached comes back
            looked[None] = f"looking again: {exit_codes.line(error)}"
        for table, why in looked.items():
            if self._told.get(table) != why:
                complain(why)
        self._told = looked


def _said(adopted: Adopted) -> bool:
    """Print what was adopted; False where it was not."""
    if adopted.entry is None:
        return False
    rows = sum(change.added_records for change in adopted.entry.changes)
    ts = adopted.entry.commit_ts
    say(f"{dotted_name(adopted.identifier)}: adopted {rows} rows at {ts} ({time_of(ts)})")
    return True


def _why(adopted: Adopted) -> str:
    assert adopted.error is not None
    return f"{dotted_name(adopted.identifier)}: not adopted: {exit_codes.line(adopted.error)}"


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """Give an event that the first signal to stop sets; a second one ends the process as ever."""
    stopped = threading.Event()
    before = {number: signal.getsignal(number) for number in _STOPS}

    def stop(_number: int, _frame: FrameType | None) -> None:
        _restore(before)
        stopped.set()

    for number in _STOPS:
        signal.signal(number, stop)
    try:
        yield stopped
    finally:
        _restore(before)


def _restore(handlers: Mapping[signal.Signals, Handler]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
