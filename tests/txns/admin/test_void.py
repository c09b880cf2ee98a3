"""Records that nobody can read, and a log that goes on without them (docs/spec.md 9.6)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlparse

import pytest
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate

import txns
from tests.txns.lake import SCHEMA, ids, rows
from txns._admin.invariants import check_all
from txns._admin.void import void, void_sound
from txns._config import Config
from txns._log import change as _change
from txns._log import commit_table
from txns._log import entry as _entry
from txns._log.head import head_of
from txns._services import Parts


@pytest.fixture
def shop(lake):
    """Give the lake, with a and b."""
    lake.table("b", [1])
    lake.table("a", [1])
    return lake


def _parts(lake) -> Parts:
    return Parts.of(lake.another_catalog(), Config.of(), lake.clock)


def _append_bad(lake, monkeypatch, named=None, **wrong: str) -> tuple[int, int]:
    """
    Append an entry that names a, or another table, some of whose keys nobody can read.

    Gives its snapshot and its `commit_ts`.
    """
    handle = lake.open()
    log = handle.parts.log
    head = log.load()
    [*_, last] = (one for one in head.state.entries if one.changes)
    ts = head.upper + 1
    change = replace(last.changes[0], from_snapshot_id=None, to_snapshot_id=77)
    if named:
        uuid = str(lake.catalog.load_table(named).metadata.table_uuid)
        change = replace(change, table=tuple(named.split(".")), uuid=uuid)
    bad = replace(last, txn_id="bad", commit_ts=ts, upper=ts, prev_ts=head.upper, changes=(change,))
    bad = replace(bad, tidied_upto=head.state.tidied_upto)
    summary = _entry.to_summary(bad) | wrong
    with monkeypatch.context() as patched:
        patched.setattr(_entry, "to_summary", lambda _: summary)
        patched.setattr(log, "_made", lambda *_: None)
        log.append(head, [bad])
    main = lake.another_catalog().load_table("txns.commits").current_snapshot()
    return main.snapshot_id, ts


DEEP = "[" * 100_000 + "]" * 100_000
WRONG = {
    "a kind that nobody has announced": {_entry.KIND: "merge"},
    "tables that are no list": {_change.TABLES: "{}"},
    "deeply nested tables": {_change.TABLES: DEEP},
    "no upper": {_entry.UPPER: "soon"},
    "an isolation level": {_entry.ISOLATION: "chaos"},
}


@pytest.mark.parametrize("what", WRONG)
def test_one_record_stops_everything_until_it_is_void(shop, monkeypatch, what):
    """The error names the command; then everything goes on, but for the record's own table."""
    snapshot_id, ts = _append_bad(shop, monkeypatch, **WRONG[what])
    with pytest.raises(txns.CorruptLog, match=f"txns recover --void {snapshot_id}"):
        shop.open(shop.another_catalog()).snapshot().load_table("shop.b")
    voided = void(_parts(shop), snapshot_id)
    assert snapshot_id == voided.snapshot_id
    assert voided.told is not None
    assert ("bad", ts) == (voided.told.txn_id, voided.told.commit_ts)
    handle = shop.open(shop.another_catalog())
    handle.catalog().load_table("shop.b").append(rows(2))
    assert [1, 2] == ids(handle.snapshot().load_table("shop.b"))
    if not voided.told.changes:
        handle.catalog().load_table("shop.a").append(rows(2))
        return
    with pytest.raises(txns.Quarantined, match="set back"):
        handle.catalog().load_table("shop.a")
    handle.repair_adopt("shop.a")
    handle.catalog().load_table("shop.a").append(rows(2))
    assert [1, 2] == shop.plain_ids("shop.a")
    assert [] == check_all(handle.parts).violations


def test_entries_above_a_void_one_stay(shop):
    """They chain to it: the head is complete above it, and need not be below."""
    handle = shop.open(apply="next")
    handle.catalog().load_table("shop.b").append(rows(2))
    middle = handle.upper
    handle.catalog().load_table("shop.b").append(rows(3))
    snapshot_id = handle.parts.log.load().snapshot_ids[middle]
    voided = void_sound(_parts(shop), middle)
    assert snapshot_id == voided.snapshot_id
    state = head_of(shop.another_catalog().load_table("txns.commits")).state
    assert middle == state.tidied_upto
    assert handle.upper == state.upper == state.entries[-1].commit_ts
    again = shop.open(shop.another_catalog())
    again.catalog().load_table("shop.a").append(rows(2))
    with pytest.raises(txns.Quarantined, match="set back"):
        again.catalog().load_table("shop.b")
    again.repair_adopt("shop.b")
    again.catalog().load_table("shop.b").append(rows(4))
    assert [1, 4] == shop.plain_ids("shop.b")


def test_what_is_told_counts(shop):
    """Its id does not commit again: the archive has it."""
    handle = shop.open()
    with handle.begin(txn_id="mine") as txn:
        txn.load_table("shop.a").append(rows(2))
    void_sound(_parts(shop), handle.upper)
    with shop.open(shop.another_catalog()).begin(txn_id="mine") as again:
        again.load_table("shop.a").append(rows(2))
    assert [1, 2] == shop.plain_ids("shop.a")


def test_a_record_that_is_not_there(shop):
    """Nothing is changed."""
    with pytest.raises(txns.InvalidUsage, match="no such record"):
        void(_parts(shop), 17)


def test_two_records_that_cannot_be_read_are_made_void_in_any_order(shop, monkeypatch):
    """Neither waits for the other: a forger writes as many as he likes."""
    first, _ = _append_bad(shop, monkeypatch, **{_entry.ISOLATION: "chaos"})
    table = shop.another_catalog().load_table("txns.commits")
    newest = table.current_snapshot()
    summary = {**newest.summary.additional_properties, _entry.KIND: "merge", _entry.UPPER: "x"}
    second = newest.model_copy(
        update={
            "snapshot_id": 4711,
            "parent_snapshot_id": newest.snapshot_id,
            "sequence_number": table.metadata.last_sequence_number + 1,
            "timestamp_ms": newest.timestamp_ms + 1,
            "summary": Summary(Operation.APPEND, **summary),
        }
    )
    updates = (AddSnapshotUpdate(snapshot=second), commit_table.main_at(4711))
    shop.another_catalog().commit_table(table, (), updates)
    for each in (first, 4711):
        assert each == void(_parts(shop), each).snapshot_id
    handle = shop.open(shop.another_catalog())
    handle.catalog().load_table("shop.b").append(rows(2))
    assert [1, 2] == ids(handle.snapshot().load_table("shop.b"))


@pytest.mark.parametrize("apply", ["inline", "next"])
def test_a_tidy_that_cannot_be_read_leaves_its_archive(shop, apply):
    """Whether entries stand beside it or nothing does: what it has archived counts for ever."""
    handle = shop.open()
    with handle.begin(txn_id="mine") as txn:
        txn.load_table("shop.a").append(rows(2))
    if apply == "next":
        lazy = shop.open(apply="next")
        lazy.catalog().load_table("shop.b").append(rows(2))
    assert shop.open(apply=apply).tidy()
    before = shop.open(shop.another_catalog()).transactions()
    table = shop.another_catalog().load_table("txns.commits")
    assert (apply == "next") == (len(table.metadata.snapshots) > 1)
    _rewritten(shop, table.metadata.current_snapshot_id, {_entry.UPPER: "soon"})
    void(_parts(shop), table.metadata.current_snapshot_id)
    again = shop.open(shop.another_catalog())
    assert before == again.transactions()
    with again.begin(txn_id="mine") as txn:
        txn.load_table("shop.a").append(rows(2))
    again.apply_le()
    assert [1, 2] == shop.plain_ids("shop.a")
    again.catalog().load_table("shop.b").append(rows(3))
    assert [] == check_all(again.parts).violations


def test_a_tidy_above_a_void_entry_stays(shop):
    """It has repeated the upper, at which no entry stands any more: the head is complete at it."""
    handle = shop.open(apply="next")
    handle.catalog().load_table("shop.b").append(rows(2))
    handle.apply_le()
    handle.catalog().load_table("shop.a").append(rows(2))
    handle.tidy()
    void_sound(_parts(shop), handle.upper)
    again = shop.open(shop.another_catalog())
    assert handle.upper == again.upper
    again.catalog().load_table("shop.b").append(rows(3))
    assert [1, 2, 3] == ids(again.snapshot().load_table("shop.b"))


def test_a_record_that_keeps_nobody_stays(shop):
    """It is another one's number, by mistake: what was acknowledged would be gone."""
    handle = shop.open(apply="next")
    handle.catalog().load_table("shop.a").append(rows(2))
    with pytest.raises(txns.InvalidUsage, match="add --sound"):
        void(_parts(shop), handle.upper)
    assert [1, 2] == ids(shop.open().snapshot().load_table("shop.a"))


def _rewritten(shop, snapshot_id: int, summary: dict[str, str]) -> None:
    """Change the stored record as no catalog would."""
    location = shop.another_catalog().load_table("txns.commits").metadata_location
    path = Path(location.removeprefix("file://"))
    stored = json.loads(path.read_text("utf-8"))
    for each in stored["snapshots"]:
        if each["snapshot-id"] == snapshot_id:
            each["summary"] |= summary
    path.write_text(json.dumps(stored), "utf-8")


def test_what_a_table_shows_of_a_void_record_stays_in_the_log(shop):
    """Its tables cannot be read; the archive has it for those that show it, which go on."""
    a = shop.catalog.load_table("shop.a").name()
    handle = shop.open()
    with handle.begin() as txn:
        txn.load_table(a).append(rows(2))
    log = shop.catalog.load_table("txns.commits")
    path = Path(urlparse(log.metadata_location).path)
    stored = json.loads(path.read_text())
    bad = next(
        one for one in stored["snapshots"] if one["summary"].get("txns.txn-id") == txn.txn_id
    )
    bad["summary"]["txns.tables"] = "{"
    path.write_text(json.dumps(stored))
    voided = void(_parts(shop), bad["snapshot-id"])
    assert voided.told is not None
    assert [a] == [change.table for change in voided.told.changes]
    again = shop.open(shop.another_catalog())
    assert [1, 2] == ids(again.snapshot().load_table(a))
    again.catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == shop.plain_ids(a)
    assert [] == check_all(again.parts).violations


def test_a_sound_record_stays_while_another_one_cannot_be_read(shop, monkeypatch):
    """That is when numbers are mistaken: what keeps everybody is named, and goes."""
    handle = shop.open(apply="next")
    handle.catalog().load_table("shop.b").append(rows(2))
    good = handle.upper
    bad, _ = _append_bad(shop, monkeypatch, **{_entry.ISOLATION: "chaos"})
    with pytest.raises(txns.InvalidUsage, match=f"recover --void {bad}"):
        void(_parts(shop), good)
    assert () == void(_parts(shop), bad).unread
    again = shop.open(shop.another_catalog())
    assert good in {one["commit_ts"] for one in again.transactions()}


SAME = (_entry.COMMIT_TS, _entry.UPPER)


def test_a_number_of_several_records_takes_none_out(shop, monkeypatch):
    """A forger gives his the `commit_ts` of another one."""
    handle = shop.open(apply="next")
    handle.catalog().load_table("shop.b").append(rows(2))
    good = handle.upper
    bad, _ = _append_bad(shop, monkeypatch, **dict.fromkeys(SAME, str(good)))
    for take_out in (void, void_sound):
        with pytest.raises(txns.InvalidUsage, match=f"several records.*{bad}"):
            take_out(_parts(shop), good)
    void(_parts(shop), bad)
    again = shop.open(shop.another_catalog())
    assert [1, 2] == ids(again.snapshot().load_table("shop.b"))


@pytest.mark.parametrize("key", [_entry.READER_FEATURES, _entry.WRITER_FEATURES])
def test_a_record_of_a_newer_program_goes_by_its_number_and_word_alone(shop, monkeypatch, key):
    """It may be sound to that; a forged one is named, and nobody waits for it for ever."""
    handle = shop.open(apply="next")
    handle.catalog().load_table("shop.b").append(rows(2))
    good = handle.upper
    bad, _ = _append_bad(shop, monkeypatch, **{key: "deletion-vectors"})
    if key == _entry.READER_FEATURES:
        with pytest.raises(txns.errors.Unsupported, match=str(bad)):
            shop.open(shop.another_catalog()).snapshot()
    for number, take_out in ((good, void), (good, void_sound), (bad, void)):
        with pytest.raises(txns.errors.Unsupported, match="upgrade it"):
            take_out(_parts(shop), number)
    void_sound(_parts(shop), bad)
    again = shop.open(shop.another_catalog())
    assert good in {one["commit_ts"] for one in again.transactions()}


def test_two_forged_records_of_a_newer_program(shop, monkeypatch):
    """Each goes by itself, and says what is left."""
    first, _ = _append_bad(shop, monkeypatch, **{_entry.READER_FEATURES: "x"})
    table = shop.another_catalog().load_table("txns.commits")
    newest = table.current_snapshot()
    second = newest.model_copy(
        update={
            "snapshot_id": 4711,
            "parent_snapshot_id": newest.snapshot_id,
            "sequence_number": table.metadata.last_sequence_number + 1,
            "timestamp_ms": newest.timestamp_ms + 1,
        }
    )
    updates = (AddSnapshotUpdate(snapshot=second), commit_table.main_at(4711))
    shop.another_catalog().commit_table(table, (), updates)
    assert (4711,) == void_sound(_parts(shop), first).unread
    assert () == void_sound(_parts(shop), 4711).unread
    shop.open(shop.another_catalog()).catalog().load_table("shop.b").append(rows(2))
    assert [1, 2] == shop.plain_ids("shop.b")


def test_a_void_record_of_a_time_of_its_own_is_not_archived_there(shop, monkeypatch):
    """Nothing of the log chains to it: above tidied-upto the head has all there is."""
    handle = shop.open(apply="next")
    handle.catalog().load_table("shop.b").append(rows(2))
    bad, _ = _append_bad(shop, monkeypatch, **{_entry.COMMIT_TS: "1"})
    assert void(_parts(shop), bad).told is None
    again = shop.open(shop.another_catalog())
    again.apply_le()
    assert [] == check_all(again.parts).violations


@pytest.mark.parametrize("of", ["commit_ts", "id"])
@pytest.mark.parametrize("archived", [False, True])
def test_a_void_record_does_not_stand_over_another_one(shop, monkeypatch, of, archived):
    """It has the `commit_ts` or the id of an acknowledged one, which counts, and not it."""
    handle = shop.open(apply="next")
    with handle.begin(txn_id="mine") as txn:
        txn.load_table("shop.b").append(rows(2))
    good = handle.upper
    if archived:
        handle.apply_le()
        handle.tidy()
        handle.catalog().load_table("shop.a").append(rows(2))
    same = dict.fromkeys(SAME, str(good))
    wrong = {_entry.TXN_ID: "mine", _entry.ISOLATION: "chaos"} if of == "id" else same
    bad, _ = _append_bad(shop, monkeypatch, **wrong)
    assert void(_parts(shop), bad).told is None
    again = shop.open(shop.another_catalog())
    with again.begin(txn_id="mine") as txn:
        txn.load_table("shop.b").append(rows(2))
    again.apply_le()
    assert again.tidy()
    assert [1, 2] == shop.plain_ids("shop.b")
    assert "mine" in {one["txn_id"] for one in again.transactions()}
    assert [] == check_all(again.parts).violations


def _dropped_below_a_void_record(shop, monkeypatch) -> txns.Handle:
    """1. a is dropped. 2. A record names it that nobody can read. 3. That is made void."""
    shop.open().catalog().drop_table("shop.a")
    _, ts = _append_bad(shop, monkeypatch, **{_entry.ISOLATION: "chaos"})
    void(_parts(shop), ts)
    return shop.open(shop.another_catalog())


def test_a_dropped_table_that_lacks_a_void_record_stays_dropped_by_adopt(shop, monkeypatch):
    """It stands at a marker, which is what adopt takes: nothing is left to reject."""
    handle = _dropped_below_a_void_record(shop, monkeypatch)
    with pytest.raises(txns.Unsupported, match="or adopt"):
        handle.repair_reject("shop.a")
    handle.repair_adopt("shop.a")
    assert [("shop", "a")] == handle.dropped()
    assert [] == check_all(handle.parts).violations
    handle.catalog().create_table("shop.a", SCHEMA).append(rows(5))
    assert [5] == ids(shop.open().snapshot().load_table("shop.a"))


def test_what_a_stranger_wrote_on_a_marker_is_not_adopted(shop, monkeypatch):
    """It is set aside by hand before: a purge takes what stands between two markers."""
    handle = _dropped_below_a_void_record(shop, monkeypatch)
    table = shop.catalog.load_table("shop.a")
    marker = table.current_snapshot().snapshot_id
    table.append(rows(7))
    with pytest.raises(txns.Unsupported, match=f"put `main` back .* snapshot=`{marker}`"):
        handle.repair_adopt("shop.a")
    theirs = shop.catalog.load_table("shop.a")
    with theirs.manage_snapshots() as refs:
        refs.create_branch(theirs.current_snapshot().snapshot_id, "theirs")
    with shop.catalog.load_table("shop.a").manage_snapshots() as refs:
        refs.set_current_snapshot(marker)
    handle.repair_adopt("shop.a")
    assert [("shop", "a")] == handle.dropped()
    assert [] == check_all(handle.parts).violations


def test_a_table_that_a_void_record_alone_names_is_not_taken_into_care(shop, monkeypatch):
    """It was never registered: it is its owner's as before, whom adopt tells to register it."""
    plain = shop.table("plain", [1], register=False)
    for times in range(2):  # the first one is no evidence for the second
        _append_bad(shop, monkeypatch, plain, **{_entry.TXN_ID: f"bad-{times}"})
        unread = {_entry.ISOLATION: "chaos", _entry.TXN_ID: f"worse-{times}"}
        _append_bad(shop, monkeypatch, plain, **unread)
        records = shop.another_catalog().load_table("txns.commits").metadata.snapshots[-2:]
        for each in records:
            void_sound(_parts(shop), each.snapshot_id)
    handle = shop.open(shop.another_catalog())
    for repair in (handle.repair_adopt, handle.repair_reject):
        with pytest.raises(txns.Unsupported, match=r"`txns register shop\.plain`"):
            repair(plain)
    assert [1] == ids(handle.snapshot().load_table(plain))
    assert [] == check_all(handle.parts).violations
    handle.register(plain)
    handle.catalog().load_table(plain).append(rows(2))
    assert [1, 2] == shop.plain_ids(plain)


@pytest.mark.parametrize("deed", ["append", "overwrite"])
@pytest.mark.parametrize("named", [True, False])
def test_who_has_read_a_creation_that_is_void_does_not_commit(shop, deed, named):
    """Nobody would ever make the table: what was told to have committed would be nowhere."""
    shop.open(apply="next").catalog().create_table("shop.new", SCHEMA)
    txn = _begun_and_void(shop, "shop.new", deed, named=named)
    with pytest.raises(txns.Conflict, match="was made void"):
        txn.commit()
    assert [] == [one for one in shop.standing() if one.txn_id == "mine" and not one.is_abort]
    shop.open(shop.another_catalog()).catalog().create_table("shop.new", SCHEMA).append(rows(2))
    assert [2] == shop.plain_ids("shop.new")


def test_what_stands_on_a_creation_that_is_void_is_named(shop):
    """Nobody applies it, so it would stand in the log for good, and nothing told of it."""
    handle = shop.open(apply="next")
    handle.catalog().create_table("shop.new", SCHEMA)
    created = handle.upper
    handle.catalog().load_table("shop.new").append(rows(1))
    alone = handle.upper
    with handle.begin() as txn:
        txn.load_table("shop.new").append(rows(2))
        txn.load_table("shop.b").append(rows(2))
    left = void_sound(_parts(shop), created).stranded
    assert [alone, handle.upper] == [one.commit_ts for one in left]
    found = check_all(shop.open(shop.another_catalog()).parts).violations
    for ts, one in zip((alone, handle.upper), found, strict=True):
        assert f"`txns recover --void {ts}`" in one.words
    assert 1 == len(void(_parts(shop), alone).stranded)
    assert () == void(_parts(shop), handle.upper).stranded
    again = shop.open(shop.another_catalog())
    again.repair_adopt("shop.b")
    assert [] == check_all(again.parts).violations


@pytest.mark.parametrize("stands", ["renamed", "dropped"])
@pytest.mark.parametrize("known", ["in the head", "in the archive"])
def test_what_a_table_has_that_somebody_renamed_is_not_taken_out(shop, stands, known):
    """
    It is applied, and the table shows it, under its new name: that was named as one of nobody's.

    1. A registered table is written, and that is applied. 2. A plain catalog renames or drops it.
    3. Somebody makes another record void, and looks.
    """
    handle = shop.open()
    if known == "in the archive":
        handle.tidy()
    with handle.begin() as txn:
        txn.load_table("shop.a").append(rows(2))
        txn.load_table("shop.b").append(rows(2))
    if stands == "renamed":
        shop.catalog.rename_table("shop.a", "shop.c")
    else:
        shop.catalog.drop_table("shop.a")
    handle = shop.open(shop.another_catalog())
    handle.catalog().load_table("shop.b").append(rows(3))
    assert () == void_sound(_parts(shop), handle.upper).stranded
    found = check_all(shop.open(shop.another_catalog()).parts).violations
    assert [] == [one for one in found if "recover --void" in one.words]


@pytest.mark.parametrize("named", [True, False])
def test_who_has_read_a_change_that_is_void_does_not_write_over_it(shop, named):
    """Nor where the record did not tell its tables, so that none lacks anything."""
    shop.open(apply="next").catalog().load_table("shop.b").append(rows(2))
    txn = _begun_and_void(shop, "shop.b", "overwrite", named=named)
    error, why = (txns.Quarantined, "set back") if named else (txns.Conflict, "was made void")
    with pytest.raises(error, match=why):
        txn.commit()
    assert [] == [one for one in shop.standing() if one.txn_id == "mine" and not one.is_abort]


def test_who_has_read_a_change_that_is_void_appends_to_what_is_left(shop):
    """Its rows do not depend on what the record did, and its tables were not told."""
    shop.open(apply="next").catalog().load_table("shop.b").append(rows(2))
    txn = _begun_and_void(shop, "shop.b", "append", named=False)
    txn.commit()
    assert [1, 9] == shop.plain_ids("shop.b")
    assert [] == check_all(shop.open(shop.another_catalog()).parts).violations


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
@pytest.mark.parametrize("creation", [True, False])
def test_what_was_made_of_a_void_record_is_not_committed(shop, creation, isolation, named):
    """It has read what never was, and writes another table by it."""
    lazy = shop.open(apply="next").catalog()
    table = lazy.create_table("shop.new", SCHEMA) if creation else lazy.load_table("shop.a")
    if not creation:
        table.append(rows(2))
    txn = shop.open(shop.another_catalog(), apply="inline").begin(isolation=isolation)
    read = txn.load_table("shop.new" if creation else "shop.a").scan().to_arrow()
    txn.load_table("shop.b").append(read)
    _make_newest_void(shop, named=named)
    with pytest.raises(txns.Conflict, match="that it read lacks what it was read with"):
        txn.commit()
    assert [1] == shop.plain_ids("shop.b")


def test_a_replica_that_lags_is_asked_again_for_what_was_read(shop, monkeypatch):
    """It gives the table as it was before what was read was applied to it."""
    shop.open(apply="next").catalog().load_table("shop.a").append(rows(2))
    catalog = shop.another_catalog()
    txn = shop.open(catalog, apply="inline").begin(isolation="snapshot")
    txn.load_table("shop.b").append(txn.load_table("shop.a").scan().to_arrow())
    load, older = catalog.load_table, [shop.another_catalog().load_table("shop.a")] * 3
    handle = shop.open()
    handle.apply_le()
    assert handle.tidy()

    def lags(name):
        return older.pop() if tuple(name) == ("shop", "a") and older else load(name)

    monkeypatch.setattr(catalog, "load_table", lags)
    txn.commit()
    assert ([], [1, 1, 2]) == (older, sorted(shop.plain_ids("shop.b")))


def test_what_was_read_before_it_was_applied_is_there_afterwards(shop):
    """It has left the head as ever: it is applied, and archived."""
    shop.open(apply="next").catalog().load_table("shop.a").append(rows(2))
    txn = shop.open(shop.another_catalog()).begin(isolation="snapshot")
    txn.load_table("shop.b").append(txn.load_table("shop.a").scan().to_arrow())
    handle = shop.open()
    handle.apply_le()
    handle.tidy()
    assert not shop.standing()
    txn.commit()
    assert [1, 1, 2] == shop.plain_ids("shop.b")


def _begun_and_void(shop, table: str, deed: str, *, named: bool) -> txns.Transaction:
    """Begin above the newest record, write a table that it changes, and make the record void."""
    txn = shop.open(shop.another_catalog(), apply="inline").begin(txn_id="mine")
    getattr(txn.load_table(table), deed)(rows(9))
    _make_newest_void(shop, named=named)
    return txn


def _make_newest_void(shop, *, named: bool) -> None:
    log = shop.open().parts.log.load()
    snapshot_id = log.snapshot_ids[log.upper]
    if not named:
        _rewritten(shop, snapshot_id, {_change.TABLES: "{"})
    void_sound(_parts(shop), snapshot_id)
