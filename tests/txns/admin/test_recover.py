"""Logs and catalogs that were lost or restored from a backup, and what a recovery makes of them."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import pytest
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, StringType

import txns
from tests.txns.backups import LOG, pointers, restore
from tests.txns.lake import SCHEMA, ids, rows
from tests.txns.wrapped import Wrapped
from txns._admin.invariants import check_all
from txns._admin.recover import Recovered, recover, recoverable
from txns._config import Config
from txns._log.change import Operation
from txns._log.entry import Kind

if TYPE_CHECKING:
    from txns._log.entry import Entry

A, B = ("shop", "a"), ("shop", "b")


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
    _append(lake, 2)
    lake.backup = pointers(lake.catalog)
    lake.last = _append(lake, 3)
    return lake


def _append(lake, value: int, **options) -> str:
    """Append a row to both tables, in one transaction; give its id."""
    with lake.open(**options).begin() as txn:
        for name in ("shop.a", "shop.b"):
            txn.load_table(name).append(rows(value))
    return txn.txn_id


def _recover(lake, **options) -> Recovered:
    return recover(lake.another_catalog(), Config.of(), lake.clock, **options)


def _ids(entries: list[Entry]) -> list[str]:
    return [each.txn_id for each in entries]


def _assert_whole(lake, *values: int) -> None:
    """Everybody reads the values from both tables, writes them, and no invariant is broken."""
    handle = lake.open(lake.another_catalog())
    for name in ("shop.a", "shop.b"):
        assert list(values) == ids(handle.snapshot().load_table(name))
    assert [] == check_all(handle.parts).violations
    _append(lake, 9)
    assert sorted([*values, 9]) == lake.plain_ids("shop.a") == lake.plain_ids("shop.b")


def _remove_newer_files(location: str) -> None:
    """Remove the versions of the log that are newer than one."""
    folder = Path(urlparse(location).path).parent
    number = int(Path(urlparse(location).path).name.split("-")[0])
    for path in folder.glob("*.metadata.json"):
        if int(path.name.split("-")[0]) > number:
            path.unlink()


def test_a_log_that_was_set_back_by_an_entry_gets_it_back(shop):
    """Its file is there, and a table shows the entry: nothing is lost."""
    restore(shop.catalog, shop.backup, [LOG])
    found = _recover(shop)
    assert [shop.last] == _ids(found.found.taken_back)
    assert ([], []) == (found.found.told_by_tables, found.found.gone)
    assert (A, B) == found.marked
    assert ({}, {}) == (found.left, found.broken)
    _assert_whole(shop, 1, 2, 3)


def test_an_entry_of_which_only_tables_tell_counts_for_ever(shop):
    """It is in the archive then: its id does not commit again, and what is open clashes with it."""
    restore(shop.catalog, shop.backup, [LOG])
    _remove_newer_files(shop.backup[LOG])
    found = _recover(shop)
    assert [shop.last] == _ids(found.found.told_by_tables)
    told = found.found.told_by_tables[0]
    assert {A, B} == {change.table for change in told.changes}
    _assert_whole(shop, 1, 2, 3)
    with shop.open().begin(txn_id=shop.last) as again:
        again.load_table("shop.a").append(rows(3))
    assert [1, 2, 3, 9] == shop.plain_ids("shop.a")


def test_a_log_that_was_set_back_and_went_on_gets_what_tables_show(shop):
    """What was committed since stands; what was lost is told by its tables."""
    c = shop.table("c", [1])
    restore(shop.catalog, shop.backup, [LOG])
    handle = shop.open()
    shop.catalog.load_table(c)
    handle.advance(handle.upper + 1)
    handle.advance(shop.clock.now_ms() + 1000)
    found = _recover(shop)
    assert shop.last in _ids(found.found.told_by_tables)
    _assert_whole(shop, 1, 2, 3)


@pytest.mark.parametrize("archive_is_gone", [False, True])
def test_a_log_that_was_set_back_by_a_tidy(shop, archive_is_gone):
    """The tidier has removed what it had superseded, or has not come to it yet."""
    handle = shop.open()
    before = pointers(shop.catalog)
    assert handle.tidy()
    if archive_is_gone:
        _append(shop, 4)
        before_second = pointers(shop.catalog)
        assert handle.tidy()
        lists = {each.manifest_list for each in handle.parts.log.load().metadata.snapshots}
        restore(shop.catalog, before_second, [LOG])
        old = shop.another_catalog().load_table(LOG).metadata.snapshots
        for gone in {each.manifest_list for each in old} - lists:
            Path(urlparse(gone).path).unlink()
    else:
        restore(shop.catalog, before, [LOG])
    found = _recover(shop)
    assert [] == found.found.told_by_tables
    _assert_whole(shop, 1, 2, 3, *([4] if archive_is_gone else []))


@pytest.mark.parametrize("way", ["dropped", "opened again", "files gone"])
def test_a_log_that_was_lost(shop, way):
    """A version that storage has is registered again; without one its tables tell of it."""
    location = shop.catalog.load_table(LOG).location()
    shop.catalog.drop_table(LOG)
    if way == "opened again":
        shop.open(shop.another_catalog())
        assert 0 == shop.open(shop.another_catalog()).upper
    if way == "files gone":
        shutil.rmtree(urlparse(location).path)
    found = _recover(shop)
    assert (shop.last in _ids(found.found.told_by_tables)) == (way == "files gone")
    _assert_whole(shop, 1, 2, 3)


def test_a_catalog_that_was_set_back_says_what_is_gone(shop):
    """Log and tables agree, of a moment before: what was committed since is named, by its id."""
    restore(shop.catalog, shop.backup)
    dry = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=False)
    found = _recover(shop)
    for each in (dry, found):
        assert [] == each.found.taken_back
        assert [shop.last] == _ids([*each.found.gone, *each.found.unknown])
    _assert_whole(shop, 1, 2)


@pytest.mark.parametrize("tidied", [False, True])
def test_a_catalog_that_was_set_back_is_taken_forward(apply, shop, tidied):
    """The log comes back, and tables with it: by payloads, or by their own files where none is."""
    later = _append(shop, 4)
    if tidied:
        assert shop.open().tidy()
    _append(shop, 5)
    restore(shop.catalog, shop.backup)
    dry = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=True)
    found = _recover(shop, forward=True)
    assert [shop.last, later] == _ids(found.found.taken_back)
    assert 1 == len(found.found.unknown)
    assert ((A, B) if tidied or apply == "atomic" else ()) == dry.forward == found.forward
    assert {} == found.broken
    _assert_whole(shop, 1, 2, 3, 4)


@pytest.mark.parametrize("gone", ["version", "manifest", "other line"])
def test_a_table_whose_later_version_is_not_whole_stays_where_it_was(shop, gone):
    """It is told to lack what the log has, and readable as it was; the other one goes forward."""
    _append(shop, 4)
    assert shop.open().tidy()
    after = pointers(shop.catalog)["shop.a"]
    later = shop.catalog.load_table("shop.a")
    _append(shop, 5)
    restore(shop.catalog, shop.backup)
    if gone == "version":
        Path(urlparse(after).path).unlink()
    elif gone == "manifest":
        manifest = later.current_snapshot().manifests(later.io)[0].manifest_path
        Path(urlparse(manifest).path).unlink()
    else:
        shop.another_catalog().load_table("shop.a").append(rows(8))
    found = _recover(shop, forward=True)
    assert (B,) == found.forward
    assert {A} == found.broken.keys()
    handle = shop.open(shop.another_catalog())
    assert [1, 2, 3, 4] == ids(handle.snapshot().load_table("shop.b"))
    expected = [1, 2, 8] if gone == "other line" else [1, 2]
    assert expected == shop.plain_ids("shop.a")


@pytest.mark.parametrize("since", ["schema", "spec", "branch"])
def test_a_table_that_somebody_has_changed_since_its_restore_does_not_go_forward(shop, since):
    """Its `main` is what it was; the ids of what was added since mean something else, though."""
    with shop.open().begin() as txn:
        with txn.load_table("shop.a").transaction() as changes:
            with changes.update_schema() as schema:
                schema.add_column("more", StringType())
            with changes.update_spec() as spec:
                spec.add_identity("id")
        txn.load_table("shop.b").append(rows(4))
    assert shop.open().tidy()
    _append(shop, 5)
    restore(shop.catalog, shop.backup)
    table = shop.another_catalog().load_table("shop.a")
    if since == "schema":
        with table.update_schema() as schema:
            schema.add_column("other", LongType())
    elif since == "spec":
        with table.update_spec() as spec:
            spec.add_field("id", BucketTransform(2), "bucket")
    else:
        at = table.metadata.current_snapshot_id
        table.manage_snapshots().create_branch(at, "audit").commit()
        table.append(rows(8), branch="audit")
    before = shop.another_catalog().load_table("shop.a").metadata
    found = _recover(shop, forward=True)
    assert (B,) == found.forward
    assert {A} == found.broken.keys()
    after = shop.another_catalog().load_table("shop.a").metadata
    assert (before.schema(), before.spec()) == (after.schema(), after.spec())
    assert before.refs.items() - {("main", before.refs["main"])} <= after.refs.items()


def test_a_table_that_nobody_has_changed_goes_forward_whatever_its_version_has_no_more(shop):
    """A tag, say, that was dropped, and whose snapshot has expired, which a backup still has."""
    first = shop.catalog.load_table("shop.a").metadata.snapshots[0].snapshot_id
    shop.catalog.load_table("shop.a").manage_snapshots().create_tag(first, "old").commit()
    backup = pointers(shop.catalog)
    shop.catalog.load_table("shop.a").manage_snapshots().remove_tag("old").commit()
    shop.catalog.load_table("shop.a").maintenance.expire_snapshots().by_id(first).commit()
    _append(shop, 4)
    assert shop.open().tidy()
    _append(shop, 5)
    restore(shop.catalog, backup)
    assert (A, B) == _recover(shop, forward=True).forward
    assert {"main"} == shop.another_catalog().load_table("shop.a").refs().keys()
    _assert_whole(shop, 1, 2, 3, 4)


def test_a_table_goes_forward_by_metadata_that_is_compressed(shop):
    """Other engines write it so, where the table's properties ask for it."""
    _append(shop, 4)
    assert shop.open().tidy()
    after = Path(urlparse(pointers(shop.catalog)["shop.a"]).path)
    _append(shop, 5)
    restore(shop.catalog, shop.backup)
    packed = after.with_name(after.name.replace(".metadata.json", ".gz.metadata.json"))
    packed.write_bytes(gzip.compress(after.read_bytes()))
    after.unlink()
    assert (A, B) == _recover(shop, forward=True).forward
    _assert_whole(shop, 1, 2, 3, 4)


def test_a_metadata_file_that_nobody_can_read_keeps_no_table_back(shop):
    """Half a file, say, of who died in the middle: the others tell."""
    _append(shop, 4)
    assert shop.open().tidy()
    folder = Path(urlparse(pointers(shop.catalog)["shop.a"]).path).parent
    _append(shop, 5)
    restore(shop.catalog, shop.backup)
    (folder / "00009-torn.metadata.json").write_text('{"format-version": 2,')
    (folder / "00009-list.metadata.json").write_text("[]")
    assert (A, B) == _recover(shop, forward=True).forward
    _assert_whole(shop, 1, 2, 3, 4)


class _Refuses(Wrapped):
    """A catalog that takes no snapshot for one table."""

    def commit_table(self, table, requirements, updates):
        added = [each for each in updates if isinstance(each, AddSnapshotUpdate)]
        if table.name() == A and not any("txns.restored" in str(one.snapshot) for one in added):
            raise RuntimeError("not this one")
        return super().commit_table(table, requirements, updates)


def test_a_table_that_cannot_go_forward_keeps_neither_others_nor_the_recovery(shop):
    """The catalog refuses it: it is told to lack what the log has."""
    _append(shop, 4)
    assert shop.open().tidy()
    _append(shop, 5)
    restore(shop.catalog, shop.backup)
    found = recover(_Refuses(shop.another_catalog()), Config.of(), shop.clock, forward=True)
    assert (B,) == found.forward
    assert {A} == found.broken.keys()
    handle = shop.open(shop.another_catalog())
    assert [1, 2, 3, 4] == ids(handle.snapshot().load_table("shop.b"))


def test_a_table_of_a_format_that_is_not_written_does_not_go_forward(shop):
    """A dry run says so, too."""
    _append(shop, 4)
    assert shop.open().tidy()
    after = Path(urlparse(pointers(shop.catalog)["shop.a"]).path)
    _append(shop, 5)
    restore(shop.catalog, shop.backup)
    stored = json.loads(after.read_text()) | {"format-version": 3, "next-row-id": 9}
    after.write_text(json.dumps(stored))
    dry = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=True)
    found = _recover(shop, forward=True)
    assert (B,) == dry.forward == found.forward
    assert {A} == found.broken.keys()


@pytest.mark.usefixtures("apply")
def test_a_table_that_goes_forward_has_all_that_its_version_has(shop):
    """Its columns, partitions, order, properties and references, too."""
    with shop.open().begin() as txn:
        with txn.load_table("shop.a").transaction() as changes:
            changes.set_properties({"owner": "me"})
            with changes.update_schema() as schema:
                schema.add_column("more", StringType())
            with changes.update_spec() as spec:
                spec.add_identity("id")
        txn.load_table("shop.b").manage_snapshots().create_tag(
            shop.catalog.load_table("shop.b").metadata.current_snapshot_id, "kept"
        ).commit()
    assert shop.open().tidy()
    later = {name: shop.catalog.load_table(name).metadata for name in ("shop.a", "shop.b")}
    _append(shop, 5)
    restore(shop.catalog, shop.backup)
    assert (A, B) == _recover(shop, forward=True).forward
    for name, metadata in later.items():
        now = shop.another_catalog().load_table(name).metadata
        assert metadata.schema() == now.schema()
        assert metadata.spec() == now.spec()
        assert metadata.sort_order() == now.sort_order()
        assert metadata.properties.get("owner") == now.properties.get("owner")
        assert metadata.refs.items() - {("main", metadata.refs["main"])} <= now.refs.items()
        assert {each.snapshot_id for each in metadata.snapshots} <= {
            each.snapshot_id for each in now.snapshots
        }
    _assert_whole(shop, 1, 2, 3)


def test_who_has_seen_what_was_lost_opens_the_catalog_again(shop):
    """A process that goes on over a recovery is told, and loses nothing that it has."""
    handle, txn = shop.open(), shop.open().begin()
    txn.load_table("shop.a").append(rows(7))
    restore(shop.catalog, shop.backup)
    _recover(shop)
    with pytest.raises(txns.InvalidUsage, match="recovered since"):
        handle.catalog().load_table("shop.a")
    with pytest.raises(txns.InvalidUsage, match="recovered since"):
        txn.commit()
    _assert_whole(shop, 1, 2)


def test_a_table_that_was_restored_after_a_recovery_needs_one_more(shop):
    """Its mark is of the epoch before: nobody takes it for a table of this one."""
    before = pointers(shop.catalog)
    _recover(shop)
    restore(shop.catalog, before, ["shop.a"])
    with pytest.raises(txns.CorruptLog, match="txns recover"):
        shop.open(shop.another_catalog()).catalog().load_table("shop.a")
    found = _recover(shop)
    assert {} == found.broken
    _assert_whole(shop, 1, 2, 3)


class _AnswerLost(Wrapped):
    """A catalog in which swaps of a table get no answer, and arrive when somebody says so."""

    def __init__(self, catalog, table):
        super().__init__(catalog)
        self.table, self.sent = table, []

    def commit_table(self, table, requirements, updates):
        if table.name() != self.table:
            return super().commit_table(table, requirements, updates)
        self.sent.append(lambda: self.catalog.commit_table(table, requirements, updates))
        raise OSError("no answer")


def test_a_creation_that_arrives_after_a_recovery_needs_one_more(shop):
    """
    Nothing bars it: the table is refused to all, and its name taken, until a recovery brings it in.

    1. A creation is logged, and its request gets no answer. 2. The catalog is set back to before,
    and recovered: the log lacks the entry. 3. The request arrives.
    """
    created = _AnswerLost(shop.another_catalog(), ("shop", "new"))
    with shop.open(created).begin() as txn:
        txn.create_table("shop.new", schema=SCHEMA).append(rows(7))
    restore(shop.catalog, shop.backup)
    assert [txn.txn_id] == _ids(_recover(shop).found.unknown)
    created.sent[0]()
    handle = shop.open(shop.another_catalog())
    for meets in (
        lambda: handle.snapshot().load_table("shop.new"),
        lambda: handle.begin().load_table("shop.new"),
        lambda: handle.catalog().create_table("shop.new", SCHEMA),
        lambda: handle.catalog().drop_table("shop.new"),
    ):
        with pytest.raises(txns.CorruptLog, match="txns recover"):
            meets()
    assert {"shop.new"} == {each.where for each in check_all(handle.parts).violations}
    found = _recover(shop)
    assert [txn.txn_id] == _ids(found.found.told_by_tables)
    assert ({}, {}) == (found.left, found.broken)
    handle = shop.open(shop.another_catalog())
    assert [7] == ids(handle.snapshot().load_table("shop.new")) == shop.plain_ids("shop.new")
    _assert_whole(shop, 1, 2)


def test_the_file_that_the_catalog_names_is_gone(shop):
    """A backup of three days ago names a version that was removed since."""
    pointed = Path(urlparse(pointers(shop.catalog)[LOG]).path)
    pointed.unlink()
    with pytest.raises(FileNotFoundError):
        shop.open(shop.another_catalog()).catalog().load_table("shop.a")
    found = _recover(shop)
    assert shop.last in _ids(found.found.told_by_tables)
    _assert_whole(shop, 1, 2, 3)


def test_a_table_that_is_created_after_a_recovery_belongs_to_it(shop):
    """Its payload has the mark of the epoch in which it was logged."""
    with shop.open(apply="next").begin() as txn:
        txn.create_table("shop.new", schema=shop.catalog.load_table("shop.a").schema())
        txn.load_table("shop.new").append(rows(7))
    _recover(shop)
    handle = shop.open(shop.another_catalog())
    assert [] == handle.apply_le()
    assert [7] == ids(handle.snapshot().load_table("shop.new"))
    handle.catalog().load_table("shop.new").append(rows(8))
    assert [7, 8] == shop.plain_ids("shop.new")


def _minute(shop, handle: txns.Handle, *values: int) -> list[dict[str, str]]:
    """Append values in one minute, each in a transaction; give where the log's pointer stood."""
    shop.begin_minute()
    stood = []
    for value in values:
        _append_with(handle, value)
        stood.append(pointers(shop.catalog))
    return stood


@pytest.fixture
def days(shop):
    """Give the lake days later, and backups of two moments of before; what is not kept is gone."""
    handle = shop.open()
    handle.tidy()
    _minute(shop, handle, 4)
    shop.amid, shop.at_the_end = _minute(shop, handle, 5, 6)
    shop.clock.ahead_ms += 3 * 24 * 60 * 60_000
    for value in range(10, 24):
        _append_with(handle, value)
    handle.tidy()  # the version after the last commit says that this was one
    assert not Path(urlparse(shop.amid[LOG]).path).exists()
    assert Path(urlparse(shop.at_the_end[LOG]).path).exists()
    return shop


def _append_with(handle: txns.Handle, value: int) -> None:
    with handle.begin() as txn:
        for name in ("shop.a", "shop.b"):
            txn.load_table(name).append(rows(value))


def test_a_catalog_of_three_days_ago_goes_on_with_the_version_after_its_own(apply, days):
    """
    What was committed in the rest of that minute is back; what came later is named.

    It is applied again, or, where the log's own swap has moved the tables, in their own files.
    """
    restore(days.catalog, days.amid)
    dry = recoverable(days.another_catalog(), Config.of(), days.clock, forward=False)
    found = _recover(days)
    assert found.begun.registered
    assert days.at_the_end[LOG] == found.begun.registered.path
    assert days.amid[LOG].endswith(found.begun.missing.rpartition("/")[2])
    assert 14 == len([*found.found.gone, *found.found.unknown])
    assert ([], []) == (found.found.taken_back, found.found.told_by_tables)
    assert ((A, B) if apply == "atomic" else ()) == dry.forward == found.forward
    assert {} == dry.broken == found.broken
    _assert_whole(days, 1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize("forward", [True, False])
def test_a_dry_run_says_what_would_be_gone_with_a_version_that_is_gone(days, forward):
    """Whether to go forward is to be said before: nothing is taken forward afterwards."""
    restore(days.catalog, days.amid)
    before = days.files()
    dry = recoverable(days.another_catalog(), Config.of(), days.clock, forward=forward)
    assert before == days.files()
    done = _recover(days, forward=forward)
    for each in ("registered", "missing"):
        assert getattr(dry.begun, each) == getattr(done.begun, each)
    names = ("taken_back", "told_by_tables", "gone", "unknown", "upper")
    assert all(getattr(dry.found, each) == getattr(done.found, each) for each in names)
    assert [] == (dry.found.gone if forward else dry.found.taken_back)


def test_a_dry_run_tells_of_a_log_that_was_lost(shop):
    shop.catalog.drop_table(LOG)
    dry = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=False)
    assert (True, False) == (bool(dry.begun.registered), shop.catalog.table_exists(LOG))
    assert [] == [*dry.found.gone, *dry.found.unknown, *dry.found.told_by_tables]


def test_a_catalog_of_three_days_ago_whose_version_is_kept(days):
    """Versions between it and the newest one are gone, and what was committed is named."""
    restore(days.catalog, days.at_the_end)
    found = _recover(days)
    assert found.begun.registered is None
    assert 14 == len([*found.found.gone, *found.found.unknown])
    _assert_whole(days, 1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize("kept", [True, False])
def test_a_log_of_three_days_ago_is_taken_to_where_its_tables_are(days, kept):
    """The tables are of now: the log alone was set back, and its newest version is there."""
    restore(days.catalog, days.at_the_end if kept else days.amid, [LOG])
    found = _recover(days)
    assert [] == found.found.gone
    assert {} == found.broken
    _assert_whole(days, 1, 2, 3, 4, 5, 6, *range(10, 24))


def test_a_version_of_a_swap_that_was_lost_is_not_gone_on_with(days):
    """
    Its number is that of the version that is gone, and its entry is none of the log.

    1. A metadata file is written on the version before, with another entry, and never landed.
    """
    end = Path(urlparse(days.at_the_end[LOG]).path)
    number = int(Path(urlparse(days.amid[LOG]).path).name.split("-")[0])
    stored = json.loads(end.read_text("utf-8"))
    summaries = [each["summary"] for each in stored["snapshots"]]
    newest = max((each for each in summaries if each.get("txns.txn-id")), key=_upper)
    lost = str(_upper(newest) - 1)
    newest |= {"txns.txn-id": "lost", "txns.commit-ts": lost, "txns.upper": lost}
    stored["metadata-log"][-1]["metadata-file"] = "file:///gone.metadata.json"
    stored["last-sequence-number"] -= 1
    end.with_name(f"{number:05d}-lost.metadata.json").write_text(json.dumps(stored), "utf-8")
    restore(days.catalog, days.amid)
    found = _recover(days)
    assert found.begun.registered
    assert days.at_the_end[LOG] == found.begun.registered.path
    _assert_whole(days, 1, 2, 3, 4, 5, 6)


@pytest.mark.usefixtures("apply")
def test_who_dies_once_the_log_is_registered_has_taken_the_tables_there(days, monkeypatch):
    """The next run finds a log that nobody has lost, by which a table that is behind may stay."""
    restore(days.catalog, days.amid)
    monkeypatch.setattr("txns._admin.recover.take_back", _dies)
    with pytest.raises(KeyboardInterrupt):
        _recover(days)
    monkeypatch.undo()
    assert {} == _recover(days).broken
    _assert_whole(days, 1, 2, 3, 4, 5, 6)


def _dies(*_args: object) -> None:
    raise KeyboardInterrupt


def _upper(summary: dict[str, str]) -> int:
    return int(summary["txns.upper"])


@pytest.mark.usefixtures("apply")
def test_a_catalog_of_three_days_ago_is_taken_forward(days):
    """The newest version is registered, and the tables follow."""
    restore(days.catalog, days.amid)
    newest = _recover(days, forward=True)
    assert newest.begun.registered
    assert days.at_the_end[LOG] != newest.begun.registered.path
    assert {} == newest.broken
    _assert_whole(days, 1, 2, 3, 4, 5, 6, *range(10, 24))


def test_a_dry_run_writes_nothing(shop):
    """It says what it has found."""
    restore(shop.catalog, shop.backup, [LOG])
    before = pointers(shop.catalog), shop.files()
    found = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=False)
    assert [shop.last] == _ids(found.found.taken_back)
    assert before == (pointers(shop.catalog), shop.files())


def test_a_table_that_pyiceberg_cannot_write_is_left_with_the_command(shop):
    """Of format 3, for example: Spark brings it into the epoch, with the command that is told."""
    path = Path(urlparse(pointers(shop.catalog)["shop.b"]).path)
    stored = json.loads(path.read_text("utf-8"))
    stored |= {"format-version": 3, "next-row-id": 9}
    path.write_text(json.dumps(stored), "utf-8")
    found = _recover(shop)
    assert (A,) == found.marked
    assert "CALL system.repair(table => 'shop.b', action => 'recover')" in found.left[B]


def test_a_log_that_cannot_be_read_is_told_before_a_table_is_marked(shop):
    """Marks of an epoch that the log does not begin would keep everybody from the tables."""
    path = Path(urlparse(pointers(shop.catalog)[LOG]).path)
    text = path.read_text("utf-8")
    path.write_text(text.replace('"txns.kind":"commit"', '"txns.kind":"merge"'), "utf-8")
    before = pointers(shop.catalog)
    with pytest.raises(txns.CorruptLog, match="recover --void"):
        _recover(shop)
    assert before == pointers(shop.catalog)


def test_what_is_applied_after_a_recovery_belongs_to_its_epoch(shop):
    """A table that is made then is marked with the log as it is, not as it was when logged."""
    with shop.open(apply="next").begin() as txn:
        txn.create_table("shop.late", SCHEMA).append(rows(8))
    assert not shop.catalog.table_exists("shop.late")
    found = _recover(shop)
    assert ({}, {}) == (found.left, found.broken)
    handle = shop.open(shop.another_catalog())
    assert [8] == ids(handle.snapshot().load_table("shop.late")) == shop.plain_ids("shop.late")
    assert [] == check_all(handle.parts).violations


def test_a_forget_that_the_log_has_lost(shop):
    """The table is its owner's; who registers it again, below what it shows, breaks no order."""
    backup = pointers(shop.catalog)
    shop.clock.ahead_ms += 1000
    shop.open().forget("shop.a")
    restore(shop.catalog, backup, [LOG])
    _remove_newer_files(backup[LOG])
    assert (B,) == _recover(shop).marked
    shop.catalog.load_table("shop.a").append(rows(7))
    shop.clock.ahead_ms -= 1000
    handle = shop.open(shop.another_catalog())
    handle.register("shop.a")
    handle.catalog().load_table("shop.a").append(rows(8))
    assert [1, 2, 3, 7, 8] == ids(handle.snapshot().load_table("shop.a"))
    assert [] == check_all(handle.parts).violations


def test_a_table_that_comes_into_care_again_before_its_forget_is_missed(shop):
    """Its mark stands at a time of what the head has: that is read as it was when it came back."""
    backup = pointers(shop.catalog)
    shop.clock.ahead_ms += 1000
    shop.open().forget("shop.a")
    restore(shop.catalog, backup, [LOG])
    _remove_newer_files(backup[LOG])
    shop.catalog.load_table("shop.a").append(rows(7))
    shop.open(shop.another_catalog()).register("shop.a")
    assert ({}, {}) == (_recover(shop).left, _recover(shop).broken)
    handle = shop.open(shop.another_catalog())
    assert [1, 2, 3, 7] == ids(handle.snapshot().load_table("shop.a"))
    assert [] == check_all(handle.parts).violations


@pytest.mark.parametrize("way", ["set back", "lost"])
def test_a_forget_of_which_the_table_tells_is_archived(shop, way):
    """Its files show who took the mark, so what it was before is read as of then."""
    handle = shop.open(shop.another_catalog())
    before, backup = handle.snapshot().read_ts, pointers(shop.catalog)
    location = shop.catalog.load_table(LOG).location()
    shop.clock.ahead_ms += 600_000  # no matter by which clock
    handle.forget("shop.a")
    shop.clock.ahead_ms -= 600_000
    [*_, forget] = (one for one in handle.transactions() if one["kind"] == "forget")
    shop.catalog.load_table("shop.a").append(rows(7))
    if way == "lost":
        shop.catalog.drop_table(LOG)
        shutil.rmtree(urlparse(location).path)
    else:
        restore(shop.catalog, backup, [LOG])
        _remove_newer_files(backup[LOG])
    told = _recover(shop).found.told_by_tables
    assert forget["txn_id"] in [one.txn_id for one in told]
    assert [1, 2, 3] == ids(shop.open(shop.another_catalog()).snapshot(before).load_table("shop.a"))
    handle = shop.open(shop.another_catalog())
    assert [1, 2, 3, 7] == ids(handle.snapshot().load_table("shop.a"))
    assert [] == check_all(handle.parts).violations
    assert [] == _recover(shop).found.told_by_tables


def test_a_mark_that_a_stranger_took_is_no_forget(shop):
    """The metadata with the newest change still had it: the log has lost nothing of that kind."""
    location = shop.catalog.load_table(LOG).location()
    with shop.catalog.load_table("shop.a").transaction() as changes:
        changes.remove_properties("txns.commit-table", "txns.table-uuid")
    shop.catalog.drop_table(LOG)
    shutil.rmtree(urlparse(location).path)
    told = _recover(shop).found.told_by_tables
    assert [] == [one for one in told if one.kind is not Kind.COMMIT]
    assert all(change.table == B for one in told for change in one.changes)


def _gone_on_two_ways(lake, *, deed, least_ts=()) -> int:
    """Lose what a deed commits, and let the log have another entry at a `commit_ts` of it."""
    backup = pointers(lake.catalog)
    deed()
    lost_ts = min(least_ts, default=lake.open().upper)
    restore(lake.catalog, backup, [LOG])
    _remove_newer_files(backup[LOG])
    lake.open(lake.another_catalog()).advance(lost_ts)
    return lost_ts


def test_two_entries_at_one_commit_ts(shop):
    """The log's stands there, and the tables' moves: no command ended that before."""
    with shop.open().begin(txn_id="mine") as txn:
        txn.load_table("shop.b").append(rows(4))
    backup, ours = pointers(shop.catalog), []
    lost_ts = _gone_on_two_ways(shop, deed=lambda: ours.append(_append(shop, 5)))
    dry = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=False)
    found = _recover(shop)
    for each in (dry, found):
        assert ours == _ids(each.found.told_by_tables)
    assert ({}, {}) == (found.left, found.broken)
    assert lost_ts < found.found.told_by_tables[0].commit_ts == found.found.upper
    assert backup[LOG] != pointers(shop.catalog)[LOG]
    handle = shop.open(shop.another_catalog())
    assert [1, 2, 3, 5] == ids(handle.snapshot().load_table("shop.a"))
    with handle.begin(txn_id=ours[0]) as again:
        again.load_table("shop.a").append(rows(5))
    assert [1, 2, 3, 5] == shop.plain_ids("shop.a")
    assert [] == check_all(handle.parts).violations
    handle.catalog().load_table("shop.a").append(rows(9))
    assert handle.tidy()
    assert [] == _ids(_recover(shop).found.told_by_tables)
    handle = shop.open(shop.another_catalog())
    assert [1, 2, 3, 5, 9] == ids(handle.snapshot().load_table("shop.a"))
    assert [1, 2, 3, 4, 5] == ids(handle.snapshot().load_table("shop.b"))
    assert [] == check_all(handle.parts).violations


def test_an_entry_moves_past_what_its_tables_show_after_it(shop):
    """They have all of it then: they were set back, to whoever looked, by what had moved alone."""
    lost_ts = []

    def twice():
        _append(shop, 5)
        lost_ts.append(shop.open().upper)
        _append(shop, 6)

    _gone_on_two_ways(shop, deed=twice, least_ts=lost_ts)
    found = _recover(shop)
    assert ({}, {}) == (found.left, found.broken)
    assert 2 == len(found.found.told_by_tables)
    assert [] == _recover(shop).found.told_by_tables
    _assert_whole(shop, 1, 2, 3, 5, 6)


def test_what_an_entry_did_is_delivered_where_it_has_moved_to(shop):
    """The archive has its own change: a footing's has the same rows as before, and no others."""
    before, lost_ts, wrote = shop.open().upper, [], {}

    def twice():
        wrote[_append(shop, 5)] = [5]
        lost_ts.append(shop.open().upper)
        wrote[_append(shop, 6)] = [6]

    _gone_on_two_ways(shop, deed=twice, least_ts=lost_ts)
    told = _recover(shop).found.told_by_tables
    assert wrote.keys() == set(_ids(told))
    changes = [change for each in told for change in each.changes]
    assert [(Operation.APPEND, 1)] * 4 == [(one.operation, one.added_records) for one in changes]
    handle = shop.open(shop.another_catalog())
    feed = handle.subscribe([A], as_of=before, until=handle.upper)
    delivered = {
        each.txn_id: one.appended["id"].to_pylist() for each in feed for one in each.tables
    }
    assert wrote == delivered
    assert [] == check_all(handle.parts).violations


def test_an_entry_that_has_moved_is_told_once_when_its_log_is_lost(shop):
    """Its tables show it at both timestamps."""
    ours = []
    _gone_on_two_ways(shop, deed=lambda: ours.append(_append(shop, 5)))
    _recover(shop)
    folder = Path(urlparse(shop.catalog.load_table(LOG).location()).path)
    shop.catalog.drop_table(LOG)
    shutil.rmtree(folder)
    found = _recover(shop)
    assert ({}, {}) == (found.left, found.broken)
    assert ours == [each for each in _ids(found.found.told_by_tables) if each in ours]
    _assert_whole(shop, 1, 2, 3, 5)


def test_a_drop_at_the_commit_ts_of_another_entry(shop):
    """It moves as a drop."""
    _gone_on_two_ways(shop, deed=lambda: shop.open().catalog().drop_table("shop.a"))
    assert ({}, {}) == ((found := _recover(shop)).left, found.broken)
    catalog = shop.open(shop.another_catalog()).catalog()
    assert not catalog.table_exists("shop.a")
    catalog.create_table("shop.a", SCHEMA).append(rows(6))
    assert [6] == ids(catalog.load_table("shop.a"))


def test_what_a_stranger_wrote_on_an_entry_that_is_to_move(shop):
    """It would become the log's: it is set aside first, with the command that is told."""
    _gone_on_two_ways(shop, deed=lambda: _append(shop, 5))
    table = shop.catalog.load_table("shop.a")
    last = table.metadata.current_snapshot_id
    table.append(rows(66))
    found = _recover(shop)
    assert (B,) == found.marked
    assert f"last=`{last}`" in found.left[A]
    table = shop.catalog.load_table("shop.a")
    table.manage_snapshots().rollback_to_snapshot(last).commit()
    assert ({}, {}) == ((found := _recover(shop)).left, found.broken)
    assert [] == found.found.passed_over
    _assert_whole(shop, 1, 2, 3, 5)


def test_a_recovery_that_died_while_entries_moved(shop):
    """The next one puts each table's where the first has put it."""
    _gone_on_two_ways(shop, deed=lambda: _append(shop, 5))
    dying = shop.another_catalog()
    commits, commit = [], dying.commit_table

    def once(*args):
        if commits:
            raise KeyboardInterrupt
        commits.append(args)
        return commit(*args)

    dying.commit_table = once
    with pytest.raises(KeyboardInterrupt):
        recover(dying, Config.of(), shop.clock)
    found = _recover(shop)
    assert ({}, {}) == (found.left, found.broken)
    [told] = found.found.told_by_tables
    assert {A, B} == {change.table for change in told.changes}
    _assert_whole(shop, 1, 2, 3, 5)


def test_a_table_that_could_not_be_read_in_a_recovery(shop):
    """It shows an entry of which other tables have told: the next recovery takes it in as well."""
    folder = Path(urlparse(shop.catalog.load_table(LOG).location()).path)
    shop.catalog.drop_table(LOG)
    shutil.rmtree(folder)
    path = Path(urlparse(pointers(shop.catalog)["shop.b"]).path)
    path.rename(path.with_suffix(".away"))
    assert (A,) == (found := _recover(shop)).marked
    assert B in found.left
    path.with_suffix(".away").rename(path)
    found = _recover(shop)
    assert ({}, {}) == (found.left, found.broken)
    assert shop.last in _ids(found.found.told_by_tables)
    _assert_whole(shop, 1, 2, 3)
    assert [] == _ids(_recover(shop).found.told_by_tables)


@pytest.mark.parametrize("times", [1, None])
def test_a_table_that_cannot_be_read_after_it_was_marked(shop, times):
    """
    What it shows is looked for again: the epoch does not begin without it, nor below it.

    1. A recovery has read and marked all tables of a log that is lost. 2. It looks once more, and
    the catalog fails for one of them, once or (None) for as long as it runs.
    """
    folder = Path(urlparse(shop.catalog.load_table(LOG).location()).path)
    shop.catalog.drop_table(LOG)
    shutil.rmtree(folder)
    failing = shop.another_catalog()
    load, commit, marks, failed = failing.load_table, failing.commit_table, [], []

    def commit_table(table, *args):
        done = commit(table, *args)
        marks.extend([table.name()] if table.name() in {A, B} else [])
        return done

    def load_table(name):
        if len(marks) == 2 and name == B and (times is None or len(failed) < times):
            failed.append(name)
            raise OSError("the catalog failed")
        return load(name)

    failing.commit_table, failing.load_table = commit_table, load_table
    if times is None:
        with pytest.raises(txns.Conflict, match=r"the catalog failed.*run this again"):
            recover(failing, Config.of(), shop.clock)
        assert 0 == shop.open(shop.another_catalog()).upper
        found = _recover(shop)
    else:
        found = recover(failing, Config.of(), shop.clock)
    assert failed
    assert ({}, {}) == (found.left, found.broken)
    assert {A, B} == {each.table for told in found.found.told_by_tables for each in told.changes}
    _assert_whole(shop, 1, 2, 3)


@pytest.mark.parametrize("ahead_ms", [0, 60_000, None])
def test_a_table_that_shows_another_entry_than_the_log_went_on_with(shop, ahead_ms, monkeypatch):
    """
    Nothing is written over what it shows, and what the log has for it is named, and given up.

    1. A transaction that has read `a` is open; another one writes `a`. 2. The log is set back to
    before that, and the open one commits, above it, below or (None) at the same `commit_ts`, by its
    clock. 3. It is recovered.
    """
    backup = pointers(shop.catalog)
    late = shop.open(shop.another_catalog()).begin()
    late.load_table("shop.a").overwrite(rows(5))
    late.load_table("shop.b").append(rows(5))
    shop.clock.ahead_ms += ahead_ms or 0
    with shop.open().begin() as txn:
        txn.load_table("shop.a").append(rows(6))
    shop.clock.ahead_ms -= ahead_ms or 0
    lost_ts = shop.open().upper
    restore(shop.catalog, backup, [LOG])
    _remove_newer_files(backup[LOG])
    with monkeypatch.context() as patched:
        if ahead_ms is None:
            patched.setattr(type(shop.clock), "now_ms", lambda _clock: lost_ts)
        late.commit()
    late_ts = shop.open(shop.another_catalog()).upper
    dry = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=False)
    found = _recover(shop)
    for each in (dry, found):
        assert [late.txn_id] == _ids(each.found.passed_over)
        assert [A] == [change.table for change in each.found.passed_over[0].changes]
    assert ({}, {}) == (found.left, found.broken)
    handle = shop.open(shop.another_catalog())
    assert [1, 2, 3, 6] == ids(handle.snapshot().load_table("shop.a"))
    assert [1, 2, 3, 5] == ids(handle.snapshot().load_table("shop.b"))
    with pytest.raises(txns.Conflict, match="too old"):
        handle.snapshot(read_ts=late_ts).load_table("shop.a")
    assert [] == check_all(handle.parts).violations
    handle.catalog().load_table("shop.a").append(rows(7))
    assert handle.tidy()
    assert [] == _recover(shop).found.passed_over
    assert [1, 2, 3, 6, 7] == shop.plain_ids("shop.a")
    assert [] == check_all(shop.open(shop.another_catalog()).parts).violations


def test_what_a_log_left_behind_that_has_gone_on_is_named(shop):
    """No table shows it, and its files are there; what was about to be committed is unknown."""
    _append(shop, 4, apply="next")  # which the log is set to before
    _append(shop, 4, apply="inline")
    backup = pointers(shop.catalog)
    lost = [_append(shop, value, apply="next") for value in (4, 5)]
    restore(shop.catalog, backup, [LOG])
    handle = shop.open(shop.another_catalog())
    handle.advance(shop.clock.now_ms())
    dry = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=False)
    found = _recover(shop)
    for each in (dry, found):
        assert lost[:1] == _ids(each.found.gone)
        assert lost[1:] == _ids(each.found.unknown)
    again = _recover(shop).found
    assert ([], []) == (again.gone, again.unknown)
    _assert_whole(shop, 1, 2, 3, 4, 4)


def test_a_catalog_that_is_set_back_again_and_again_names_all_that_is_gone(shop):
    """The only one of its epoch, too, beside which a recovery stands, as beside a lost swap."""
    restore(shop.catalog, shop.backup)
    lost = [shop.last]
    for count in (2, 2):
        _recover(shop)
        lost += [_append(shop, value) for value in range(count)]
        restore(shop.catalog, shop.backup)
    found = _recover(shop).found
    assert sorted(lost) == sorted(_ids([*found.gone, *found.unknown]))
    _assert_whole(shop, 1, 2)
