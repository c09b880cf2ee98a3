"""`txns apply`, `tidy`, `advance`, `off`, `on` and `wait`: upkeep of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from txns._admin import orphans
from txns._cli import exit_codes
from txns._cli.options import TxnsCommand, pass_lake
from txns._cli.words import DURATION, TS, age_of, complain, say, say_json
from txns._commit.outstanding import outstanding
from txns._identifier import dotted_name
from txns._log.stored import table_of
from txns._message import time_of

if TYPE_CHECKING:
    from txns._cli.options import Lake
    from txns._identifier import Identifier


@click.command(cls=TxnsCommand)
@click.option("--to", "ts", type=TS, help="Only entries at or below this timestamp.")
@pass_lake
def apply(lake: Lake, ts: int | None) -> int:
    """
    Carry entries over to their tables.

    Exit code 1 where some are left.
    """
    parts = lake.parts
    head = parts.log.load()
    due = [
        each for each in outstanding(parts.tables, head) if ts is None or each.entry.commit_ts <= ts
    ]
    left = lake.handle.apply_le(ts)
    return _say_left(left, f"{len(due)} entries were outstanding")


@click.command(cls=TxnsCommand)
@click.option("--files", is_flag=True, help="Remove files that nothing refers to any more.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; do nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_lake
def tidy(lake: Lake, files: bool, dry_run: bool, as_json: bool) -> int:  # noqa: FBT001 -- click's flags
    """
    Move applied entries into the archive.

    With --files, also remove files of the commit table that nothing refers to and that are
    older than a transaction may get, and an hour: payload files of no entry, and what tidies that
    died have left; and metadata files that are older than an hour, but for the last one of each
    minute of 7 days. Exit code 1 where some cannot be deleted.
    """
    parts = lake.parts
    head = parts.log.load()
    tidied = parts.tidier.due(head) if dry_run else lake.handle.tidy()
    found: list[orphans.Orphan] = []
    if files:
        found = orphans.orphans(parts) if dry_run else orphans.remove(parts)
    stay = {each.path: each.stays for each in found if each.stays}
    gone = [each for each in found if not each.stays]
    if as_json:
        paths = [each.path for each in gone]
        say_json({"dry_run": dry_run, "tidied_entries": tidied, "files": paths, "stay": stay})
        return exit_codes.VIOLATION if stay else exit_codes.FINE
    would = "would leave" if dry_run else "left"
    say(f"{tidied} entries {would} the head")
    if files:
        for each in gone:
            say(f"  {each.path}  {each.size_bytes} bytes, {age_of(each.age_ms)} old")
        size_bytes = sum(each.size_bytes for each in gone)
        say(f"{len(gone)} files, {size_bytes} bytes {'to remove' if dry_run else 'removed'}")
    for path, why in stay.items():
        complain(f"{path} cannot be deleted: {why}")
    return exit_codes.VIOLATION if stay else exit_codes.FINE


@click.command(cls=TxnsCommand)
@click.argument("ts", type=TS, required=False)
@pass_lake
def advance(lake: Lake, ts: int | None) -> None:
    """
    Move the upper to TS.

    Every table is readable at it then. Without TS, to now.
    """
    lake.parts.log.load()
    upper = lake.handle.advance(lake.parts.clock.now_ms() if ts is None else ts)
    say(f"the upper is {upper} ({time_of(upper)})")


@click.command(cls=TxnsCommand)
@pass_lake
def off(lake: Lake) -> int:
    """
    Turn writers away and apply everything.

    The way out in an incident: the catalog is one of plain Iceberg until `txns on`. Exit code
    1 where entries are left.
    """
    lake.parts.log.load()
    return _say_left(lake.handle.off(), "transactions are off")


@click.command(cls=TxnsCommand)
@pass_lake
def on(lake: Lake) -> int:
    """
    Let writers in again, and adopt what others wrote to the tables.

    Exit code 1 where a table cannot be adopted; `txns status` says what is wrong with it.
    """
    lake.parts.log.load()
    foreign = lake.handle.on()
    if not foreign:
        say("transactions are on")
        return exit_codes.FINE
    names = ", ".join(map(dotted_name, foreign))
    complain(f"transactions are on; not adopted: {names}: see `txns status`")
    return exit_codes.VIOLATION


@click.command(cls=TxnsCommand)
@click.argument("table")
@click.option(
    "--after", "after_ts", type=TS, help="The newest timestamp seen; now's upper if not given."
)
@click.option("--timeout", "timeout_ms", type=DURATION, default=60_000, help="60s if not given.")
@pass_lake
def wait(lake: Lake, table: str, after_ts: int | None, timeout_ms: int) -> int:
    """
    Wait until an entry has written TABLE.

    Prints its commit_ts; exit code 1 where there is none in time.
    """
    after = lake.handle.upper if after_ts is None else after_ts
    commit_ts = lake.handle.wait(table_of(table), after, timeout_ms=timeout_ms)
    if commit_ts is None:
        complain(f"nothing wrote {table} above {after} in {age_of(timeout_ms)}")
        return exit_codes.VIOLATION
    say(str(commit_ts))
    return exit_codes.FINE


def _say_left(left: list[Identifier], done: str) -> int:
    if not left:
        say(f"{done}; everything is applied")
        return exit_codes.FINE
    names = ", ".join(map(dotted_name, left))
    complain(f"{done}; entries are left on {names}: see `txns status`")
    return exit_codes.VIOLATION
