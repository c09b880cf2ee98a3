"""`txns log` and `txns show`: what has committed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from txns._cli.options import TxnsCommand, pass_lake
from txns._cli.words import DURATION, TS, say, say_json, say_table
from txns._commit.outstanding import outstanding
from txns._identifier import dotted_name
from txns._log.entry import table_of
from txns._message import time_of
from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from txns._cli.options import Lake
    from txns._log.commit_log import Head
    from txns._log.entry import Change, Entry
    from txns._services import Parts

_POLL_MS = 250
_LINES = 20


@click.command(cls=TxnsCommand)
@click.option("-n", "--lines", default=_LINES, help=f"The newest entries; {_LINES} if not given.")
@click.option("--since", type=TS, help="All entries above this timestamp instead.")
@click.option("--table", help="Only entries that name this table.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what commits from now on.")
@click.option("--for", "for_ms", type=DURATION, help="Follow for this long only.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a line per entry.")
@pass_lake
def log(
    lake: Lake,
    lines: int,
    since: int | None,
    table: str | None,
    follow: bool,  # noqa: FBT001 -- click's flag
    for_ms: int | None,
    as_json: bool,  # noqa: FBT001 -- click's flag
) -> None:
    """Show the timeline of entries."""
    parts = lake.parts
    head = parts.log.load()
    found = [each for each in _history(parts, head, since or 0) if _names(each, table)]
    for each in found if since is not None else found[-lines:] if lines > 0 else []:
        _say_entry(each, as_json=as_json)
    if not follow:
        return
    end_ms = None if for_ms is None else parts.clock.now_ms() + for_ms
    while end_ms is None or parts.clock.now_ms() < end_ms:
        parts.clock.sleep(_POLL_MS)
        seen_ts, head = head.upper, parts.log.load()
        for each in _history(parts, head, seen_ts):
            if _names(each, table):
                _say_entry(each, as_json=as_json)


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
    found = [
        each for each in _history(parts, head, 0) if txn in {each["txn_id"], str(each["commit_ts"])}
    ]
    if not found:
        raise InvalidUsage("42704", f"no entry has this id or commit_ts; txn=`{txn}`")
    newest = found[-1]
    standing = (each for each in head.state.entries if each.commit_ts == newest["commit_ts"])
    entry = next(standing, None)
    shown = {**newest, "in_head": entry is not None}
    if payload and entry is not None and entry.applies:
        shown["payload"] = [
            json.loads(request.model_dump_json()) for request in parts.log.requests(entry)
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


def _history(parts: Parts, head: Head, after: int) -> Iterator[dict[str, Any]]:
    """Give the entries above a timestamp, ascending, as plain data."""
    found = parts.timeline.above(head.state, after)
    unapplied = outstanding(parts.tables, head) if found else []
    left = {each.entry.commit_ts: each.tables for each in unapplied}
    for entry in found:
        tables = left.get(entry.commit_ts, ())
        yield _entry_json(entry, [dotted_name(name) for name in tables])


def _entry_json(entry: Entry, unapplied: list[str]) -> dict[str, Any]:
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


def _names(entry: dict[str, Any], table: str | None) -> bool:
    if table is None:
        return True
    return any(table_of(each["table"]) == table_of(table) for each in entry["tables"])


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
