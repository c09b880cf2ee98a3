"""One id at two timestamps: of attempts that landed on two lines of a log (docs/spec.md 9.6)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import txns
from tests.txns.backups import LOG, pointers, restore
from tests.txns.lake import ids, rows
from tests.txns.wrapped import COMMITS, Wrapped
from txns._admin.invariants import check_all
from txns._admin.recover import Recovered, recover, recoverable
from txns._config import Config

if TYPE_CHECKING:
    from collections.abc import Callable

A, B = ("shop", "a"), ("shop", "b")
TABLES = ["shop.a", "shop.b"]
_APART_MS = 1000


@dataclass
class Tried:
    """
    A transaction of two attempts, the first of which is still on its way.

    Attributes:
        txn_id: Its id.
        first_ts: The `commit_ts` in ms of the first.
        ts: That of the second, which has won.
        land: Lets the first one land.
        before: Where log and tables stood before both.
        after: Where they stood after the second.
    """

    txn_id: str
    first_ts: int
    ts: int
    land: Callable[[], Any]
    before: dict[str, str]
    after: dict[str, str]


class _Between(Wrapped):
    """A catalog in which something happens before the swap of a table, once."""

    def __init__(self, catalog, table, deed):
        super().__init__(catalog)
        self.table, self.deeds = table, [deed]

    def commit_table(self, table, requirements, updates):
        if table.name() == self.table and self.deeds:
            self.deeds.pop()()
        return self.catalog.commit_table(table, requirements, updates)


@pytest.fixture(params=["same base", "restaged"])
def tried(lake, request) -> Tried:
    """Append 3 to a and b; the second attempt may stand on what another one has appended."""
    lake.table("a", [1])
    lake.table("b", [1])
    before, first = pointers(lake.catalog), []

    def swap(real):
        if first:
            return real()
        first.append(real)
        lake.clock.ahead_ms += _APART_MS
        if request.param == "restaged":
            _append(lake, 2)
            lake.clock.ahead_ms += _APART_MS
        raise OSError("no answer")

    first_ts, txn_id = lake.clock.now_ms(), _append(lake, 3, Wrapped(lake.another_catalog(), swap))
    after = pointers(lake.catalog)
    lake.values = [1, 2, 3] if request.param == "restaged" else [1, 3]
    return Tried(txn_id, first_ts, lake.open().upper, first[0], before, after)


def _append(lake, value: int, catalog=None, **options) -> str:
    with lake.open(catalog or lake.another_catalog()).begin(**options) as txn:
        for name in TABLES:
            txn.load_table(name).append(rows(value))
    return txn.txn_id


def _recover(lake, catalog=None, **options) -> Recovered:
    return recover(catalog or lake.another_catalog(), Config.of(), lake.clock, **options)


def _stands_at(lake, txn_id: str) -> list[int]:
    """Give at which `commit_ts` in ms an id has entries."""
    handle = lake.open(lake.another_catalog())
    return sorted({one["commit_ts"] for one in handle.transactions() if one["txn_id"] == txn_id})


def _assert_one(lake, tried: Tried, ts: int) -> None:
    """The id stands once, and counts; everybody reads and writes, and another recovery agrees."""
    assert [ts] == _stands_at(lake, tried.txn_id)
    handle = lake.open(lake.another_catalog())
    assert [] == check_all(handle.parts).violations
    for name in TABLES:
        assert lake.values == ids(handle.snapshot().load_table(name))
    with handle.begin(txn_id=tried.txn_id) as again:
        again.load_table("shop.a").append(rows(3))
    _append(lake, 9)
    again = _recover(lake)
    assert ({}, {}) == (again.left, again.broken)
    assert ([], []) == (again.found.told_by_tables, again.found.passed_over)
    assert [ts] == _stands_at(lake, tried.txn_id)
    handle = lake.open(lake.another_catalog())
    assert handle.tidy()
    for name in TABLES:
        assert [*lake.values, 9] == lake.plain_ids(name)
        assert [*lake.values, 9] == ids(handle.snapshot().load_table(name))
    assert [] == check_all(handle.parts).violations
    again = _recover(lake)  # by what is archived: also below all that the tables show
    assert ([], []) == (again.found.told_by_tables, again.found.passed_over)
    assert [ts] == _stands_at(lake, tried.txn_id)
    assert [] == check_all(lake.open(lake.another_catalog()).parts).violations


@pytest.mark.sampled
@pytest.mark.parametrize("lands", ["before", COMMITS, A, B])
def test_the_first_attempt_lands_on_a_log_that_was_set_back(lake, tried, lands):
    """
    The log's entry stands, and the tables show it from a footing on.

    1. A transaction's first swap gets no answer; its second one wins, later, and is applied. 2. The
    log is set back to before both. 3. The first swap lands, before a recovery or between two steps
    of one: before it marks a table, or before its own swap. 4. The log has the id at the time of
    the first, and the tables show it at that of the second.
    """
    restore(lake.catalog, tried.before, [LOG])
    if lands == "before":
        tried.land()
        found = _recover(lake)
    else:
        found = _recover(lake, _Between(lake.another_catalog(), lands, tried.land))
    assert ({}, {}) == (found.left, found.broken)
    [log_ts] = _stands_at(lake, tried.txn_id)
    assert log_ts < tried.ts
    given_up = [one for one in found.found.passed_over if one.txn_id == tried.txn_id]
    assert [[A, B]] == [[change.table for change in one.changes] for one in given_up]
    with pytest.raises(txns.Conflict, match="too old"):
        lake.open(lake.another_catalog()).snapshot(log_ts).load_table("shop.a")
    _assert_one(lake, tried, log_ts)


def test_the_first_attempt_lands_on_a_catalog_that_is_taken_forward(lake, tried):
    """
    The newest metadata of the tables shows the second one, and the log has gone on with the first.

    1. As above. 2. The catalog is set back to before both. 3. A recovery takes it forward, and
    before its swap the first attempt lands: its entry is applied to the tables. 4. The newest
    metadata of the tables is put back, and recovered.
    """
    restore(lake.catalog, tried.before)
    _recover(lake, _Between(lake.another_catalog(), COMMITS, tried.land), forward=True)
    restore(lake.catalog, tried.after, TABLES)
    dry = recoverable(lake.another_catalog(), Config.of(), lake.clock, forward=False)
    found = _recover(lake)
    [log_ts] = _stands_at(lake, tried.txn_id)
    assert log_ts < tried.ts
    for each in (dry, found):
        given_up = [one for one in each.found.passed_over if one.txn_id == tried.txn_id]
        assert [[A, B]] == [[change.table for change in one.changes] for one in given_up]
    assert ({}, {}) == (found.left, found.broken)
    _assert_one(lake, tried, log_ts)


def test_a_recovery_that_died_after_one_of_the_tables(lake, tried):
    """The next one goes on, and puts no other footing where there is one."""
    restore(lake.catalog, tried.before, [LOG])
    tried.land()

    def die():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _recover(lake, _Between(lake.another_catalog(), B, die))
    assert ({}, {}) == ((found := _recover(lake)).left, found.broken)
    [log_ts] = _stands_at(lake, tried.txn_id)
    _assert_one(lake, tried, log_ts)


@pytest.mark.sampled
@pytest.mark.parametrize("lands", ["before", A, B, COMMITS])
def test_the_second_attempt_wins_on_a_log_that_was_set_back(lake, lands):
    """
    The log's entry stands, and what the tables show moves up to it.

    1. A transaction's first swap wins without an answer, and somebody applies it. 2. The log is set
    back to before it. 3. The second swap wins there, before a recovery or between two steps of one.
    """
    lake.table("a", [1])
    lake.table("b", [1])
    before, sent = pointers(lake.catalog), []

    def swap(real):
        sent.append(real)
        if len(sent) == 1:
            real()
            lake.open(lake.another_catalog()).apply_le()
            restore(lake.catalog, before, [LOG])
            lake.clock.ahead_ms += _APART_MS
        elif lands == "before":
            return real()
        raise OSError("no answer")

    catalog = Wrapped(lake.another_catalog(), swap)
    if lands == "before":
        txn_id = _append(lake, 3, catalog)
        found = _recover(lake)
    else:
        with pytest.raises(txns.CommitStateUnknown):
            _append(lake, 3, catalog, txn_id="mine")
        txn_id = "mine"
        found = _recover(lake, _Between(lake.another_catalog(), lands, sent[1]))
    summaries = (each.summary for each in lake.catalog.load_table("shop.a").metadata.snapshots)
    shown_ts = min(
        int(each["txns.commit-ts"]) for each in summaries if each["txns.txn-id"] == txn_id
    )
    assert ({}, {}) == (found.left, found.broken)
    assert ([], []) == (found.found.told_by_tables, found.found.passed_over)
    [log_ts] = _stands_at(lake, txn_id)
    assert shown_ts < log_ts
    lake.values = [1, 3]
    _assert_one(lake, Tried(txn_id, shown_ts, log_ts, sent[0], before, before), log_ts)


def test_an_abort_above_what_tables_show(lake):
    """
    What they show is committed, and its id counts: it moves above the abort.

    1. A try commits, and is applied. 2. The log is set back to before it. 3. Another try under its
    id is told a conflict, and leaves an abort, at a later timestamp.
    """
    for name in ("a", "b", "c"):
        lake.table(name, [1])
    before = pointers(lake.catalog)
    _append(lake, 3, txn_id="mine")
    restore(lake.catalog, before, [LOG])
    lake.clock.ahead_ms += _APART_MS
    handle = lake.open(lake.another_catalog())
    again = handle.begin(txn_id="mine")
    ids(again.load_table("shop.c"))
    again.load_table("shop.c").delete("id == 1")
    handle.catalog().load_table("shop.c").append(rows(2))
    with pytest.raises(txns.Conflict):
        again.commit()
    abort_ts = handle.upper
    found = _recover(lake)
    assert ({}, {}) == (found.left, found.broken)
    assert ["mine"] == [one.txn_id for one in found.found.told_by_tables]
    assert [abort_ts, found.found.upper] == _stands_at(lake, "mine")
    handle = lake.open(lake.another_catalog())
    assert found.found.upper == handle.begin(txn_id="mine").committed.commit_ts
    for name in TABLES:
        assert [1, 3] == ids(handle.snapshot().load_table(name))
    assert [] == check_all(handle.parts).violations
    assert [] == _recover(lake).found.told_by_tables
    assert [] == check_all(lake.open(lake.another_catalog()).parts).violations


def test_an_id_that_was_used_again_after_its_retention(lake):
    """It is another transaction's, and is told at its own timestamp."""
    lake.table("a", [1])
    lake.table("b", [1])
    _append(lake, 2, txn_id="mine")
    assert lake.open().tidy()
    [first_ts] = _stands_at(lake, "mine")
    lake.clock.ahead_ms += 8 * 24 * 60 * 60_000
    _append(lake, 4)
    before = pointers(lake.catalog)
    _append(lake, 3, txn_id="mine")
    ts = lake.open().upper
    restore(lake.catalog, before, [LOG])
    kept = Path(before[LOG].removeprefix("file://"))
    for path in kept.parent.glob("*.metadata.json"):
        if path != kept:
            path.unlink()
    assert ({}, {}) == ((found := _recover(lake)).left, found.broken)
    assert ["mine"] == [one.txn_id for one in found.found.told_by_tables]
    assert [first_ts, ts] == _stands_at(lake, "mine")
    handle = lake.open(lake.another_catalog())
    assert [1, 2, 4] == ids(handle.snapshot(ts - 1).load_table("shop.a"))
    assert [1, 2, 3, 4] == ids(handle.snapshot().load_table("shop.a"))
    assert [] == check_all(handle.parts).violations
