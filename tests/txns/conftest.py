"""Fixtures of the Python core's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

import txns
from tests.txns.lake import Lake, lake_catalog


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    catalog = lake_catalog(tmp_path)
    catalog.create_namespace("shop")
    return Lake(tmp_path, catalog)


@pytest.fixture
def handle(lake: Lake) -> txns.Handle:
    return lake.open()
