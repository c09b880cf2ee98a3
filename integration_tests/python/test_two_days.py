"""Two writers on two days of one table, as integration_tests/spark/test_two_days.py has them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform

import txns
from integration_tests import two_days
from integration_tests.python_lake import open_lake, plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.table import Table

    from integration_tests.two_days import Write

TABLE = "db.days"
HUNDRED = pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])


class _Handle:
    """A writer with a handle of its own: overwrites, deletes and upserts, which copy on write."""

    def __init__(self, folder: Path, conflicts: str) -> None:
        self._handle = open_lake(folder, apply="auto", conflicts=conflicts)

    def begin(self) -> None:
        self._txn = self._handle.begin()

    def write(self, write: Write, v: int | None) -> None:
        table = self._txn.load_table(TABLE)
        rows = {"id": [write.id], "day": [write.day], "v": [two_days.MERGED]}
        condition = f"day = {write.day} and id = {write.id}"
        if write.kind == "DELETE":
            table.delete(condition)
        elif write.kind == "MERGE":
            table.upsert(pa.table(rows, schema=two_days.SCHEMA), ["day", "id"])
        else:
            assert v is not None
            table.overwrite(pa.table(rows | {"v": [v + 1]}, schema=two_days.SCHEMA), condition)

    def commit(self) -> bool:
        try:
            self._txn.commit()
        except txns.Conflict:
            return False
        return True


@pytest.fixture
def load(tmp_path: Path) -> Callable[[], Table]:
    """A table of two days, as an engine loads it that knows no transactions."""
    catalog = plain(tmp_path)
    catalog.create_namespace("db")
    table = catalog.create_table(TABLE, two_days.SCHEMA)
    with table.update_spec() as update:
        update.add_field("day", IdentityTransform())
    for batch in two_days.first_batches():
        table.append(batch)
    open_lake(tmp_path).register(TABLE)
    return lambda: plain(tmp_path).load_table(TABLE)


@pytest.fixture
def rng() -> random.Random:
    """What draws the statements; a failure shows the seed."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    return random.Random(seed)


def _writers(folder: Path, conflicts: str) -> list[_Handle]:
    return [_Handle(folder, conflicts) for _ in two_days.DAYS]


@pytest.mark.parametrize("rounds", [5, HUNDRED])
@pytest.mark.parametrize("conflicts", ["file", "table"])
def test_two_days(
    tmp_path: Path, load: Callable[[], Table], rng: random.Random, conflicts: str, rounds: int
) -> None:
    """Of two that commit at one moment none is refused by file; by table one is, each time."""
    came = two_days.at_once(_writers(tmp_path, conflicts), rounds, rng)
    print(f"by {conflicts}: transactions={2 * rounds} refused={came.refused}")
    assert (rounds if conflicts == "table" else 0) == came.refused
    assert came.rows == two_days.rows_of(load())


@pytest.mark.parametrize("rounds", [5, HUNDRED])
def test_one_day(
    tmp_path: Path, load: Callable[[], Table], rng: random.Random, rounds: int
) -> None:
    """The second one is refused where both meet in a file, so wherever they meet in a row."""
    tally = two_days.one_day(_writers(tmp_path, "file"), load, rounds, rng)
    print(f"one day: {tally}; refused: {dict(tally.kinds)}")
    assert [] == tally.faults
