"""`txns init`: create the commit table, or say what an administrator has to prepare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from txns._cli.options import TxnsCommand, pass_lake
from txns._cli.words import say, say_json, say_table
from txns._identifier import dotted_name
from txns._log import commit_table as _commit_table

if TYPE_CHECKING:
    from txns._cli.options import Lake


@click.command(cls=TxnsCommand)
@click.option("--print", "only_print", is_flag=True, help="Print what it needs; create nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_lake
def init(lake: Lake, only_print: bool, as_json: bool) -> None:  # noqa: FBT001 -- click's flags
    """
    Create the commit table if it is not there.

    Where nothing says which catalog, create the embedded default, too: SQLite and files below
    ./txns-warehouse, the catalog lake with a namespace default, as Spark's sessions do.
    """
    if only_print:
        _print(lake.commit_table, as_json=as_json)
        return
    place = lake.make_embedded()
    log = lake.parts.log
    created = not log.load_if_exists().exists
    head = log.load_or_create()
    name = dotted_name(log.identifier)
    if as_json:
        say_json({"commit_table": name, "uuid": head.uuid, "created": created})
    else:
        say(f"{name} {'created' if created else 'is there already'}; uuid {head.uuid}")
        if place is not None:
            where = f"SQLite, and files in {place}"
            say(f"in the catalog {lake.parts.catalog.name}, which is new: {where}")


def _print(commit_table: str, *, as_json: bool) -> None:
    namespace = commit_table.rpartition(".")[0]
    columns = [
        (field.name, str(field.field_type), field.required) for field in _commit_table.SCHEMA.fields
    ]
    retention = {
        "min-snapshots-to-keep": _commit_table.MIN_SNAPSHOTS_TO_KEEP,
        "max-snapshot-age-ms": _commit_table.MAX_SNAPSHOT_AGE_MS,
    }
    if as_json:
        fields = [
            {"name": name, "type": kind, "required": required} for name, kind, required in columns
        ]
        needs: dict[str, Any] = {
            "namespace": namespace,
            "table": commit_table,
            "format-version": 2,
            "schema": fields,
            "properties": _commit_table.PROPERTIES,
            "main": retention,
        }
        say_json(needs)
        return
    say("To be created by an administrator", style="bold")
    say(f"  the namespace {namespace}, and the rights in it to create, read and write tables")
    say("To be switched off for this table in every service that looks after the catalog")
    say("  expiry of snapshots, compaction, removal of unreferenced files")
    say()
    say(f"What `txns init` creates then: {commit_table}", style="bold")
    say("  (not by hand: its first record has to be in it from the start)")
    say_table(["column", "type", ""], [(n, k, "required" if r else "") for n, k, r in columns])
    say()
    say_table(["property", "value"], [("format-version", "2"), *_commit_table.PROPERTIES.items()])
    say()
    say_table(["of main", "value"], [(key, str(value)) for key, value in retention.items()])
