"""A shop, and the command line over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from txns._cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.txns.lake import Lake


@pytest.fixture
def cli(lake: Lake) -> Callable[..., Result]:
    """Run a command over the lake's catalog, in a connection of its own."""

    def run(*arguments: Any) -> Result:
        options = ["--catalog", "lake", "--uri", f"sqlite:///{lake.folder}/catalog.db"]
        options += ["--warehouse", f"file://{lake.folder}/warehouse"]
        return CliRunner().invoke(main, [*options, *map(str, arguments)])

    return run


@pytest.fixture
def shop(lake: Lake) -> Lake:
    """Two tables under care, with two rows each."""
    lake.table("a", [1, 2])
    lake.table("b", [1, 2])
    return lake
