"""
The options that every command takes, and the catalog that they open.

They may stand before or behind the command's name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config as PyIcebergConfig

from txns._cli import embedded
from txns._cli.exit_codes import flat
from txns._clock import SystemClock
from txns._config import Config
from txns._handle import Handle
from txns._services import Parts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.catalog import Catalog

COMMIT_TABLE = "txns.commits"
_WHERE = {"uri", "type", "py-catalog-impl"}
_WHICH = (
    "give --uri and --warehouse, or the --catalog of a ~/.pyiceberg.yaml or of PYICEBERG_CATALOG__"
    " variables"
)


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
            self._handle = self._over(self._open())
        return self._handle

    @property
    def parts(self) -> Parts:
        """The parts of the protocol over the catalog."""
        return self.handle.parts

    def make_embedded(self) -> Path | None:
        """
        Make the embedded default, where it is meant; give its folder if it was not there.

        A name alone does not mean it: that may be of a catalog that is configured elsewhere.
        """
        place = self._embedded_folder()
        named = self.catalog and not self.warehouse
        if place is None or named or embedded.is_in(place):
            return None
        place.mkdir(parents=True, exist_ok=True)
        catalog = self._load(self.catalog or embedded.NAME, embedded.properties(place))
        embedded.make(catalog)
        self._handle = self._over(catalog)
        return place

    def other_names(self) -> list[str]:
        """Give the other names under which the catalog's database holds the commit table."""
        if self._handle is None:
            return []
        catalog = self._handle.parts.catalog
        return [name for name in embedded.names(catalog, self.commit_table) if name != catalog.name]

    def close(self) -> None:
        """Close the catalog, if it was opened."""
        if self._handle is not None:
            self._handle.close()

    def _over(self, catalog: Catalog) -> Handle:
        return Handle(Parts.of(catalog, Config.of(commit_table=self.commit_table), SystemClock()))

    def _open(self) -> Catalog:
        """Open the catalog that is named; else the embedded default, by the name that it has."""
        place = self._embedded_folder()
        if place is None:
            name = self.catalog or PyIcebergConfig().get_default_catalog_name()
            return self._found(name, {})
        if not embedded.is_in(place):
            name = f" named {self.catalog}" if self.catalog else ""
            raise click.UsageError(
                f"no catalog{name} is configured, and there is none in {place}: make one there with"
                f" `txns init`, or {_WHICH}"
            )
        return self._found(self.catalog or embedded.NAME, embedded.properties(place))

    def _embedded_folder(self) -> Path | None:
        """Give the folder of the embedded default; None where another catalog is meant."""
        name = self.catalog or PyIcebergConfig().get_default_catalog_name()
        told = self.uri or _WHERE & self.properties.keys()
        if told or PyIcebergConfig().get_catalog_config(name):
            return None
        return embedded.folder(self.warehouse)

    def _found(self, name: str, properties: dict[str, str]) -> Catalog:
        """
        Open a catalog; in a database, where no name is told, the one with the commit table.

        Where that is lost, the only one that has tables.
        """
        catalog = self._load(name, properties)
        if self.catalog or PyIcebergConfig().get_catalog_config(name):
            return catalog
        found, hold = embedded.names(catalog, self.commit_table), self.commit_table
        holders = found or embedded.all_names(catalog)
        if holders in ([], [name]):
            return catalog
        catalog.close()
        if len(holders) > 1:
            raise click.UsageError(
                f"several catalogs of this database hold {hold if found else 'tables'}: give the"
                f" --catalog, one of {', '.join(holders)}"
            )
        return self._load(holders[0], properties)

    def _load(self, name: str, properties: dict[str, str]) -> Catalog:
        given = {"uri": self.uri, "warehouse": self.warehouse}
        told = {key: value for key, value in given.items() if value}
        try:
            return load_catalog(name, **(self.properties | told | properties))
        except Exception as error:
            if self.debug:
                raise
            raise click.UsageError(
                f"no catalog can be opened: {_WHICH} ({flat(str(error))})"
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
            " by this name; not needed where only one of them holds the commit table.",
            **_stored,
        ),
        click.Option(
            ["--uri"],
            metavar="URI",
            help="Of the catalog; SQLite in the warehouse's folder where nothing says which.",
            **_stored,
        ),
        click.Option(
            ["--warehouse"],
            metavar="LOCATION",
            help="Where new tables go; ./txns-warehouse where nothing says which catalog.",
            **_stored,
        ),
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
