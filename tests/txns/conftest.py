"""Fixtures of the Python core's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.txns.lake import Lake, lake_catalog
from txns._catalog import early_doom

if TYPE_CHECKING:
    from pathlib import Path

    import txns


@pytest.fixture(autouse=True)
def nobody_looks_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine a look would tell a test of its conflict before the commit."""
    monkeypatch.setattr(early_doom, "_PAUSE_MS", 3_600_000)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    catalog = lake_catalog(tmp_path)
    catalog.create_namespace("shop")
    return Lake(tmp_path, catalog)


@pytest.fixture
def handle(lake: Lake) -> txns.Handle:
    return lake.open()


@pytest.fixture
def later(lake: Lake) -> txns.Handle:
    """A handle that leaves the apply to others."""
    return lake.open(apply="next")
