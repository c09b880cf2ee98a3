"""Which files of the commit table go when, and which are kept for a catalog that is restored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import pytest

from tests.txns.backups import LOG, pointers
from tests.txns.lake import SteppingClock, ids
from tests.txns.log_files import append, needed, staged
from txns._log import superseded
from txns._log.superseded import AT_ONCE, GRACE_MS, SupersededFiles, ends_minute

if TYPE_CHECKING:
    from tests.txns.lake import Lake


class Recorded:
    """Storage that only says what it was to delete."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    def delete(self, path: str) -> None:
        self.deleted.append(path)


def _named_now(lake: Lake) -> set[str]:
    """Give what the head names, its own file included."""
    return needed(lake) | {urlparse(pointers(lake.catalog)[LOG]).path}


def _there(paths: set[str]) -> set[str]:
    return {each for each in paths if Path(each).exists()}


@pytest.mark.parametrize(
    ("upper", "later", "ends"),
    [(0, 59_999, False), (59_999, 60_000, True), (60_000, 119_999, False), (0, 10**12, True)],
)
def test_a_minute_ends_between_two_uppers(upper: int, later: int, ends: bool):  # noqa: FBT001
    """Minutes are those of the upper itself: nobody's clock is asked."""
    assert ends == ends_minute(upper, later)


def test_the_last_version_of_each_minute_is_kept_with_all_that_it_names(lake: Lake):
    """
    An hour after it was superseded any other one is gone, and what it alone has named.

    What the first one of a minute names stays: a tidy beside a commit says no later time of it.
    """
    handle = lake.open(tidy_after=1)
    lake.table("a")
    first, last, others = set[str](), set[str](), set[str]()
    for minute in range(3):
        lake.begin_minute()
        for number, names in enumerate((first, others, others, last)):
            append(handle, 10 * minute + number)
            names.update(_named_now(lake))
    lake.pass_an_hour(handle)
    assert last == _there(last)
    assert not _there(others - last - first)
    assert others - last - first


def test_a_payload_that_a_kept_version_names_is_kept(lake: Lake):
    """One that came and went within a minute is not."""
    handle = lake.open()
    lake.table("a")
    gone, kept = set[str](), set[str]()
    lake.begin_minute()
    for found in (gone, kept):
        staged(handle).commit()
        entry = handle.parts.log.load().state.entries[-1]
        assert entry.payload.location
        found.add(urlparse(entry.payload.location).path)
        if found is kept:
            lake.begin_minute()
            handle.advance(lake.clock.now_ms())
        assert handle.tidy()
    lake.pass_an_hour(handle)
    assert kept == _there(kept)
    assert not _there(gone)


def test_nothing_goes_before_the_hour_has_passed(lake: Lake):
    """Who has just learnt of an old version reads it, and a catalog set back by less finds all."""
    handle = lake.open(tidy_after=1)
    lake.table("a")
    lake.begin_minute()
    named = set[str]()
    for number in range(4):
        append(handle, number)
        named |= _named_now(lake)
    lake.clock.ahead_ms += 59 * 60_000
    append(handle, 9)
    assert named == _there(named)
    assert [0, 1, 2, 3, 9] == ids(handle.catalog().load_table("shop.a"))


def test_a_commit_after_a_pause_removes_few(lake: Lake):
    """What many commits have left is removed by as many: none of them waits for all."""
    files, io = SupersededFiles(lake.clock, lambda _path: True), Recorded()
    for number in range(100):
        files.add(io, [str(number)])
    lake.clock.ahead_ms += GRACE_MS
    files.add(io, ["a", "b"])
    assert ["0", "1", "2", "3"] == io.deleted
    files.add(io, ["c"])
    assert 4 + AT_ONCE == len(io.deleted)


def test_what_waits_is_bounded(lake: Lake, monkeypatch):
    """What finds no room stays for `txns tidy --files`, and what waits has its turn."""
    monkeypatch.setattr(superseded, "QUEUED", 3)
    files, io = SupersededFiles(lake.clock, lambda _path: True), Recorded()
    files.add(io, ["a", "b", "c", "d"])
    lake.clock.ahead_ms += GRACE_MS
    files.add(io, ["e", "f"])
    lake.clock.ahead_ms += GRACE_MS
    files.add(io, ["g"])
    assert ["a", "b", "c", "e", "f"] == io.deleted


class Set(SteppingClock):
    """A clock that somebody sets: no time passes."""

    set_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.set_ms


@pytest.mark.parametrize("days", [3, -3])
def test_an_hour_passes_whatever_the_clock_is_set_to(days: int):
    """Neither goes what was superseded a moment ago, nor stays what waits behind it."""
    clock, io = Set(), Recorded()
    files = SupersededFiles(clock, lambda _path: True)
    files.add(io, ["a"])
    clock.set_ms = days * 24 * GRACE_MS
    files.add(io, ["b"])
    assert [] == io.deleted
    clock.set_ms = 0
    clock.ahead_ms += GRACE_MS
    files.add(io, ["c"])
    assert ["a", "b"] == io.deleted


def test_a_version_that_is_kept_lets_others_go(lake: Lake):
    """Where each commit is of a minute of its own, what was superseded before goes all the same."""
    handle = lake.open()
    lake.table("a")
    lake.begin_minute()
    append(handle, 1)
    before = _named_now(lake)
    append(handle, 2)
    lake.clock.ahead_ms += GRACE_MS
    for number in range(3):
        lake.begin_minute()
        append(handle, number)
    assert not _there({each for each in before if each.endswith(".metadata.json")})
