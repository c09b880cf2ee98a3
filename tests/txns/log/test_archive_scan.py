"""The archive is read in windows: whole entries, in order, and no more than somebody asks for."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from benchmarks._large_log import add_archive
from tests.txns.lake import Lake, rows
from txns._cli import main
from txns._commit import small_files
from txns._log import archive_scan
from txns._log.archive import Wanted
from txns._log.archive_scan import ArchiveScan, Span, falling, rising
from txns._log.entry import Kind

if TYPE_CHECKING:
    import txns
    from txns._catalog.outcome import Committed
    from txns._log.entry import Entry

A, B = "shop.a", "shop.b"
PAST = 60


@pytest.fixture
def past(lake: Lake) -> txns.Handle:
    """Six files of ten archived entries, a file with entries of two tables, and a head."""
    lake.table("a", [1])
    lake.table("b", [1])
    handle = lake.open()
    for number in range(3):
        with handle.begin(txn_id=f"both-{number}") as txn:
            txn.load_table(A).append(rows(number))
            txn.load_table(B).append(rows(number))
    handle.tidy()
    add_archive(handle.parts, PAST, 10)
    with handle.begin(txn_id="head") as txn:
        txn.load_table(A).append(rows(9))
    return handle


def _files(handle: txns.Handle) -> list[Path]:
    """The archive's files, the oldest first."""
    tasks = handle.parts.log.load().table.scan().plan_files()
    files = sorted((task.file for task in tasks), key=archive_scan.bounds_of)
    return [Path(file.file_path.removeprefix("file://")) for file in files]


def _cli(lake: Lake, *words: str) -> list[str]:
    where = ["--catalog", "lake", "--uri", f"sqlite:///{lake.folder}/catalog.db"]
    result = CliRunner().invoke(main, [*where, *words])
    assert 0 == result.exit_code, result.output
    return result.stdout.splitlines()


@pytest.mark.parametrize("seed", range(200))
def test_windows_hold_every_row_once_and_in_order(seed):
    draw = random.Random(seed)
    spans = []
    for _ in range(draw.randrange(1, 30)):
        least_ts = draw.randrange(1, 100)
        span = Span(least_ts, draw.choice([least_ts, least_ts + draw.randrange(40)]), 3000)
        spans.append(draw.choice([span, Span(1, 140, 3000)]) if seed % 3 == 0 else span)
    for windows in (list(falling(spans, 140)), list(rising(spans, 1))[::-1]):
        for newer, older in pairwise(windows):
            assert newer.least_ts == older.greatest_ts + 1
        for number, span in enumerate(spans):
            for ts in {span.least_ts, span.greatest_ts, draw.randint(*span[:2])}:
                (window,) = [one for one in windows if one.least_ts <= ts <= one.greatest_ts]
                assert number in window.spans


def test_the_first_window_is_small():
    """Who wants the newest entry reads one file, not all that follow."""
    spans = [Span(10 * at, 10 * at + 9, 5000) for at in range(100)]
    assert (99,) == next(falling(spans, 2000)).spans
    assert (0,) == next(rising(spans, 0)).spans
    assert max(len(window.spans) for window in falling(spans, 2000)) < 5


@pytest.mark.parametrize("rows_max", [4, 1000])
def test_entries_come_whole_from_either_end(past, monkeypatch, rows_max):
    """Also where a file is larger than what may be held."""
    monkeypatch.setattr(archive_scan, "MAX_ROWS", rows_max)
    monkeypatch.setattr(archive_scan, "FIRST_ROWS", 2)
    head, timeline = past.parts.log.load(), past.parts.timeline
    oldest = list(timeline.oldest_first(head, Wanted()))
    times = [entry.commit_ts for entry in oldest]
    assert sorted(set(times)) == times
    assert PAST + 2 + 3 + 1 == len(oldest)
    assert oldest == list(timeline.newest_first(head, Wanted()))[::-1]
    both = [entry for entry in oldest if entry.txn_id.startswith("both-")]
    assert [[("shop", "a"), ("shop", "b")]] * 3 == [[c.table for c in e.changes] for e in both]


def test_an_entry_that_names_a_table_comes_with_its_others(past):
    head = past.parts.log.load()
    found = list(past.parts.timeline.newest_first(head, Wanted(table=("shop", "b"))))
    assert ["both-2", "both-1", "both-0"] == [entry.txn_id for entry in found][:3]
    assert {2} == {len(entry.changes) for entry in found[:3]}
    assert 4 == len(found)


def test_bounds_of_the_scan_leave_the_rest_out(past):
    table = past.parts.log.load().table
    times = [
        ts for each in ArchiveScan(table).oldest_first() for ts in each["commit_ts"].to_pylist()
    ]
    scan = ArchiveScan(table, least_ts=times[5], greatest_ts=times[20])
    found = [ts for each in scan.oldest_first() for ts in each["commit_ts"].to_pylist()]
    assert times[5:21] == found


def test_files_without_bounds_may_hold_anything(past, monkeypatch):
    """As an engine leaves them that keeps no metrics."""
    head, timeline = past.parts.log.load(), past.parts.timeline
    expected = list(timeline.newest_first(head, Wanted()))
    monkeypatch.setattr(archive_scan, "bounds_of", lambda _file: None)
    assert expected == list(timeline.newest_first(head, Wanted()))


@pytest.mark.parametrize("command", [("log", "-n", "12"), ("show", "both-1"), ("status",)])
def test_the_newest_is_shown_without_the_oldest_files(lake, past, monkeypatch, command):
    monkeypatch.setattr(archive_scan, "FIRST_ROWS", 10)
    monkeypatch.setattr(archive_scan, "MAX_ROWS", 10)
    expected = _cli(lake, *command)
    for file in _files(past)[:4]:
        file.unlink()
    assert expected == _cli(lake, *command)


def test_show_finds_an_old_entry_without_the_newer_files(lake, past):
    """By the ids that a file may hold, which a tidy writes in the order of time."""
    head = past.parts.log.load()
    oldest = next(past.parts.timeline.oldest_first(head, Wanted()))
    expected = _cli(lake, "show", oldest.txn_id)
    files = _files(past)
    for file in files[1:-1]:
        file.unlink()
    assert expected == _cli(lake, "show", oldest.txn_id)


def test_transactions_gives_the_newest_entries_or_those_above_a_time(past):
    every = past.transactions()
    assert every[-1]["txn_id"] == "head"
    assert every[-5:] == past.transactions(limit=3)  # two of two tables
    assert every[-3:] == past.transactions(after=every[-4]["commit_ts"])
    assert [] == past.transactions(limit=0)


def test_a_list_of_the_archive_has_no_manifests_without_files(lake, handle):
    """Who replaces small files leaves no manifest of them, which each tidy would read."""
    name = lake.table("a")
    for number in range(3 * small_files.SMALL_FILES):
        with handle.begin() as txn:
            txn.load_table(name).append(rows(number))
        assert handle.tidy()
    table = lake.catalog.load_table("txns.commits")
    listed = table.current_snapshot().manifests(table.io)
    empty = [each for each in listed if not (each.has_added_files() or each.has_existing_files())]
    assert 1 >= len(empty)  # what the last one has replaced
    assert small_files.SMALL_FILES >= len(listed) - len(empty)


@pytest.mark.parametrize("late", ["below", "within", "always"])
def test_small_files_are_merged_beside_large_ones(lake, handle, monkeypatch, late):
    """One stands below a large one, or reaches into it, as each one after it into the one before.

    The last is so where each tidy leaves an entry to the next one.
    """
    monkeypatch.setattr(small_files, "SMALL_FILE_BYTES", 20_000)
    a, b = lake.table("a"), lake.table("b")
    assert handle.tidy()
    waiting = _waiting(handle, b)
    if late == "below":
        waiting.apply()
        assert handle.tidy()
    rng = random.Random(1)
    for number in range(10):
        with handle.begin(comment=rng.randbytes(2000).hex()) as txn:
            txn.load_table(a).append(rows(number))
    assert handle.tidy()
    assert 20_000 < _files(handle)[-1].stat().st_size
    for number in range(3 * small_files.SMALL_FILES):
        waiting.apply()
        waiting = _waiting(handle, b) if late == "always" else waiting
        with handle.begin() as txn:
            txn.load_table(a).append(rows(number))
        assert handle.tidy()
    waiting.apply()
    handle.tidy()
    assert 1 + small_files.SMALL_FILES >= len(_files(handle))
    entries = _archived(handle)
    found = [row["commit_ts"] for row in handle.parts.timeline.archive.rows()]
    assert found == [entry.commit_ts for entry in entries]  # each has one row
    assert waiting.commit_ts in found
    commits = sum(entry.kind is Kind.COMMIT for entry in entries)
    assert commits == 10 + 1 + 3 * small_files.SMALL_FILES * (1 + (late == "always"))


def _waiting(handle: txns.Handle, table: str) -> Committed:
    """Commit what somebody has to apply."""
    txn = handle.begin()
    txn.load_table(table).append(rows(0))
    return txn.commit_at()


def _archived(handle: txns.Handle) -> list[Entry]:
    head = handle.parts.log.load()
    assert not head.state.entries
    return list(handle.parts.timeline.oldest_first(head, Wanted()))
