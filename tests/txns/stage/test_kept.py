"""Files that come back outlive the expiry of what had removed them (docs/spec.md 6.9)."""

from __future__ import annotations

from pathlib import Path

import pytest

import txns
from tests.txns.lake import ids, rows
from txns._admin.invariants import check_all
from txns._cli.options import Lake as Opened
from txns._stage import kept_tags

FOR_EVER_MS = 2**63 - 1


def removed(handle, name: str) -> int:
    """Leave row 1 in a file that is gone from main since; give the snapshot that has it."""
    handle.catalog().load_table(name).append(rows(1))
    first = handle.catalog().load_table(name).current_snapshot().snapshot_id
    handle.catalog().load_table(name).overwrite(rows(2))
    return first


def roll_back(handle, name: str, snapshot_id: int) -> None:
    table = handle.catalog().load_table(name)
    table.manage_snapshots().set_current_snapshot(snapshot_id).commit()


def tags(lake, name: str) -> list[str]:
    return [ref for ref in lake.catalog.load_table(name).refs() if ref.startswith("txns-kept-")]


def expire(lake, name: str) -> None:
    """Remove every snapshot that no ref names."""
    table = lake.catalog.load_table(name)
    named = {ref.snapshot_id for ref in table.refs().values()}
    gone = [at.snapshot_id for at in table.snapshots() if at.snapshot_id not in named]
    table.maintenance.expire_snapshots().by_ids(gone).commit()


def test_a_rollback_tags_what_comes_back_and_has_no_age(lake, handle):
    """A tag on the snapshot makes every expiry ask what is reachable."""
    a = lake.table("a")
    first = removed(handle, a)
    roll_back(handle, a, first)
    (name,) = tags(lake, a)
    tag = lake.catalog.load_table(a).refs()[name]
    assert (first, "tag", FOR_EVER_MS) == (
        tag.snapshot_id,
        tag.snapshot_ref_type.value,
        tag.max_ref_age_ms,
    )
    main = lake.catalog.load_table(a).current_snapshot()
    assert str(first) == main.summary["txns.restored"]
    assert [1] == lake.plain_ids(a)


def test_a_tag_goes_with_the_next_change_when_nothing_needs_it(lake, handle):
    """It is kept while a snapshot that may have removed the files is there."""
    a = lake.table("a")
    roll_back(handle, a, removed(handle, a))
    handle.catalog().load_table(a).append(rows(3))
    assert 1 == len(tags(lake, a))
    handle.catalog().load_table(a).overwrite(rows(4))
    expire(lake, a)
    assert 1 == len(tags(lake, a))
    handle.catalog().load_table(a).append(rows(5))
    assert [] == tags(lake, a)
    assert [4, 5] == lake.plain_ids(a)


def test_what_strangers_remove_above_a_decided_entry_needs_no_tag(lake, handle):
    """It stands above the tag's timestamp: whoever set the tag has decided on what is below."""
    a = lake.table("a")
    roll_back(handle, a, removed(handle, a))
    lake.catalog.load_table(a).overwrite(rows(3))
    assert () == kept_tags.done(lake.catalog.load_table(a).metadata, ())
    handle.repair_reject(a)
    handle.catalog().load_table(a).overwrite(rows(4))
    expire(lake, a)
    lake.catalog.load_table(a).overwrite(rows(5))
    done = kept_tags.done(lake.catalog.load_table(a).metadata, ())
    assert tags(lake, a) == [each.ref_name for each in done]
    assert done


def test_a_rollback_that_goes_on_in_its_transaction_keeps_its_files_too(lake, handle):
    """The copy is left out where the transaction appends, the tag is not."""
    a = lake.table("a")
    first = removed(handle, a)
    with handle.begin() as txn:
        txn.load_table(a).manage_snapshots().rollback_to_snapshot(first).commit()
        txn.load_table(a).append(rows(3))
    assert 1 == len(tags(lake, a))
    assert [1, 3] == lake.plain_ids(a)


def test_an_adopted_rollback_keeps_its_files_too(lake, handle):
    """A stranger's rollback becomes ours, and with it what had removed the files an ancestor."""
    a = lake.table("a")
    first = removed(handle, a)
    lake.catalog.load_table(a).manage_snapshots().rollback_to_snapshot(first).commit()
    handle.repair_adopt(a)
    assert 1 == len(tags(lake, a))
    assert [1] == lake.plain_ids(a)


def test_a_rejected_overwrite_needs_no_tag(lake, handle):
    """What removed the files is no ancestor of main afterwards."""
    a = lake.table("a", [1])
    lake.catalog.load_table(a).overwrite(rows(2))
    handle.repair_reject(a)
    assert [] == tags(lake, a)
    assert [1] == lake.plain_ids(a)


def test_a_rollback_over_appends_needs_no_tag(lake, handle):
    """Nothing had been removed."""
    a = lake.table("a", [1])
    first = handle.catalog().load_table(a).current_snapshot().snapshot_id
    handle.catalog().load_table(a).append(rows(2))
    roll_back(handle, a, first)
    assert [] == tags(lake, a)
    assert [1] == lake.plain_ids(a)


def test_a_file_that_is_gone_is_named_and_nothing_is_committed(lake, handle):
    """What cannot come back is said before the swap."""
    a = lake.table("a")
    first = removed(handle, a)
    (task,) = lake.catalog.load_table(a).scan(snapshot_id=first).plan_files()
    Path(task.file.file_path.removeprefix("file://")).unlink()
    upper = handle.upper
    with pytest.raises(txns.InvalidUsage, match="are gone") as raised:
        roll_back(handle, a, first)
    assert task.file.file_path in str(raised.value)
    assert upper == handle.upper
    assert [2] == ids(handle.snapshot().load_table(a))


def test_a_rollback_that_loses_leaves_its_tag_until_nothing_needs_it(lake, handle):
    """
    Whoever set a tag may still commit, as long as no entry above its timestamp stands.

    1. A rollback is staged, and tags.
    2. Another entry comes first: it loses.
    3. What had removed the files is expired; the next change drops the tag.
    """
    a = lake.table("a")
    first = removed(handle, a)
    txn = handle.begin()
    txn.load_table(a).manage_snapshots().rollback_to_snapshot(first).commit()
    handle.catalog().load_table(a).append(rows(3))
    with pytest.raises(txns.Conflict):
        txn.commit()
    handle.catalog().load_table(a).append(rows(4))
    assert 1 == len(tags(lake, a))
    expire(lake, a)
    handle.catalog().load_table(a).append(rows(5))
    assert [] == tags(lake, a)
    assert [2, 3, 4, 5] == lake.plain_ids(a)


def test_holds_and_check_know_the_tag(lake, handle):
    """It is no hold, no stranger, and nothing to repair."""
    a = lake.table("a")
    roll_back(handle, a, removed(handle, a))
    assert [] == handle.holds()
    handle.hold("report", [a])
    assert ["report"] == [hold.name for hold in handle.holds()]
    handle.release("report")
    assert 1 == len(tags(lake, a))
    opened = Opened("lake", f"sqlite:///{lake.folder}/catalog.db")
    assert [] == check_all(opened.parts).violations
    opened.close()
