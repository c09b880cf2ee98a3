"""`txns check`: a catalog with each invariant broken, as no writer of the protocol would."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

import txns
from tests.txns.lake import Lake, ids, rows
from tests.txns.table.test_set_back import set_back
from txns._admin.invariants import INVARIANTS, check_all
from txns._cli.options import Lake as Opened
from txns._log import change as _change
from txns._log import entry
from txns._log.entry import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

A, B = "shop.a", "shop.b"


@pytest.fixture
def shop(lake: Lake) -> Lake:
    """Two tables under care, written twice by one transaction each; nothing is tidied."""
    lake.table("a", [1, 2])
    lake.table("b", [1, 2])
    handle = lake.open()
    for number in (3, 4):
        with handle.begin() as txn:
            txn.load_table(A).append(rows(number))
            txn.load_table(B).append(rows(number))
    return lake


def _violations(lake: Lake) -> list[tuple[str, str]]:
    opened = Opened("lake", f"sqlite:///{lake.folder}/catalog.db")
    found = check_all(opened.parts)
    opened.close()
    return [(each.invariant, each.where) for each in found.violations]


def _broken(lake: Lake) -> set[str]:
    return {invariant for invariant, _ in _violations(lake)}


def _rewrite(lake: Lake, table: str, change: Callable[[dict[str, Any]], None]) -> None:
    location = lake.another_catalog().load_table(table).metadata_location
    path = Path(location.removeprefix("file://"))
    metadata = json.loads(path.read_text("utf-8"))
    change(metadata)
    path.write_text(json.dumps(metadata), "utf-8")


def _rewrite_entry(lake: Lake, **values: str) -> None:
    """Change keys of the newest entry; _ stands for a dash."""

    def change(metadata: dict[str, Any]) -> None:
        summary = metadata["snapshots"][-1]["summary"]
        summary.update({f"txns.{key.replace('_', '-')}": value for key, value in values.items()})

    _rewrite(lake, "txns.commits", change)


def _summary(lake: Lake) -> dict[str, str]:
    table = lake.another_catalog().load_table("txns.commits")
    return dict(table.current_snapshot().summary.additional_properties)


def _died(lake: Lake) -> int:
    txn = lake.open().begin()
    for name in (A, B):
        txn.load_table(name).append(rows(9))
    return txn.commit_at().commit_ts


# ------------------------------------------------------------------ what holds


def test_a_catalog_of_the_protocol_holds(shop):
    assert [] == _violations(shop)


def test_it_holds_while_an_entry_is_not_applied(shop):
    _died(shop)
    assert [] == _violations(shop)


def test_it_holds_after_tidy(shop):
    shop.open().tidy()
    assert [] == _violations(shop)


def test_it_holds_after_create_drop_forget_and_holds(shop):
    handle = shop.open()
    with handle.begin() as txn:
        txn.create_table("shop.c", rows(1).schema).append(rows(1))
    with handle.begin() as txn:
        txn.drop_table("shop.c")
    with handle.begin() as txn:
        txn.create_table("shop.c", rows(1).schema)
    handle.hold("kept", [A])
    handle.forget(B)
    assert [] == _violations(shop)
    handle.tidy()
    assert [] == _violations(shop)


def test_it_holds_after_a_stranger_was_repaired(shop):
    shop.another_catalog().load_table(A).append(rows(9))
    shop.open().repair_adopt(A)
    shop.another_catalog().load_table(B).delete("id = 1")
    shop.open().repair_reject(B)
    assert [] == _violations(shop)


def test_it_holds_after_a_table_that_was_set_back_is_adopted(shop):
    """What was given up is not missed."""
    handle = shop.open()
    older = shop.catalog.load_table(A).metadata_location
    for value in (2, 3):
        handle.catalog().load_table(A).append(rows(value))
    handle.tidy()
    set_back(shop, A, older)
    handle.repair_adopt(A)
    assert [] == _violations(shop)
    handle.catalog().load_table(A).append(rows(4))
    handle.tidy()
    assert [] == _violations(shop)


def test_it_holds_while_the_adoption_of_a_table_that_was_set_back_is_not_applied(shop):
    """Nobody misses what it gives up, though the table does not say so yet; who adopted died."""
    handle = shop.open()
    older = shop.catalog.load_table(A).metadata_location
    handle.catalog().load_table(A).append(rows(2))
    handle.tidy()
    set_back(shop, A, older)
    assert ("I6", A) in _violations(shop)
    dying = shop.another_catalog()
    commit, of_a = dying.commit_table, []

    def footing_alone(table, *args):
        of_a.extend([table.name()] if table.name() == ("shop", "a") else [])
        if len(of_a) > 1:
            raise ConnectionError("the catalog is gone")
        return commit(table, *args)

    dying.commit_table = footing_alone
    shop.open(dying).repair_adopt(A)
    newest = shop.standing()[-1]
    assert Kind.REPAIR is newest.kind
    applied = shop.another_catalog().load_table(A).properties["txns.applied"]
    assert int(applied) < newest.commit_ts
    assert [] == _violations(shop)
    shop.open().apply_le()
    assert [] == _violations(shop)


def test_it_holds_for_a_table_that_was_forgotten_and_registered_again(shop):
    handle = shop.open()
    handle.forget(A)
    shop.another_catalog().load_table(A).append(rows(9))
    handle.register(A)
    assert [] == _violations(shop)


def test_it_holds_after_expiry(shop):
    """What is expired cannot be read, and is no violation."""
    table = shop.another_catalog().load_table(A)
    main_id = table.metadata.current_snapshot_id
    table.maintenance.expire_snapshots().by_ids(
        [each.snapshot_id for each in table.snapshots() if each.snapshot_id != main_id]
    ).commit()
    assert [] == _violations(shop)


def test_it_holds_when_a_fast_clock_was_put_right(shop):
    """Snapshots whose time Iceberg's limits have moved are allowed."""
    shop.clock.ahead_ms = 600_000
    with shop.open().begin() as txn:
        txn.load_table(A).append(rows(5))
    shop.clock.ahead_ms = 0
    with shop.open().begin() as txn:
        txn.load_table(A).append(rows(6))
    assert [] == _violations(shop)


def test_it_holds_while_others_write(shop):
    """Entries that come, are applied and are tidied while it looks are no violation."""
    done = threading.Event()

    def write() -> None:
        handle = shop.open(shop.another_catalog(), tidy_after=1)
        while not done.is_set():
            with handle.begin() as txn:
                txn.load_table(A).append(rows(7))
                txn.load_table(B).append(rows(7))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [_violations(shop) for _ in range(5)]
    finally:
        done.set()
        writer.join()
    assert [[]] * 5 == found


def test_it_writes_nothing(shop):
    before = shop.files()
    _violations(shop)
    assert before == shop.files()


# ------------------------------------------------------------------ what does not


def test_i1_an_entry_is_missing(shop):
    _rewrite_entry(shop, prev_ts="1")
    assert {"I1"} == _broken(shop)


def test_i1_a_record_contradicts_itself(shop):
    _rewrite_entry(shop, upper="1")
    assert {"I1"} == _broken(shop)


def test_i2_two_snapshots_share_a_manifest_list(shop):
    def change(metadata):
        first, second = metadata["snapshots"][-2:]
        second["manifest-list"] = first["manifest-list"]

    _rewrite(shop, A, change)
    assert ("I2", A) in _violations(shop)


def test_i2_the_manifest_list_is_gone(shop):
    listed = shop.another_catalog().load_table(A).current_snapshot().manifest_list
    Path(listed.removeprefix("file://")).unlink()
    assert ("I2", A) in _violations(shop)


def test_i2_the_payload_moves_main_elsewhere(shop):
    tables = json.loads(_summary(shop)[_change.TABLES])
    tables[0]["to-snapshot-id"] = 17
    _rewrite_entry(shop, tables=json.dumps(tables))
    assert {"I2", "I5", "I10"} == _broken(shop)


def test_i3_the_payload_stands_on_another_snapshot(shop):
    tables = json.loads(_summary(shop)[_change.TABLES])
    tables[0]["from-snapshot-id"] = 17
    _rewrite_entry(shop, tables=json.dumps(tables))
    assert {"I3"} == _broken(shop)


def test_i3_unapplied_changes_are_no_chain(shop):
    first = shop.catalog.load_table(A).metadata.snapshots[0]
    _died(shop)
    _died(shop)
    tables = json.loads(_summary(shop)[_change.TABLES])
    tables[0]["from-snapshot-id"] = first.snapshot_id
    _rewrite_entry(shop, tables=json.dumps(tables))
    assert ("I3", A) in _violations(shop)


def test_i4_applied_above_the_upper(shop):
    with shop.another_catalog().load_table(A).transaction() as changes:
        changes.set_properties({"txns.applied": str(2**62)})
    assert [("I4", A)] == _violations(shop)


def test_i4_applied_below_what_main_shows(shop):
    with shop.another_catalog().load_table(A).transaction() as changes:
        changes.set_properties({"txns.applied": "1"})
    assert ("I4", A) in _violations(shop)


def test_i5_a_change_was_skipped(shop):
    commit_ts = _died(shop)
    with shop.another_catalog().load_table(A).transaction() as changes:
        changes.set_properties({"txns.applied": str(commit_ts)})
    assert ("I5", A) in _violations(shop)


def test_i5_somebody_rolled_main_back(shop):
    catalog = shop.another_catalog()
    table = catalog.load_table(A)
    parent_id = table.current_snapshot().parent_snapshot_id
    back = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=parent_id)
    catalog.commit_table(table, (), (back,))
    assert ("stranger", A) in _violations(shop)


@pytest.mark.parametrize("deed", ["adopt", "reject"])
def test_somebody_replaced_a_table_by_an_empty_one(shop, deed):
    catalog = shop.another_catalog()
    gone = RemoveSnapshotRefUpdate(ref_name="main")
    catalog.commit_table(catalog.load_table(A), (), (gone,))
    assert [("stranger", A)] == _violations(shop)
    handle = shop.open()
    handle.repair_adopt(A) if deed == "adopt" else handle.repair_reject(A)
    assert [] == _violations(shop)


def test_i6_a_table_whose_entries_have_left_the_head_is_gone(shop):
    shop.open().tidy()
    shop.another_catalog().drop_table(A)
    assert [("I6", A)] == _violations(shop)


def test_i6_an_entry_left_the_head_unapplied(shop):
    """1. tidied. 2. the table is put back to a state from before, as a backup would."""
    catalog = shop.another_catalog()
    before = catalog.load_table(A).metadata_location
    with shop.open().begin() as txn:
        txn.load_table(A).append(rows(5))
    shop.open().tidy()
    catalog.drop_table(A)
    catalog.register_table(A, before)
    assert ("I6", A) in _violations(shop)


def test_i7_a_snapshot_without_its_id(shop):
    def change(metadata):
        del metadata["snapshots"][-1]["summary"]["txns.txn-id"]

    _rewrite(shop, A, change)
    assert [("I4", A), ("I7", A)] == _violations(shop)


def test_i7_a_snapshot_of_another_time(shop):
    def change(metadata):
        metadata["snapshots"][-1]["timestamp-ms"] += 5

    _rewrite(shop, A, change)
    assert [("I7", A)] == _violations(shop)


def test_i8_an_id_in_two_entries(shop):
    snapshots = shop.another_catalog().load_table("txns.commits").metadata.snapshots
    _rewrite_entry(shop, txn_id=snapshots[-2].summary.additional_properties[entry.TXN_ID])
    assert "I8" in _broken(shop)


@pytest.mark.parametrize("tidied", [False, True])
def test_i8_aborts_before_the_entry(shop, tidied):
    """Tries that were refused, and a later one under the id that has committed."""
    handle = shop.open()
    for _ in range(2):
        txn = handle.begin(txn_id="nightly")
        ids(txn.load_table(A))
        txn.load_table(A).delete("id == 1")
        with shop.open().begin() as other:
            other.load_table(A).append(rows(3))
        with pytest.raises(txns.Conflict):
            txn.commit()
    if tidied:
        handle.tidy()
    with handle.begin(txn_id="nightly") as txn:
        txn.load_table(A).append(rows(4))
    assert [] == _violations(shop)
    abort = next(each for each in handle.transactions() if each["kind"] == "abort")
    _rewrite_entry(shop, read_ts=str(abort["commit_ts"] - 1))
    assert "I8" in _broken(shop)


def test_i8_an_id_again_after_its_retention(shop):
    """Nobody looks for it any more: it is another transaction's."""
    for _ in range(2):
        handle = shop.open()
        with handle.begin(txn_id="nightly") as txn:
            txn.load_table(A).append(rows(4))
        handle.tidy()
        shop.clock.ahead_ms += 8 * 86_400_000
    assert [] == _violations(shop)


def test_i9_a_snapshot_of_a_transaction_that_has_not_committed(shop):
    def change(metadata):
        metadata["snapshots"][-1]["summary"]["txns.txn-id"] = "nobody"

    _rewrite(shop, A, change)
    assert [("I4", A), ("I9", A)] == _violations(shop)


def test_i10_a_reader_of_the_entry_sees_another_snapshot(shop):
    """The entry and its payload say the same, and the table shows something else."""
    to_id = json.loads(_summary(shop)[_change.TABLES])[0]["to-snapshot-id"]

    def change(metadata):
        summary = metadata["snapshots"][-1]["summary"]
        for key in (_change.TABLES, entry.PAYLOAD):
            summary[key] = summary[key].replace(str(to_id), "17")

    _rewrite(shop, "txns.commits", change)
    assert {"I5", "I10"} == _broken(shop)


def test_a_payload_file_that_was_changed(shop):
    txn = shop.open().begin()
    for number in range(60):
        txn.create_table(f"shop.t{number}", rows(1).schema)
    txn.commit_at()
    folder = shop.folder / "warehouse" / "txns" / "commits" / "metadata"
    (payload,) = folder.glob("txns-payload-*.json")
    payload.write_text("{}")
    assert "payload" in _broken(shop)


def test_a_setting_that_endangers_the_log(shop):
    with shop.another_catalog().load_table("txns.commits").transaction() as changes:
        changes.set_properties({"gc.enabled": "true"})
    assert {"3.1"} == _broken(shop)


def test_a_stranger_in_the_commit_table(shop):
    table = shop.another_catalog().load_table("txns.commits")
    row = {field.name: None for field in table.schema().fields}
    row |= {"commit_ts": 1, "txn_id": "x", "kind": "commit", "read_ts": 0, "isolation": "snapshot"}
    arrow = table.schema().as_arrow()
    row["committed_at"] = 0
    table.append(arrow.empty_table().from_pylist([row], schema=arrow))
    assert {"log"} == _broken(shop)


def test_a_table_that_cannot_be_read(shop):
    location = shop.another_catalog().load_table(A).metadata_location
    Path(location.removeprefix("file://")).write_text("{}")
    assert ("unreadable", A) in _violations(shop)


def test_every_invariant_of_the_specification_is_named(root):
    specification = (root / "docs" / "spec.md").read_text("utf-8")
    assert [f"| {name} |" in specification for name in INVARIANTS] == [True] * 11
