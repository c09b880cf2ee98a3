"""What strangers append is adopted by whoever writes the table next (docs/spec.md 9.3)."""

from __future__ import annotations

import threading
from itertools import count
from typing import TYPE_CHECKING
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

import txns
from tests.simulation.rows import replace_files
from tests.txns.lake import SCHEMA, ids, rows
from txns._admin.invariants import check_all
from txns._commit.group import ADOPTIONS_MAX
from txns._iceberg import snapshots
from txns._log.entry import Kind

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

    from tests.txns.lake import Lake

BESIDE = 100
"""Ids of strangers' rows are this and more."""

OFFSETS = "kafka.connect.offsets.orders"


@pytest.fixture(params=["inline", "atomic"])
def ours(lake: Lake, request: pytest.FixtureRequest) -> txns.Handle:
    return lake.open(apply=request.param)


def kinds(handle: txns.Handle) -> list[str]:
    """Give what the log says has happened, from the first transaction on."""
    entries = {row["commit_ts"]: row["kind"] for row in handle.transactions()}
    return [kind for _, kind in sorted(entries.items()) if kind in {"commit", "adopt"}]


def appends(lake: Lake, name: str, *values: int) -> None:
    """Append rows as an engine does that knows nothing of the protocol: again, where it lost."""
    table = lake.another_catalog().load_table(name)
    while True:
        try:
            return table.append(rows(*values))
        except CommitFailedException:
            table.refresh()


def compacts(lake: Lake, name: str, *but: int) -> None:
    """Rewrite the files of a table into one, but those that have some rows, as a service does."""
    table = lake.another_catalog().load_table(name)
    held = {
        task.file: pq.read_table(task.file.file_path.removeprefix("file://"))
        for task in table.scan().plan_files()
    }
    old = [file for file, of_file in held.items() if not {*but} & {*of_file["id"].to_pylist()}]
    batch = pa.concat_tables([held[file] for file in old]).cast(SCHEMA)
    (made,) = _dataframe_to_data_files(table.metadata, batch, table.io)
    replace_files(table, old, [made])


def is_clean(handle: txns.Handle) -> bool:
    return not check_all(handle.parts).violations


# ------------------------------------------------------------------ one commit


def test_who_only_appends_goes_on(lake, ours):
    """What a stranger appends meanwhile costs nobody anything."""
    a = lake.table("a", [1])
    with ours.begin() as txn:
        txn.load_table(a).append(rows(2))
        appends(lake, a, BESIDE)
    assert [1, 2, BESIDE] == ids(ours.snapshot().load_table(a)) == lake.plain_ids(a)
    assert {"adopt", "commit"} == set(kinds(ours))
    assert is_clean(ours)


def test_who_has_read_the_rows_of_the_table_clashes(lake, ours):
    """An adoption is an entry like any other, before who finds it: he tries again."""
    a = lake.table("a", [1])

    def copies_the_greatest() -> None:
        with ours.begin() as txn:
            table = txn.load_table(a)
            greatest = max(ids(table))
            tries.append(greatest)
            if len(tries) == 1:
                appends(lake, a, BESIDE)
            table.append(rows(greatest + 1))

    tries: list[int] = []
    with pytest.raises(txns.Conflict, match="read and appended"):
        copies_the_greatest()
    copies_the_greatest()
    assert [1, BESIDE, BESIDE + 1] == lake.plain_ids(a)
    assert ["adopt", "commit"] == kinds(ours)


def test_who_has_read_other_rows_does_not(lake, ours):
    """Files tell, as with an entry of a transaction."""
    a = lake.table("a", [1, 2])
    with ours.begin() as txn:
        txn.load_table(a).delete("id = 1")
        appends(lake, a, BESIDE)
    assert [2, BESIDE] == ids(ours.snapshot().load_table(a)) == lake.plain_ids(a)
    assert ["adopt", "commit"] == kinds(ours)


def test_an_overwrite_of_the_whole_table_does(lake, ours):
    """It would take away rows that it has not seen."""
    a = lake.table("a", [1])
    txn = ours.begin()
    txn.load_table(a).overwrite(rows(9))
    appends(lake, a, BESIDE)
    with pytest.raises(txns.Conflict):
        txn.commit()
    assert [1, BESIDE] == ids(ours.snapshot().load_table(a)) == lake.plain_ids(a)


@pytest.mark.parametrize("deed", ["append", "delete", "overwrite", "upsert"])
def test_one_operation_sees_what_was_there_before_it(lake, ours, deed):
    """Outside a transaction it is adopted when the operation begins."""
    a = lake.table("a", [1])
    appends(lake, a, BESIDE)
    table = ours.catalog().load_table(a)
    assert [1] == ids(table)
    if deed == "append":
        table.append(rows(2))
    elif deed == "delete":
        table.delete(f"id = {BESIDE}")
    elif deed == "overwrite":
        table.overwrite(rows(2))
    else:
        table.upsert(rows(BESIDE, 2), join_cols=["id"])
    expected = {"append": [1, 2, BESIDE], "delete": [1], "overwrite": [2]}
    assert expected.get(deed, [1, 2, BESIDE]) == lake.plain_ids(a)
    assert "adopt" == kinds(ours)[0]


def test_one_operation_sees_what_others_adopt_at_that_moment(lake, ours):
    """1. A table is loaded, and shows a stranger's row. 2. Others adopt it. 3. It is written."""
    a = lake.table("a", [1])
    others = lake.open(lake.another_catalog()).parts.committer
    committer = ours.parts.committer
    adopt = committer.adopt

    def adopted_late(table):
        others.adopt(table)
        return adopt(table)

    appends(lake, a, BESIDE)
    table = ours.catalog().load_table(a)
    with mock.patch.object(committer, "adopt", adopted_late):
        table.overwrite(rows(2))
    assert [2] == ids(ours.snapshot().load_table(a)) == lake.plain_ids(a)


def test_a_drop_and_a_rename_come_after_what_was_there_before(lake, ours):
    """Nobody is told of a repair first."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    for name in (a, b):
        appends(lake, name, BESIDE)
    ours.catalog().rename_table(a, "shop.c")
    ours.catalog().drop_table(b)
    assert [1, BESIDE] == ids(ours.snapshot().load_table("shop.c"))
    assert not ours.catalog().table_exists(b)


def test_a_change_of_columns_is_tried_again_behind_it(lake, ours):
    """The retry of a single operation finds it adopted."""
    a = lake.table("a", [1])
    appends(lake, a, BESIDE)
    with ours.catalog().load_table(a).update_schema() as update:
        update.add_column("more", StringType())
    assert [1, BESIDE] == ids(ours.snapshot().load_table(a))


def test_readers_wait_for_nobody(lake, ours):
    """They stay on the log's state until somebody has adopted."""
    a = lake.table("a", [1])
    appends(lake, a, BESIDE)
    assert [1] == ids(ours.snapshot().load_table(a)) == ids(ours.catalog().load_table(a))
    with ours.begin(read_only=True) as txn:
        assert [1] == ids(txn.load_table(a))
    assert [] == kinds(ours)


def test_two_who_adopt_make_one_entry(lake, ours):
    """1. Both have looked. 2. Each commits what it has made of it."""
    a = lake.table("a", [1])
    appends(lake, a, BESIDE)
    others = lake.open(lake.another_catalog())
    asked = [each.parts.adoption.due(("shop", "a")) for each in (ours, others)]
    made = [
        each.parts.committer.commit_once(one)
        for each, one in zip((ours, others), asked, strict=True)
    ]
    assert made[0] == made[1]
    ours.apply_le()
    assert [1, BESIDE] == lake.plain_ids(a)


def test_a_stranger_who_appends_again_and_again_stops_nobody(lake, ours):
    """So often a commit adopts; then it goes on beside them, and the rest is adopted after it."""
    a = lake.table("a", [1])
    committer, values = ours.parts.committer, count(BESIDE)
    adopt = committer.adopt

    def adopted_late(table):
        made = adopt(table)
        if values.__reduce__()[1][0] < BESIDE + 3 * ADOPTIONS_MAX:
            appends(lake, a, next(values))
        return made

    txn = ours.begin()
    txn.load_table(a).append(rows(2))
    appends(lake, a, next(values))
    with mock.patch.object(committer, "adopt", adopted_late):
        txn.commit()
    committer.adopt(("shop", "a"))
    last = next(values)
    assert [1, 2, *range(BESIDE, last)] == ids(ours.snapshot().load_table(a)) == lake.plain_ids(a)
    assert is_clean(ours)


def test_programs_find_how_far_they_have_come(lake, ours):
    """Their words are in the history of `main`: Kafka Connect goes by them."""
    a = lake.table("a", [1])
    plain = lake.another_catalog().load_table(a)
    plain.append(rows(BESIDE), snapshot_properties={OFFSETS: "1", "kafka.connect.task": "x"})
    plain.append(rows(BESIDE + 1), snapshot_properties={OFFSETS: "2"})
    ours.catalog().load_table(a).append(rows(2))
    assert ["2", "1"] == _said(lake, a, OFFSETS)
    assert ["x"] == _said(lake, a, "kafka.connect.task")


def test_several_programs_of_one_kind_find_how_far_each_has_come(lake, ours):
    """
    Else one that begins again would append once more what was adopted.

    1. Two jobs append to one table. 2. Somebody adopts both. 3. Each looks from `main` down for the
    newest snapshot of its own, as Flink's sink does.
    """
    a = lake.table("a", [1])
    plain = lake.another_catalog().load_table(a)
    for job, checkpoint in (("one", 6), ("two", 3), ("one", 7), ("two", 4)):
        said = {"flink.job-id": job, "flink.max-committed-checkpoint-id": str(checkpoint)}
        plain.append(rows(BESIDE + checkpoint), snapshot_properties=said)
    ours.catalog().load_table(a).append(rows(2))
    jobs = _said(lake, a, "flink.job-id")
    checkpoints = _said(lake, a, "flink.max-committed-checkpoint-id")
    assert {"one": "6", "two": "3"} | {"one": "7", "two": "4"} == dict(
        zip(reversed(jobs), reversed(checkpoints), strict=True)
    )
    assert ["adopt", "commit"] == kinds(ours)
    assert is_clean(ours)


def test_to_iceberg_what_is_adopted_was_cherry_picked(lake, ours):
    """
    Expiry up to Iceberg 1.9 deletes what an expired snapshot beside main's history has added.

    Unless a snapshot of that history names it as its source. One that was cherry-picked itself has
    another source, which is named as well.
    """
    a = lake.table("a", [1])
    plain = lake.another_catalog().load_table(a)
    plain.append(rows(BESIDE))
    plain.append(rows(BESIDE + 1), snapshot_properties={"source-snapshot-id": "77"})
    first, second = plain.snapshots()[-2:]
    ours.catalog().load_table(a).append(rows(2))
    sources = [str(each.snapshot_id) for each in (second, first)]
    assert [sources[0], "77", sources[1]] == _said(lake, a, "source-snapshot-id")
    assert sources == _said(lake, a, "txns.adopted")
    line = {at.snapshot_id for at in _line(lake, a)}
    assert not line & {first.snapshot_id, second.snapshot_id}
    assert [1, 2, BESIDE, BESIDE + 1] == lake.plain_ids(a)
    assert is_clean(ours)


def test_who_has_written_the_rows_is_said_by_them(lake, ours):
    """Whose rows they are the summary says, and the log who has adopted them."""
    a = lake.table("a", [1])
    plain = lake.another_catalog().load_table(a)
    plain.append(rows(BESIDE), snapshot_properties={"engine-name": "flink", "iceberg-version": "1"})
    theirs = plain.snapshots()[-1]
    ours.catalog().load_table(a).append(rows(2))
    (adopted,) = (at for at in _line(lake, a) if snapshots.summary_value(at, "txns.adopted"))
    stamp = {"txns.adopted", "txns.commit-ts", "txns.txn-id", "source-snapshot-id"}
    said = {key: word for key, word in snapshots.own_words(adopted).items() if key not in stamp}
    assert {"engine-name": "flink", "iceberg-version": "1"} == snapshots.own_words(theirs) == said


def _line(lake: Lake, name: str) -> list[Snapshot]:
    metadata = lake.another_catalog().load_table(name).metadata
    return [*ancestors_of(metadata.current_snapshot(), metadata)]


def _said(lake: Lake, name: str, key: str) -> list[str]:
    """Give what the history of `main` says under a key, the newest first."""
    words = [at.summary.additional_properties for at in _line(lake, name)]
    return [each[key] for each in words if key in each]


def test_who_has_lost_twice_goes_on_beside_them(lake, ours):
    """
    Else who reads a table for longer than a stranger pauses would lose each time.

    1. A transaction reads all of a table. 2. A stranger appends. 3. It commits: that is adopted,
    and it has lost; so at the second try. 4. At the third it comes before what is appended then.
    """
    a = lake.table("a", [1])
    values, tries = count(BESIDE), []

    def sums(txn):
        table = txn.load_table(a)
        tries.append(ids(table))
        table.append(rows(10 + len(tries)))
        appends(lake, a, next(values))

    txns.run_transaction(ours, sums)
    assert [[1], [1, BESIDE], [1, BESIDE, BESIDE + 1]] == tries
    expected = [1, 13, BESIDE, BESIDE + 1, BESIDE + 2]
    assert expected == ids(ours.snapshot().load_table(a)) == lake.plain_ids(a)
    assert ["adopt", "adopt", "commit", "adopt"] == kinds(ours)
    assert is_clean(ours)


def test_a_conflict_of_an_adoption_is_one_of_all_tries_under_the_id(lake):
    """1. Under the lock strangers' rows are met. 2. To adopt them clashes: an abort says so."""
    ours = lake.open(apply="atomic")
    a = lake.table("a", [1])
    txn = ours.begin(txn_id="nightly")
    txn.load_table(a).append(rows(2))
    appends(lake, a, BESIDE)
    clash = txns.Conflict("the table was created later", table=("shop", "a"), least_ts=1)
    with (
        mock.patch.object(ours.parts.adoption, "due", side_effect=clash),
        pytest.raises(txns.Conflict, match="created later"),
    ):
        txn.commit()
    assert ["nightly"] == [row["txn_id"] for row in ours.transactions() if row["kind"] == "abort"]


def test_what_is_adopted_from_a_branch_goes_by_files_as_well(lake):
    """
    The change takes the branch away, too, which alters the table by its word.

    1. An apply has kept a stranger's rows. 2. A transaction removes others. 3. They are adopted.
    """
    a = lake.table("a", [1, 2])
    later = lake.open(apply="next")
    later.catalog().load_table(a).append(rows(3))
    appends(lake, a, BESIDE)
    later.apply_le()
    txn = later.begin()
    txn.load_table(a).delete("id = 1")
    assert lake.open(lake.another_catalog()).parts.committer.adopt(("shop", "a"))
    txn.commit()
    assert [2, 3, BESIDE] == ids(later.snapshot().load_table(a))


# ------------------------------------------------------------------ what a person decides


def test_what_was_rejected_stays_where_it_is(lake, ours):
    """Nobody adopts it, not even behind rows that are adopted."""
    a = lake.table("a", [1])
    appends(lake, a, BESIDE)
    ours.repair_reject(a)
    for value in (2, 3):
        appends(lake, a, BESIDE + value)
        ours.catalog().load_table(a).append(rows(value))
        lake.open(lake.another_catalog()).catalog().load_table(a).append(rows(10 + value))
    expected = [1, 2, 3, 12, 13, BESIDE + 2, BESIDE + 3]
    assert expected == lake.plain_ids(a)
    branches = [name for name in lake.catalog.load_table(a).refs() if name != "main"]
    assert 1 == len(branches)


@pytest.mark.parametrize("deed", ["delete", "overwrite"])
def test_more_than_an_append_is_quarantine(lake, ours, deed):
    """A person looks at it, as ever."""
    a = lake.table("a", [1, 2])
    appends(lake, a, BESIDE)
    plain = lake.another_catalog().load_table(a)
    plain.delete("id = 1") if deed == "delete" else plain.overwrite(rows(7))
    with pytest.raises(txns.Quarantined, match="txns repair adopt") as raised:
        ours.catalog().load_table(a).append(rows(3))
    assert not isinstance(raised.value, txns.ForeignWrite)
    with pytest.raises(txns.Quarantined), ours.begin() as txn:
        txn.load_table(a).append(rows(3))


def test_rows_with_other_columns_are_a_foreign_write(lake, ours):
    """They cannot be adopted: writers are told so, and which column it is."""
    a = lake.table("a", [1])
    plain = lake.another_catalog().load_table(a)
    with plain.update_schema() as update:
        update.rename_column("name", "title")
    plain.append(rows(BESIDE).rename_columns(["id", "title"]))
    with plain.update_schema() as update:
        update.rename_column("title", "name")
    with pytest.raises(txns.ForeignWrite, match="`name` of the log is `title`"):
        ours.catalog().load_table(a).append(rows(2))
    txn = ours.begin()
    txn.load_table(a).append(rows(2))
    with pytest.raises(txns.ForeignWrite, match="`name` of the log is `title`"):
        txn.commit()
    assert [1] == ids(ours.snapshot().load_table(a))


def test_what_an_apply_has_kept_is_the_next_writers(lake):
    """1. A commit is not applied. 2. A stranger appends. 3. Somebody applies. 4. Another writes."""
    a = lake.table("a", [1])
    later = lake.open(apply="next")
    later.catalog().load_table(a).append(rows(2))
    appends(lake, a, BESIDE)
    later.apply_le()
    assert [1, 2] == lake.plain_ids(a)
    later.catalog().load_table(a).append(rows(3))
    assert [1, 2, 3, BESIDE] == ids(later.snapshot().load_table(a))
    later.apply_le()
    assert ["main"] == list(lake.catalog.load_table(a).refs())
    assert ["commit", "adopt", "commit"] == kinds(later)


def test_the_oldest_branch_is_adopted_first(lake):
    """
    Programs look from `main` down for how far they have come: the last is to stand above.

    1. Transactions are not applied. 2. For each a stranger appends, and it is applied. 3. Adopted.
    """
    a = lake.table("a", [1])
    later = lake.open(apply="next")
    begun = [later.begin() for _ in range(4)]
    for number, txn in enumerate(begun):
        txn.load_table(a).append(rows(10 + number))
    for number, txn in enumerate(begun):
        plain = lake.another_catalog().load_table(a)
        plain.append(rows(BESIDE + number), snapshot_properties={OFFSETS: str(number)})
        txn.commit()
        later.apply_le()
    assert 5 == len(lake.catalog.load_table(a).refs())
    later.parts.committer.adopt(("shop", "a"))
    later.apply_le()
    assert ["3", "2", "1", "0"] == _said(lake, a, OFFSETS)


def test_what_was_rejected_beside_an_unapplied_change_stays_where_it_is(lake, ours):
    """
    A reject is applied after what was outstanding, which takes main off the same rows.

    1. A transaction is not applied. 2. A stranger changes what it needs, and appends. 3. A person
    rejects that. 4. Another one writes the table.
    """
    a = lake.table("a", [1])
    later = lake.open(apply="next")
    with later.begin() as txn, txn.load_table(a).update_sort_order() as order:
        order.asc("id", IdentityTransform())
    with lake.another_catalog().load_table(a).update_sort_order() as order:
        order.asc("name", IdentityTransform())
    appends(lake, a, BESIDE)
    assert later.apply_le()
    later.repair_reject(a)
    assert [1] == lake.plain_ids(a)
    ours.catalog().load_table(a).append(rows(2))
    assert [1, 2] == lake.plain_ids(a)
    assert ["commit", "commit"] == kinds(ours)
    ours.repair_adopt(a)
    assert [1, 2, BESIDE] == lake.plain_ids(a)


def test_what_is_kept_with_other_columns_is_in_nobodys_way(lake, ours):
    """1. A column is renamed, which is not applied. 2. A stranger appends. 3. It is applied."""
    a = lake.table("a", [1])
    later = lake.open(apply="next")
    with later.begin() as txn, txn.load_table(a).update_schema() as update:
        update.rename_column("name", "title")
    appends(lake, a, BESIDE)
    later.apply_le()
    for value in (2, 3):
        with ours.begin() as txn:
            table = txn.load_table(a)
            table.append(rows(value).rename_columns(["id", "title"]))
            table.delete(f"id = {value - 1}")
    assert [3] == lake.plain_ids(a)
    assert 2 == len(lake.catalog.load_table(a).refs())
    with pytest.raises(txns.Unsupported, match="drop the branch"):
        ours.repair_adopt(a)


# ------------------------------------------------------------------ many, side by side


def _beside(lake: Lake, ours: txns.Handle, transactions: int) -> None:
    """Append in a thread, as fast as it goes, while transactions append, delete and read."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    over, written, failed = threading.Event(), [], []

    def stranger() -> None:
        try:
            for value in count(BESIDE * 100):
                if over.is_set():
                    return
                appends(lake, a, value)
                written.append(value)
                over.wait(0.02)
        except Exception as error:  # noqa: BLE001 -- told at the end
            failed.append(error)

    thread = threading.Thread(target=stranger)
    thread.start()
    try:
        for value in range(2, 2 + transactions):
            with ours.begin() as txn:
                txn.load_table(a).append(rows(value))
                txn.load_table(b).append(rows(value))
                if not value % 4:  # however rarely the thread comes by
                    appends(lake, a, BESIDE * 100 - value)
                    written.append(BESIDE * 100 - value)
    finally:
        over.set()
        thread.join()
    assert not failed
    while ours.parts.committer.adopt(("shop", "a")):
        pass  # what was appended meanwhile
    expected = [1, *range(2, 2 + transactions)]
    assert expected == lake.plain_ids(b)
    both = sorted([*expected, *written])
    assert both == ids(ours.snapshot().load_table(a)) == lake.plain_ids(a)
    of_all = kinds(ours)
    assert transactions == of_all.count("commit")
    assert of_all.count("adopt") > 1
    assert "adopt" in of_all[of_all.index("commit") : -1]
    assert is_clean(ours)


def test_a_stranger_beside_a_dozen_transactions(lake, ours):
    """Every row of both is there, and the log says in which order."""
    _beside(lake, ours, 12)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_stranger_beside_two_hundred_transactions(lake, ours):
    """The same for longer."""
    _beside(lake, ours, 200)


@pytest.mark.parametrize("reads", [False, True], ids=["appends", "deletes"])
def test_compaction_costs_no_transaction_more_than_a_restage(lake, ours, reads):
    """1. A transaction writes. 2. Files that it does not take away are compacted. 3. It commits."""
    a = lake.table("a", [1])
    for value in range(2, 8):
        txn = ours.begin()
        if reads:
            txn.load_table(a).append(rows(BESIDE + value))
            txn.load_table(a).delete(f"id = {BESIDE + value - 1}")
        else:
            txn.load_table(a).append(rows(value))
        compacts(lake, a, BESIDE + value - 1)
        if value % 2:  # and the log has gone on above what was compacted
            lake.open().catalog().load_table(a).append(rows(10 * BESIDE + value))
        txn.commit()
    found = [each for each in lake.plain_ids(a) if each < 10 * BESIDE]
    assert ([1, BESIDE + 7] if reads else [1, *range(2, 8)]) == found
    assert [10 * BESIDE + value for value in (3, 5, 7)] == lake.plain_ids(a)[len(found) :]
    assert Kind.ADOPT.value not in kinds(ours)
    assert is_clean(ours)
