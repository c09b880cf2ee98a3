"""`txns log` and `txns show`: what has committed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from txns._admin import history
from txns._cli.options import TxnsCommand, pass_lake
from txns._cli.words import DURATION, TS, say, say_json, say_table
from txns._identifier import dotted_name
from txns._log.archive import Wanted
from txns._log.stored import table_of
from txns._message import time_of
from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from txns._admin.history import Past
    from txns._cli.options import Lake
    from txns._log.change import Change

_POLL_MS = 250
_LIMIT = 20


@click.command(cls=TxnsCommand)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(0),
    default=_LIMIT,
    help=f"The newest entries; {_LIMIT} if not given.",
)
@click.option("--since", type=TS, help="All entries above this timestamp instead.")
@click.option("--table", help="Only entries that name this table.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what commits from now on.")
@click.option("--for", "for_ms", type=DURATION, help="Follow for this long only.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a line per entry.")
@pass_lake
def log(
    lake: Lake,
    limit: int,
    since: int | None,
    table: str | None,
    follow: bool,  # noqa: FBT001 -- click's flag
    for_ms: int | None,
    as_json: bool,  # noqa: FBT001 -- click's flag
) -> None:
    """
    Show the timeline of entries.

    Of a long log as much is read as is shown.
    """
    if for_ms is not None and not follow:
        raise click.UsageError("--for goes with --follow")
    parts = lake.parts
    head = parts.log.load()
    wanted = Wanted(since or 0, table=None if table is None else table_of(table))
    if since is not None:
        found: Iterable[Past] = history.oldest_first(parts, head, wanted)
    else:
        found = history.newest(parts, head, wanted, limit)
    shown = 0
    for each in found:
        _say_entry(_entry_json(each), as_json=as_json)
        shown += 1
    if not shown and table is not None and (limit or since is not None):
        click.echo(f"no entry names {dotted_name(table_of(table))}: is it under care?", err=True)
    if not follow:
        return
    end_ms = None if for_ms is None else parts.clock.elapsed_ms() + for_ms
    while end_ms is None or parts.clock.elapsed_ms() < end_ms:
        parts.clock.sleep(_POLL_MS)
        wanted, head = replace(wanted, after=head.upper), parts.log.load()
        for each in history.oldest_first(parts, head, wanted):
            _say_entry(_entry_json(each), as_json=as_json)


@click.command(cls=TxnsCommand)
@click.argument("txn")
@click.option("--payload", is_flag=True, help="Also the requirements and updates of its tables.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_lake
def show(lake: Lake, txn: str, payload: bool, as_json: bool) -> None:  # noqa: FBT001 -- click's flags
    """
    Show one entry.

    TXN is its transaction id, of several the newest one's, or its commit_ts.
    """
    parts = lake.parts
    head = parts.log.load()
    newest = next(history.newest_first(parts, head, Wanted(txn=txn)), None)
    if newest is None:
        raise InvalidUsage("42704", f"no entry has this id or commit_ts; txn=`{txn}`")
    shown = {**_entry_json(newest), "in_head": newest.in_head}
    if payload and newest.in_head and newest.entry.applies:
        shown["payload"] = [
            json.loads(request.model_dump_json()) for request in parts.log.requests(newest.entry)
        ]
    if as_json:
        say_json(shown)
    else:
        _say_all(shown)
        if payload:
            wanted = shown.get("payload", "gone: the entry has left the head, or has none")
            words = wanted if isinstance(wanted, str) else json.dumps(wanted, indent=2)
            for line in words.splitlines():
                say(line)


def _entry_json(each: Past) -> dict[str, Any]:
    entry, unapplied = each.entry, [dotted_name(name) for name in each.left]
    return {
        "commit_ts": entry.commit_ts,
        "time": time_of(entry.commit_ts),
        "kind": entry.kind.value,
        "txn_id": entry.txn_id,
        "read_ts": entry.read_ts,
        "isolation": entry.isolation.value,
        "engine": entry.engine,
        "comment": entry.comment,
        "applied": not unapplied,
        "unapplied_tables": unapplied,
        "tables": [_change_json(change) for change in entry.changes],
    }


def _change_json(change: Change) -> dict[str, Any]:
    return {
        "table": dotted_name(change.table),
        "uuid": change.uuid,
        "operation": change.operation.value,
        "from_snapshot_id": change.from_snapshot_id,
        "to_snapshot_id": change.to_snapshot_id,
        "added_records": change.added_records,
        "deleted_records": change.deleted_records,
    }


def _say_entry(entry: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        say_json(entry)
        return
    state = "" if entry["applied"] else "  not applied"
    comment = f"  {entry['comment']}" if entry["comment"] else ""
    head = f"{entry['time']}  {entry['commit_ts']}  {entry['kind']:<8}  {entry['txn_id']}"
    say(head + comment + state, style=None if entry["applied"] else "yellow")
    for change in entry["tables"]:
        rows = _rows(change)
        say(f"    {change['operation']:<9} {change['table']}{rows}")


def _rows(change: dict[str, Any]) -> str:
    found = []
    if change["added_records"]:
        found.append(f"+{change['added_records']}")
    if change["deleted_records"]:
        found.append(f"-{change['deleted_records']}")
    return f"  {' '.join(found)} rows" if found else ""


def _say_all(entry: dict[str, Any]) -> None:
    say(f"{entry['kind']} {entry['txn_id']}", style="bold")
    place = "in the head" if entry["in_head"] else "in the archive"
    applied = (
        "applied" if entry["applied"] else "not applied to " + ", ".join(entry["unapplied_tables"])
    )
    lines = {
        "commit_ts": f"{entry['commit_ts']} ({entry['time']})",
        "read_ts": f"{entry['read_ts']} ({time_of(entry['read_ts'])})",
        "isolation": entry["isolation"],
        "engine": entry["engine"],
        "comment": entry["comment"],
        "state": f"{place}, {applied}",
    }
    for name, value in lines.items():
        if value:
            say(f"  {name:<10} {value}")
    if entry["tables"]:
        names = ["table", "operation", "from", "to", "added", "deleted"]
        say_table(
            names,
            [
                (
                    each["table"],
                    each["operation"],
                    each["from_snapshot_id"],
                    each["to_snapshot_id"],
                    each["added_records"],
                    each["deleted_records"],
                )
                for each in entry["tables"]
            ],
        )
