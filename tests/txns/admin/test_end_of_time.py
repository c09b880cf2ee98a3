"""Logs whose time has come to its end, and goes on (docs/spec.md 9.6)."""

from __future__ import annotations

import pytest

import txns
from tests.txns.lake import SCHEMA, ids, rows
from txns._admin.invariants import check_all
from txns._admin.recover import recover
from txns._admin.void import void_sound
from txns._commit.drafts import control_entry
from txns._config import Config
from txns._log import limits
from txns._log.entry import Entry, Kind
from txns._log.swap import Outcome
from txns._services import Parts


@pytest.fixture
def shop(lake):
    """Give the lake, with a and b."""
    lake.table("b", [1])
    lake.table("a", [1])
    return lake


@pytest.fixture
def last_ms(shop):
    """Set the clock to the last but some milliseconds, while the test wants it."""
    shop.clock.ahead_ms = limits.COMMIT_TS_LE - 600_000 - shop.clock.now_ms()
    return shop


def _recover(lake):
    return recover(lake.another_catalog(), Config.of(), lake.clock)


def _goes_on(lake, **tables: list[int]) -> txns.Handle:
    """Hold tables against what they are to have, and write each."""
    handle = lake.open(lake.another_catalog())
    assert handle.upper < limits.COMMIT_TS_EARLY_LE
    for name, rows_ in tables.items():
        assert rows_ == ids(handle.snapshot().load_table(f"shop.{name}"))
        handle.catalog().load_table(f"shop.{name}").append(rows(9))
        assert [*rows_, 9] == lake.plain_ids(f"shop.{name}")
    assert [] == check_all(handle.parts).violations
    assert handle.tidy()
    assert [] == check_all(handle.parts).violations
    return handle


def _advanced(lake, commit_ts: int) -> None:
    """Append what only moves the upper, as a program without the limit does."""
    log = lake.open().parts.log
    head = log.load()
    moved = control_entry(Kind.ADVANCE, lake.clock.new_txn_id(), head.state, commit_ts)
    assert Outcome.WON is log.append(head, [moved]).outcome


@pytest.mark.parametrize("commit_ts", [limits.COMMIT_TS_LE, 9_223_372_036_854_775_807])
@pytest.mark.parametrize("tidied", [False, True])
def test_a_log_at_the_last_timestamp_goes_on(shop, commit_ts, tidied):
    """By whatever record: one that stands is made void, one that is archived is archived anew."""
    before = shop.open().upper
    _advanced(shop, commit_ts)
    with pytest.raises(txns.InvalidUsage, match="`txns recover --void`"):
        shop.open().catalog().load_table("shop.a").append(rows(2))
    if tidied:
        assert shop.open().tidy()
    else:
        with pytest.raises(txns.Unsupported, match=f"txns recover --void {commit_ts}"):
            _recover(shop)
        void_sound(Parts.of(shop.another_catalog(), Config.of(), shop.clock), commit_ts)
    assert commit_ts == shop.open(shop.another_catalog()).upper
    assert {} == _recover(shop).broken
    assert before + 1 == shop.open(shop.another_catalog()).upper
    _goes_on(shop, a=[1], b=[1])


def test_who_has_read_at_the_last_timestamp_commits_no_more(shop):
    """1. T begins at it. 2. The time is taken back. 3. Another one commits, which T cannot see."""
    _advanced(shop, limits.COMMIT_TS_LE - 1)
    late = shop.open().begin()
    late.load_table("shop.a").append(rows(5))
    assert shop.open().tidy()
    _recover(shop)
    _goes_on(shop, a=[1])
    with pytest.raises(txns.InvalidUsage, match="another commit table") as refused:
        late.commit()
    assert "55000" == refused.value.sqlstate


def test_who_has_read_at_a_tidy_that_is_made_void_clashes(shop):
    """1. A forged tidy has a greater upper. 2. T reads there. 3. It is void. 4. Others commit."""
    log = shop.open().parts.log
    head = log.load()
    ahead = head.upper + 100_000
    forged = Entry(Kind.TIDY, shop.clock.new_txn_id(), upper=ahead, tidied_upto=ahead)
    assert Outcome.WON is log.append(head, [forged]).outcome
    with pytest.raises(txns.Conflict), shop.open().begin() as txn:
        table = txn.load_table("shop.a")
        main = shop.catalog.load_table("txns.commits").current_snapshot()
        parts = Parts.of(shop.another_catalog(), Config.of(), shop.clock)
        assert ahead == void_sound(parts, main.snapshot_id).upper
        shop.open(shop.another_catalog()).catalog().load_table("shop.a").append(rows(2))
        table.overwrite(rows(3))
    assert [1, 2] == shop.plain_ids("shop.a")


def test_what_was_committed_by_a_clock_at_the_end_stays(last_ms):
    """1. a is written and c created then, and d registered. 2. The clock is right again."""
    shop = last_ms
    handle = shop.open()
    early = handle.snapshot().read_ts
    for txn_id, row in (("mine", 2), ("another", 3)):
        with handle.begin(txn_id=txn_id) as txn:
            txn.load_table("shop.a").append(rows(row))
    handle.catalog().create_table("shop.c", SCHEMA).append(rows(1))
    shop.table("d", [1])
    before = handle.upper
    handle.tidy()
    shop.clock.ahead_ms = 0
    assert before > limits.COMMIT_TS_EARLY_LE
    with shop.open(shop.another_catalog()).begin(txn_id="mine") as again:
        again.load_table("shop.a").append(rows(2))
    recovered = _recover(shop)
    assert ({}, {}) == (recovered.left, recovered.broken)
    handle = _goes_on(shop, a=[1, 2, 3], b=[1], c=[1], d=[1])
    with handle.begin(txn_id="mine") as again:
        again.load_table("shop.a").append(rows(2))
    assert [1, 2, 3, 9] == shop.plain_ids("shop.a")
    assert [1] == ids(handle.snapshot(early).load_table("shop.a"))
    [mine] = [one["commit_ts"] for one in handle.transactions() if one["txn_id"] == "mine"]
    with pytest.raises(txns.Conflict, match="was set back to"):
        handle.snapshot(mine).load_table("shop.a")
    assert [] == _recover(shop).found.told_by_tables
    _goes_on(shop, b=[1, 9])


def test_what_was_not_applied_at_the_end_is_gone_when_it_is_made_void(last_ms):
    """It stands in the head: nothing else ends that, and its table lacks it."""
    shop = last_ms
    shop.open(apply="next").catalog().load_table("shop.a").append(rows(2))
    handle = shop.open(apply="next")
    late = [one for one in handle.transactions() if one["commit_ts"] > limits.COMMIT_TS_EARLY_LE]
    shop.clock.ahead_ms = 0
    for each in reversed(late):
        void_sound(Parts.of(shop.another_catalog(), Config.of(), shop.clock), each["commit_ts"])
    recovered = _recover(shop)
    assert [("shop", "a")] == list(recovered.broken)
    shop.open(shop.another_catalog()).repair_adopt("shop.a")
    _goes_on(shop, a=[1], b=[1])
