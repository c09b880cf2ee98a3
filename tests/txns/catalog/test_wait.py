"""Waiting for the log costs what is new in it, however long it takes and however old the log is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO

import txns
from tests.txns.lake import Lake, SteppingClock, rows
from txns._cli.timeline import log

if TYPE_CHECKING:
    from pyiceberg.io import InputFile


class CountingIO(PyArrowFileIO):
    """The real one, which remembers what was opened."""

    opened: ClassVar[list[str]] = []

    def new_input(self, location: str) -> InputFile:
        self.opened.append(location)
        return super().new_input(location)


class Polled(SteppingClock):
    """A clock that does something after a number of polls."""

    def __init__(self, after: int, deed: Any) -> None:
        super().__init__()
        self.polls = 0
        self._after, self._deed = after, deed

    def sleep(self, ms: int) -> None:
        super().sleep(ms)
        self.polls += 1
        if self.polls == self._after:
            self._deed()


@pytest.fixture
def old_log(lake: Lake) -> Lake:
    """A log whose entries have left the head, but one that nobody has applied."""
    name = lake.table("a")
    for value in range(3):
        lake.open().catalog().load_table(name).append(rows(value))
        lake.open().tidy()
    with lake.open(apply="next").begin() as txn:
        txn.load_table(name).append(rows(7))
    return lake


def counted(lake: Lake, clock: SteppingClock) -> txns.Handle:
    """A handle whose reads are counted from here on."""
    io = f"{CountingIO.__module__}.{CountingIO.__name__}"
    catalog = SqlCatalog("lake", **{**lake.catalog.properties, "py-io-impl": io})
    handle = txns.open(catalog, clock=clock)
    CountingIO.opened.clear()
    return handle


def archive_reads() -> list[str]:
    """Give the archive's files that were opened: one of each tidy until they are merged."""
    return [path for path in CountingIO.opened if "/txns/commits/data/" in path]


def read_once() -> bool:
    """Whether the archive was read, and no file of it twice."""
    return len(archive_reads()) == len(set(archive_reads())) > 0


def head_reads() -> int:
    return sum(
        "/txns/commits/metadata/" in path and path.endswith(".metadata.json")
        for path in CountingIO.opened
    )


def reads() -> int:
    return len(CountingIO.opened)


def test_waiting_for_a_write_that_never_comes(old_log):
    """The archive is read once; a poll then reads the head's metadata and nothing else."""
    clock = Polled(0, None)
    handle = counted(old_log, clock)
    assert handle.wait("shop.nobody", 0, timeout_ms=5000) is None
    assert clock.polls > 40
    assert read_once()
    assert head_reads() <= clock.polls + 2
    assert reads() - head_reads() < 10


def test_waiting_while_others_commit(old_log):
    """What is new is read once more, where it has left the head before it was seen."""

    def others() -> None:
        handle = old_log.open()
        handle.apply_le()
        handle.advance(handle.upper + 1)
        handle.tidy()

    handle = counted(old_log, Polled(3, others))
    assert handle.wait("shop.nobody", 0, timeout_ms=5000) is None
    assert len(archive_reads()) <= len(set(archive_reads())) + 1
    assert reads() - head_reads() < 20
    assert handle.wait("shop.a", 0, timeout_ms=5000)


def test_waiting_for_a_basis_that_never_comes(old_log):
    """Nothing is read: the catalog's row of the head names what is known."""
    clock = Polled(0, None)
    handle = counted(old_log, clock)
    with pytest.raises(txns.InvalidUsage, match="was not reached in time"):
        handle.begin(basis=handle.upper + 10**9, basis_timeout_ms=5000)
    assert clock.polls > 40
    assert reads() == 0


class SetBack(SteppingClock):
    """A clock that somebody sets back by an hour while it is waited; the time goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.back_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() - self.back_ms

    def sleep(self, ms: int) -> None:
        super().sleep(ms)
        self.back_ms = 3600 * 1000
        assert self.slept_ms < 60_000, "it waits for the hour to come again"


def test_waits_end_in_time_where_the_clock_is_set_back(old_log, monkeypatch):
    old_log.clock = SetBack()
    handle = old_log.open()
    assert handle.wait("shop.nobody", 0, timeout_ms=5000) is None
    old_log.clock = SetBack()
    handle = old_log.open()
    with pytest.raises(txns.InvalidUsage, match="was not reached in time: wait longer"):
        handle.begin(basis=handle.upper + 10**9, basis_timeout_ms=5000)
    old_log.clock = SetBack()
    handle = old_log.open()
    monkeypatch.setattr("txns._cli.options.Lake.parts", property(lambda _lake: handle.parts))
    log.main(["--follow", "--for", "20s", "-n", "0"], standalone_mode=False)


def test_a_subscription_that_hears_nothing(old_log):
    """The archive is read once, for what lies before."""
    end = old_log.open().upper + 5

    def ends() -> None:
        handle = old_log.open()
        handle.advance(max(end, handle.upper + 1))

    clock = Polled(40, ends)
    handle = counted(old_log, clock)
    *_, progress = handle.subscribe(["shop.nobody"], as_of=0, until=end)
    assert (end, 40) == (progress.commit_ts, clock.polls)
    assert read_once()
    assert reads() - head_reads() < 20


def test_a_log_that_is_followed(old_log, monkeypatch):
    """A poll without news looks at no table."""
    clock = Polled(0, None)
    handle = counted(old_log, clock)
    monkeypatch.setattr("txns._cli.options.Lake.parts", property(lambda _lake: handle.parts))
    log.main(["--follow", "--for", "20s", "-n", "0"], standalone_mode=False)
    assert clock.polls > 40
    assert head_reads() < clock.polls + 5
    assert reads() - head_reads() < 20
