"""`txns metrics`: the gauges of a lake, for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from txns._admin.exposition import lake_text
from txns._cli.options import TxnsCommand, pass_lake

if TYPE_CHECKING:
    from txns._cli.options import Lake


@click.command(cls=TxnsCommand)
@pass_lake
def metrics(lake: Lake) -> None:
    """
    Print the gauges of the lake in Prometheus' text format.

    What is not applied, what is wrong with tables, the head and the clock; for a textfile
    collector, or whatever else scrapes the output of commands. Each run looks at every table.
    """
    click.echo(lake_text(lake.parts), nl=False)
