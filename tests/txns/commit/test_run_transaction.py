"""`run_transaction` with callbacks that end their transaction themselves."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import txns
from tests.txns.commit.test_commit_loop import dropped
from tests.txns.lake import ids, rows
from tests.txns.wrapped import Wrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.txns.lake import Lake


def test_what_has_committed_is_not_run_again(lake: Lake, handle: txns.Handle) -> None:
    """
    Its rows would be there twice.

    1. A callback commits its transaction. 2. Another one of its own loses a race. 3. That is told.
    """
    a, b = lake.table("a", [1]), lake.table("b", [1])

    def work(txn: txns.Transaction) -> None:
        txn.load_table(a).append(rows(2))
        txn.commit()
        with lake.open(rehearse_conflicts=1).begin() as other:
            other.load_table(b).append(rows(2))

    with pytest.raises(txns.Conflict, match="rehearsal") as raised:
        txns.run_transaction(handle, work)
    assert "has committed" in raised.value.__notes__[0]
    assert ([1, 2], [1]) == (lake.plain_ids(a), lake.plain_ids(b))


def test_what_has_lost_by_its_own_commit_is_run_again(lake: Lake) -> None:
    """Nothing of it has happened."""
    a = lake.table("a", [1])
    attempts = []

    def work(txn: txns.Transaction) -> str:
        attempts.append(txn.txn_id)
        txn.load_table(a).append(rows(2))
        txn.commit()
        return "done"

    assert "done" == txns.run_transaction(lake.open(rehearse_conflicts=1), work)
    assert 2 == len(attempts)
    assert [1, 2] == lake.plain_ids(a)


def test_an_unknown_outcome_that_a_callback_swallows(lake: Lake) -> None:
    """
    It is no success, nor is it run again: who has called is to ask.

    1. A callback commits; the swap lands, and the catalog's answers are lost. 2. It goes on.
    """
    a = lake.table("a", [1])
    catalog = Wrapped(lake.another_catalog())
    ended = []

    def swap(real: Callable[[], object]) -> object:
        catalog.load = dropped
        real()
        return dropped(real)

    def work(txn: txns.Transaction) -> None:
        ended.append(txn)
        txn.load_table(a).append(rows(2))
        catalog.swap = swap
        with suppress(txns.CommitStateUnknown):
            txn.commit()

    with pytest.raises(txns.CommitStateUnknown) as raised:
        txns.run_transaction(lake.open(catalog), work)
    assert [(raised.value.txn_id, txns.State.UNKNOWN)] == [(e.txn_id, e.state) for e in ended]
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))
