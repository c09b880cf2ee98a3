"""`txns read-at`, `txns hold`, `txns holds` and `txns release`: one timestamp for all tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from txns._admin.consistent_cut import ENGINES, cut_at, queries
from txns._admin.health import health
from txns._cli.options import TxnsCommand, pass_lake
from txns._cli.words import DURATION, TS, say, say_json, say_table
from txns._identifier import dotted_name
from txns._log.stored import table_of
from txns._message import time_of
from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from txns._admin.consistent_cut import Cut
    from txns._cli.options import Lake
    from txns._services import Parts

_WEEK_MS = 7 * 24 * 3600 * 1000


@click.command("read-at", cls=TxnsCommand)
@click.argument("ts", type=TS, required=False)
@click.option(
    "--engine",
    "wanted",
    multiple=True,
    type=click.Choice([engine.name for engine in ENGINES]),
    help="For this engine only; may be given again.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_lake
def read_at(lake: Lake, ts: int | None, wanted: tuple[str, ...], as_json: bool) -> None:  # noqa: FBT001 -- click's flag
    """
    Print queries that read all tables at TS.

    They are for engines outside the protocol: Spark with a plain catalog, Trino, DuckDB. A
    time stands in them only where every table was checked to resolve to the right snapshot
    by the engine's own rule, the snapshot ids otherwise. TS is milliseconds or a time;
    without it, the newest timestamp at and below which everything is applied.
    """
    found = health(lake.parts)
    cut = cut_at(lake.parts, found, found.cut_ts if ts is None else ts)
    names = wanted or tuple(engine.name for engine in ENGINES)
    if as_json:
        say_json(cut_json(lake.parts, cut, names))
        return
    say(f"{cut.ts} ({time_of(cut.ts)}), {len(cut.tables)} tables", style="bold")
    say_queries(lake.parts, cut, names)
    for name, reason in cut.left_out.items():
        say(f"left out: {name}: {reason}")


def say_queries(parts: Parts, cut: Cut, names: tuple[str, ...]) -> None:
    """Print the queries of a cut, engine by engine."""
    for engine in ENGINES:
        if engine.name in names:
            how = "by the time, checked" if engine.name in cut.by_time else "by snapshot id"
            say(f"{engine.name} ({how})", style="bold")
            for query in queries(parts, cut, engine):
                say(f"  {query};")


def cut_json(parts: Parts, cut: Cut, names: tuple[str, ...]) -> dict[str, Any]:
    """Give a cut as JSON: snapshot ids by table, queries by engine."""
    return {
        "ts": cut.ts,
        "time": time_of(cut.ts),
        "snapshots": {dotted_name(each.table): each.snapshot_id for each in cut.tables},
        "left_out": cut.left_out,
        "by_time": sorted(cut.by_time),
        "queries": {
            engine.name: queries(parts, cut, engine) for engine in ENGINES if engine.name in names
        },
    }


@click.command(cls=TxnsCommand)
@click.argument("name")
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--at", "read_ts", type=TS, help="What to hold; the newest timestamp if not given.")
@click.option("--ttl", type=DURATION, default=_WEEK_MS, help="For how long; 7d if not given.")
@pass_lake
def hold(lake: Lake, name: str, tables: tuple[str, ...], read_ts: int | None, ttl: int) -> None:
    """
    Keep tables readable as of one timestamp.

    Tags the snapshot of every named table, or of every table under care, as txns-hold-NAME,
    so that no engine expires it.
    """
    named = [table_of(table) for table in tables] or None
    held = lake.handle.hold(name, named, read_ts=read_ts, ttl_ms=ttl)
    say(
        f"{name} holds {len(held.tables)} tables as of {held.read_ts} until"
        f" {time_of(held.expires_ms)}; the tag is {held.tag}"
    )


@click.command(cls=TxnsCommand)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a line per hold.")
@pass_lake
def holds(lake: Lake, as_json: bool) -> None:  # noqa: FBT001 -- click's flag
    """List the holds."""
    found = lake.handle.holds()
    if as_json:
        for each in found:
            tables = {dotted_name(name): snapshot_id for name, snapshot_id in each.tables.items()}
            say_json({**vars(each), "tables": tables, "tag": each.tag})
        return
    rows = [
        (
            each.name,
            each.read_ts,
            time_of(each.expires_ms),
            ", ".join(map(dotted_name, each.tables)),
        )
        for each in found
    ]
    say_table(["hold", "read_ts", "until", "tables"], rows)


@click.command(cls=TxnsCommand)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@pass_lake
def release(lake: Lake, names: tuple[str, ...]) -> None:
    """End holds and remove their tags."""
    known = {each.name for each in lake.handle.holds()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidUsage(
            "42704",
            f"there is no such hold; hold=`{', '.join(unknown)}`"
            f" known=`{', '.join(sorted(known))}`",
        )
    for name in names:
        tables = lake.handle.release(name)
        say(f"{name} is released on {', '.join(map(dotted_name, tables))}")
