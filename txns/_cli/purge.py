"""`txns purge`: takes dropped tables out of the catalog for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from txns._admin.purge import Purger
from txns._cli import exit_codes
from txns._cli.options import TxnsCommand, pass_lake
from txns._cli.words import say
from txns._identifier import dotted_name
from txns._log.stored import table_of
from txns._message import time_of
from txns.errors import TxnsError

if TYPE_CHECKING:
    from txns._cli.options import Lake
    from txns._identifier import Identifier


@click.command(cls=TxnsCommand)
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--dry-run", is_flag=True, help="Say which can be purged, and when; do nothing.")
@pass_lake
def purge(
    lake: Lake,
    tables: tuple[str, ...],
    dry_run: bool,  # noqa: FBT001 -- click's flag
) -> None:
    """
    Remove dropped tables and their files for good.

    A dropped TABLE stays in the catalog, for readers of older timestamps. Without TABLE, every
    one that can be removed now is, and of the others it is said why not.
    """
    lake.parts.log.load()
    purger = Purger(lake.parts)
    for table in tables:
        _one(purger, table_of(table), dry_run=dry_run)
    if tables:
        return
    dropped = lake.handle.dropped()
    for name in dropped:
        try:
            _one(purger, name, dry_run=dry_run)
        except TxnsError as error:
            say(f"{dotted_name(name)} stays: {exit_codes.line(error)}")
    if not dropped:
        say("no dropped table is in the catalog")


def _one(purger: Purger, name: Identifier, *, dry_run: bool) -> None:
    if dry_run:
        found = purger.check(name)
        say(
            f"{dotted_name(name)}: dropped at {found.dropped_ts} ({time_of(found.dropped_ts)}),"
            " possible"
        )
        return
    purged = purger.purge(name)
    kept = ", its data files stay (gc.enabled=false)" if purged.kept_data else ""
    if purged.kept_files:
        kept += f", {purged.kept_files} stay that are not its own (elsewhere, or another table's)"
    say(f"{dotted_name(purged.identifier)} is gone, {purged.deleted_files} files{kept}")
