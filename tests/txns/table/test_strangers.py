"""What others do to a table outside the protocol, and how it ends (docs/spec.md 9)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock
from urllib.parse import urlparse

import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotsUpdate, SetSnapshotRefUpdate
from pyiceberg.types import StringType

import txns
from tests.txns.lake import Lake, ids, rows

DAY_MS = 24 * 3600 * 1000


def test_an_append_is_left_out_and_adopted(lake, handle):
    """Readers stay on the logged state; adopt makes it an entry."""
    a = lake.table("a", [1])
    lake.catalog.load_table(a).append(rows(2))
    assert [1] == ids(handle.snapshot().load_table(a))
    ts = handle.repair_adopt(a)
    assert [1, 2] == ids(handle.snapshot(ts).load_table(a))
    assert [1] == ids(handle.snapshot(ts - 1).load_table(a))
    handle.catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == lake.plain_ids(a)


@pytest.mark.parametrize("deed", ["append", "delete"])
def test_reject_keeps_it_on_a_branch(lake, handle, deed):
    """The logged state goes back on main; nothing is lost."""
    a = lake.table("a", [1, 2])
    table = lake.catalog.load_table(a)
    table.append(rows(3)) if deed == "append" else table.delete("id = 1")
    theirs = lake.catalog.load_table(a)
    foreign, expected = theirs.metadata.current_snapshot_id, ids(theirs)
    assert [1, 2] == ids(handle.snapshot().load_table(a))
    handle.repair_reject(a)
    assert [1, 2] == lake.plain_ids(a)
    kept = lake.catalog.load_table(a)
    branch = f"txns-foreign-{foreign}"
    assert branch in kept.refs()
    scan = kept.scan(snapshot_id=kept.refs()[branch].snapshot_id)
    assert expected == sorted(scan.to_arrow()["id"].to_pylist())


def test_an_overwrite_is_quarantine_and_adopted(lake, handle):
    """Adopting takes the stranger's state as a snapshot of ours."""
    a = lake.table("a", [1, 2])
    lake.catalog.load_table(a).delete("id = 1")
    with pytest.raises(txns.Quarantined):
        handle.catalog().load_table(a).append(rows(3))
    handle.repair_adopt(a)
    assert [2] == ids(handle.snapshot().load_table(a))
    handle.catalog().load_table(a).append(rows(3))
    assert [2, 3] == lake.plain_ids(a)


def test_an_append_between_swap_and_apply(lake):
    """The logged run goes on main, the stranger on a branch, from where it is adopted."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    with handle.begin() as txn:
        txn.load_table(a).append(rows(2))
    lake.catalog.load_table(a).append(rows(50))
    assert [1, 2] == ids(handle.snapshot().load_table(a))
    assert [] == handle.apply_le()
    assert [1, 2] == lake.plain_ids(a)
    handle.repair_adopt(a)
    handle.apply_le()
    assert [1, 2, 50] == lake.plain_ids(a)
    assert [MAIN_BRANCH] == list(lake.catalog.load_table(a).refs())


def test_an_overwrite_between_swap_and_apply(lake):
    """COMMIT has succeeded, the table is quarantined, others go on; readers see the log."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    handle = lake.open(apply="next")
    with handle.begin() as txn:
        txn.load_table(a).append(rows(2))
        txn.load_table(b).append(rows(2))
    lake.catalog.load_table(a).delete("id = 1")
    assert [("shop", "a")] == handle.apply_le()
    assert ([1, 2], [1, 2]) == (
        ids(handle.snapshot().load_table(a)),
        ids(handle.snapshot().load_table(b)),
    )
    assert [1, 2] == lake.plain_ids(b)
    handle.repair_reject(a)
    assert [1, 2] == lake.plain_ids(a)


@dataclass
class Unmarked:
    """A table whose mark a stranger has taken while a transaction that writes it is open."""

    lake: Lake
    name: str
    open: txns.Transaction

    def register(self, meanwhile: str) -> None:
        """Register it; the transaction commits before a step of that, and is not applied yet."""
        handle = self.lake.open()
        of = handle.parts.log if meanwhile == "load" else handle.parts.registrar
        step = getattr(of, meanwhile)

        def late(*args):
            if self.open is not None:
                self.open, committing = None, self.open
                committing.commit()
            return step(*args)

        with mock.patch.object(of, meanwhile, late):
            handle.register(self.name)


@pytest.fixture
def unmarked(lake):
    a = lake.table("a")
    lake.open().catalog().load_table(a).append(rows(1))
    txn = lake.open(apply="next").begin()
    txn.load_table(a).append(rows(2))
    with lake.catalog.load_table(a).transaction() as t:
        t.remove_properties("txns.commit-table")
    return Unmarked(lake, a, txn)


@pytest.mark.parametrize("above", ["nothing", "append"])
def test_a_commit_between_a_mark_and_its_entry(unmarked, above):
    """
    What strangers appended below the mark is kept on a branch, like all that apply meets.

    1. A transaction stages an append. 2. A stranger takes the mark and appends. 3. The table is
    marked again. 4. The transaction commits, on what it had read. 5. The registration is logged.
    """
    lake, a = unmarked.lake, unmarked.name
    lake.catalog.load_table(a).append(rows(50))
    unmarked.register("_log_registration")
    if above == "append":
        lake.catalog.load_table(a).append(rows(60))
    expected = [1, 2, 50, 60] if above == "append" else [1, 2, 50]
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))
    assert [] == lake.open().apply_le()
    assert [1, 2] == lake.plain_ids(a)
    for _ in expected[2:]:  # each on a branch of its own, which ends at the mark
        lake.open().repair_adopt(a)
    assert expected == lake.plain_ids(a)
    assert [MAIN_BRANCH] == list(lake.catalog.load_table(a).refs())


def test_a_branch_is_older_than_what_main_has_left(lake):
    """
    What stands below a mark was registered with the table, also where `main` shows it no more.

    1. A stranger's append is kept on a branch, directly above the mark.
    2. Expiry takes from `main` what is older, and from the branch nothing.
    """
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    late = [handle.begin() for _ in range(2)]  # who has loaded it before adopts nothing
    for value, txn in enumerate(late, 3):
        txn.load_table(a).append(rows(value))
    handle.catalog().load_table(a).append(rows(2))
    lake.catalog.load_table(a).append(rows(50))
    assert [] == handle.apply_le()
    for txn in late:
        txn.commit()
    assert [] == handle.apply_le()
    table = lake.catalog.load_table(a)
    head = table.metadata.current_snapshot()
    older = table.metadata.snapshot_by_id(head.parent_snapshot_id)
    gone = RemoveSnapshotsUpdate(snapshot_ids=[older.snapshot_id, older.parent_snapshot_id])
    lake.catalog.commit_table(table, (), (gone,))
    lake.open().repair_adopt(a)
    assert [1, 2, 3, 4, 50] == lake.plain_ids(a)


@pytest.mark.parametrize("expired", [True, False])
def test_a_branch_that_stands_on_what_is_expired(lake, expired):
    """
    Of what meets nothing that is known nobody can tell whether it was registered.

    1. A stranger puts `main` back to before the registration, and appends; that is rejected.
    2. Expiry takes from `main` what is older, and from the branch nothing.
    """
    a = lake.table("a", [1])
    handle = lake.open()
    handle.catalog().load_table(a).append(rows(2))
    table = lake.catalog.load_table(a)
    older = table.metadata.snapshots
    table.manage_snapshots().rollback_to_snapshot(older[0].snapshot_id).commit()
    lake.catalog.load_table(a).append(rows(50))
    handle.repair_reject(a)
    if expired:
        gone = RemoveSnapshotsUpdate(snapshot_ids=[at.snapshot_id for at in older[1:]])
        lake.catalog.commit_table(lake.catalog.load_table(a), (), (gone,))
        with pytest.raises(txns.Unsupported, match="stands on nothing that is known"):
            handle.repair_adopt(a)
    else:
        handle.repair_adopt(a)
        assert [1, 2, 50] == lake.plain_ids(a)


def test_our_expiry_leaves_what_tells_whose_rows_a_branch_has(lake):
    """
    What is kept for strangers can be adopted for as long as it is there.

    1. Two appends of a stranger are put on a branch. 2. Days later snapshots are expired.
    """
    a = lake.table("a")
    for number in (1, 2):
        lake.open().catalog().load_table(a).append(rows(number))
    for number in (50, 51):
        lake.catalog.load_table(a).append(rows(number))
    lake.open().repair_reject(a)
    (kept,) = (ref for name, ref in lake.catalog.load_table(a).refs().items() if "foreign" in name)
    assert (3, 2**63 - 1) == (kept.min_snapshots_to_keep, kept.max_ref_age_ms)
    for number in (3, 4):
        lake.clock.ahead_ms += 3 * DAY_MS
        lake.open().catalog().load_table(a).append(rows(number))
    before = len(lake.catalog.load_table(a).snapshots())
    until = datetime.fromtimestamp((lake.clock.now_ms() - DAY_MS) / 1000, UTC)
    expiring = lake.open().catalog().load_table(a).maintenance.expire_snapshots()
    expiring.older_than(until.replace(tzinfo=None)).commit()
    assert before > len(lake.catalog.load_table(a).snapshots())
    lake.open().repair_adopt(a)
    assert [1, 2, 3, 4, 50, 51] == lake.plain_ids(a)


def test_a_replacement_below_a_mark(lake):
    """
    It is quarantine, though what the table was registered with has no parent.

    1. An empty table is registered, a transaction stages on its mark. 2. A stranger takes the mark,
    and starts `main` anew. 3. The table is registered again. 4. The transaction commits.
    """
    a = lake.table("a")
    txn = lake.open(apply="next").begin()
    txn.load_table(a).append(rows(2))
    with lake.catalog.load_table(a).transaction() as t:
        t.remove_properties("txns.commit-table")
    lake.catalog.load_table(a).manage_snapshots().remove_branch(MAIN_BRANCH).commit()
    lake.catalog.load_table(a).append(rows(50))
    Unmarked(lake, a, txn).register("_log_registration")
    assert [("shop", "a")] == lake.open().apply_le()
    lake.open().repair_reject(a)
    assert [2] == lake.plain_ids(a)
    with pytest.raises(txns.Unsupported, match="stands on nothing that is known"):
        lake.open().repair_adopt(a)


def test_an_overwrite_below_a_mark(unmarked):
    """It is quarantine, as it is above one."""
    lake, a = unmarked.lake, unmarked.name
    lake.catalog.load_table(a).delete("id = 1")
    unmarked.register("_log_registration")
    assert [("shop", "a")] == lake.open().apply_le()
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))
    lake.open().repair_reject(a)
    assert [1, 2] == lake.plain_ids(a)


@pytest.mark.parametrize("appended", [True, False])
def test_a_rollback_below_a_mark(unmarked, appended):
    """It is quarantine, too: what the run stands on is not in what the mark stands on."""
    lake, a = unmarked.lake, unmarked.name
    table = lake.catalog.load_table(a)
    first = table.metadata.current_snapshot().parent_snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    if appended:
        lake.catalog.load_table(a).append(rows(50))
    unmarked.register("_log_registration")
    assert [("shop", "a")] == lake.open().apply_le()
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))
    lake.open().repair_reject(a)
    assert [1, 2] == lake.plain_ids(a)
    if appended:
        lake.open().repair_adopt(a)
        assert [1, 2, 50] == lake.plain_ids(a)


def test_a_commit_before_a_table_is_marked_again(unmarked):
    """A mark says that all before it is applied: what is not would be lost."""
    lake, a = unmarked.lake, unmarked.name
    with pytest.raises(txns.Quarantined, match="not applied"):
        unmarked.register("load")
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))
    lake.open().repair_reject(a)
    assert [1, 2] == lake.plain_ids(a)


def test_a_rollback_is_found(lake, handle):
    """Main moved back: quarantine, never lost rows without a word."""
    a = lake.table("a", [1])
    handle.catalog().load_table(a).append(rows(2))
    plain = lake.catalog.load_table(a)
    back = plain.current_snapshot().parent_snapshot_id
    main = plain.refs()[MAIN_BRANCH]
    with plain.transaction() as t:
        t._apply(
            (
                SetSnapshotRefUpdate(
                    ref_name=MAIN_BRANCH,
                    type=SnapshotRefType.BRANCH,
                    snapshot_id=back,
                    min_snapshots_to_keep=main.min_snapshots_to_keep,
                    max_snapshot_age_ms=main.max_snapshot_age_ms,
                    max_ref_age_ms=None,
                ),
            )
        )
    assert [1] == lake.plain_ids(a)
    assert [1, 2] == ids(handle.snapshot().load_table(a))
    with pytest.raises(txns.Quarantined, match="moved main"):
        handle.catalog().load_table(a).append(rows(3))
    handle.repair_reject(a)
    assert [1, 2] == lake.plain_ids(a)


def test_a_table_dropped_by_a_stranger(lake):
    """Its entry stays in the head with its payload; the log goes on."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    handle = lake.open(apply="next")
    with handle.begin() as txn:
        txn.load_table(a).append(rows(2))
        txn.load_table(b).append(rows(2))
    lake.catalog.drop_table(a)
    for refused in (handle.register, handle.forget):
        with pytest.raises(txns.Quarantined, match="bring it back") as raised:
            refused(a)
        assert "txns repair" not in str(raised.value)
    assert [("shop", "a")] == handle.apply_le()
    handle.tidy()
    with handle.begin() as txn:
        txn.load_table(b).append(rows(3))
    handle.apply_le()
    assert [1, 2, 3] == lake.plain_ids(b)


def test_forget_and_register_again(lake, handle):
    """A forgotten table is a plain one; register takes it as it is then."""
    a = lake.table("a", [1])
    handle.forget(a)
    handle.forget(a)
    lake.catalog.load_table(a).append(rows(2))
    assert "txns.commit-table" not in lake.catalog.load_table(a).properties
    assert [1, 2] == ids(handle.snapshot().load_table(a))
    first = handle.register(a)
    assert first <= handle.register(a)
    handle.catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == lake.plain_ids(a)
    assert [("shop", "a")] == handle.registered()
    assert [("shop", "a")] == handle.forget_all()
    assert [] == handle.registered()


def test_two_commit_tables(lake, handle):
    """Only the holder of the mark decides."""
    a = lake.table("a", [1])
    other = lake.open(commit_table="txns.others")
    with pytest.raises(txns.Unsupported, match="another commit table"):
        other.register(a)
    with pytest.raises(txns.Unsupported, match=r"txns\.commits"):
        other.begin().load_table(a)
    handle.forget(a)
    other.register(a)
    other.catalog().load_table(a).append(rows(2))
    assert [1, 2] == lake.plain_ids(a)


def test_a_restored_backup_is_found(lake, handle):
    """A table ahead of its log, or of another log, is CorruptLog."""
    a = lake.table("a", [1])
    handle.catalog().load_table(a).append(rows(2))
    with lake.catalog.load_table(a).transaction() as t:
        t.set_properties({"txns.applied": str(handle.upper + 1_000_000)})
    with pytest.raises(txns.CorruptLog, match="backup"):
        handle.snapshot().load_table(a)


def test_off_and_on(lake, handle):
    """The way out: everything is applied, transactions are refused; on lets them in again."""
    a = lake.table("a", [1])
    later = lake.open(apply="next")
    with later.begin() as txn:
        txn.load_table(a).append(rows(2))
    assert [] == handle.off()
    assert [1, 2] == lake.plain_ids(a)
    with pytest.raises(txns.Unsupported, match="txns on"), handle.begin() as txn:
        txn.load_table(a).append(rows(3))
    handle.on()
    handle.catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == lake.plain_ids(a)


def test_on_adopts_what_was_written_meanwhile(lake, handle):
    """While transactions are off, others write as on any Iceberg table."""
    a, b, c = lake.table("a", [1]), lake.table("b", [1]), lake.table("c", [1])
    handle.off()
    lake.catalog.load_table(a).append(rows(2))
    lake.catalog.load_table(b).overwrite(rows(3))
    with lake.catalog.load_table(c).update_schema() as schema:
        schema.add_column("note", StringType())
    lake.catalog.create_table(("shop", "d"), rows(1).schema).append(rows(4))
    assert [] == handle.on()
    snapshot = handle.snapshot()
    assert [[1, 2], [3], [1], [4]] == [ids(snapshot.load_table(n)) for n in (a, b, c, "shop.d")]
    assert "note" in snapshot.load_table(c).schema().column_names
    with handle.begin() as txn:
        for name in (a, b):
            txn.load_table(name).append(rows(5))
    assert [[1, 2, 5], [3, 5]] == [lake.plain_ids(a), lake.plain_ids(b)]


def test_on_names_what_it_cannot_adopt(lake, handle):
    """A dropped table takes nothing in: it stays as it is, and the others are adopted."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    handle.catalog().drop_table(b)
    handle.off()
    for name in (a, b):
        lake.catalog.load_table(name).append(rows(2))
    assert [("shop", "b")] == handle.on()
    assert [1, 2] == ids(handle.snapshot().load_table(a))
    with pytest.raises(NoSuchTableError):
        handle.snapshot().load_table(b)


def test_on_goes_on_behind_tables_that_are_broken(lake, handle, caplog):
    """One is ahead of its log, one has lost its metadata: both are named, others are adopted."""
    a, b, c = lake.table("a", [1]), lake.table("b", [1]), lake.table("c", [1])
    handle.off()
    for name in (a, b, c):
        lake.catalog.load_table(name).append(rows(2))
    ahead = {"txns.applied": str(handle.upper + 1_000_000)}
    with lake.catalog.load_table(a).transaction() as t:
        t.set_properties(ahead)
    lost = Path(urlparse(lake.catalog.load_table(b).metadata_location).path)
    lost.rename(lost.with_suffix(".away"))
    assert [("shop", "a"), ("shop", "b")] == handle.on()
    assert [1, 2] == ids(handle.snapshot().load_table(c))
    assert "the table is not adopted" in caplog.text
    assert "table=shop.a" in caplog.text
    assert "txns recover" in caplog.text

    with lake.catalog.load_table(a).transaction() as t:  # by hand
        t.remove_properties("txns.commit-table")
    handle.register(a)
    handle.catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == lake.plain_ids(a)
    lost.with_suffix(".away").rename(lost)
    handle.repair_adopt(b)
    assert [1, 2] == ids(handle.snapshot().load_table(b))


def test_a_rollback_to_before_the_registration_is_no_new_rows(lake, handle):
    """
    What main's history holds already is not taken in a second time (seed 938).

    1. A table with rows is registered. 2. A stranger puts main back on the snapshot from before.
    3. It is rejected: nothing has to be kept. 4. There is nothing to adopt.
    """
    a = lake.table("a", [1, 2])
    plain = lake.catalog.load_table(a)
    before = plain.current_snapshot().parent_snapshot_id
    plain.manage_snapshots().set_current_snapshot(before).commit()
    handle.repair_reject(a)
    assert ["main"] == list(lake.catalog.load_table(a).refs())
    with pytest.raises(txns.Unsupported, match="nothing to repair"):
        handle.repair_adopt(a)
    assert [1, 2] == lake.plain_ids(a)


def _adopt_without_apply(handle, name: str) -> None:
    applier = handle.parts.applier
    with mock.patch.object(applier, "apply", return_value=False):
        handle.repair_adopt(name)


def test_an_adoption_that_is_not_applied_yet_is_not_done_twice(lake, handle):
    """The second adopter finds nothing to do (seed 299), and writers go on."""
    a = lake.table("a", [1])
    lake.catalog.load_table(a).append(rows(2))
    _adopt_without_apply(lake.open(apply="next"), a)
    with pytest.raises(txns.Unsupported, match="nothing to repair"):
        _adopt_without_apply(lake.open(apply="next"), a)
    with lake.open(apply="next").begin() as txn:
        txn.load_table(a).append(rows(3))
    assert [1, 2, 3] == ids(handle.snapshot().load_table(a))
    assert [] == handle.apply_le()
    assert [1, 2, 3] == lake.plain_ids(a)


def test_of_two_adoptions_that_are_not_applied_the_second_takes_in_the_rest(lake, handle):
    """
    No row is taken in twice by who may not write the table.

    1. A stranger appends, and is adopted; the adoption is not applied. 2. It appends again, on
    top of that. 3. That is adopted as well, by somebody who cannot apply the first either.
    """
    a = lake.table("a", [1])
    for row in (2, 3):
        lake.catalog.load_table(a).append(rows(row))
        assert [1, 2][: row - 1] == ids(handle.snapshot().load_table(a))
        _adopt_without_apply(lake.open(apply="next"), a)
    assert [1, 2, 3] == ids(handle.snapshot().load_table(a))
    assert [] == handle.apply_le()
    assert [1, 2, 3] == lake.plain_ids(a)
    assert [MAIN_BRANCH] == list(lake.catalog.load_table(a).refs())


def test_what_was_adopted_from_main_is_not_adopted_from_a_branch_again(lake):
    """An applier that does not know of the adoption puts the stranger on a branch."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    with handle.begin() as txn:
        txn.load_table(a).append(rows(2))
    before = handle.parts.log.load()
    lake.catalog.load_table(a).append(rows(50))
    _adopt_without_apply(handle, a)
    assert handle.parts.applier.apply_run(before, ("shop", "a"))
    assert 2 == len(lake.catalog.load_table(a).refs())
    with pytest.raises(txns.Unsupported, match="nothing to repair"):
        _adopt_without_apply(handle, a)
    assert [] == handle.apply_le()
    assert [1, 2, 50] == lake.plain_ids(a)
    assert [MAIN_BRANCH] == list(lake.catalog.load_table(a).refs())


def test_an_adoption_on_a_table_that_was_written_since_is_refused(lake):
    """Others have adopted the same from a branch: who comes second looks again."""
    a = lake.table("a", [1])
    handle, other = lake.open(apply="next"), lake.open()
    loop = handle.parts.loop
    writer = other.begin()
    writer.load_table(a).append(rows(3))
    lake.catalog.load_table(a).append(rows(50))
    append = loop.append

    def raced(*entry):
        writer.commit()
        return append(*entry)

    with (
        mock.patch.object(loop, "append", raced),
        pytest.raises(txns.Conflict, match="was written"),
    ):
        handle.repair_adopt(a)
    other.apply_le()
    assert [1, 3, 50] == ids(handle.snapshot().load_table(a)) == lake.plain_ids(a)


def test_a_table_of_another_commit_table_of_the_name_is_left_alone(lake):
    """An applier compares the log that the mark names (docs/spec.md 8.1, step 2)."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    with handle.begin() as txn:
        txn.load_table(a).append(rows(2))
    with lake.catalog.load_table(a).transaction() as changes:
        changes.set_properties({"txns.log-id": "9c12d441-03fe-4693-9a96-a0705ddf69c1"})
    head = handle.parts.log.load()
    with pytest.raises(txns.CorruptLog, match="txns recover"):
        handle.parts.applier.apply_run(head, ("shop", "a"))
    assert [("shop", "a")] == handle.apply_le()
    assert [1] == lake.plain_ids(a)


@pytest.mark.parametrize("name", ["", "txns."])
def test_a_mark_that_names_no_commit_table(lake, name):
    """Whoever reads the table is told, and nothing else crashes."""
    a = lake.table("a", [1])
    with lake.catalog.load_table(a).transaction() as changes:
        changes.set_properties({"txns.commit-table": name})
    with pytest.raises(txns.CorruptLog, match="names no commit table"):
        lake.open().catalog().load_table(a)
