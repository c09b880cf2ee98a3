"""
Reads the archive's rows in the order of their `commit_ts`, piece by piece.

A log lives for years: whoever reads it holds a window of it, never all. Windows are cut by the
bounds that files have of `commit_ts`; who wants the newest reads the newest files, and stops.
"""

from __future__ import annotations

import struct
import sys
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    LessThanOrEqual,
    Reference,
)
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.types import LongType

from txns._log.commit_table import SCHEMA
from txns.errors import CorruptLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

FIRST_ROWS = 4096
"""Of the first window, at most, where files are as small: who stops soon has read little."""
MAX_ROWS = 16_384
"""Of a window, which is held in memory."""

_GROWTH = 4
_COMMIT_TS = SCHEMA.find_field("commit_ts")


class Span(NamedTuple):
    """Where the `commit_ts` of a file's rows lie, in ms, bounds inclusive; and how many rows."""

    least_ts: int
    greatest_ts: int
    rows: int


class Window(NamedTuple):
    """What lies between two `commit_ts` in ms, inclusive: of which spans, by their numbers."""

    least_ts: int
    greatest_ts: int
    spans: tuple[int, ...]


_OF_BYTES = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    EOFError,
    SystemError,  # of pyiceberg's decoder, for a length below zero
    MemoryError,  # for one that is no length
    struct.error,
    zlib.error,
)
"""What comes of bytes that are none of an archive, and not of reading them."""

_NO_FOOTER = "Couldn't deserialize thrift"
"""What pyarrow says of a file that ends like one of Parquet's; its error is one of reading."""


@contextmanager
def readable() -> Iterator[None]:
    """
    Read the archive in a block.

    Raises:
        CorruptLog: Its files are none of it, or its table has other columns: anybody who may write
            the commit table can have put them there.
    """
    try:
        yield
    except _OF_BYTES as error:
        raise _none(error) from error
    except OSError as error:
        if _NO_FOOTER not in str(error):
            raise
        raise _none(error) from error


def _none(error: Exception) -> CorruptLog:
    return CorruptLog(
        "the archive of the log cannot be read: look who has written the commit table;"
        f" {type(error).__name__}: {error}"
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """What is read at once: of some files the rows between two `commit_ts` in ms, inclusive."""

    least_ts: int
    greatest_ts: int
    tasks: list[FileScanTask]


@dataclass(frozen=True, slots=True)
class ArchiveScan:
    """
    One reading of the archive, planned once.

    Attributes:
        table: The commit table, in the version that is read.
        condition: What rows must fulfil.
        naming: What some row of an entry must fulfil; the entry's other rows come with it.
        least_ts: Rows below it are left out, in ms.
        greatest_ts: Rows above it are.
    """

    table: Table
    condition: BooleanExpression = field(default_factory=AlwaysTrue)
    naming: BooleanExpression | None = None
    least_ts: int = 0
    greatest_ts: int = sys.maxsize

    def newest_first(self, columns: tuple[str, ...] = ("*",)) -> Iterator[pa.Table]:
        """Give the rows, window by window from the newest on; ascending within each."""
        files = self._files()
        for window in falling([span for span, _ in files], self.greatest_ts):
            for part in reversed(self._parts(files, window)):
                yield self._read(part, columns)

    def oldest_first(self, columns: tuple[str, ...] = ("*",)) -> Iterator[pa.Table]:
        """Give the rows, window by window from the oldest on; ascending within each."""
        files = self._files()
        for window in rising([span for span, _ in files], self.least_ts):
            for part in self._parts(files, window):
                yield self._read(part, columns)

    def _files(self) -> list[tuple[Span, FileScanTask]]:
        condition = And(self.condition, _within(self.least_ts, self.greatest_ts))
        with readable():
            tasks = list(self.table.scan(row_filter=condition).plan_files())
        found = [(self._span(task), task) for task in tasks]
        return [(span, task) for span, task in found if span.least_ts <= span.greatest_ts]

    def _span(self, task: FileScanTask) -> Span:
        """Give where a file's rows lie; one whose bounds are missing may have any."""
        bounds = bounds_of(task.file) or (self.least_ts, self.greatest_ts)
        least_ts, greatest_ts = max(bounds[0], self.least_ts), min(bounds[1], self.greatest_ts)
        return Span(least_ts, greatest_ts, task.file.record_count)

    def _parts(self, files: list[tuple[Span, FileScanTask]], window: Window) -> list[_Part]:
        """Cut a window of large files where their rows are, so that each part fits in memory."""
        tasks = [files[at][1] for at in window.spans]
        whole = _Part(window.least_ts, window.greatest_ts, tasks)
        if sum(task.file.record_count for task in tasks) <= MAX_ROWS:
            return [whole]
        found = self._scan(whole, self.condition, ("commit_ts",)).sort_by("commit_ts")
        ends = found["commit_ts"].take(list(range(MAX_ROWS - 1, found.num_rows, MAX_ROWS)))
        cuts = [at for at in dict.fromkeys(ends.to_pylist()) if at < window.greatest_ts]
        begins = [window.least_ts, *(at + 1 for at in cuts)]
        return [
            _Part(least_ts, greatest_ts, tasks)
            for least_ts, greatest_ts in zip(begins, [*cuts, window.greatest_ts], strict=True)
        ]

    def _read(self, part: _Part, columns: tuple[str, ...]) -> pa.Table:
        """Read the rows of a part, ascending."""
        if self.naming is None:
            return self._scan(part, self.condition, columns).sort_by("commit_ts")
        named = self._scan(part, And(self.condition, self.naming), ("commit_ts",))["commit_ts"]
        tasks = part.tasks if len(named) else []
        rows = self._scan(replace(part, tasks=tasks), self.condition, columns)
        return rows.filter(pc.is_in(rows["commit_ts"], named)).sort_by("commit_ts")

    def _scan(
        self, part: _Part, condition: BooleanExpression, columns: tuple[str, ...]
    ) -> pa.Table:
        table = self.table
        with readable():
            schema = table.scan(selected_fields=columns).projection()
            within = And(condition, _within(part.least_ts, part.greatest_ts))
            return ArrowScan(table.metadata, table.io, schema, within).to_table(part.tasks)


def rows_of_files(table: Table, tasks: list[FileScanTask]) -> list[dict[str, Any]]:
    """Give all rows of some files of a commit table, ascending by `commit_ts`."""
    with readable():
        schema = table.scan().projection()
        found = ArrowScan(table.metadata, table.io, schema, AlwaysTrue()).to_table(tasks)
    rows: list[dict[str, Any]] = found.sort_by("commit_ts").to_pylist()
    return rows


def falling(spans: Sequence[Span], greatest_ts: int) -> Iterator[Window]:
    """
    Give windows that together hold all spans, from the greatest `commit_ts` on.

    The first is small, those after it grow. Whatever lies in a window lies in its spans alone.
    """
    order = sorted(range(len(spans)), key=lambda at: spans[at].greatest_ts, reverse=True)
    begun: list[int] = []  # reach below what has been given
    wanted, done = FIRST_ROWS, 0
    while done < len(order) or begun:
        taken, count = [*begun], 0
        least_ts = min((spans[at].least_ts for at in begun), default=greatest_ts)
        first = done
        while done < len(order):
            span = spans[order[done]]
            apart = done > first and span.greatest_ts < spans[order[done - 1]].greatest_ts
            if apart and count + span.rows > wanted:
                least_ts = span.greatest_ts + 1
                break
            taken.append(order[done])
            count, done = count + span.rows, done + 1
            least_ts = min(least_ts, span.least_ts)
        yield Window(least_ts, greatest_ts, tuple(taken))
        begun = [at for at in taken if spans[at].least_ts < least_ts]
        greatest_ts, wanted = least_ts - 1, min(wanted * _GROWTH, MAX_ROWS)


def rising(spans: Sequence[Span], least_ts: int) -> Iterator[Window]:
    """Give windows that together hold all spans, from the least `commit_ts` on; see `falling`."""
    mirrored = [Span(-span.greatest_ts, -span.least_ts, span.rows) for span in spans]
    for window in falling(mirrored, -least_ts):
        yield Window(-window.greatest_ts, -window.least_ts, window.spans)


def bounds_of(file: DataFile) -> tuple[int, int] | None:
    """Give the least and the greatest `commit_ts` in ms of a file's rows; None where not kept."""
    least = (file.lower_bounds or {}).get(_COMMIT_TS.field_id)
    greatest = (file.upper_bounds or {}).get(_COMMIT_TS.field_id)
    if least is None or greatest is None:
        return None
    return int(from_bytes(LongType(), least)), int(from_bytes(LongType(), greatest))


def _within(least_ts: int, greatest_ts: int) -> BooleanExpression:
    term = Reference("commit_ts")
    return And(
        GreaterThanOrEqual(term=term, value=least_ts),
        LessThanOrEqual(term=term, value=greatest_ts),
    )
