"""Conflicts by file (docs/isolation.md): different files and partitions do not clash."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile, clear_manifest_cache
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

import txns
from tests.pairs import delete_files
from tests.pairs.run import Tally, run
from tests.txns.lake import rows
from txns._admin.invariants import check_all
from txns._stage.staged_table import StagedTable
from txns._verify.compaction import compact
from txns._verify.statements import SCHEMA

if TYPE_CHECKING:
    from tests.txns.lake import Lake

PARTITION = delete_files.PARTITION
LEVELS = ["SNAPSHOT", "SERIALIZABLE", "STRICT SERIALIZABLE"]


def _day(day: int, *numbers: int) -> pa.Table:
    rows = [{"id": number, "day": day, "amount": 0} for number in numbers]
    return pa.Table.from_pylist(rows, SCHEMA)


def _two_days(lake: Lake, name: str) -> str:
    """A table by days, with two rows on each of two days, in files of their own."""
    table = lake.catalog.create_table(f"shop.{name}", SCHEMA)
    with table.update_spec() as update:
        update.add_field("day", IdentityTransform())
    for day in (1, 2):
        table.append(_day(day, 10 * day, 10 * day + 1))
    return f"shop.{name}"


@pytest.fixture
def days(lake: Lake) -> str:
    """Such a table, under care."""
    lake.open().register(_two_days(lake, "days"))
    return "shop.days"


def _delete(table, day):
    table.delete(f"day = {day} and id = {day}0")


def _delete_day(table, day):
    table.delete(f"day = {day}")


def _overwrite(table, day):
    table.overwrite(_day(day, 10 * day + 5), f"day = {day}")


def _replace(table, day):
    table.dynamic_partition_overwrite(_day(day, 10 * day + 5))


def _upsert(table, day):
    changed = _day(day, 10 * day, 10 * day + 7)
    table.upsert(changed.set_column(2, "amount", pa.array([5, 5], pa.int64())), ["day", "id"])


def _read_and_append(table, day):
    most = max(table.scan(f"day = {day}").to_arrow()["id"].to_pylist())
    table.append(_day(day, most + 1))


def _several(table, day):
    _delete(table, day)
    table.append(_day(day, 10 * day + 8))
    table.delete(f"day = {day} and id = {day}8")


WRITES = [_delete, _delete_day, _overwrite, _replace, _upsert, _read_and_append, _several]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("write", WRITES)
def test_two_days_do_not_clash(lake, handle, days, write, level):
    """Both commit, and the table is as one after the other leaves it."""
    alone = _two_days(lake, "alone")
    for day in (1, 2):
        write(lake.catalog.load_table(alone), day)
    one, two = (handle.begin(isolation=level) for _ in range(2))
    write(one.load_table(days), 1)
    write(two.load_table(days), 2)
    two.commit()
    one.commit()
    assert lake.plain_ids(alone) == lake.plain_ids(days)
    assert [] == check_all(handle.parts).violations


@pytest.mark.parametrize("write", WRITES)
def test_the_same_day_clashes(lake, handle, days, write):
    """The error names the table, the filter or the file, and who came first."""
    one, two = handle.begin(comment="nightly"), handle.begin()
    other = handle.begin(comment="somebody else's day")
    write(one.load_table(days), 1)
    write(two.load_table(days), 1)
    _overwrite(other.load_table(days), 2)
    one.commit()
    other.commit()
    before = lake.plain_ids(days)
    with pytest.raises(txns.Conflict, match=r"day|files that it replaced") as raised:
        two.commit()
    assert (one.txn_id, "nightly") == (raised.value.other_txn_id, raised.value.other_comment)
    assert before == lake.plain_ids(days)


@pytest.mark.parametrize("write", WRITES[:-1])
def test_by_table_two_days_clash(handle, days, write):
    """`conflicts="table"`, for one transaction."""
    one, two = handle.begin(), handle.begin(conflicts="table")
    write(one.load_table(days), 1)
    write(two.load_table(days), 2)
    one.commit()
    with pytest.raises(txns.Conflict):
        two.commit()


@pytest.mark.parametrize("write", WRITES[:-1])
def test_a_table_says_that_its_days_clash(handle, days, write):
    """By its property, until that is taken back, whatever a transaction says."""
    with handle.catalog().load_table(days).transaction() as change:
        change.set_properties({"txns.conflicts": "table"})
    one, two = handle.begin(), handle.begin(conflicts="file")
    write(one.load_table(days), 1)
    write(two.load_table(days), 2)
    one.commit()
    with pytest.raises(txns.Conflict):
        two.commit()
    with handle.catalog().load_table(days).transaction() as change:
        change.remove_properties("txns.conflicts")
    one, two = handle.begin(), handle.begin()
    _overwrite(one.load_table(days), 1)
    _overwrite(two.load_table(days), 2)
    one.commit()
    two.commit()


def test_what_a_table_may_not_say_is_refused(handle, days):
    for value in ("row", ""):
        change = handle.catalog().load_table(days).transaction()
        with pytest.raises(txns.InvalidUsage, match=r"txns\.conflicts"):
            change.set_properties({"txns.conflicts": value}).commit_transaction()
    with pytest.raises(txns.InvalidUsage, match="conflicts"):
        handle.begin(conflicts="")


def test_a_handle_goes_by_tables(lake, days):
    handle = lake.open(conflicts="table")
    one, two = handle.begin(), handle.begin()
    _delete(one.load_table(days), 1)
    _delete(two.load_table(days), 2)
    one.commit()
    with pytest.raises(txns.Conflict, match="wrote over"):
        two.commit()


@pytest.mark.parametrize("wrong", ["files", "", "FILE"])
def test_a_wrong_choice_is_refused(lake, handle, wrong):
    with pytest.raises(txns.InvalidUsage, match="known=`file, table`"):
        lake.open(conflicts=wrong)
    if wrong:
        with pytest.raises(txns.InvalidUsage, match="known=`file, table`"):
            handle.begin(conflicts=wrong)


READS = {
    "a filter": lambda table: table.scan("day = 1").to_arrow(),
    "an object": lambda table: table.scan(AlwaysTrue()).filter("day = 1").count(),
    "letters": lambda table: table.scan("DAY = 1", case_sensitive=False).to_arrow(),
    "a batch reader": lambda table: table.scan("day = 1").to_arrow_batch_reader().read_all(),
}


@pytest.mark.parametrize("read", READS.values(), ids=list(READS))
@pytest.mark.parametrize("day", [1, 2])
def test_what_was_read_is_held_against_files(lake, handle, days, read, day):
    """A reader of the first day, who writes elsewhere, loses to a writer of that day alone."""
    elsewhere = lake.table("elsewhere")
    txn = handle.begin()
    read(txn.load_table(days))
    txn.load_table(elsewhere).append(pa.table({"id": [1], "name": ["x"]}))
    with handle.begin() as other:
        other.load_table(days).append(_day(day, 99))
    if day == 2:
        txn.commit()
        assert [1] == lake.plain_ids(elsewhere)
        return
    with pytest.raises(txns.Conflict, match="a table that it read was written"):
        txn.commit()


WIDER = {
    "no filter": lambda table: table.scan().to_arrow(),
    "a wider one": lambda table: table.scan("day = 1").update(row_filter="day = 2").to_arrow(),
    "a branch": lambda table: table.scan("day = 1").use_ref("main").to_arrow(),
    "its snapshot": lambda table: table.scan("day = 1").snapshot(),
    "the newest snapshot": lambda table: table.current_snapshot(),
    "its files": lambda table: table.inspect.files(),
    "no snapshot's id": lambda table: table.scan("day = 1 or day = 2", snapshot_id=0).count(),
}


@pytest.mark.parametrize("read", WIDER.values(), ids=list(WIDER))
def test_whoever_reads_more_has_read_more(lake, handle, days, read):
    elsewhere = lake.table("elsewhere")
    txn = handle.begin()
    read(txn.load_table(days))
    txn.load_table(elsewhere).append(pa.table({"id": [1], "name": ["x"]}))
    with handle.begin() as other:
        other.load_table(days).append(_day(2, 99))
    with pytest.raises(txns.Conflict, match="a table that it read was written"):
        txn.commit()


def test_names_mean_what_they_meant_when_it_read(lake, handle, days):
    """It renames columns, reads by the new names, and goes back: they are others' again."""
    elsewhere = lake.table("elsewhere")
    txn = handle.begin()
    txn.savepoint("before")
    table = txn.load_table(days)
    for old, new in (("amount", "was"), ("id", "amount")):
        with table.update_schema() as update:
            update.rename_column(old, new)
    assert 1 == table.scan("amount = 10").count()
    txn.rollback_to("before")
    txn.load_table(elsewhere).append(pa.table({"id": [1], "name": ["x"]}))
    with handle.begin() as other:
        other.load_table(days).append(_day(3, 10))
    with pytest.raises(txns.Conflict, match="a table that it read was written"):
        txn.commit()


def test_a_file_that_comes_again_is_a_change(lake, handle, days):
    """Somebody adds a file that the table has, into a manifest with all the others."""
    elsewhere = lake.table("elsewhere")
    _have_names(handle, days, {"commit.manifest-merge.enabled": "true"} | _MERGES)
    txn = handle.begin()
    table = txn.load_table(days)
    here = [task.file.file_path for task in table.scan("day = 1").plan_files()]
    txn.load_table(elsewhere).append(pa.table({"id": [1], "name": ["x"]}))
    with handle.begin() as other:
        other.load_table(days).add_files(here, check_duplicate_files=False)
    with pytest.raises(txns.Conflict, match="a table that it read was written"):
        txn.commit()


_MERGES = {"commit.manifest.min-count-to-merge": "1"}


def _have_names(handle, table, properties=None) -> None:
    """Let files be added to a table without changing its properties."""
    with handle.begin() as txn, txn.load_table(table).transaction() as steps:
        names = steps.table_metadata.schema().name_mapping.model_dump_json()
        steps.set_properties({"schema.name-mapping.default": names, **(properties or {})})


def test_a_scan_that_never_ran_has_read_nothing(lake, handle, days):
    elsewhere = lake.table("elsewhere")
    txn = handle.begin()
    assert txn.load_table(days).scan() is not None
    txn.load_table(elsewhere).append(pa.table({"id": [1], "name": ["x"]}))
    with handle.begin() as other:
        other.load_table(days).append(_day(2, 99))
    txn.commit()


@pytest.mark.parametrize("way", delete_files.WAYS)
def test_marked_rows_are_changed_rows(lake, handle, days, way):
    """Delete files of others: of the day that was written, or another one."""
    for day, clashes in ((1, True), (2, False)):
        txn = handle.begin()
        _delete(txn.load_table(days), 1)
        with handle.begin() as other:
            marked = other.load_table(days)
            delete_files.mark(
                marked, lambda row, day=day: (row.id, row.day) == (10 * day + 1, day), way=way
            )
        if clashes:
            with pytest.raises(txns.Conflict):
                txn.commit()
        else:
            txn.commit()
    assert [] == [number for number in lake.plain_ids(days) if number in {10, 11, 21}]


def test_one_file_marks_rows_of_two_days(handle, days, monkeypatch):
    """As deletion vectors do, which share a file and have no bounds."""
    txn = handle.begin()
    _delete(txn.load_table(days), 1)
    with handle.begin() as other, monkeypatch.context() as patch:
        made, paths = DataFile.from_args, []

        def shared(**fields):
            paths.append(fields["file_path"])
            return made(**{**fields, "file_path": paths[0]})

        patch.setattr(DataFile, "from_args", shared)
        delete_files.mark(other.load_table(days), lambda row: row.id in {11, 21}, way=PARTITION)
    with pytest.raises(txns.Conflict):
        txn.commit()


@pytest.mark.parametrize("way", delete_files.WAYS)
@pytest.mark.parametrize("level", LEVELS)
def test_marks_count_for_the_file_that_they_are_of(lake, handle, days, way, level):
    """Of two files of one day, where the delete file says of which it is."""
    handle.catalog().load_table(days).append(_day(1, 12, 13))
    rewrites, reads = (handle.begin(isolation=level) for _ in range(2))
    _delete(rewrites.load_table(days), 1)
    _read_one_and_append(reads.load_table(days))
    with handle.begin() as other:
        delete_files.mark(other.load_table(days), lambda row: row.id == 13, way=way)
    for txn in (reads, rewrites):
        if way == PARTITION:
            with pytest.raises(txns.Conflict, match="deletes-"):
                txn.commit()
        else:
            txn.commit()
    left = [10, 11, 12, 20, 21] if way == PARTITION else [11, 12, 20, 21, 99]
    assert left == lake.plain_ids(days)


def _read_one_and_append(table):
    assert 1 == table.scan("id = 10").count()
    table.append(_day(3, 99))


def test_marks_of_several_files_count_for_their_partition(handle, days):
    """Between whose paths that of any other file may be."""
    for number in (12, 13):
        handle.catalog().load_table(days).append(_day(1, number))
    for day, clashes in ((1, True), (2, False)):
        txn = handle.begin()
        _delete(txn.load_table(days), day)
        with handle.begin() as other:
            marked = other.load_table(days)
            delete_files.mark(marked, lambda row: row.id in {12, 13}, way=delete_files.TOGETHER)
        if clashes:
            with pytest.raises(txns.Conflict):
                txn.commit()
        else:
            txn.commit()


@pytest.mark.parametrize("named", ["file:///lake/nobody-knows.parquet", ""])
def test_marks_of_a_file_that_nobody_knows(handle, days, named, monkeypatch):
    """They count for their partition, as whatever does not say of which file it is."""
    handle.catalog().load_table(days).append(_day(1, 12, 13))
    for day in (2, 1):
        txn = handle.begin()
        _delete(txn.load_table(days), day)
        with handle.begin() as other, monkeypatch.context() as patch:
            made = DataFile.from_args
            patch.setattr(
                DataFile,
                "from_args",
                lambda made=made, **fields: made(**{**fields, "referenced_data_file": named}),
            )
            marked = other.load_table(days)
            delete_files.mark(marked, lambda row: row.id == 13, way=PARTITION)
        if day == 1:
            with pytest.raises(txns.Conflict):
                txn.commit()
        else:
            txn.commit()


def test_a_marked_file_that_is_gone_is_looked_up_where_it_was(handle, days):
    """Others mark rows of it and replace it: what was read is in neither."""
    handle.catalog().load_table(days).append(_day(1, 12, 13))
    for condition, clashes in (("id = 10", False), ("id = 13", True)):
        txn = handle.begin()
        assert txn.load_table(days).scan(condition).count() == 1
        txn.load_table(days).append(_day(3, 99))
        with handle.begin() as other:
            delete_files.mark(
                other.load_table(days), lambda row: row.id == 13, way=delete_files.BOUNDS
            )
        with handle.begin() as other:
            compact(other.load_table(days))
        if clashes:
            with pytest.raises(txns.Conflict):
                txn.commit()
        else:
            txn.commit()
            handle.catalog().load_table(days).append(_day(1, 13))


def test_a_compaction_wins_over_who_rewrites_its_files(handle, days):
    """It has the same rows, but other files; who wrote another day, or has read, is not touched."""
    handle.catalog().load_table(days).append(_day(1, 12))
    one, two, reader = (handle.begin() for _ in range(3))
    _delete(one.load_table(days), 1)
    _delete(two.load_table(days), 2)
    _read_and_append(reader.load_table(days), 1)
    with handle.begin() as other:
        compact(other.load_table(days))
    two.commit()
    reader.commit()
    with pytest.raises(txns.Conflict, match="files that it replaced or removed"):
        one.commit()


def test_a_changed_schema_is_a_conflict(handle, days):
    txn = handle.begin()
    _delete(txn.load_table(days), 1)
    with handle.begin() as other, other.load_table(days).update_schema() as update:
        update.add_column("more", LongType())
    with pytest.raises(txns.Conflict):
        txn.commit()


def test_more_than_files_is_a_conflict(handle, days):
    """An ALTER beside the DELETE: nobody knows how to make that again."""
    txn = handle.begin()
    _delete(txn.load_table(days), 1)
    with txn.load_table(days).transaction() as steps:
        steps.set_properties({"of": "mine"})
    with handle.begin() as other:
        _delete(other.load_table(days), 2)
    with pytest.raises(txns.Conflict, match="wrote over"):
        txn.commit()


def test_expired_snapshots_are_a_gap(lake, handle, days):
    """What happened since is not there any more: it may have been anything."""
    txn = handle.begin()
    _delete(txn.load_table(days), 1)
    for number in range(3):
        with handle.begin() as other:
            other.load_table(days).append(_day(2, 50 + number))
    handle.tidy()
    table = lake.catalog.load_table(days)
    base = txn.load_table(days).metadata.snapshots[-2].snapshot_id
    gone = [each.snapshot_id for each in table.snapshots()[:-1]]
    assert base in gone
    table.maintenance.expire_snapshots().by_ids(gone).commit()
    with pytest.raises(txns.Conflict):
        txn.commit()


@pytest.mark.parametrize("writes", [True, False])
def test_files_of_the_past_that_are_gone_are_a_gap(lake, handle, days, writes):
    """Who has expired what a transaction stands on has taken its manifests, too."""
    other = lake.table("other", [1])
    txn = handle.begin(isolation="SERIALIZABLE")
    table = txn.load_table(days)
    if writes:
        _delete(table, 1)
    else:
        table.scan("day = 1").to_arrow()
        txn.load_table(other).append(rows(2))
    lists = [lake.catalog.load_table(days).current_snapshot().manifest_list]
    with handle.begin() as later:
        later.load_table(days).append(_day(2, 51))
    for path in lists:
        lake.catalog.load_table(days).io.delete(path)
    clear_manifest_cache()
    with pytest.raises(txns.Conflict):
        txn.commit()


def test_nothing_is_left_of_what_was_made_again(lake, handle, days):
    """Lists and manifests of the first make, and files that came and went within it."""
    txn = handle.begin()
    _several(txn.load_table(days), 1)
    with handle.begin() as other:
        _delete_day(other.load_table(days), 2)
    txn.commit()
    assert [] == _orphans(lake, days)
    assert [11] == lake.plain_ids(days)


@pytest.mark.parametrize("write", [_several, lambda table, day: table.append(_day(day, 15))])
def test_nothing_is_left_of_what_could_not_be_made_again(lake, handle, days, write, monkeypatch):
    """The storage fails in the midst of it; the commit is tried once more."""
    txn = handle.begin()
    write(txn.load_table(days), 1)
    with handle.begin() as other:
        _delete_day(other.load_table(days), 2)
    with monkeypatch.context() as patch:
        patch.setattr(StagedTable, "stage", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            txn.commit()
    txn.commit()
    assert [] == _orphans(lake, days)


def _orphans(lake, name) -> list[str]:
    """Give the files of a table that no snapshot of it names."""
    table = lake.catalog.load_table(name)
    known = set(table.inspect.all_files()["file_path"].to_pylist())
    known |= set(table.inspect.all_manifests()["path"].to_pylist())
    known |= {each.manifest_list for each in table.snapshots()}
    named = {path.removeprefix("file://") for path in known}
    return [
        path
        for path in lake.files()
        if "/days/" in path and not path.endswith(".metadata.json") and path not in named
    ]


def test_files_that_it_did_not_write_stay(lake, handle, days):
    """One of a program's own that came and went within it, and one that the table has twice."""
    own = lake.folder / "own.parquet"
    pq.write_table(_day(1, 15), own)
    _have_names(handle, days)
    with handle.begin() as txn:
        both = pa.concat_tables([_day(1, 12), _day(4, 40)])
        txn.load_table(days).append(both)  # into one manifest
        tasks = txn.load_table(days).scan("day = 4").plan_files()
        again = [task.file.file_path for task in tasks]
    txn = handle.begin()
    table = txn.load_table(days)
    table.delete("day = 1 and id in (10, 12)")
    table.add_files([f"file://{own}"], check_duplicate_files=False)
    table.delete("day = 1 and id = 15")
    for _ in range(2):
        table.add_files(again, check_duplicate_files=False)
    with handle.begin() as other:
        _overwrite(other.load_table(days), 2)
    txn.commit()
    assert [11, 25, 40, 40, 40] == lake.plain_ids(days)
    assert own.exists()


def test_partitions_in_summaries_are_counted_again(lake, handle, days):
    with handle.begin() as txn, txn.load_table(days).transaction() as steps:
        steps.set_properties({"write.summary.partition-limit": "9"})
    txn = handle.begin()
    txn.load_table(days).delete("day = 1", {"job": "nightly"})
    txn.load_table(days).append(_day(3, 30))
    with handle.begin() as other:
        _overwrite(other.load_table(days), 2)
    txn.commit()
    told = lake.catalog.load_table(days).current_snapshot().summary.additional_properties
    assert "nightly" == told["job"]
    assert {"partitions.day=1", "partitions.day=3"} == {
        key for key in told if key.startswith("partitions.")
    }


def test_a_drop_is_a_conflict(handle, days):
    """Its empty snapshot hides a table; what others wrote meanwhile is not in it."""
    txn = handle.begin()
    _delete(txn.load_table(days), 1)
    txn.drop_table(days)
    with handle.begin() as other:
        other.load_table(days).append(_day(3, 30))
    with pytest.raises(txns.Conflict, match="wrote over"):
        txn.commit()


def test_many_keys_of_a_dictionary(lake, handle):
    """Of which nobody tells the least one: any other write of the table may be of them."""
    names = pa.array([f"n{number}" for number in range(300)]).dictionary_encode()
    named = lake.table("named")
    txn = handle.begin()
    txn.load_table(named).upsert(pa.table({"id": range(300), "name": names}), ["name"])
    txn.commit()
    assert list(range(300)) == lake.plain_ids(named)


def test_one_attempt_of_many(lake, handle, days):
    """What is made again on one head is made again on the next, from what was staged."""
    txn = handle.begin()
    _delete(txn.load_table(days), 1)
    for _ in range(3):
        with handle.begin() as other:
            other.load_table(days).append(_day(2, 60))
    group = [handle.begin() for _ in range(3)]
    for number, each in enumerate(group):
        _overwrite(each.load_table(days), 5 + number)
    for each in (*group, txn):
        each.commit()
    assert {55, 65, 75, 11} <= set(lake.plain_ids(days))
    assert 10 not in lake.plain_ids(days)
    assert [] == check_all(handle.parts).violations


def test_random_pairs_against_brute_force(tmp_path):
    """`python -m tests.pairs` runs more of them."""
    seed = random.SystemRandom().randrange(10**6)
    tally = Tally()
    run(tmp_path, seed, 40, "file", tally)
    assert not tally.faults, f"seed {seed}: {tally}"
    assert tally.committed
    assert tally.true
