"""`txns status`: how the log and the tables under care are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from txns._cli._cut import ENGINES, Cut, cut_at
from txns._cli._cuts import cut_json, say_queries
from txns._cli._health import health
from txns._cli._options import TxnsCommand, pass_lake
from txns._cli._words import age_of, say, say_json, say_table, time_of
from txns._identifier import dotted_name

if TYPE_CHECKING:
    from txns._cli._health import Health
    from txns._cli._options import Lake
    from txns._services import Parts

_ALL = tuple(engine.name for engine in ENGINES)
_TABLES_SHOWN = 8
"""Up to so many tables the queries of the cut are shown, too."""

_STYLES = {"quarantine": "red", "unreadable": "red", "foreign write": "yellow"}


@click.command(cls=TxnsCommand)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_lake
def status(lake: Lake, as_json: bool) -> None:  # noqa: FBT001 -- click's flag
    """
    Show what is outstanding and what is wrong.

    The tables under care, entries that are not applied, the newest consistent cut with
    queries for other engines, and settings that endanger the log.
    """
    parts = lake.parts
    found = health(parts)
    readable = any(not each.dropped for each in found.surveyed)
    cut = cut_at(parts, found, found.cut_ts) if found.cut_ts and readable else None
    if as_json:
        say_json(_json(parts, found, cut))
    else:
        _say(parts, found, cut)


def _json(parts: Parts, found: Health, cut: Cut | None) -> dict[str, Any]:
    state = found.head.state
    return {
        "catalog": parts.catalog.name,
        "commit_table": dotted_name(parts.log.identifier),
        "commit_table_uuid": found.head.uuid,
        "upper": state.upper,
        "tidied_upto": state.tidied_upto,
        "entries_in_head": len(state.entries),
        "off": state.off,
        "skew_ms": found.skew_ms,
        "tables": [{name: getattr(each, name) for name in each.__slots__} for each in found.tables],
        "unapplied": [
            {
                "txn_id": each.entry.txn_id,
                "commit_ts": each.entry.commit_ts,
                "age_ms": found.age_ms(each.entry),
                "tables": [dotted_name(table) for table in each.tables],
            }
            for each in found.outstanding
        ],
        "cut": cut_json(parts, cut, _ALL) if cut else None,
        "warnings": found.warnings,
    }


def _say(parts: Parts, found: Health, cut: Cut | None) -> None:
    state = found.head.state
    say(f"{dotted_name(parts.log.identifier)} in the catalog {parts.catalog.name}", style="bold")
    say(f"  uuid         {found.head.uuid}")
    say(f"  upper        {state.upper} ({time_of(state.upper)})")
    say(f"  tidied-upto  {state.tidied_upto}, {len(state.entries)} entries in the head")
    if state.off:
        say("  transactions are off: `txns on` lets writers in again", style="yellow")
    say()
    if found.tables:
        _say_tables(found)
    else:
        say(
            "No table is under care: `txns register TABLE`. Catalogs in a database keep their"
            f" tables by the catalog's name: is it {parts.catalog.name}?"
        )
    if found.outstanding:
        say()
        say("Not applied: `txns apply`", style="yellow")
        rows = [
            (
                each.entry.commit_ts,
                age_of(found.age_ms(each.entry)),
                each.entry.txn_id,
                ", ".join(map(dotted_name, each.tables)),
            )
            for each in found.outstanding
        ]
        say_table(["commit_ts", "age", "txn_id", "tables"], rows)
    if cut is not None and cut.tables:
        say()
        say(f"Newest consistent cut: {cut.ts} ({time_of(cut.ts)})", style="bold")
        if len(cut.tables) <= _TABLES_SHOWN:
            say_queries(parts, cut, _ALL)
        else:
            say("  `txns read-at` prints its queries for other engines")
    for warning in found.warnings:
        say(f"warning: {warning}", style="yellow")


def _say_tables(found: Health) -> None:
    rows = [(each.name, each.state, each.applied, each.unapplied or "") for each in found.tables]
    say_table(["table", "state", "applied", "unapplied"], rows)
    for each in found.tables:
        if each.words:
            say(f"  {each.name}: {each.words}", style=_STYLES.get(each.state))
