"""A COMMIT that the catalog has refused and that has landed: whatever is met later, it stands."""

from __future__ import annotations

import sys

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError
from sqlalchemy.exc import OperationalError

import txns
from tests.txns.lake import ids, rows
from tests.txns.stage.test_kept import removed, tags
from tests.txns.wrapped import COMMITS, Wrapped


class Refusing:
    """
    A catalog whose swaps land and are refused.

    It answers from before the swap `lagging` times.
    """

    def __init__(self, lake, lagging=1):
        self.catalog = Wrapped(lake.another_catalog(), self._swap, self._load)
        self._old = None
        self._lagging = lagging

    def _swap(self, real):
        self._old = self.catalog.catalog.load_table(COMMITS)
        real()
        raise ForbiddenError("the token has expired meanwhile")

    def _load(self, real):
        if self._old is None or self._lagging <= 0:
            return real()
        self._lagging -= 1
        return self._old


def refused(lake, txn):
    """COMMIT, which lands and is refused."""
    with pytest.raises(ForbiddenError):
        txn.commit()
    assert txns.State.ACTIVE is txn.state
    assert lake.open().find(txn.txn_id) is not None


def test_commit_again_finds_what_has_landed(lake):
    """
    COMMIT again is answered with the entry, whatever stands in the way of another one.

    1. T's COMMIT lands, is refused, and the catalog answers from before it. 2. A stranger
    overwrites the table: what is outstanding cannot be applied. 3. T commits again.
    """
    a = lake.table("a", [1, 2, 3])
    txn = lake.open(Refusing(lake).catalog).begin()
    txn.load_table(a).delete("id = 1")
    refused(lake, txn)
    lake.catalog.load_table(a).delete("id = 2")
    assert lake.open().find(txn.txn_id).commit_ts == txn.commit().commit_ts
    assert txns.State.COMMITTED is txn.state
    assert [2, 3] == ids(lake.open().snapshot().load_table(a))


def test_commit_again_deletes_nothing_that_may_have_landed(lake):
    """
    Where the catalog still lags nobody knows; the files stay.

    1. T brings rows back, which needs a tag. 2. Its COMMIT lands, is refused, and the catalog
    answers from before it. 3. A stranger takes tag and snapshot. 4. T commits again.
    """
    a = lake.table("a")
    first = removed(lake.open(), a)
    txn = lake.open(Refusing(lake, lagging=sys.maxsize).catalog).begin()
    txn.load_table(a).manage_snapshots().set_current_snapshot(first).commit()
    refused(lake, txn)
    (tag,) = tags(lake, a)
    lake.catalog.load_table(a).manage_snapshots().remove_tag(tag).commit()
    lake.catalog.load_table(a).maintenance.expire_snapshots().by_id(first).commit()
    files = lake.files()
    with pytest.raises(txns.CommitStateUnknown):
        txn.commit()
    assert txns.State.UNKNOWN is txn.state
    assert files <= lake.files()
    assert [1] == ids(lake.open().snapshot().load_table(a))


def test_run_gives_the_result_of_what_has_landed(lake):
    """A refusal is no failure where the rollback after it finds the entry; nothing runs twice."""
    a = lake.table("a", [1])
    handle = lake.open(Refusing(lake).catalog)
    calls = []

    def work(txn):
        txn.load_table(a).append(rows(2))
        calls.append(txn)
        return "done"

    assert "done" == txns.run_transaction(handle, work)
    assert [txns.State.COMMITTED] == [txn.state for txn in calls]
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))


def test_an_attempt_that_was_not_sent_says_nothing_of_an_earlier_one(lake, monkeypatch):
    """
    What was refused before it may have landed: a rollback deletes nothing.

    1. T's COMMIT lands, is refused, and the catalog answers from before it for long. 2. T commits
    again, which fails before anything is sent. 3. T is rolled back.
    """
    a = lake.table("a", [1])
    handle = lake.open(Refusing(lake, lagging=sys.maxsize).catalog)
    txn = handle.begin()
    txn.load_table(a).append(rows(2))
    refused(lake, txn)
    files = lake.files()

    def not_sent(*_arguments):
        raise MemoryError

    monkeypatch.setattr(handle.parts.log, "append", not_sent)
    with pytest.raises((MemoryError, txns.CommitStateUnknown)):
        txn.commit()
    with pytest.raises(txns.TxnsError):
        txn.rollback()
    assert files <= lake.files()
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))


def test_a_database_that_is_read_only_is_no_unknown_outcome(lake):
    """It has answered that nobody writes: told at once, in its own words, and rolled back whole."""
    a = lake.table("a", [1])
    files = lake.files()
    reader = SqlCatalog(
        "lake",
        uri=f"sqlite:///file:{lake.folder}/catalog.db?mode=ro&uri=true",
        warehouse=f"file://{lake.folder}/warehouse",
        init_catalog_tables="false",
    )
    txn = lake.open(reader).begin(txn_id="mine")
    txn.load_table(a).append(rows(2))
    with pytest.raises(OperationalError, match="readonly"):
        txn.commit()
    txn.rollback()
    assert [1] == lake.plain_ids(a)
    # pyiceberg leaves the metadata file that it asked with: `txns tidy --files` takes it.
    left = {path for path in lake.files() - files if not path.endswith(".metadata.json")}
    assert set() == left
