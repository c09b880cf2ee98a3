"""Who destroys something by its age asks the storage for the time, not the clock."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

import txns
from tests.txns.lake import SCHEMA, SteppingClock, rows
from txns._admin import orphans

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS


class MuteFiles(FileIO):
    """Files of a storage that does not tell when they were written."""

    def __init__(self, properties=None) -> None:
        super().__init__(properties or {})
        self._files = PyArrowFileIO(self.properties)

    def new_input(self, location):
        return self._files.new_input(location)

    def new_output(self, location):
        return self._files.new_output(location)

    def delete(self, location) -> None:
        self._files.delete(location)


@pytest.fixture
def fast() -> SteppingClock:
    """The clock of a host that is 25 hours fast; the storage's is right."""
    clock = SteppingClock()
    clock.ahead_ms = 25 * HOUR_MS
    return clock


@pytest.fixture
def dropped(lake) -> str:
    name = lake.table("a", [1])
    lake.open().catalog().drop_table(name)
    return name


def _of(lake) -> set[str]:
    return {path for path in lake.files() if "/a/" in path or "txns-clock" in path}


@pytest.mark.parametrize("hours", [25, -25])
def test_a_clock_that_is_wrong_purges_nothing(lake, fast, dropped, hours):
    """
    A table that was dropped a moment ago stays.

    1. A table is dropped.
    2. A host whose clock is 25 hours fast purges it.
    """
    fast.ahead_ms = hours * HOUR_MS
    before, handle = _of(lake), txns.open(lake.another_catalog(), clock=fast)
    for call in (handle.purgeable, handle.purge):
        with pytest.raises(txns.InvalidUsage, match=rf"{25 * 3600} s (ahead of|behind)") as refused:
            call(dropped)
        assert "58000" == refused.value.sqlstate
    assert before == _of(lake)
    assert lake.catalog.table_exists(dropped)


def test_a_log_that_ran_ahead_makes_no_drop_older(lake, fast, dropped):
    """
    What a fast clock has committed since a drop is not the time that has passed.

    1. A table is dropped.
    2. A host whose clock is 25 hours fast commits to another one.
    3. A host whose clock is right purges the table.
    """
    other = lake.table("b", [1])
    txns.open(lake.another_catalog(), clock=fast).catalog().load_table(other).append(rows(2))
    with pytest.raises(txns.Unsupported, match="the drop is too young"):
        lake.open().purge(dropped)


def test_a_clock_that_is_wrong_expires_nothing(lake, fast):
    """Neither what a transaction may need nor anything else: other writes go on."""
    name = lake.table("a", [1])
    handle = txns.open(lake.another_catalog(), clock=fast)
    table = handle.catalog().load_table(name)
    table.append(rows(2))
    first, *_ = table.snapshots()
    for catalog in (handle.catalog(), handle.begin()):
        expiry = catalog.load_table(name).maintenance.expire_snapshots()
        with pytest.raises(txns.InvalidUsage, match="the clock of this host is wrong"):
            expiry.by_id(first.snapshot_id).commit()
    assert lake.catalog.load_table(name).metadata.snapshot_by_id(first.snapshot_id)
    assert not [path for path in lake.files() if "txns-clock" in path]


def test_where_the_storage_tells_no_time_the_log_counts_alone(tmp_path):
    """No clock does: a table is purged when the log has moved on for as long as is needed."""
    clock = SteppingClock()
    catalog = InMemoryCatalog(
        "mute",
        warehouse=f"file://{tmp_path}",
        **{"py-io-impl": f"{__name__}.MuteFiles"},
    )
    catalog.create_namespace("shop")
    handle = txns.open(catalog, clock=clock)
    handle.catalog().create_table("shop.a", SCHEMA)
    handle.catalog().create_table("shop.b", SCHEMA)
    handle.catalog().drop_table("shop.a")
    clock.sleep(2 * DAY_MS)
    with pytest.raises(txns.Unsupported, match="the drop is too young"):
        handle.purge("shop.a")
    handle.advance(clock.now_ms())
    handle.purge("shop.a")
    assert [("shop", "b")] == catalog.list_tables("shop")


def test_a_file_that_asked_for_the_time_is_known_to_tidy(lake):
    """One that its owner could not remove goes like any other that nothing refers to."""
    handle = lake.open()
    left = lake.folder / "warehouse/txns/commits/metadata/txns-clock-0.txt"
    left.write_bytes(b"x")
    lake.age_log(61)
    assert [left.name] == [each.path.rpartition("/")[2] for each in orphans.remove(handle.parts)]


def test_storage_that_takes_long_is_no_wrong_clock(lake, dropped):
    """Its time lay between the moments before and after it was asked."""
    clock = SteppingClock()
    handle = txns.open(lake.another_catalog(), clock=clock)
    written, clock.ahead_ms = lake.clock.now_ms, -90_000

    def slow() -> int:
        clock.ahead_ms = 90_000
        return written()

    lake.clock.now_ms = slow
    with pytest.raises(txns.Unsupported, match="the drop is too young"):
        handle.purgeable(dropped)
