"""`txns status`: how the log and the tables under care are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from txns._admin.apply_mode import apply_mode
from txns._admin.consistent_cut import ENGINES, Cut, cut_at
from txns._admin.health import health
from txns._admin.probe import Probe
from txns._cli.cuts import cut_json
from txns._cli.options import TxnsCommand, pass_lake
from txns._cli.settings import json_of, words_of
from txns._cli.words import age_of, say, say_json, say_table
from txns._identifier import dotted_name
from txns._message import time_of
from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from txns._admin.health import Health
    from txns._cli.options import Lake
    from txns._identifier import Identifier
    from txns._services import Parts

_ALL = tuple(engine.name for engine in ENGINES)
_SHOWN = 3
"""How many of a kind are shown where there are more: together they fit a screen."""
_TABLES_SHOWN = 10
"""Up to so many tables each of them is shown; above, how many are in which state."""

_STYLES = {"quarantine": "red", "unreadable": "red", "foreign write": "yellow"}
"""States in which something is wrong, the worst first."""
_ALL_SHOWS = "`txns status --all` shows each"


@click.command(cls=TxnsCommand)
@click.option("--all", "everything", is_flag=True, help="Show every table, entry and warning.")
@click.option("--head", "head_alone", is_flag=True, help="Look at the log alone, at no table.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_lake
def status(lake: Lake, everything: bool, head_alone: bool, as_json: bool) -> None:  # noqa: FBT001 -- click's flags
    """
    Show what is wrong, then what is outstanding, on one screen.

    Tables in quarantine or written by strangers, entries that are not applied, tables that
    somebody has reserved, settings that endanger the log; then the log, the newest consistent cut
    and the tables under care.

    With --head, for probes: one load of the commit table and no other. It says how old the
    oldest entry is that tables may not show, and cannot say whether they do, nor what is wrong
    with them: an entry stands in the head until it is applied everywhere and tidied.
    """
    parts = lake.parts
    if head_alone:
        _say_head(Probe(parts.log.load(), parts.clock.now_ms()), as_json=as_json)
        return
    found = health(parts)
    if as_json:
        say_json(_json(parts, found))
        return
    name = dotted_name(parts.log.identifier)
    say(f"{name} in the catalog {parts.catalog.name}", style="bold")
    shown = None if everything else _SHOWN
    _say_wrong(found, shown)
    _say_outstanding(found, shown)
    _say_reserved(found)
    _say_some([(f"warning: {each}", "yellow") for each in found.warnings], "warnings", shown)
    _say_log(parts, found)
    _say_tables(parts, found, everything=everything)


def _say_head(probe: Probe, *, as_json: bool) -> None:
    state, oldest = probe.head.state, probe.oldest
    if as_json:
        say_json(
            {
                "commit_table_uuid": probe.head.uuid,
                "upper": state.upper,
                "tidied_upto": state.tidied_upto,
                "entries_in_head": probe.entries,
                "bytes_in_head": probe.bytes,
                "oldest_maybe_unapplied": oldest and oldest.commit_ts,
                "oldest_maybe_unapplied_age_ms": probe.oldest_age_ms,
                "off": state.off,
                "skew_ms": probe.skew_ms,
            }
        )
        return
    say(f"upper    {state.upper} ({time_of(state.upper)})")
    say(f"head     {probe.entries} entries, {probe.bytes} bytes")
    age = f"for {age_of(probe.oldest_age_ms)} at most: {oldest.txn_id}" if oldest else "nothing"
    say(f"waiting  {age}")
    say(f"writers  {'off: `txns on` lets them in again' if state.off else 'on'}")


def _json(parts: Parts, found: Health) -> dict[str, Any]:
    state = found.head.state
    cut, mode = _cut(parts, found), apply_mode(parts, found.head)
    return {
        "catalog": parts.catalog.name,
        "commit_table": dotted_name(parts.log.identifier),
        "commit_table_uuid": found.head.uuid,
        "upper": state.upper,
        "tidied_upto": state.tidied_upto,
        "entries_in_head": len(state.entries),
        "off": state.off,
        "settings": json_of(state.settings),
        "apply": {"mode": mode.name, "why": mode.why},
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
        "reserved": [
            {
                "txn_id": each.txn_id,
                "tables": found.names_of(each),
                "ticket": each.ticket,
                "number": each.number,
                "lasts_ms": each.lasts_ms,
            }
            for each in state.reserved
        ],
        "cut": cut_json(parts, cut, _ALL) if cut else None,
        "warnings": found.warnings,
    }


def _cut(parts: Parts, found: Health) -> Cut | None:
    """Give the newest consistent cut; None where no table can be read at it."""
    if not found.cut_ts or all(each.dropped for each in found.surveyed):
        return None
    try:
        return cut_at(parts, found, found.cut_ts)
    except InvalidUsage:
        return None


def _say_wrong(found: Health, shown: int | None) -> None:
    """Print the tables with which something is wrong, the worst first."""
    states = [*_STYLES]
    wrong = [each for each in found.tables if each.state in _STYLES or each.words]
    wrong.sort(key=lambda each: states.index(each.state) if each.state in states else len(states))
    _say_some(
        [(f"{each.name}: {each.state}: {each.words}", _STYLES.get(each.state)) for each in wrong],
        "tables with something wrong",
        shown,
    )


def _say_outstanding(found: Health, shown: int | None) -> None:
    if not found.outstanding:
        return
    tables = {name for each in found.outstanding for name in each.tables}
    say(
        f"not applied: {len(found.outstanding)} entries, on {len(tables)} tables, the oldest for"
        f" {age_of(found.age_ms(found.outstanding[0].entry))}: `txns apply`, which says why where"
        " one stays",
        style="yellow",
    )
    if shown is not None and len(found.outstanding) > shown:
        return
    rows = [
        (
            each.entry.commit_ts,
            age_of(found.age_ms(each.entry)),
            each.entry.txn_id,
            _names(each.tables, shown),
        )
        for each in found.outstanding
    ]
    say_table(["  commit_ts", "age", "txn_id", "tables"], rows)


def _say_reserved(found: Health) -> None:
    """Print for whom the younger wait: eight at most."""
    if not found.head.state.reserved:
        return
    say("reserved by transactions that have lost: younger ones that write these tables wait")
    rows = [
        (each.txn_id, age_of(each.lasts_ms), each.number, ", ".join(found.names_of(each)))
        for each in found.head.state.reserved
    ]
    say_table(["  txn_id", "for at most", "times lost", "tables"], rows)


def _names(tables: tuple[Identifier, ...], shown: int | None) -> str:
    more = 0 if shown is None else max(0, len(tables) - shown)
    names = ", ".join(map(dotted_name, tables[: len(tables) - more]))
    return f"{names} and {more} more" if more else names


def _say_some(lines: list[tuple[str, str | None]], what: str, shown: int | None) -> None:
    """Print lines, each in its style; where there are more than shown, how many are left."""
    for line, style in lines[:shown]:
        say(line, style=style)
    if shown is not None and len(lines) > shown:
        say(f"{len(lines) - shown} more {what}: {_ALL_SHOWS}")


def _say_log(parts: Parts, found: Health) -> None:
    state, mode = found.head.state, apply_mode(parts, found.head)
    if state.off:
        say("transactions are off: `txns on` lets writers in again", style="yellow")
    say(f"  uuid         {found.head.uuid}")
    say(f"  upper        {state.upper} ({time_of(state.upper)})")
    say(f"  settings     {words_of(state.settings)}")
    say(f"  apply        {mode.name}: {mode.why}")
    say(f"  tidied-upto  {state.tidied_upto}, {len(state.entries)} entries in the head")
    if found.cut_ts:
        cut = f"{found.cut_ts} ({time_of(found.cut_ts)})"
        say(f"  cut          {cut}, everything at and below it is applied: `txns read-at`")


def _say_tables(parts: Parts, found: Health, *, everything: bool) -> None:
    if not found.tables:
        say(
            "No table is under care: `txns register TABLE`. Catalogs in a database keep their"
            f" tables by the catalog's name: is it {parts.catalog.name}?"
        )
        return
    if not everything and len(found.tables) > _TABLES_SHOWN:
        counts = Counter(each.state for each in found.tables)
        states = ", ".join(f"{count} {state}" for state, count in counts.most_common())
        say(f"  tables       {len(found.tables)}: {states}; {_ALL_SHOWS}")
        return
    say()
    rows = [(each.name, each.state, each.applied, each.unapplied or "") for each in found.tables]
    say_table(["table", "state", "applied", "unapplied"], rows)
