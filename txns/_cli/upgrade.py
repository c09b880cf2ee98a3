"""
`txns upgrade`: which version and features the commit table has, and adding features.

Format version 1 has no features (docs/spec.md, section 2), so there is none to add: the
command says what is there, and refuses every name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from txns._cli.options import TxnsCommand, pass_lake
from txns._cli.words import say, say_json
from txns._iceberg.snapshots import summary_value
from txns._log.entry import FORMAT_VERSION, KNOWN_FEATURES, READER_FEATURES, WRITER_FEATURES
from txns._log.entry import features as features_of

if TYPE_CHECKING:
    from txns._cli.options import Lake
    from txns._log.head import Head


@click.command(cls=TxnsCommand)
@click.option("--feature", "wanted", multiple=True, metavar="NAME", help="A feature to add.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_lake
def upgrade(lake: Lake, wanted: tuple[str, ...], as_json: bool) -> None:  # noqa: FBT001 -- click's flag
    """
    Show the format version and features of the commit table.

    With --feature, add one: from then on programs that do not know it are refused. Nothing is
    ever taken away again. This version knows no feature, so it adds none.
    """
    head = lake.parts.log.load()
    known = sorted(KNOWN_FEATURES)
    if unknown := sorted(set(wanted) - KNOWN_FEATURES):
        raise click.UsageError(
            f"this version does not know the feature {', '.join(unknown)}; known: {_words(known)}."
            " A newer version of this program may"
        )
    readers, writers = _asked(head, READER_FEATURES), _asked(head, WRITER_FEATURES)
    if as_json:
        say_json(
            {
                "format_version": FORMAT_VERSION,
                "reader_features": readers,
                "writer_features": writers,
                "known_features": known,
            }
        )
        return
    say(f"format version   {FORMAT_VERSION}")
    say(f"reader features  {_words(readers)}")
    say(f"writer features  {_words(writers)}")
    say(f"known here       {_words(known)}")


def _asked(head: Head, key: str) -> list[str]:
    """Give the features that any record of the head asks for, in order."""
    found: set[str] = set()
    for snapshot in head.metadata.snapshots:
        found |= features_of(summary_value(snapshot, key))
    return sorted(found)


def _words(features: list[str]) -> str:
    return ", ".join(features) or "none"
