"""`txns recover`: a log and its tables that do not belong together any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from txns._admin import recover as _recover
from txns._admin import void as _void
from txns._cli import exit_codes
from txns._cli.options import TxnsCommand, pass_lake
from txns._cli.words import complain, say, say_json
from txns._identifier import dotted_name
from txns._log.limits import is_late
from txns._message import message, time_of

if TYPE_CHECKING:
    from txns._admin.recover import Recovered
    from txns._admin.void import Voided
    from txns._cli.options import Lake
    from txns._log.entry import Entry

_WORDS = {
    "taken_back": "taken back into the log, from its own files",
    "told_by_tables": "told by tables alone, and archived: look whether other tables lack them",
    "gone": "committed once, and gone with what was restored",
    "unknown": "of which nobody can tell whether they have committed",
    "passed_over": "given up in these tables, which show others that the log has lacked",
}


@click.command(cls=TxnsCommand)
@click.option(
    "--forward",
    is_flag=True,
    help="Take back what files of the log still have, though no table shows it, and take tables"
    " there by their own later metadata.",
)
@click.option(
    "--void",
    "void_number",
    type=int,
    metavar="RECORD",
    help="Only take one record out of the log that nobody can read: its snapshot, or commit_ts.",
)
@click.option(
    "--sound",
    is_flag=True,
    help="With --void: also a record that can be read, or that asks for a newer program; what it"
    " did is gone.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done; do nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_lake
def recover(
    lake: Lake,
    forward: bool,  # noqa: FBT001 -- click's flags
    void_number: int | None,
    sound: bool,  # noqa: FBT001
    dry_run: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
) -> int:
    """
    Make the log and its tables belong together again.

    After the commit table, some tables or the whole catalog were lost or restored from a
    backup. Stop what writes the lake before. Exit code 1 where a table is left, or broken.
    """
    parts = lake.parts
    if void_number is not None:
        if dry_run or forward:
            raise click.UsageError("--void goes alone, or with --sound")
        take_out = _void.void_sound if sound else _void.void
        _say_void(take_out(parts, void_number), as_json=as_json)
        return exit_codes.FINE
    if sound:
        raise click.UsageError("--sound goes with --void")
    given = (parts.catalog, parts.config, parts.clock)
    if dry_run:
        found = _recover.recoverable(*given, forward=forward)
    else:
        found = _recover.recover(*given, forward=forward)
    if as_json:
        say_json(_json(found))
    else:
        _say(found)
    return exit_codes.VIOLATION if found.left or found.broken else exit_codes.FINE


def _say_void(voided: Voided, *, as_json: bool) -> None:
    told = [] if voided.told is None else [_entry_json(voided.told)]
    if as_json:
        unread = list(voided.unread)
        stranded = [_entry_json(each.entry) for each in voided.stranded]
        told_of = {"upper": voided.upper, "told": told, "unread": unread, "stranded": stranded}
        say_json({"void": voided.snapshot_id, **told_of})
        return
    readable = "" if voided.unread else ": the log can be read without it"
    say(f"the record {voided.snapshot_id} is void{readable}")
    for each in voided.unread:
        say(f"another one cannot be read, either: `txns recover --void {each}`")
    for one in voided.stranded:
        cure = f"`txns recover --void {one.commit_ts}`"
        say(f"{dotted_name(one.change.table)} is created by nobody now: {cure} takes out, too:")
        _say_entry(one.entry)
    if is_late(voided.upper):
        say("but its time has come to an end: `txns recover` gives it another")
    if voided.told is None:
        say("nothing of it can be told")
        return
    _say_entry(voided.told)
    for change in voided.told.changes:
        name = dotted_name(change.table)
        say(f"{name}, if it lacks that, is in quarantine: `txns repair adopt {name}`")


def _say(recovered: Recovered) -> None:
    found, begun = recovered.found, recovered.begun
    if begun.registered:
        upper = begun.registered.upper
        lost = "the catalog has no commit table"
        if begun.missing:
            lost = f"the metadata file that the catalog named is gone: {message(begun.missing)}"
        say(lost)
        say(f"  in its place: {begun.registered.path}, of {upper} ({time_of(upper)})")
    for name, words in _WORDS.items():
        entries: list[Entry] = getattr(found, name)
        if entries:
            say(f"{len(entries)} {words}:", style="bold")
            for each in entries:
                _say_entry(each)
    if not recovered.log_id:
        _say_dry(recovered)
    else:
        say(f"the log is {recovered.log_id}; its upper is {found.upper} ({time_of(found.upper)})")
        say(f"{len(recovered.marked)} tables belong to it")
    for table in recovered.forward:
        taken = "is taken" if recovered.log_id else "would be taken"
        say(f"{dotted_name(table)} was behind the log: its own later metadata {taken}")
    for table, why in recovered.left.items():
        complain(f"{dotted_name(table)} does not belong to the log: {why}")
    for table, why in recovered.broken.items():
        name = dotted_name(table)
        complain(f"{name}: {why}; see `txns status`, and `txns repair adopt {name}`")


def _say_dry(recovered: Recovered) -> None:
    """Say what a person is to know before a recovery; a dry run is never silent."""
    found = recovered.found
    if found.gone:
        say("`txns recover --forward` takes them back; after a recovery without it nothing does")
    told = any(getattr(found, name) for name in _WORDS) or recovered.begun.registered
    say("nothing was written" if told else "the log lacks nothing; nothing was written")


def _say_entry(entry: Entry) -> None:
    tables = ", ".join(dotted_name(change.table) for change in entry.changes)
    say(f"  {entry.commit_ts}  {time_of(entry.commit_ts)}  {entry.txn_id}  {tables}")


def _json(recovered: Recovered) -> dict[str, Any]:
    entries = {
        name: [_entry_json(each) for each in getattr(recovered.found, name)] for name in _WORDS
    }
    begun = recovered.begun
    return {
        "log_id": recovered.log_id,
        "missing": message(begun.missing),
        "registered": begun.registered.path if begun.registered else "",
        "upper": recovered.found.upper,
        **entries,
        "forward": [dotted_name(each) for each in recovered.forward],
        "marked": [dotted_name(each) for each in recovered.marked],
        "left": {dotted_name(name): why for name, why in recovered.left.items()},
        "broken": {dotted_name(name): why for name, why in recovered.broken.items()},
    }


def _entry_json(entry: Entry) -> dict[str, Any]:
    return {
        "commit_ts": entry.commit_ts,
        "txn_id": entry.txn_id,
        "tables": [dotted_name(change.table) for change in entry.changes],
    }
