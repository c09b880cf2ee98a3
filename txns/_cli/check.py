"""`txns check`: hold a real catalog against every invariant of the specification."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from txns._admin.invariants import INVARIANTS, check_all
from txns._cli import exit_codes
from txns._cli.options import TxnsCommand, pass_lake
from txns._cli.words import say, say_json

if TYPE_CHECKING:
    from txns._cli.options import Lake


@click.command(cls=TxnsCommand)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_lake
def check(lake: Lake, as_json: bool) -> int:  # noqa: FBT001 -- click's flag
    """
    Hold the catalog against every invariant.

    They are those of docs/spec.md, section 12. Exit code 1 where one does not hold, or where
    a table is in quarantine or was written past the protocol. Nothing is written.
    """
    found = check_all(lake.parts)
    if as_json:
        say_json(
            {
                "checked": found.checked,
                "violations": [
                    {"invariant": each.invariant, "where": each.where, "words": each.words}
                    for each in found.violations
                ],
                "warnings": found.warnings,
            }
        )
    else:
        for each in found.violations:
            say(f"{each.invariant}  {each.where}: {each.words}", style="red")
        for warning in found.warnings:
            say(f"warning: {warning}", style="yellow")
        counts = ", ".join(f"{count} {what}" for what, count in found.checked.items())
        say(f"checked {counts} against {', '.join(INVARIANTS)}")
        say(f"{len(found.violations)} violations" if found.violations else "all hold")
    return exit_codes.VIOLATION if found.violations else exit_codes.FINE
