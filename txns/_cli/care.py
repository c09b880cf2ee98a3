"""`txns register`, `txns forget` and `txns repair`: which tables are under care."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from txns._cli.options import TxnsCommand, pass_lake
from txns._cli.words import say
from txns._identifier import dotted_name
from txns._log.stored import table_of
from txns._message import time_of

if TYPE_CHECKING:
    from txns._cli.options import Lake


@click.command(cls=TxnsCommand)
@click.argument("tables", nargs=-1, required=True, metavar="TABLE...")
@pass_lake
def register(lake: Lake, tables: tuple[str, ...]) -> None:
    """
    Put tables under care.

    Again changes nothing.
    """
    lake.parts.log.load()
    for table in tables:
        commit_ts = lake.handle.register(table_of(table))
        say(f"{table} is under care from {commit_ts} ({time_of(commit_ts)})")


@click.command(cls=TxnsCommand)
@click.argument("tables", nargs=-1, metavar="TABLE...")
@click.option("--all", "everything", is_flag=True, help="Every table under care.")
@pass_lake
def forget(lake: Lake, tables: tuple[str, ...], everything: bool) -> None:  # noqa: FBT001 -- click's flag
    """
    Take tables from care.

    Again changes nothing; the tables stay as they are.
    """
    if everything == bool(tables):
        raise click.UsageError("name the tables, or give --all")
    lake.parts.log.load()
    names = [dotted_name(name) for name in lake.handle.registered()] if everything else list(tables)
    for table in names:
        commit_ts = lake.handle.forget(table_of(table))
        say(f"{table} is not under care from {commit_ts} ({time_of(commit_ts)})")


@click.group()
def repair() -> None:
    """
    End a quarantine or a foreign write.

    Strangers have written a table past the protocol: take it in, or set it aside.
    """


@repair.command(cls=TxnsCommand)
@click.argument("table")
@pass_lake
def adopt(lake: Lake, table: str) -> None:
    """Take in what strangers wrote to TABLE."""
    lake.parts.log.load()
    commit_ts = lake.handle.repair_adopt(table_of(table))
    say(f"{table}: what strangers wrote is part of it from {commit_ts} ({time_of(commit_ts)})")


@repair.command(cls=TxnsCommand)
@click.argument("table")
@pass_lake
def reject(lake: Lake, table: str) -> None:
    """
    Put the logged state of TABLE back.

    What strangers wrote stays on a branch txns-foreign-ID.
    """
    lake.parts.log.load()
    commit_ts = lake.handle.repair_reject(table_of(table))
    say(f"{table}: the logged state is back from {commit_ts} ({time_of(commit_ts)})")
