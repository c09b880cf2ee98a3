"""Files of the commit table that nothing refers to, and those that something does."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlparse

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError

import txns
from tests.txns.backups import pointers, restore
from tests.txns.lake import SCHEMA, Lake, ids, rows
from tests.txns.log_files import Odd, append, files, needed, payloads, staged
from tests.txns.wrapped import Wrapped
from txns._admin import orphans
from txns._admin.invariants import check_all
from txns._admin.kept_versions import staying
from txns._admin.log_versions import Versions
from txns._admin.recover import recover
from txns._commit import small_files
from txns._config import Config
from txns._log import commit_table


@pytest.fixture
def catalog(lake: Lake) -> Odd:
    lake.table("a")
    return Odd("lake", **lake.catalog.properties)


def test_files_of_a_tidy_that_stands_still_are_none_that_nobody_needs(lake, catalog):
    """
    Its swap would refer to files that are gone.

    1. A tidier has written its files, and stands still for longer than the grace period.
    2. Somebody removes what nothing refers to, and the tidier goes on.
    """
    handle = lake.open(catalog)
    append(handle, 1)

    def later(swap):
        lake.age_log(61)
        assert orphans.remove(lake.open().parts)
        return swap()

    catalog.instead = later
    assert 0 == handle.tidy()
    assert needed(lake) <= files(lake)
    assert 2 == handle.tidy()
    assert needed(lake) <= files(lake)
    assert 2 == len(handle.transactions())


def test_files_are_as_old_as_storage_says(lake, catalog):
    """A clock that is fast removes nothing that was just written."""
    handle = lake.open(catalog)
    append(handle, 1)

    def later(swap):
        lake.clock.ahead_ms += 60 * 60_000
        assert [] == orphans.remove(lake.open().parts)
        lake.clock.ahead_ms -= 60 * 60_000
        return swap()

    catalog.instead = later
    handle.tidy()
    assert handle.tidy()
    assert needed(lake) <= files(lake)


def test_nothing_is_removed_where_the_head_cannot_be_moved(lake, catalog):
    """Somebody may be about to refer to it."""
    handle = lake.open(catalog)
    append(handle, 1)
    append(handle, 2)
    lake.age_log(61)
    before = lake.files()

    def unheard(_swap):
        raise ConnectionError("no route to host")

    catalog.instead = unheard
    with pytest.raises(txns.Conflict, match="head could not be moved"):
        orphans.remove(handle.parts)
    assert before == lake.files()
    assert orphans.remove(handle.parts)


def test_records_that_move_the_head_do_not_pile_up(lake, handle):
    for _ in range(3):
        orphans.remove(handle.parts)
    snapshots = lake.catalog.load_table("txns.commits").metadata.snapshots
    assert 1 == len([each for each in snapshots if each.summary["txns.kind"] == "tidy"])


def test_a_move_of_before_the_listing_stops_nobody(lake, catalog):
    """
    The head that has to move is one that was loaded after the files were listed.

    1. Somebody is to remove what nothing refers to, and has loaded the head. The head moves.
    2. A tidier has written its files on the new one, and stands still for 61 minutes.
    3. Another property of the commit table: a young metadata file, and `main` where it was.
    """
    handle, late = lake.open(catalog), lake.open(lake.another_catalog())
    append(handle, 1)
    old = late.parts.log.load()
    append(lake.open(), 2)
    loads, load = [old], late.parts.log.load

    def later(swap):
        lake.age_log(61)
        with lake.catalog.load_table("txns.commits").transaction() as changes:
            changes.set_properties({"owner": "me"})
        late.parts.log.load = lambda: loads.pop() if loads else load()
        orphans.remove(late.parts)
        return swap()

    catalog.instead = later
    handle.tidy()
    assert not loads
    assert needed(lake) <= files(lake)
    assert 3 == len(lake.open().transactions())


def test_what_was_the_head_just_now_is_needed(lake, catalog):
    """Who has just loaded it reads its archive and its payloads, however old their files are."""
    handle = lake.open(catalog)
    append(handle, 1)
    handle.tidy()
    staged(handle).commit()
    append(handle, 2)
    lake.age_log(61)
    reader = lake.open(lake.another_catalog())
    head = reader.parts.log.load()
    other = lake.open()
    assert other.tidy()
    orphans.remove(other.parts)
    with_files = [each for each in head.state.entries if each.payload.location]
    assert with_files
    assert all(reader.parts.log.requests(each) for each in with_files)
    assert len(head.table.scan().to_arrow())
    lake.age_log(61)
    assert orphans.remove(other.parts)
    assert not payloads(lake)


def test_the_log_goes_on_while_somebody_stands_still(lake, handle, monkeypatch):
    """
    What the newest head refers to is looked for behind the newest head.

    1. Somebody has moved and listed, and stands still for longer than the grace period.
    2. A tidy leaves the list of manifests behind that he has in mind, and it is removed. Large
       files of the archive stand in manifests of before.
    """
    monkeypatch.setattr(small_files, "SMALL_FILE_BYTES", 0)
    lake.table("a")
    append(handle, 1)
    handle.tidy()
    append(handle, 2)
    late = lake.open(lake.another_catalog())
    load, loads = late.parts.log.load, []

    def slowly():
        head = load()
        loads.append(head)
        if len(loads) == 5:  # after both moves
            old = head.metadata.current_snapshot().manifest_list
            assert handle.tidy()
            Path(old.removeprefix("file://")).unlink()
        return head

    late.parts.log.load = slowly
    lake.age_log(61)
    orphans.remove(late.parts)
    assert len(loads) > 5
    assert needed(lake) <= files(lake)
    assert len(lake.open().transactions()) > 2


def test_nothing_is_removed_behind_a_file_that_is_missing(lake, handle):
    """What it has named cannot be told from what nothing names."""
    lake.table("a")
    append(handle, 1)
    handle.tidy()
    append(handle, 2)
    metadata = lake.catalog.load_table("txns.commits").metadata
    lost = Path(metadata.current_snapshot().manifest_list.removeprefix("file://"))
    content = lost.read_bytes()
    lost.unlink()
    lake.age_log(61)
    before = files(lake)
    for look in (orphans.orphans, orphans.remove):
        with pytest.raises(txns.CorruptLog, match="is missing, so nothing is removed"):
            look(lake.open().parts)
    assert before == files(lake)
    lost.write_bytes(content)
    assert orphans.remove(lake.open().parts)


@pytest.mark.parametrize("name", ["data", "metadata"])
def test_a_table_whose_place_is_a_folder_of_the_commit_tables(lake, handle, name):
    """In a namespace of the commit table's name: catalogs put it there, and it is its owner's."""
    inside = f"{lake.catalog.load_table('txns.commits').location()}/{name}"
    lake.catalog.create_namespace("txns.commits")
    table = lake.catalog.create_table(f"txns.commits.{name}", SCHEMA, location=inside)
    table.append(rows(1))
    lake.age_log(61)
    assert [] == orphans.remove(handle.parts)
    assert [1] == ids(lake.another_catalog().load_table(f"txns.commits.{name}"))


def test_another_table_in_the_same_place(lake, handle):
    """
    A log that was moved aside keeps its place, which who makes another one gets as well.

    Its files are nobody's to remove: it is to be restored.
    """
    lake.table("a")
    append(handle, 1)
    handle.tidy()
    append(handle, 2)
    lake.catalog.rename_table("txns.commits", "txns.aside")
    other = lake.open(lake.another_catalog())
    lake.age_log(61)
    before = lake.files()
    for look in (orphans.orphans, orphans.remove):
        with pytest.raises(txns.Unsupported, match="another table has its files below"):
            look(other.parts)
    assert before <= lake.files()
    lake.catalog.drop_table("txns.commits")
    lake.catalog.rename_table("txns.aside", "txns.commits")
    assert [1, 2] == ids(lake.open().catalog().load_table("shop.a"))


def test_what_the_slower_of_two_creators_has_left(lake, monkeypatch):
    """Its table was never there: its file is one that nothing refers to."""
    write, files_written = SqlCatalog._write_metadata, []

    def late(metadata, io, metadata_path, *more):
        files_written.append(metadata_path)
        write(metadata, io, metadata_path, *more)
        if len(files_written) == 1:
            lake.open(lake.another_catalog())

    monkeypatch.setattr(SqlCatalog, "_write_metadata", staticmethod(late))
    handle = lake.open()
    lake.age_log(61)
    assert files_written[0] in {each.path for each in orphans.remove(handle.parts)}


def test_a_commit_table_that_a_recovery_has_put_aside(lake):
    """
    It keeps its files: `txns check` would name it for ever.

    1. The catalog loses the log, and somebody makes an empty one in its place. 2. A recovery puts
    that aside. 3. Somebody removes what nothing refers to. 4. Nobody needs it, and it goes.
    """
    lake.table("a")
    append(lake.open(), 1)
    lake.catalog.drop_table("txns.commits")
    commit_table.create(lake.catalog, ("txns", "commits"), lake.clock)
    recover(lake.another_catalog(), Config.of(), lake.clock)
    [aside] = set(lake.catalog.list_tables("txns")) - {("txns", "commits")}
    lake.age_log(61)
    path = urlparse(lake.catalog.load_table(aside).metadata_location).path
    for _ in range(2):
        removed = orphans.remove(lake.open(lake.another_catalog()).parts)
        assert path not in {urlparse(each.path).path for each in removed}
    assert [] == list(lake.catalog.load_table(aside).scan().to_arrow()["commit_ts"])
    assert [] == check_all(lake.open().parts).violations
    lake.catalog.drop_table(aside)
    removed = orphans.remove(lake.open(lake.another_catalog()).parts)
    assert path in {urlparse(each.path).path for each in removed}


def test_a_head_whose_successor_landed_late(lake, catalog):
    """
    A metadata file is written before it lands: what was the head until then is needed.

    1. A swap has written its metadata file, and stands still for longer than the grace period.
    2. Somebody loads the head, and the swap lands.
    """
    handle = lake.open(catalog)
    append(handle, 1)
    handle.tidy()
    staged(handle).commit()
    append(handle, 2)
    reader = lake.open(lake.another_catalog())
    head = reader.parts.log.load()
    assert lake.open().tidy()
    lake.age_log(61)  # written then; landed just now
    other = lake.open()
    orphans.remove(other.parts)
    assert len(head.table.scan().to_arrow())


def test_a_refusal_to_move_the_head_is_told(lake, catalog):
    """Trying again does not help."""
    handle = lake.open(catalog)
    before = lake.files()

    def refused(_swap):
        raise ForbiddenError("no grant")

    catalog.instead = refused
    with pytest.raises(ForbiddenError, match="no grant"):
        orphans.remove(handle.parts)
    assert before == lake.files()


def test_what_cannot_be_deleted_is_told(lake, catalog, monkeypatch):
    handle = lake.open(catalog)
    append(handle, 1)
    append(handle, 2)
    lake.age_log(90)
    io = type(handle.parts.log.io)

    def refused(_self, _location):
        raise PermissionError("no grant")

    with monkeypatch.context() as patched:
        patched.setattr(io, "delete", refused)
        found = orphans.remove(handle.parts)
    assert found
    assert {"PermissionError: no grant"} == {each.stays for each in found}
    assert {""} == {each.stays for each in orphans.remove(handle.parts)}


def test_what_a_transaction_may_still_refer_to_stays(lake):
    """What nobody refers to yet has the time that a transaction may last, as the log says."""
    handle = lake.open()
    payload = lake.folder / "warehouse/txns/commits/metadata/txns-payload-x-00000000.json"
    payload.write_text("{}")
    lake.age_log(-60)
    assert [] == orphans.remove(handle.parts)
    handle.change_settings(max_age_ms=3600 * 1000)
    assert payload.name in {each.path.rpartition("/")[2] for each in orphans.remove(handle.parts)}
    assert not payload.exists()


def _versions(lake: Lake) -> set[str]:
    """Give the metadata files of the commit table."""
    return {path for path in lake.files() if "/commits/" in path and path.endswith("metadata.json")}


def _head(lake: Lake) -> str:
    return lake.catalog.load_table("txns.commits").metadata_location.removeprefix("file://")


def test_the_last_version_of_each_minute_stays_for_seven_days(lake):
    """
    Whatever the owners of files that were superseded have left, and all that those versions name.

    A catalog that is restored names one of them, or one of the same minute.
    """
    lake.table("a")
    last, needs = [], set()
    for minute in range(3):
        lake.begin_minute()
        for number in range(3):
            handle = lake.open()  # each of a process that has ended
            append(handle, 10 * minute + number)
            handle.tidy()
        last.append(_head(lake))
        needs |= needed(lake)
    lake.begin_minute()
    append(lake.open(), 99)
    before = _versions(lake)
    lake.age_log(2 * 24 * 60)
    gone = {each.path.removeprefix("file://") for each in orphans.remove(lake.open().parts)}
    assert set(last) <= _versions(lake)
    assert needs <= files(lake)
    assert before & gone
    assert len(_versions(lake)) < len(before)
    lake.age_log(6 * 24 * 60)
    orphans.remove(lake.open().parts)
    assert not set(last) & _versions(lake)
    assert needed(lake) == files(lake)


def test_a_version_of_a_swap_that_was_lost_is_not_the_last_of_a_minute(lake, catalog):
    """
    The one that it stands on stays.

    1. A swap has written its metadata file on the last version of a minute, and is never sent.
    2. The next commit is of a later minute.
    """
    lake.begin_minute()
    handle = lake.open(catalog)
    append(handle, 1)
    last = Path(_head(lake))
    stored = last.read_text("utf-8")
    number = lake.catalog.load_table("txns.commits").metadata.last_sequence_number
    lost = last.with_name(last.name.replace("-", "-0", 1))
    told = stored.replace(
        f'"last-sequence-number":{number}', f'"last-sequence-number":{number + 1}'
    )
    assert told != stored
    lost.write_text(told, "utf-8")
    lake.begin_minute()
    append(handle, 2)
    append(handle, 3)
    lake.age_log(2 * 24 * 60)
    orphans.remove(lake.open().parts)
    assert last.exists()


def _beaten(lake: Lake, monkeypatch, deed) -> str:
    """Append, and lose a swap to a deed; give the metadata file that the lost swap has left."""
    write, lost = SqlCatalog._write_metadata, []

    def late(metadata, io, metadata_path, *more):
        write(metadata, io, metadata_path, *more)
        if not lost and "/commits/" in metadata_path:
            lost.append(metadata_path.removeprefix("file://"))
            deed()

    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "_write_metadata", staticmethod(late))
        append(lake.open(Wrapped(lake.another_catalog())), 7)
    return lost[0]


@pytest.mark.parametrize("tidied", [False, True])
def test_a_version_of_a_swap_that_was_lost_is_not_kept(lake, catalog, monkeypatch, tidied):
    """It seems to be the last of its minute, where the one that has won is of a later one."""
    handle = lake.open(catalog)
    lake.begin_minute()
    append(handle, 1)
    last = _head(lake)

    def win():
        lake.begin_minute()
        append(handle, 2)

    lost = _beaten(lake, monkeypatch, win)
    append(handle, 3)
    if tidied:
        assert handle.tidy()
        append(handle, 4)
    lake.age_log(2 * 24 * 60)
    assert lost in _versions(lake)
    orphans.remove(lake.open().parts)
    assert lost not in _versions(lake)
    assert last in _versions(lake)


def test_what_a_log_that_was_set_back_has_left_is_kept(lake, catalog):
    """Nobody has recovered it yet: it is not known to be a swap's that was lost."""
    handle = lake.open(catalog)
    append(handle, 1)
    backup = pointers(lake.catalog)
    lake.begin_minute()
    append(handle, 2)
    newest = _head(lake)
    restore(lake.catalog, backup, ["txns.commits"])
    lake.age_log(2 * 24 * 60)
    orphans.remove(lake.open(lake.another_catalog()).parts)
    assert newest in _versions(lake)


@pytest.mark.parametrize(
    "said",
    [
        {"snapshots": [1]},
        {"snapshots": [{"summary": {"txns.upper": 5}}]},
        {"snapshots": [{"summary": {"txns.commit-ts": 5, "txns.txn-id": "x"}}]},
        {"metadata-log": [{"metadata-file": 7}]},
        {"metadata-log": [7]},
        {"statistics": 7},
    ],
    ids=str,
)
def test_a_file_that_only_looks_like_a_version_stops_nobody(lake, said):
    """Whoever may write below the commit table's location may have written anything."""
    log = lake.open().parts.log
    uuid = log.load().uuid
    stored = {"table-uuid": uuid, "last-sequence-number": 1, **said}
    odd = Path(_head(lake)).with_name("00001-x.metadata.json")
    odd.write_text(json.dumps(stored))
    found = Versions.of(log.io, [f"file://{odd}", f"file://{_head(lake)}"], uuid)
    assert _head(lake) in found.by_path
    found.beyond_gap(0, ())
    assert [_head(lake)] == [
        each.path.removeprefix("file://")
        for each in staying(found, dict.fromkeys(found.by_path, 0), 8 * 24 * 3_600_000)
        if not each.path.endswith("-x.metadata.json")
    ]
