"""What an attempt has written and no table can name goes; what one may name stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update.snapshot import UpdateSnapshot

from tests.txns.lake import Lake, ids, rows
from tests.txns.log_files import Odd, append, files, needed, payloads, staged
from txns._admin import orphans
from txns._commit import small_files
from txns._commit.leftovers import Leftovers


@pytest.fixture
def catalog(lake: Lake) -> Odd:
    lake.table("a")
    return Odd("lake", **lake.catalog.properties)


def test_a_tidy_that_lost_its_swap_leaves_nothing(lake, catalog):
    """
    Its Parquet file, manifest and manifest list go.

    1. The tidier has written them, and somebody else commits.
    2. Its swap is lost.
    """
    handle = lake.open(catalog)
    append(handle, 1)
    before = files(lake)

    def later(swap):
        append(lake.open(), 2)
        return swap()

    catalog.instead = later
    assert 0 == handle.tidy()
    assert before == files(lake)
    assert 3 == handle.tidy()
    assert needed(lake) <= files(lake)


def test_a_tidy_that_lost_against_another_one(lake, catalog):
    """What is deleted is the loser's, though both have archived the same entries."""
    handle = lake.open(catalog)
    append(handle, 1)
    before = files(lake)

    def later(swap):
        lake.open().tidy()
        return swap()

    catalog.instead = later
    assert 0 == handle.tidy()
    assert files(lake) - before == needed(lake)
    assert 2 == len(handle.transactions())


def test_a_tidy_whose_answer_was_lost_is_one(lake, catalog):
    """The next head holds its record: it counts, and what it has superseded goes in its time."""
    handle = lake.open(catalog)
    handle.advance(handle.upper + 1)
    handle.tidy()
    lake.begin_minute()
    append(handle, 1)
    handle.tidy()
    append(handle, 2)
    before = needed(lake)

    def unheard(swap):
        swap()
        raise ConnectionError("no answer")

    catalog.instead = unheard
    assert 1 == handle.tidy()
    assert needed(lake) <= files(lake)
    lake.pass_an_hour(handle)
    assert set() == files(lake) & before - needed(lake)


@pytest.mark.parametrize("lands", [True, False])
def test_a_tidy_that_may_still_land(lake, catalog, lands):
    """
    What it has written stays until a newer head tells.

    1. The swap of a tidy is not answered, and the head has not moved.
    2. It lands late; or somebody else commits, and it never can.
    """
    handle = lake.open(catalog)
    append(handle, 1)
    before = files(lake)
    late = []

    def unheard(swap):
        late.append(swap)
        raise ConnectionError("no answer")

    catalog.instead = unheard
    assert 0 == handle.tidy()
    written = files(lake) - before
    assert 3 == len(written)
    if lands:
        late[0]()
        assert needed(lake) == written
        assert 0 == handle.tidy()
        assert written <= files(lake)
    else:
        append(lake.open(), 2)
        handle.tidy()
        assert not written & files(lake)
        with pytest.raises(CommitFailedException):
            late[0]()
    append(handle, 3)
    assert [1, 3] if lands else [1, 2, 3] == ids(handle.catalog().load_table("shop.a"))


def test_a_tidy_that_fails_before_its_swap_leaves_nothing(lake, catalog, monkeypatch):
    """Storage that fails at the manifest list: the Parquet file that was written goes."""
    handle = lake.open(catalog)
    append(handle, 1)
    before = files(lake)
    outputs = type(lake.catalog.load_table("txns.commits").io).new_output

    def full(self, location):
        if "/snap-" in location:
            raise OSError("no space left on device")
        return outputs(self, location)

    with monkeypatch.context() as patched:
        patched.setattr(type(lake.catalog.load_table("txns.commits").io), "new_output", full)
        with pytest.raises(OSError, match="no space left"):
            handle.tidy()
    assert before == files(lake)


def test_payloads_of_lost_attempts(lake, catalog):
    """One file stays, that of the entry."""
    handle = lake.open(catalog)

    def later(swap):
        lake.open().advance(lake.open().upper + 1)
        return swap()

    txn = staged(handle)
    catalog.instead = later
    txn.commit_at()
    assert 1 == len(payloads(lake))
    assert [] == handle.apply_le()


def test_a_payload_whose_entry_is_archived_already(lake, catalog):
    """
    Readers of heads in which its entry stands still need the file, for as long as they may.

    1. The swap has landed, and its answer is lost.
    2. Somebody else applies the entry and archives it; then the committer finds it there.
    """
    handle = lake.open(catalog)
    lake.begin_minute()

    def unheard(swap):
        swap()
        lake.open().apply_le()
        assert lake.open().tidy()
        raise ConnectionError("no answer")

    txn = staged(handle)
    catalog.instead = unheard
    txn.commit_at()
    assert 1 == len(payloads(lake))
    lake.pass_an_hour(handle)
    assert not payloads(lake)


def test_a_payload_that_may_be_an_entry_is_not_written_again(lake, catalog):
    """An attempt with the same bytes has the same file, which may be read by now."""
    handle = lake.open(catalog)
    written = []

    def unheard(_swap):
        written.extend((path, Path(path).stat().st_mtime_ns) for path in payloads(lake))
        raise ConnectionError("not sent, but who knows")

    txn = staged(handle)
    catalog.instead = unheard
    txn.commit_at(handle.upper + 1)
    assert written == [(path, Path(path).stat().st_mtime_ns) for path in payloads(lake)]
    assert [] == handle.apply_le()


def test_a_payload_that_could_not_be_written(lake, catalog, monkeypatch):
    """A part of it may be there: it goes, and the next attempt writes it anew."""
    handle = lake.open(catalog)
    txn = staged(handle)
    io = type(lake.catalog.load_table("txns.commits").io)
    outputs = io.new_output

    def full(self, location):
        if "/txns-payload-" in location:
            Path(location.removeprefix("file://")).write_text("{")
            raise OSError("no space left on device")
        return outputs(self, location)

    with monkeypatch.context() as patched:
        patched.setattr(io, "new_output", full)
        with pytest.raises(OSError, match="no space left"):
            txn.commit()
    assert not payloads(lake)
    txn.commit()
    assert "v" * 1000 == lake.catalog.load_table("shop.a").properties["key-7"]


def test_the_id_of_another_try(lake, catalog):
    """Whose id has committed already, in a try of its own, leaves nothing behind."""
    handle = lake.open(catalog)
    second = staged(handle, txn_id="nightly")
    with lake.open().begin(txn_id="nightly") as first:
        first.load_table("shop.a").append(rows(1))
    before = lake.files()
    second.load_table("shop.a").append(rows(2))
    assert first.committed.commit_ts == second.commit().commit_ts
    assert [1] == lake.plain_ids("shop.a")
    assert lake.files() < before | {""}


@pytest.mark.parametrize("deed", ["forget", "adopt", "drop"])
def test_what_nobody_commits_again(lake, catalog, deed):
    """A catalog that fails before anything was sent: what the deed has written goes."""
    handle = lake.open(catalog)
    if deed == "adopt":
        lake.catalog.load_table("shop.a").append(rows(7))
    before = lake.files()
    append_to_log = handle.parts.loop.append

    def unreachable(*entry):
        catalog.down = True
        return append_to_log(*entry)

    handle.parts.loop.append = unreachable
    with pytest.raises(ConnectionError):
        match deed:
            case "forget":
                handle.forget("shop.a")
            case "adopt":
                handle.repair_adopt("shop.a")
            case _:
                handle.catalog().drop_table("shop.a")
    assert before == lake.files()


def test_what_an_entry_that_stayed_had_listed_goes_with_it(lake):
    """
    A scan at an entry in the head gives the archive of its time, however much is tidied later.

    1. An entry is not applied: it stays, with the manifest list of before.
    2. Others are archived beside it, twice.
    3. It is applied and archived itself, and nothing that it had listed is left.
    """
    later = lake.open(apply="next")
    lake.table("a")
    handle = lake.open()
    append(handle, 1)
    lake.table("b")
    assert handle.tidy()
    later.catalog().load_table("shop.b").append(rows(9))
    for value in (2, 3):
        append(handle, value)
        assert handle.tidy()
        lake.clock.ahead_ms += 61 * 60_000
    append(handle, 4)
    table = lake.catalog.load_table("txns.commits")
    lists = [each.manifest_list for each in table.metadata.snapshots]
    assert len(set(lists)) > 1
    for snapshot in table.metadata.snapshots[1:]:  # the settings are from before all
        assert table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows
    assert [9] == ids(handle.catalog().load_table("shop.b"))
    append(handle, 5)
    handle.apply_le()
    assert handle.tidy()
    append(handle, 6)
    lake.age_log(8 * 24 * 60)
    orphans.remove(handle.parts)
    assert files(lake) - payloads(lake) == needed(lake)


def test_what_cannot_be_noted_for_removal(lake, catalog, monkeypatch):
    """Cleaning never decides an answer: a file that cannot be noted for removal stays."""
    log = lake.open(catalog).parts.log

    def stopped():
        raise OSError("no clock")

    monkeypatch.setattr(lake.clock, "now_ms", stopped)
    log.supersede("file:///a")


def test_a_tidy_whose_files_cannot_be_noted_for_removal(lake, catalog, monkeypatch):
    """
    It has been one: what follows its swap says nothing of it.

    1. A tidy wins its swap. 2. The clock fails from then on.
    """
    handle = lake.open(catalog)
    append(handle, 1)

    def swap(real):
        answer = real()
        monkeypatch.setattr(lake.clock, "elapsed_ms", stopped)
        return answer

    def stopped():
        raise OSError("no clock")

    catalog.instead = swap
    assert 0 < handle.tidy()


def test_files_without_bounds_are_merged(lake):
    """Somebody has the archive's metrics left out, as an engine's compaction may."""
    lake.table("a")
    handle = lake.open()
    with lake.catalog.load_table("txns.commits").transaction() as table:
        table.set_properties({"write.metadata.metrics.default": "none"})
    for number in range(2 * small_files.SMALL_FILES):
        append(handle, number)
        assert handle.tidy()
    assert len(handle.transactions()) == 1 + 2 * small_files.SMALL_FILES
    table = lake.catalog.load_table("txns.commits")
    assert small_files.SMALL_FILES >= len(list(table.scan().plan_files()))
    archived = table.scan().to_arrow()["commit_ts"].to_pylist()
    assert len(archived) == len(set(archived))


def merged_manifests(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tidies write files that are never merged, and merge their manifests as Iceberg's Java."""
    monkeypatch.setattr(small_files, "SMALL_FILE_BYTES", 0)
    monkeypatch.setattr(UpdateSnapshot, "fast_append", UpdateSnapshot.merge_append)
    with lake.catalog.load_table("txns.commits").transaction() as table:
        table.set_properties(
            {"commit.manifest.min-count-to-merge": "3", "commit.manifest-merge.enabled": "true"}
        )


def test_a_file_that_stands_in_another_manifest_too_stays(lake, monkeypatch):
    """
    What Iceberg's Java merges after a hundred tidies, here after three.

    1. An entry is not applied: it stays, with a list of manifests that are merged beside it.
    2. Its list goes together with one that has the merged manifest, which the next one has, too.
    """
    lake.table("a")
    handle = lake.open()
    lake.begin_minute()
    append(handle, 1)
    lake.table("b")
    merged_manifests(lake, monkeypatch)
    assert handle.tidy()
    append(handle, 2)
    assert handle.tidy()
    lake.open(apply="next").catalog().load_table("shop.b").append(rows(9))
    append(handle, 3)
    assert handle.tidy()
    append(handle, 4)
    handle.apply_le()
    assert handle.tidy()
    lake.pass_an_hour(handle)
    append(handle, 5)
    assert needed(lake) <= files(lake)


def test_a_list_that_cannot_be_read_stops_no_tidy(lake):
    """What nobody needs stays, and is found by `tidy --files`."""
    later = lake.open(apply="next")
    lake.table("a")
    handle = lake.open()
    append(handle, 1)
    lake.table("b")
    assert handle.tidy()
    later.catalog().load_table("shop.b").append(rows(9))
    append(handle, 2)
    table = lake.catalog.load_table("txns.commits")
    old = table.metadata.current_snapshot().manifest_list
    assert handle.tidy()
    Path(old.removeprefix("file://")).unlink()
    handle.apply_le()
    append(handle, 3)
    assert handle.tidy()


def test_a_payload_of_an_attempt_that_stood_still_is_not_referred_to(lake, handle):
    """Somebody may have taken its file for one that nothing refers to."""
    log, leftovers = handle.parts.log, Leftovers()
    head, text, stands_ms = log.load(), "x" * 100_000, 5 * 60_000
    first = leftovers.store(log, head, "txn", text, 0)
    assert first == leftovers.store(log, head, "txn", text, stands_ms - 1)
    again = leftovers.store(log, head, "txn", text, stands_ms)
    assert (first.location.replace(".json", "-1.json"), first.sha256) == (
        again.location,
        again.sha256,
    )
    assert again == leftovers.store(log, head, "txn", text, stands_ms + 1)
    assert 2 == len(payloads(lake))
    leftovers.remove(log, None)
    assert not payloads(lake)
