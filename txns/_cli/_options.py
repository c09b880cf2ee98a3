"""
The options that every command takes, and the catalog that they open.

They may stand before or behind the command's name.
Imports: _exit. Used by: every command.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from pyiceberg.catalog import load_catalog

from txns._cli._exit import flat
from txns._clock import SystemClock
from txns._config import Config
from txns._handle import Handle
from txns._parts import Parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog

COMMIT_TABLE = "txns.commits"


@dataclass
class Lake:
    """Which catalog to work on; opened when it is first needed."""

    catalog: str | None = None
    uri: str | None = field(default=None, repr=False)
    warehouse: str | None = None
    properties: dict[str, str] = field(default_factory=dict, repr=False)
    commit_table: str = COMMIT_TABLE
    debug: bool = False
    _handle: Handle | None = None

    @property
    def handle(self) -> Handle:
        """The protocol over the catalog; the commit table is not created."""
        if self._handle is None:
            config = Config.of(commit_table=self.commit_table)
            self._handle = Handle(Parts.of(self._open(), config, SystemClock()))
        return self._handle

    @property
    def parts(self) -> Parts:
        """The parts of the protocol over the catalog."""
        return self.handle.parts

    def close(self) -> None:
        """Close the catalog, if it was opened."""
        if self._handle is not None:
            self._handle.close()

    def _open(self) -> Catalog:
        properties = dict(self.properties)
        if self.uri:
            properties["uri"] = self.uri
        if self.warehouse:
            properties["warehouse"] = self.warehouse
        try:
            return load_catalog(self.catalog, **properties)
        except Exception as error:
            if self.debug:
                raise
            raise click.UsageError(
                "no catalog can be opened: give --uri and --warehouse, or the --catalog of a"
                f" ~/.pyiceberg.yaml or of PYICEBERG_CATALOG__ variables ({flat(str(error))})"
            ) from error


class TxnsCommand(click.Command):
    """A command with the options that every command takes."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params = [*self.params, *common_options()]


def common_options() -> list[click.Parameter]:
    """Give the options of every command."""
    return [
        click.Option(
            ["--catalog"],
            envvar="TXNS_CATALOG",
            metavar="NAME",
            help="Catalog of pyiceberg's configuration. Catalogs in a database keep their tables"
            " by this name.",
            **_stored,
        ),
        click.Option(["--uri"], metavar="URI", help="Of the catalog.", **_stored),
        click.Option(["--warehouse"], metavar="LOCATION", help="Where new tables go.", **_stored),
        click.Option(
            ["properties", "-p", "--property"],
            multiple=True,
            metavar="KEY=VALUE",
            help="Further property of the catalog.",
            **_stored,
        ),
        click.Option(
            ["--commit-table"],
            envvar="TXNS_COMMIT_TABLE",
            metavar="TABLE",
            help=f"The table that is the log; {COMMIT_TABLE} where it is not given.",
            **_stored,
        ),
        click.Option(["--debug"], is_flag=True, help="Show the traceback of an error.", **_stored),
    ]


def _store(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keep an option; one from the command line is not replaced by the environment's."""
    lake = ctx.ensure_object(Lake)
    assert param.name is not None
    if not value or ctx.resilient_parsing:
        return
    source = ctx.get_parameter_source(param.name)
    if source is not ParameterSource.COMMANDLINE and getattr(lake, param.name) not in {
        None,
        COMMIT_TABLE,
    }:
        return
    if param.name == "properties":
        lake.properties.update(_pair(each) for each in value)
    else:
        setattr(lake, param.name, value)


_stored: dict[str, Any] = {"expose_value": False, "callback": _store}

pass_lake: Callable[[Any], Any] = click.make_pass_decorator(Lake, ensure=True)


def _pair(text: str) -> tuple[str, str]:
    key, found, value = text.partition("=")
    if not found or not key:
        # Not what it is: somebody may have left out all but the secret.
        raise click.BadParameter("KEY=VALUE is wanted", param_hint="--property")
    return key, value
