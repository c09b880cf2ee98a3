"""
Writes of a table (id, v), each with what it makes of rows: the cases of test_write_matrix.

Every write is about the keys 1, which is there at first, and 5, which is not; or about the whole
table. So any two of them meet.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as fn

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

Rows = Counter[tuple[int, int]]
FIRST: Rows = Counter([(1, 10), (2, 20)])
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64())])

_SOURCE = "(SELECT {gate}(id) AS id, v FROM VALUES (1L, {n}L), (5L, {n}L) g(id, v))"
_MERGE = f"MERGE INTO {{t}} t USING {_SOURCE} s ON t.id = s.id "
_MATCHED = "WHEN MATCHED THEN UPDATE SET v = t.v + s.v "
_NOT_MATCHED = "WHEN NOT MATCHED THEN INSERT *"


class Run(NamedTuple):
    """
    One run of a write in Spark.

    Attributes:
        session: Where it runs.
        table: The table's name.
        n: A number that tells the two sessions apart.
        gate: A function of the session's that all rows pass; none where nothing has to wait.
    """

    session: SparkSession
    table: str
    n: int
    gate: str = ""


class Write(NamedTuple):
    """
    One write, that two sessions run at once.

    Attributes:
        name: What it is.
        does: What it makes of rows, given the number of the session.
        spark: Runs it in Spark; None for a write of Python's.
        python: Runs it on a table of pyiceberg's, given the number of the session.
        is_blind: Whether it does not depend on what the table holds.
    """

    name: str
    does: Callable[[Rows, int], Rows]
    spark: Callable[[Run], object] | None = None
    python: Callable[[Table, int], object] | None = None
    is_blind: bool = False

    def in_spark(self, run: Run) -> None:
        assert self.spark is not None, f"not a write of Spark's: {self.name}"
        self.spark(run)


def batch(rows: Rows) -> pa.Table:
    """Return rows for such a table."""
    ids, values = zip(*rows.elements(), strict=True)
    return pa.table({"id": ids, "v": values}, schema=SCHEMA)


def _sql(statement: str) -> Callable[[Run], object]:
    return lambda run: run.session.sql(_text(statement, run)).collect()


def _text(statement: str, run: Run) -> str:
    return statement.format(t=run.table, n=run.n, gate=run.gate)


def _frame(run: Run) -> DataFrame:
    return run.session.sql(_text(f"SELECT * FROM {_SOURCE}", run)).alias("s")


def _merge_into(run: Run) -> None:
    name = run.table.removeprefix("lake.")
    merge = _frame(run).mergeInto(run.table, fn.expr(f"s.id = {name}.id"))
    merge = merge.whenMatched().update({"v": fn.expr(f"{name}.v + s.v")})
    merge.whenNotMatched().insertAll().merge()


def _overwrite_partitions(run: Run) -> None:
    _frame(run).writeTo(run.table).overwritePartitions()


def _upsert(table: Table, n: int) -> None:
    table.upsert(batch(_both(n)), ["id"])


def _both(n: int) -> Rows:
    return Counter([(1, n), (5, n)])


def _updated(rows: Rows, n: int) -> Rows:
    found: Rows = Counter()
    for (key, v), times in rows.items():
        found[key, v + n if key in {1, 5} else v] += times
    return found


def _inserted(rows: Rows, n: int) -> Rows:
    keys = {key for key, _ in rows}
    return rows + Counter(row for row in _both(n) if row[0] not in keys)


def _deleted(rows: Rows, _n: int) -> Rows:
    return Counter({row: times for row, times in rows.items() if row[0] not in {1, 5}})


def _copied(rows: Rows, n: int) -> Rows:
    return rows + Counter({(key + 100, v + n): times for (key, v), times in rows.items()})


def _merged(rows: Rows, n: int) -> Rows:
    return _inserted(_updated(rows, n), n)


WRITES = [
    Write(
        "INSERT",
        lambda rows, n: rows + Counter([(5, n)]),
        _sql("INSERT INTO {t} SELECT {gate}(5L), {n}L"),
        is_blind=True,
    ),
    Write(
        "INSERT .. SELECT from itself",
        _copied,
        _sql("INSERT INTO {t} SELECT {gate}(id + 100), v + {n} FROM {t}"),
    ),
    Write(
        "INSERT OVERWRITE",
        lambda _rows, n: _both(n),
        _sql(f"INSERT OVERWRITE {{t}} SELECT * FROM {_SOURCE}"),
    ),
    Write("MERGE that inserts", _inserted, _sql(_MERGE + _NOT_MATCHED)),
    Write("MERGE that updates", _updated, _sql(_MERGE + _MATCHED)),
    Write("MERGE", _merged, _sql(_MERGE + _MATCHED + _NOT_MATCHED)),
    Write(
        "UPDATE",
        _updated,
        _sql(f"UPDATE {{t}} SET v = v + {{n}} WHERE id IN (SELECT id FROM {_SOURCE})"),
    ),
    Write("DELETE", _deleted, _sql(f"DELETE FROM {{t}} WHERE id IN (SELECT id FROM {_SOURCE})")),
    Write("mergeInto", _merged, _merge_into),
    Write("overwritePartitions", lambda _rows, n: _both(n), _overwrite_partitions),
    Write("upsert", lambda rows, n: _deleted(rows, n) + _both(n), python=_upsert),
]
