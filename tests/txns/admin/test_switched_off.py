"""Our catalog while transactions are off, and who writes while they are turned off and on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.types import StringType

import txns
from tests.txns.lake import ids, rows

if TYPE_CHECKING:
    from collections.abc import Callable


def test_operations_read_and_write_as_on_plain_tables(lake, handle):
    """Also what plain pyiceberg wrote is seen; nothing of it is in the log until it is on again."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    handle.off()
    upper = handle.upper
    lake.catalog.load_table(a).append(rows(2))
    ours = handle.catalog()
    ours.load_table(a).append(rows(3))
    ours.load_table(b).overwrite(rows(4))
    with ours.load_table(b).update_schema() as schema:
        schema.add_column("note", StringType())
    assert [1, 2, 3] == ids(ours.load_table(a)) == lake.plain_ids(a)
    assert [4] == ids(ours.load_table(b)) == lake.plain_ids(b)
    assert upper == handle.upper
    assert [] == handle.on()
    assert [[1, 2, 3], [4]] == [ids(handle.snapshot().load_table(name)) for name in (a, b)]
    with handle.begin() as txn:
        txn.load_table(a).append(rows(5))
    assert [1, 2, 3, 5] == lake.plain_ids(a)


def test_transactions_are_refused_and_old_ones_answered(lake, handle):
    """Whoever asks what became of a job by its id is told."""
    a = lake.table("a", [1])
    with handle.begin(txn_id="job-1") as txn:
        txn.load_table(a).append(rows(2))
    handle.off()
    with pytest.raises(txns.Unsupported, match=r"system\.on\(\)"):
        handle.begin()
    assert handle.begin(txn_id="job-1").committed
    handle.on()
    assert handle.begin().committed is None


def test_tables_are_created_and_those_under_care_are_not_dropped(lake, handle):
    """By name, nothing must be created, dropped or moved that the log knows of."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    ours = handle.catalog()
    ours.drop_table(b)
    handle.off()
    ours.create_table(("shop", "new"), rows(1).schema).append(rows(7))
    assert [7] == lake.plain_ids("shop.new")
    deeds: list[Callable[[], Any]] = [
        lambda: ours.drop_table(a),
        lambda: ours.purge_table(a),
        lambda: ours.rename_table(a, ("shop", "c")),
        lambda: handle.register("shop.new"),
        lambda: handle.forget(a),
    ]
    for deed in deeds:
        with pytest.raises(txns.Unsupported, match="are off"):
            deed()
    with pytest.raises(NoSuchTableError):
        ours.load_table(b)
    assert [] == handle.on()
    assert "txns.commit-table" not in lake.catalog.load_table("shop.new").properties


def test_what_a_write_would_register_stays_plain(lake, handle):
    """The option `register=all` leaves tables alone, too."""
    a = lake.table("a", [1])
    lake.catalog.create_table(("shop", "new"), rows(1).schema)
    handle.off()
    ours = lake.open(register="all").catalog()
    ours.load_table("shop.new").append(rows(7))
    ours.load_table(a).append(rows(2))
    assert [[7], [1, 2]] == [lake.plain_ids("shop.new"), lake.plain_ids(a)]
    assert "txns.commit-table" not in lake.catalog.load_table("shop.new").properties


def test_a_table_with_entries_left_is_read_as_logged(lake, handle):
    """Its entry would be lost under what is written: it is not written."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    later = lake.open(apply="next")
    later.catalog().load_table(a).append(rows(2))
    with mock.patch(
        "txns._commit.apply.Applier._apply_due", side_effect=OSError("no right to write")
    ):
        assert [("shop", "a")] == later.off()
    ours = handle.catalog()
    assert ([1], [1, 2]) == (lake.plain_ids(a), ids(ours.load_table(a)))
    with pytest.raises(txns.Unsupported, match="everything is applied"):
        ours.load_table(a).append(rows(3))
    ours.load_table(b).append(rows(2))
    assert [] == handle.apply_le()
    ours.load_table(a).append(rows(3))
    assert [1, 2, 3] == lake.plain_ids(a)


def test_who_loaded_before_they_are_turned_off_is_refused(lake, handle):
    """The same operation on the table, loaded again, is a plain one."""
    a = lake.table("a", [1])
    loaded = handle.catalog().load_table(a)
    handle.off()
    with pytest.raises(txns.Unsupported, match="are off"):
        loaded.append(rows(2))
    handle.catalog().load_table(a).append(rows(2))
    assert [1, 2] == lake.plain_ids(a)


def test_who_loaded_before_they_are_turned_on_is_refused(lake, handle):
    """What was written plainly is adopted; who comes late has to load again."""
    a = lake.table("a", [1])
    handle.off()
    lake.catalog.load_table(a).append(rows(2))
    loaded = handle.catalog().load_table(a)
    assert [] == handle.on()
    with pytest.raises(CommitFailedException, match="load it again"):
        loaded.append(rows(3))
    assert [1, 2] == lake.plain_ids(a)


def test_who_commits_just_after_they_are_turned_on_is_a_stranger(lake, handle):
    """Between the last look and the swap nobody can stop it: it is reported, with its cure."""
    a = lake.table("a", [1])
    handle.off()
    slow = lake.open()
    loaded = slow.catalog().load_table(a)
    swap = type(slow.parts.catalog).commit_table

    def turned_on(*asked: Any) -> Any:
        patched.stop()
        assert [] == handle.on()
        return swap(*asked)

    patched = mock.patch.object(type(slow.parts.catalog), "commit_table", turned_on)
    patched.start()
    loaded.append(rows(2))
    assert ([1, 2], [1]) == (lake.plain_ids(a), ids(handle.snapshot().load_table(a)))
    handle.catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == lake.plain_ids(a)
