"""What tests of recoveries do: they write, set back, recover, and look whether all is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from tests.txns.backups import pointers
from tests.txns.lake import ids, rows
from txns._admin.invariants import check_all
from txns._admin.recover import Recovered, recover
from txns._config import Config

if TYPE_CHECKING:
    import txns
    from txns._log.entry import Entry


def append(lake, value: int, **options) -> str:
    """Append a row to both tables, in one transaction; give its id."""
    with lake.open(**options).begin() as txn:
        for name in ("shop.a", "shop.b"):
            txn.load_table(name).append(rows(value))
    return txn.txn_id


def recovered(lake, **options) -> Recovered:
    return recover(lake.another_catalog(), Config.of(), lake.clock, **options)


def txn_ids(entries: list[Entry]) -> list[str]:
    return [each.txn_id for each in entries]


def assert_whole(lake, *values: int) -> None:
    """Everybody reads the values from both tables, writes them, and no invariant is broken."""
    handle = lake.open(lake.another_catalog())
    for name in ("shop.a", "shop.b"):
        assert list(values) == ids(handle.snapshot().load_table(name))
    assert [] == check_all(handle.parts).violations
    append(lake, 9)
    assert sorted([*values, 9]) == lake.plain_ids("shop.a") == lake.plain_ids("shop.b")


def remove_newer_files(location: str) -> None:
    """Remove the versions of the log that are newer than one."""
    folder = Path(urlparse(location).path).parent
    number = int(Path(urlparse(location).path).name.split("-")[0])
    for path in folder.glob("*.metadata.json"):
        if int(path.name.split("-")[0]) > number:
            path.unlink()


def minute(shop, handle: txns.Handle, *values: int) -> list[dict[str, str]]:
    """Append values in one minute, each in a transaction; give where the log's pointer stood."""
    shop.begin_minute()
    stood = []
    for value in values:
        append_with(handle, value)
        stood.append(pointers(shop.catalog))
    return stood


def append_with(handle: txns.Handle, value: int) -> None:
    with handle.begin() as txn:
        for name in ("shop.a", "shop.b"):
            txn.load_table(name).append(rows(value))
