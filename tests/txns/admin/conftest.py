"""Shops whose logs, tables and catalogs are lost or set back."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlparse

import pytest

from tests.txns.admin.recovering import append, append_with, minute
from tests.txns.backups import LOG, pointers


@pytest.fixture(params=["inline", "atomic"])
def apply(request, monkeypatch) -> str:
    """Let all handles of a test that name none carry changes out in one way."""
    monkeypatch.setenv("TXNS_APPLY", request.param)
    return request.param


@pytest.fixture
def shop(lake):
    """Give the lake, with a and b, and a backup of its catalog before the last transaction."""
    lake.table("a", [1])
    lake.table("b", [1])
    append(lake, 2)
    lake.backup = pointers(lake.catalog)
    lake.last = append(lake, 3)
    return lake


@pytest.fixture
def days(shop):
    """Give the lake days later, and backups of two moments of before; what is not kept is gone."""
    handle = shop.open()
    handle.tidy()
    minute(shop, handle, 4)
    shop.amid, shop.at_the_end = minute(shop, handle, 5, 6)
    shop.clock.ahead_ms += 3 * 24 * 60 * 60_000
    for value in range(10, 24):
        append_with(handle, value)
    handle.tidy()  # the version after the last commit says that this was one
    assert not Path(urlparse(shop.amid[LOG]).path).exists()
    assert Path(urlparse(shop.at_the_end[LOG]).path).exists()
    return shop
