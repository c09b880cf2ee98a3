"""
Two writers on two days of one table never clash by file, and by table they always do.

On one day those clash that meet in a file, and no others (docs/isolation.md#by-file); over rows and
over files that is counted by brute force. Each of the slow ones has a hundred transactions of both.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from integration_tests import two_days
from integration_tests.checks import affected
from integration_tests.shared_lake import Lake, make_lake
from txns_spark.errors import TransactionConflict, translated

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from integration_tests.two_days import Write

MODES = [("copy-on-write", 2), ("merge-on-read", 2), ("merge-on-read", 3)]
"""The last one has deletion vectors, of which several may share a file."""

TABLE = "lake.db.days"
HUNDRED = pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])
STATEMENTS = {
    "UPDATE": "UPDATE {table} SET v = v + 1 WHERE day = {day} AND id = {id}",
    "DELETE": "DELETE FROM {table} WHERE day = {day} AND id = {id}",
    "MERGE": "MERGE INTO {table} t USING (SELECT {id}L AS id) s"
    " ON t.day = {day} AND t.id = {id} AND t.id = s.id WHEN MATCHED THEN UPDATE SET v = {v}"
    " WHEN NOT MATCHED THEN INSERT (id, day, v) VALUES (s.id, {day}, {v})",
}


class _Session:
    """A writer with a session of its own."""

    def __init__(self, session: SparkSession, conflicts: str) -> None:
        self._session = session
        session.sql(f"SET `spark.sql.txns.conflicts` = {conflicts}")

    def begin(self) -> None:
        self._session.sql("BEGIN")

    def write(self, write: Write, v: int | None) -> None:
        del v
        sql = STATEMENTS[write.kind]
        named = {"table": TABLE, "day": write.day, "id": write.id, "v": two_days.MERGED}
        affected(self._session, sql.format(**named))

    def commit(self) -> bool:
        try:
            with translated():
                self._session.sql("COMMIT")
        except TransactionConflict:
            return False
        return True


@pytest.fixture
def lake(new_session: Callable[[], SparkSession], tmp_path: Path) -> Lake:
    """A lake of its own, which Python reads, too."""
    return make_lake(new_session, tmp_path / "lake")


@pytest.fixture(params=MODES, ids=lambda mode: f"{mode[0]} {mode[1]}")
def load(request: pytest.FixtureRequest, lake: Lake) -> Callable[[], Table]:
    """A table of two days, as an engine loads it that knows no transactions."""
    session = lake.spark(txns_apply="auto")
    mode, version = request.param
    modes = ", ".join(f"'write.{k.lower()}.mode'='{mode}'" for k in two_days.KINDS)
    session.sql(
        f"CREATE TABLE {TABLE} (id BIGINT, day BIGINT, v BIGINT) USING iceberg"
        f" PARTITIONED BY (day) TBLPROPERTIES ('format-version'='{version}', {modes})"
    )
    for batch in two_days.first_batches():
        values = ", ".join(str(tuple(row.values())) for row in batch.to_pylist())
        session.sql(f"INSERT INTO {TABLE} VALUES {values}")
    return lambda: lake.plain_python().load_table("db.days")


@pytest.fixture
def rng() -> random.Random:
    """What draws the statements; a failure shows the seed."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    return random.Random(seed)


def _writers(lake: Lake, conflicts: str) -> list[_Session]:
    return [_Session(lake.spark(txns_apply="auto"), conflicts) for _ in two_days.DAYS]


@pytest.mark.parametrize("rounds", [5, HUNDRED])
@pytest.mark.parametrize("conflicts", ["file", "table"])
def test_two_days(
    lake: Lake, load: Callable[[], Table], rng: random.Random, conflicts: str, rounds: int
) -> None:
    """Of two that commit at one moment none is refused by file; by table one is, each time."""
    came = two_days.at_once(_writers(lake, conflicts), rounds, rng)
    print(f"by {conflicts}: transactions={2 * rounds} refused={came.refused}")
    assert (rounds if conflicts == "table" else 0) == came.refused
    assert came.rows == two_days.rows_of(load())


@pytest.mark.sampled
@pytest.mark.parametrize("rounds", [5, HUNDRED])
def test_one_day(lake: Lake, load: Callable[[], Table], rng: random.Random, rounds: int) -> None:
    """The second one is refused where both meet in a file, so wherever they meet in a row."""
    tally = two_days.one_day(_writers(lake, "file"), load, rounds, rng)
    print(f"one day: {tally}; refused: {dict(tally.kinds)}")
    assert [] == tally.faults
