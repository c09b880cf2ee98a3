"""`txns settings`: what the log is set to, for all of its processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from txns._cli.options import TxnsCommand, pass_lake
from txns._cli.words import DURATION, length_of, say, say_json
from txns._log.settings import INLINE, NEXT

if TYPE_CHECKING:
    from txns._cli.options import Lake
    from txns._log.settings import Settings


@click.command(cls=TxnsCommand)
@click.option(
    "--max-age", "max_age_ms", type=DURATION, help="The greatest age of a transaction, 1s to 30d."
)
@click.option(
    "--id-retention",
    "id_retention_ms",
    type=DURATION,
    help="How far back transaction ids are looked for; no less than the greatest age.",
)
@click.option(
    "--apply",
    type=click.Choice([INLINE, NEXT]),
    help="Who carries entries over to their tables: whoever commits, or the next writer.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_lake
def settings(
    lake: Lake,
    max_age_ms: int | None,
    id_retention_ms: int | None,
    apply: str | None,
    as_json: bool,  # noqa: FBT001 -- click's flag
) -> None:
    """
    Show what the log is set to, or set it.

    It holds for every process, from the next commit on; one may be stricter by its own options,
    never laxer. What is not given stays as it is.
    """
    lake.parts.log.load()
    if max_age_ms is None and id_retention_ms is None and apply is None:
        found = lake.handle.settings()
    else:
        found = lake.handle.change_settings(
            max_age_ms=max_age_ms, id_retention_ms=id_retention_ms, apply=apply
        )
    if as_json:
        say_json(json_of(found))
        return
    say(f"max age       {length_of(found.max_age_ms)}")
    say(f"id retention  {length_of(found.id_retention_ms)}")
    say(f"apply         {found.apply}")


def words_of(found: Settings) -> str:
    """Write settings in a line."""
    return (
        f"max age {length_of(found.max_age_ms)}, id retention"
        f" {length_of(found.id_retention_ms)}, apply {found.apply}"
    )


def json_of(found: Settings) -> dict[str, object]:
    """Give settings as commands print them as JSON."""
    return {
        "max_age_ms": found.max_age_ms,
        "id_retention_ms": found.id_retention_ms,
        "apply": found.apply,
    }
