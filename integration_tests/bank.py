"""
A bank over three tables, whose sum no transaction changes, for writers of both languages.

Each transaction leaves one row with its label in each of the tables. An append moves an
amount by these rows alone; a transfer reads and changes the balances of two tables, and its
rows say by how much. So whatever a reader sees at one moment can be checked by itself.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import txns
from integration_tests.python_lake import open_lake
from txns_spark.errors import TransactionConflict, translated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

TABLES = ("db.x", "db.y", "db.z")
START = 1000
BALANCE, APPENDED, TRANSFERRED = 0, 1, 2
BACK_OFF_MAX_MS = 50
SCHEMA = pa.schema(
    [
        pa.field("kind", pa.int64()),
        pa.field("label", pa.string()),
        pa.field("amount", pa.int64()),
        pa.field("moved", pa.int64()),
    ]
)
Row = tuple[int, str, int, int]


class Move(NamedTuple):
    """One transaction: an amount from one table to another one."""

    label: str
    source: str
    target: str
    third: str
    amount: int
    transfers: bool

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Give the row that it leaves in each of the tables."""
        signed = ((self.source, -self.amount), (self.target, self.amount), (self.third, 0))
        for table, amount in signed:
            if self.transfers:
                yield table, (TRANSFERRED, self.label, 0, amount)
            else:
                yield table, (APPENDED, self.label, amount, 0)

    def transferred(self) -> Iterator[tuple[str, int]]:
        """Give the tables whose balance it changes, and by how much."""
        if self.transfers:
            yield self.source, -self.amount
            yield self.target, self.amount


def moves(name: str, count: int, seed: int) -> Iterator[Move]:
    """Draw the transactions of one writer."""
    draw = random.Random(f"{seed}/{name}")
    for number in range(count):
        source, target, third = draw.sample(TABLES, 3)
        transfers = draw.random() < 0.3
        yield Move(f"{name}/{number}", source, target, third, draw.randrange(1, 50), transfers)


def make(session: SparkSession) -> None:
    """Make the tables, with what each starts from."""
    for table in TABLES:
        session.sql(
            f"CREATE TABLE lake.{table} (kind BIGINT, label STRING, amount BIGINT, moved BIGINT)"
            " USING iceberg"
        )
        session.sql(f"INSERT INTO lake.{table} VALUES ({BALANCE}, 'balance', {START}, 0)")


def commit_by_spark(session: SparkSession, move: Move) -> None:
    """Commit one transaction in Spark SQL."""
    session.sql(f"BEGIN ID '{move.label}'")
    for table, amount in move.transferred():
        session.sql(f"UPDATE lake.{table} SET amount = amount + ({amount}) WHERE kind = {BALANCE}")
    for table, (kind, label, amount, moved) in move.rows():
        session.sql(f"INSERT INTO lake.{table} VALUES ({kind}, '{label}', {amount}, {moved})")
    session.sql("COMMIT")


def win_by_spark(session: SparkSession, move: Move) -> int:
    """Commit one transaction, again until it has won; return how many races it lost."""
    conflicts = 0
    while True:
        try:
            with translated():
                commit_by_spark(session, move)
        except TransactionConflict:
            conflicts += 1
            session.sql("ROLLBACK")
        else:
            return conflicts


def commit_by_python(handle: txns.Handle, move: Move) -> None:
    """Commit one transaction in Python."""
    with handle.begin(txn_id=move.label) as txn:
        for table, amount in move.transferred():
            account = txn.load_table(table)
            balance = account.scan(f"kind = {BALANCE}").to_arrow()["amount"][0].as_py()
            row = (BALANCE, "balance", balance + amount, 0)
            account.overwrite(_batch(row), f"kind = {BALANCE}")
        for table, row in move.rows():
            txn.load_table(table).append(_batch(row))


def run_python(
    folder: Path,
    name: str,
    say: Callable[..., None],
    *,
    count: int,
    seed: int,
    pause_s: float = 0,
    **options: Any,
) -> None:
    """
    Commit all transactions of a writer, each until it has won; say what came of them.

    Args:
        folder: Where the lake is.
        name: The writer's; no other one has it.
        say: Prints words.
        count: How many.
        seed: Of what is drawn.
        pause_s: How long to wait at least after each, and three times as long as it took, so that
            slower writers win as well.
        **options: Of the protocol.
    """
    handle = open_lake(folder, **options)
    conflicts = 0
    for move in moves(name, count, seed):
        while True:
            begun_s = time.monotonic()
            try:
                commit_by_python(handle, move)
            except txns.Conflict:
                conflicts += 1
                handle.back_off(BACK_OFF_MAX_MS)
            else:
                say("committed", move.label)
                rest_s = max(pause_s, 3 * (time.monotonic() - begun_s)) if pause_s else 0
                time.sleep(rest_s)
                break
    say("conflicts", str(conflicts))


def read_by_python(catalog: Catalog) -> dict[str, list[Row]]:
    """Read the tables of a catalog, one after the other."""
    return {
        table: [
            tuple(row.values()) for row in catalog.load_table(table).scan().to_arrow().to_pylist()
        ]
        for table in TABLES
    }


def read_by_spark(session: SparkSession) -> dict[str, list[Row]]:
    """Read the tables in one statement."""
    query = " UNION ALL ".join(f"SELECT '{table}', * FROM lake.{table}" for table in TABLES)
    found: dict[str, list[Row]] = {table: [] for table in TABLES}
    for table, *row in session.sql(query).collect():
        found[table].append(tuple(row))
    return found


def faults(read: dict[str, list[Row]]) -> list[str]:
    """Say what is wrong with a state of the tables; nothing, if it is of one moment."""
    found = []
    total = sum(row[2] for rows in read.values() for row in rows)
    if total != START * len(TABLES):
        found.append(f"the sum is {total}")
    if len({frozenset(labels(rows)) for rows in read.values()}) != 1:
        found.append("a transaction is in some tables only")
    for table, rows in read.items():
        doubled = [label for label, count in Counter(row[1] for row in rows).items() if count > 1]
        if doubled:
            found.append(f"{table} has twice {doubled}")
        balances = [row[2] for row in rows if row[0] == BALANCE]
        if balances != [START + sum(row[3] for row in rows)]:
            found.append(f"an update of {table} is lost: {balances}")
    return found


def labels(rows: list[Row]) -> set[str]:
    """Give the transactions that have left a row."""
    return {row[1] for row in rows if row[0] != BALANCE}


def _batch(row: Row) -> pa.Table:
    columns = {field.name: [value] for field, value in zip(SCHEMA, row, strict=True)}
    return pa.table(columns, schema=SCHEMA)
