"""
Two writes of one table at once, any with any: the outcome is never weaker than plain Iceberg's.

A cell is two writes, copy-on-write or merge-on-read, and an isolation level, or none: two single
statements. The second write has read the table when the first one commits, and ends behind it. The
peer is the same two statements, in the same steps, on a plain Iceberg table with its defaults, of
this Spark or of pyiceberg.

The first write always commits. What is asked of the second:

- Outside of transactions it ends exactly as the peer does: refused or not, and with its rows. That
  is no weaker, and no stricter either.
- In a transaction, at every level, it is refused and leaves nothing, or the rows are those of one
  write after the other: on one table SNAPSHOT has no anomaly, either. This is where plain Iceberg
  is the weaker one: two MERGEs that only insert add one key twice.
- Nor does a transaction commit what the peer refuses, though its rows would do.
- A write that does not depend on what the table holds is never refused. So to refuse everything
  does not pass.

Of 968 cells 121 are enough that any two values meet: each write with each other one, and each with
each mode and level. `make test` runs a third of those; all of them are sampled, the others slow.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from integration_tests.two_writers import OUTSIDE, Cell, Outcome, PlainLake, TxnsLake
from integration_tests.write_cases import FIRST, WRITES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEVELS = ["STRICT SERIALIZABLE", "SERIALIZABLE", "SNAPSHOT", OUTSIDE]
MODES = ["copy-on-write", "merge-on-read"]
WAYS = list(itertools.product(MODES, LEVELS))


def _cells() -> list[object]:
    """Give all cells; the fast ones take the ways in turns along each row and each column."""
    cells = []
    numbered = list(enumerate(WRITES))
    for (i, first), (j, second), (k, way) in itertools.product(numbered, numbered, enumerate(WAYS)):
        cell = Cell(first, second, *way)
        marks = [] if (i + j) % len(WAYS) == k else [pytest.mark.slow]
        cells.append(pytest.param(cell, marks=marks, id=str(cell)))
    return cells


def _is_serial(cell: Cell, outcome: Outcome) -> bool:
    """Whether the rows are those of the first write alone, or of both in any order."""
    first, second = cell.first.does, cell.second.does
    if not outcome.both:
        return outcome.rows == first(FIRST, 1)
    return outcome.rows in (second(first(FIRST, 1), 2), first(second(FIRST, 2), 1))


@pytest.fixture(scope="module")
def ours(root_session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TxnsLake:
    """Tables under care."""
    return TxnsLake(root_session, tmp_path_factory.mktemp("matrix") / "txns")


@pytest.fixture(scope="module")
def peer(root_session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> PlainLake:
    """Plain Iceberg tables."""
    return PlainLake(root_session, tmp_path_factory.mktemp("matrix") / "plain")


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")
@pytest.mark.parametrize("cell", _cells())
def test_never_weaker_than_plain_iceberg(cell: Cell, ours: TxnsLake, peer: PlainLake) -> None:
    """The second of two writes ends as on a plain table, or better; see above."""
    outcome = ours.outcome(cell)
    if cell.level == OUTSIDE:
        assert peer.outcome(cell) == outcome
        return
    assert _is_serial(cell, outcome), outcome
    if outcome.both:
        assert peer.outcome(cell).both
    assert outcome.both or not cell.second.is_blind


def test_the_two_writes_meet(peer: PlainLake) -> None:
    """The steps are as told: a second UPDATE is refused, and two MERGEs add one key twice."""
    known = {write.name: write for write in WRITES}
    update, merge = known["UPDATE"], known["MERGE that inserts"]
    assert not peer.outcome(Cell(update, update, MODES[0], OUTSIDE)).both
    assert FIRST + Counter([(5, 1), (5, 2)]) == (
        peer.outcome(Cell(merge, merge, MODES[0], OUTSIDE)).rows
    )
