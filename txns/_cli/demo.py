"""`txns demo`: what transactions do, in a temporary catalog of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

import txns
from txns._cli.words import say
from txns.errors import Conflict

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

STOCK, SOLD = "shop.stock", "shop.sold"
_SCHEMA = pa.schema([("id", pa.int64()), ("amount", pa.int64())])


@click.command()
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder to keep the catalog in; a temporary one is removed at the end.",
)
def demo(keep: Path | None) -> None:
    """
    Show what transactions do.

    A transaction, a lost race, a crash and time travel, in a catalog of its own.
    """
    if keep is not None:
        if keep.exists() and any(keep.iterdir()):
            raise click.UsageError(f"--keep wants a folder that is new or empty: {keep}")
        keep.mkdir(parents=True, exist_ok=True)
        _play(keep.resolve())
        say()
        say(
            f"Kept: txns status --catalog demo --uri sqlite:///{keep.resolve()}/catalog.db"
            f" --warehouse file://{keep.resolve()}"
        )
        return
    with tempfile.TemporaryDirectory(prefix="txns-demo-") as folder:
        _play(Path(folder))


def _play(folder: Path) -> None:
    catalog = SqlCatalog("demo", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    try:
        # Of the steps that `atomic` makes at once the scenes show what stands between them.
        handle = txns.open(catalog, apply="inline")
        catalog.create_namespace("shop")
        began_ts = _transaction(handle)
        _race(handle)
        _crash(handle, catalog)
        _travel(handle, began_ts)
    finally:
        catalog.close()


def _transaction(handle: txns.Handle) -> int:
    _scene("1. Two tables, one transaction, and a reader beside it")
    with handle.begin(comment="opening stock") as txn:
        txn.create_table(STOCK, _SCHEMA).append(_rows((7, 10), (8, 5)))
        txn.create_table(SOLD, _SCHEMA)
    began_ts = handle.upper
    with handle.begin(comment="sell three of 7") as txn:
        _sell(txn, 3)
        say(f"   inside the transaction   {_seen(txn)}")
        say(f"   a reader before COMMIT   {_seen(handle.snapshot())}")
    say(f"   a reader after COMMIT    {_seen(handle.snapshot())}")
    return began_ts


def _race(handle: txns.Handle) -> None:
    _scene("2. A lost race: both have read the same stock")
    late = handle.begin()
    _sell(late, 2)
    with handle.begin(comment="the first of two") as first:
        _sell(first, 1)
    try:
        late.commit()
    except Conflict as error:
        say(f"   {error}")
    txns.run_transaction(handle, lambda txn: _sell(txn, 2), comment="the second, run again")
    say(f"   run again by txns.run_transaction    {_seen(handle.snapshot())}")


def _crash(handle: txns.Handle, catalog: Catalog) -> None:
    _scene("3. A crash after the swap, before anything is applied")
    txn = handle.begin(comment="its process died")
    _sell(txn, 1)
    txn.commit_at()  # durable and visible; its process dies here
    say(f"   the tables themselves    {_seen(catalog)}")
    say(f"   a reader                 {_seen(handle.snapshot())}")
    handle.apply_le()
    say(f"   the tables, applied      {_seen(catalog)}")


def _travel(handle: txns.Handle, began_ts: int) -> None:
    _scene("4. All tables at one moment of the past, and the log")
    say(f"   at {began_ts}         {_seen(handle.snapshot(began_ts))}")
    for row in handle.transactions():
        added, deleted = row["added_records"] or 0, row["deleted_records"] or 0
        say(
            f"   {row['commit_ts']}  {row['table_name']:<10} {row['operation']:<9}"
            f" +{added} -{deleted}  {row['comment']}"
        )


def _sell(txn: txns.Transaction, amount: int) -> None:
    stock = txn.load_table(STOCK)
    (left,) = stock.scan("id == 7").to_arrow()["amount"].to_pylist()
    stock.overwrite(_rows((7, left - amount)), "id == 7")
    txn.load_table(SOLD).append(_rows((7, amount)))


def _seen(catalog: Catalog) -> str:
    left, sold = (
        sum(catalog.load_table(name).scan("id == 7").to_arrow()["amount"].to_pylist())
        for name in (STOCK, SOLD)
    )
    return f"{left} of 7 in stock, {sold} sold"


def _rows(*rows: tuple[int, int]) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "amount": n} for i, n in rows], schema=_SCHEMA)


def _scene(words: str) -> None:
    say()
    say(words, style="bold")
