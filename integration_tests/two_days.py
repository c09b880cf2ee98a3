"""
Two writers of one table by days: who clashes, and who should, by brute force over its files.

A table has two days, and each day some files of a few ids. A transaction is one UPDATE, DELETE or
MERGE of one id of one day, and its condition names both. Whether two of them meet is counted twice:
over rows, whether the first one has changed the very row of the second; and over files, whether it
has changed a file that the second one's condition may match, by what really stands in it, or has
marked rows of one.
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

DAYS = (1, 2)
IDS = range(20)
PER_FILE = 5
KINDS = ("UPDATE", "DELETE", "MERGE")
MERGED = 7
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.int64()), ("v", pa.int64())])
_ROUND_S = 600

Rows = dict[tuple[int, int], int]
"""What a table holds: v by day and id."""


class Write(NamedTuple):
    """
    One statement.

    Attributes:
        kind: UPDATE (adds 1 to v), DELETE, or MERGE (v is 7, in a new row where there is none).
        day: Of the row.
        id: Of the row.
    """

    kind: str
    day: int
    id: int

    def does(self, rows: Rows) -> Rows:
        """Give what it makes of a table."""
        key = (self.day, self.id)
        if self.kind == "DELETE":
            return {known: v for known, v in rows.items() if known != key}
        return rows | {key: MERGED if self.kind == "MERGE" else rows[key] + 1}


class Writer(Protocol):
    """One of the two, in Spark or in Python."""

    def begin(self) -> None:
        """Begin a transaction."""

    def write(self, write: Write, v: int | None) -> None:
        """Run the statement; `v` is what the row has now, None where there is none."""

    def commit(self) -> bool:
        """Commit; False where it lost a race."""


def first_rows() -> Rows:
    """Give the rows that a table begins with."""
    return {(day, number): 0 for day in DAYS for number in IDS}


def first_batches() -> list[pa.Table]:
    """Give them as a table is to get them, so that each day has some files."""
    batches = []
    for start in range(0, len(IDS), PER_FILE):
        some = [(number, day) for day in DAYS for number in IDS[start : start + PER_FILE]]
        columns = [[number for number, _ in some], [day for _, day in some], [0] * len(some)]
        batches.append(pa.table(columns, schema=SCHEMA))
    return batches


def rows_of(table: Table) -> Rows:
    """Read a table as an engine does that knows no transactions."""
    found = table.scan().to_arrow().to_pylist()
    rows = {(row["day"], row["id"]): row["v"] for row in found}
    assert len(found) == len(rows), "a row is there twice"
    return rows


def drawn(rng: Random, day: int, rows: Rows) -> Write:
    """Draw a statement that changes something."""
    number = rng.choice(IDS)
    v = rows.get((day, number))
    kinds = ("MERGE",) if v is None else KINDS[:2] if v == MERGED else KINDS
    return Write(rng.choice(kinds), day, number)


# ------------------------------------------------------------------------ different days


@dataclass
class AtOnce:
    """
    What came of two writers that commit at one moment, again and again.

    Attributes:
        committed: Transactions of both.
        refused: Transactions of both that have lost.
        rows: What the table holds by then.
    """

    committed: int
    refused: int
    rows: Rows


def at_once(writers: Sequence[Writer], rounds: int, rng: Random) -> AtOnce:
    """Have each write its own day: both have begun and written before either commits."""
    both = threading.Barrier(len(writers), timeout=_ROUND_S)
    seeds = [rng.randrange(10**9) for _ in writers]

    def run(place: int) -> tuple[Rows, int]:
        day = DAYS[place]
        mine = Random(seeds[place])
        rows = {key: v for key, v in first_rows().items() if key[0] == day}
        refused = 0
        try:
            for _ in range(rounds):
                write = drawn(mine, day, rows)
                both.wait()
                writers[place].begin()
                writers[place].write(write, rows.get((day, write.id)))
                both.wait()
                if writers[place].commit():
                    rows = write.does(rows)
                else:
                    refused += 1
        except BaseException:
            both.abort()
            raise
        return rows, refused

    with ThreadPoolExecutor(len(writers)) as threads:
        done = list(threads.map(run, range(len(writers))))
    refused = sum(each for _, each in done)
    together: Rows = {}
    for rows, _ in done:
        together |= rows
    return AtOnce(len(writers) * rounds - refused, refused, together)


# -------------------------------------------------------------------------- the same day


@dataclass(frozen=True)
class Files:
    """
    The live files of a table.

    Attributes:
        ids: The ids in each data file, those that are marked, too, with their day.
        deletes: The data files of which each delete file marks rows, by what stands in it.
    """

    ids: dict[str, tuple[int, tuple[int, ...]]]
    deletes: dict[str, set[str]]

    @staticmethod
    def of(table: Table) -> Files:
        """Read them."""
        ids, deletes = {}, {}
        snapshot = table.current_snapshot()
        assert snapshot is not None
        for manifest in snapshot.manifests(table.io):
            for entry in manifest.fetch_manifest_entry(table.io):
                file = entry.data_file
                if file.content == DataFileContent.DATA:
                    day = int(file.partition[0])
                    ids[file.file_path] = (day, _ids_in(table, file.file_path))
                else:
                    deletes[file.file_path] = _marked_in(table, file)
        return Files(ids, deletes)

    def met(self, write: Write, later: Files) -> bool:
        """Whether what came and left by then may hold, or mark, what a statement asks for."""
        touched = self.ids.keys() ^ later.ids.keys()
        for path in self.deletes.keys() ^ later.deletes.keys():
            touched |= (self.deletes | later.deletes)[path]
        held = [(self.ids | later.ids)[path] for path in touched]
        return any(day == write.day and min(ids) <= write.id <= max(ids) for day, ids in held)


def _ids_in(table: Table, path: str) -> tuple[int, ...]:
    with table.io.new_input(path).open() as stream:
        return tuple(pq.read_table(stream, columns=["id"])["id"].to_pylist())


def _marked_in(table: Table, deletes: DataFile) -> set[str]:
    with table.io.new_input(deletes.file_path).open() as stream:
        if deletes.file_format == FileFormat.PUFFIN:
            vectors = deletion_vectors_from_puffin_file(PuffinFile(stream.read()))
            return {each.referenced_data_file for each in vectors}
        return set(pq.read_table(stream, columns=["file_path"])["file_path"].to_pylist())


@dataclass
class Tally:
    """
    What became of pairs of one day.

    Attributes:
        pairs: How many.
        refused: Of how many the second one has lost.
        by_files: In how many they have met in a file.
        by_rows: In how many they have changed one row.
        kinds: Of which kinds those that were refused were.
        faults: Where the second one was refused and had met nothing, or the other way round.
    """

    pairs: int = 0
    refused: int = 0
    by_files: int = 0
    by_rows: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Give the counts."""
        return (
            f"pairs={self.pairs} refused={self.refused} met in a file={self.by_files}"
            f" in a row={self.by_rows}"
        )


def one_day(
    writers: Sequence[Writer], load: Callable[[], Table], rounds: int, rng: Random
) -> Tally:
    """
    Have both write one day, each in its turn the first to commit.

    1. both begin; the first one writes, and the second one;
    2. the first one commits;
    3. the second one commits, or is refused.
    """
    tally = Tally()
    first, second = writers
    for _ in range(rounds):
        rows, before = rows_of(load()), Files.of(load())
        one, two = drawn(rng, DAYS[0], rows), drawn(rng, DAYS[0], rows)
        for writer, write in ((first, one), (second, two)):
            writer.begin()
            writer.write(write, rows.get((write.day, write.id)))
        assert first.commit()
        in_row, in_file = one[1:] == two[1:], before.met(two, Files.of(load()))
        refused = not second.commit()
        done = one.does(rows)
        assert rows_of(load()) == (done if refused else two.does(done))
        tally.pairs += 1
        tally.refused += refused
        tally.by_files += in_file
        tally.by_rows += in_row
        tally.kinds[two.kind] += refused
        if refused != in_file or in_row > in_file:
            tally.faults.append(f"{refused=} {in_file=} {in_row=}: {two} after {one}")
        # Who has lost has reserved the table: in the next round it is the first.
        first, second = (second, first)
    return tally
