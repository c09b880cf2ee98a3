"""What is applied is there: manifest lists that a logged change names (docs/spec.md 8.1)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.io.fsspec import FsspecFileIO

import txns
from tests.txns.forged import last_applicable, log_creation, log_forged
from tests.txns.lake import ids, rows
from txns._admin.void import void
from txns._config import Config
from txns._iceberg import manifests
from txns._services import Parts
from txns._table import outstanding_branch


def lists_of(handle) -> list[str]:
    """Give the manifest lists that the newest entry adds, by their paths."""
    log = handle.parts.log
    return [
        update.snapshot.manifest_list.removeprefix("file://")
        for request in log.requests(last_applicable(handle))
        for update in request.updates
        if update.action == "add-snapshot"
    ]


def void_last(lake, handle) -> None:
    void(
        Parts.of(lake.another_catalog(), Config.of(), lake.clock), last_applicable(handle).commit_ts
    )


@pytest.fixture
def looks(monkeypatch) -> list[str]:
    """Which manifest lists appliers have looked for."""
    looked: list[str] = []
    inner = manifests.is_gone
    monkeypatch.setattr(
        manifests, "is_gone", lambda io, path: looked.append(path) or inner(io, path)
    )
    return looked


def test_what_an_orphan_removal_took_is_not_applied(lake, later):
    """
    The table stays readable, others go on, and the error's command ends it.

    1. An entry is logged, and not applied. 2. Somebody removes its manifest list, which no metadata
    names. 3. Another process applies.
    """
    a, b = lake.table("a", [1]), lake.table("b", [1])
    with later.begin() as txn:
        for name in (a, b):
            txn.load_table(name).append(rows(2))
    gone = next(path for path in lists_of(later) if "/a/" in path)
    Path(gone).unlink()
    others = lake.open(lake.another_catalog())
    assert [("shop", "a")] == others.apply_le()
    assert [1] == lake.plain_ids(a)
    assert [1, 2] == lake.plain_ids(b)
    ts = last_applicable(later).commit_ts
    with pytest.raises(txns.Quarantined, match=f"{gone}.*`txns recover --void {ts}`"):
        others.parts.applier.apply_run(others.parts.log.load(), ("shop", "a"))
    void_last(lake, later)
    again = lake.open(lake.another_catalog())
    again.repair_adopt(a)
    again.catalog().load_table(a).append(rows(3))
    assert [1, 3] == lake.plain_ids(a)
    assert [1, 2] == lake.plain_ids(b)


def test_a_list_that_is_put_back_is_applied(lake, later):
    a = lake.table("a", [1])
    later.catalog().load_table(a).append(rows(2))
    [gone] = lists_of(later)
    kept = Path(gone).rename(f"{gone}.kept")
    others = lake.open(lake.another_catalog())
    assert [("shop", "a")] == others.apply_le()
    kept.rename(gone)
    assert [] == others.apply_le()
    assert [1, 2] == lake.plain_ids(a)


def test_each_snapshot_of_a_change_is_looked_for(lake, later):
    """One that is not the newest is read by whoever asks for the past, or expires it."""
    a = lake.table("a", [1])
    with later.begin() as txn:
        txn.load_table(a).append(rows(2))
        txn.load_table(a).append(rows(3))
    first, _second = lists_of(later)
    Path(first).unlink()
    assert [("shop", "a")] == lake.open(lake.another_catalog()).apply_le()
    assert [1] == lake.plain_ids(a)


def test_no_record_names_a_list_that_is_not_there(lake, later):
    """Whoever may write the commit table alone makes no table unreadable; his record goes."""
    a = lake.table("a", [1])
    later.catalog().load_table(a).append(rows(2))
    later.apply_le()
    table = lake.catalog.load_table(a)
    log_forged(later, table, [f"{table.location()}/metadata/snap-7-0-nothing.avro"])
    assert [("shop", "a")] == later.apply_le()
    assert [1, 2] == lake.plain_ids(a)
    void_last(lake, later)
    again = lake.open(lake.another_catalog())
    again.repair_adopt(a)
    again.catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == lake.plain_ids(a)


@pytest.mark.parametrize("which", ["metadata", "manifest", "nothing"])
def test_no_record_names_another_file_of_the_table_as_a_list(lake, later, which):
    """Nobody reads the table, or writes it, with what is no list on main."""
    a = lake.table("a", [1])
    later.catalog().load_table(a).append(rows(2))
    later.apply_le()
    table = lake.catalog.load_table(a)
    main = table.current_snapshot()
    empty = f"{table.location()}/metadata/empty.avro"
    Path(empty.removeprefix("file://")).touch()
    files = {
        "metadata": table.metadata_location,
        "manifest": main.manifests(table.io)[0].manifest_path,
        "nothing": empty,
    }
    ts = log_forged(later, table, [files[which]])
    assert [("shop", "a")] == later.apply_le()
    assert table.metadata_location == lake.catalog.load_table(a).metadata_location
    with pytest.raises(txns.Quarantined, match=f"is no list.*`txns recover --void {ts}`"):
        later.parts.applier.apply_run(later.parts.log.load(), ("shop", "a"))
    void_last(lake, later)
    again = lake.open(lake.another_catalog())
    again.repair_adopt(a)
    again.catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == lake.plain_ids(a)


def test_no_record_creates_a_table_whose_list_is_not_there(lake, later):
    later.catalog().create_table("shop.new", lake.catalog.load_table(lake.table("a", [1])).schema())
    later.apply_le()
    place = lake.catalog.load_table("shop.new").location().replace("/new", "/forged")
    ts = log_creation(later, place, f"{place}/metadata/snap-7.avro")
    assert [("shop", "forged")] == later.apply_le()
    assert not lake.catalog.table_exists("shop.forged")
    with pytest.raises(txns.Quarantined, match=f"`txns recover --void {ts}`"):
        later.parts.applier.apply_run(later.parts.log.load(), ("shop", "forged"))
    void_last(lake, later)
    assert [] == lake.open(lake.another_catalog()).apply_le()


def test_what_storage_does_not_tell_is_not_gone(lake, later, monkeypatch, caplog):
    """A storage that fails is asked again, by the next one; nothing is said of a repair."""
    a = lake.table("a", [1])
    later.catalog().load_table(a).append(rows(2))
    [path] = lists_of(later)
    others = lake.open(lake.another_catalog())

    def failing(_io, _path):
        raise OSError("the storage is down")

    with monkeypatch.context() as patched:
        patched.setattr(manifests, "is_gone", failing)
        assert [("shop", "a")] == others.apply_le()
    assert "the next writer tries again" in caplog.text
    assert "recover" not in caplog.text
    assert outstanding_branch.BRANCH not in lake.catalog.load_table(a).metadata.refs
    assert Path(path).exists()
    assert [] == others.apply_le()


def test_a_storage_that_fails_is_told_from_a_file_that_is_gone(tmp_path, monkeypatch):
    """A library that calls whatever it cannot look at missing is asked twice."""
    io = FsspecFileIO({})
    path = tmp_path / "x.avro"
    assert manifests.is_gone(io, path.as_uri())
    path.write_bytes(b"x")
    assert not manifests.is_gone(io, path.as_uri())

    def failing(*_args, **_more):
        raise PermissionError("not yours")

    monkeypatch.setattr(type(io.get_fs("file")), "info", failing)
    with pytest.raises(PermissionError):
        manifests.is_gone(io, path.as_uri())


def test_a_writer_does_not_look_for_its_own(lake, looks):
    """A commit costs no call more than it did; others look once for each snapshot."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    handle = lake.open()
    with handle.begin() as txn:
        for name in (a, b):
            txn.load_table(name).append(rows(2))
    assert [] == looks
    assert [1, 2] == lake.plain_ids(a)
    later = lake.open(apply="next")
    later.catalog().load_table(a).append(rows(3))
    later.apply_le()
    assert [] == looks
    later.catalog().load_table(a).append(rows(4))
    [path] = lists_of(later)
    lake.open(lake.another_catalog()).apply_le()
    assert [f"file://{path}"] == looks
    assert [1, 2, 3, 4] == lake.plain_ids(a)


def test_a_writer_looks_for_what_it_wrote_long_ago(lake, later):
    """An orphan removal of days later takes it from a process that lives as long."""
    a = lake.table("a", [1])
    later.catalog().load_table(a).append(rows(2))
    [gone] = lists_of(later)
    Path(gone).unlink()
    lake.clock.ahead_ms += 61 * 60_000
    assert [("shop", "a")] == later.apply_le()
    assert [1] == lake.plain_ids(a)


def test_the_branch_of_what_cannot_be_applied_names_no_list_that_is_gone(lake, later):
    """An engine that goes through all snapshots of the table would fail on its copy."""
    a = lake.table("a", [1])
    for value in (2, 3):
        later.catalog().load_table(a).append(rows(value))
        if value == 2:
            [gone] = lists_of(later)
    Path(gone).unlink()
    others = lake.open(lake.another_catalog())
    assert [("shop", "a")] == others.apply_le()
    table = lake.catalog.load_table(a)
    assert outstanding_branch.BRANCH in table.metadata.refs
    for snapshot in table.metadata.snapshots:
        assert not manifests.is_gone(table.io, snapshot.manifest_list)
    assert [("shop", "a")] == others.apply_le()
    assert table.metadata_location == lake.catalog.load_table(a).metadata_location
    assert [1] == ids(table)
