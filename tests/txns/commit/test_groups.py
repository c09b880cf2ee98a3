"""Who is in one swap with whom: what stops one member, or is known of it, is not the others'."""

from __future__ import annotations

import threading

import pytest
from pyiceberg.exceptions import CommitFailedException

import txns
from tests.txns.commit.test_commit_loop import staged
from tests.txns.lake import ids
from tests.txns.wrapped import Wrapped
from txns._commit.group import CommitGroup, Key, Member, Origin
from txns._commit.group_commit import MAX_ATTEMPTS
from txns._log.entry import Entry, Kind
from txns.errors import InvalidUsage


def advance(state, _head, commit_ts, txn_id="advance"):
    """Make an entry that moves the upper."""
    return Entry(
        Kind.ADVANCE,
        txn_id,
        upper=commit_ts,
        tidied_upto=state.tidied_upto,
        commit_ts=commit_ts,
        prev_ts=state.upper,
        read_ts=state.upper,
    )


def member(txn_id, attempt=None):
    """Give a member with a fresh id."""

    def by_id(state, head, commit_ts):
        return advance(state, head, commit_ts, txn_id)

    return Member(Key(txn_id, 0, Origin.FRESH), attempt or by_id)


@pytest.fixture
def contended(lake):
    """Open a handle that loses every swap to somebody else, until `wins` is set."""
    lake.table("a")
    other = lake.open(lake.another_catalog())

    def swap(real):
        if not catalog.wins:
            catalog.swaps += 1
            other.advance(other.upper + 1)
            raise CommitFailedException("somebody else was faster")
        return real()

    catalog = Wrapped(lake.another_catalog(), swap)
    catalog.wins, catalog.swaps = False, 0
    return catalog, lake.open(catalog)


def test_a_leader_whose_time_is_up_is_not_the_group(lake, contended):
    """
    Who has just come goes on under the next leader.

    1. L has waited and lost as long as it may. 2. It leads a swap with M, which has just come.
    3. The swap is lost.
    """
    catalog, handle = contended
    late, new = member("late"), member("new")
    late.deadline_ms = lake.clock.now_ms()
    handle.parts.loop._lead(late, [late, new])
    assert isinstance(late.failure, txns.Conflict)
    assert new.open
    catalog.wins = True
    handle.parts.loop._lead(new, [new])
    assert new.entry is not None


def test_a_member_whose_time_is_up_goes_with_the_leader(lake, contended):
    """Nobody is tried for more often than it may, whoever has led."""
    _, handle = contended
    leader, old, often = member("leader"), member("old"), member("often")
    leader.deadline_ms = old.deadline_ms = lake.clock.now_ms()
    often.tries = MAX_ATTEMPTS - 1
    handle.parts.loop._lead(leader, [leader, old, often])
    assert not any(each.open for each in (leader, old, often))


def test_a_member_is_tried_for_as_often_as_it_may(contended):
    """Its attempts are counted, those that others have led included."""
    catalog, handle = contended
    often = member("often")
    often.tries = MAX_ATTEMPTS - 3
    handle.parts.loop._lead(often, [often])
    assert isinstance(often.failure, txns.Conflict)
    assert 3 == catalog.swaps


def test_who_is_refused_in_a_swap_that_was_won_may_change(lake):
    """
    No attempt on a head that was replaced can land, and so nothing of it stands in the way.

    1. M and L are in a swap whose answer is lost, and which has not landed. 2. The next one has
    L alone, since M is refused for its call. 3. It is won: M may be changed, and tried again.
    """
    lake.table("a")
    failures = iter([ConnectionError("the answer was lost")])

    def swap(real):
        for failure in failures:
            raise failure
        return real()

    calls = []

    def once(state, head, commit_ts):
        calls.append(commit_ts)
        if len(calls) == 1:
            return advance(state, head, commit_ts, "once")
        raise InvalidUsage("22023", "choose a later one")

    handle = lake.open(Wrapped(lake.another_catalog(), swap))
    leader, refused = member("leader"), member("once", once)
    handle.parts.loop._lead(leader, [leader, refused])
    assert leader.entry is not None
    assert isinstance(refused.failure, InvalidUsage)
    assert calls[1:]
    assert refused.attempts.stood_on is None


def test_who_is_to_go_alone_leads_nobody():
    """Whose entry a swap was refused for is found out one by one."""
    group = CommitGroup()
    alone, other = member("alone"), member("other")
    alone.alone = True
    group._waiting += [other]
    led = []

    def lead(leader, members):
        led.append(members)
        leader.entry = object()

    group.run(alone, lead)
    assert [[alone]] == led
    assert [other] == group._waiting


def test_a_head_is_past_older_ones_only(lake):
    """Another `main` says nothing; a replica that lags has another one, too."""
    a = lake.table("a")
    log = lake.open(lake.another_catalog()).parts.log
    before = log.load()
    staged(lake.open(), a, 1).commit()
    after = log.load()
    assert after.is_past(before)
    assert not before.is_past(after)
    assert not after.is_past(after)
    assert [1] == ids(lake.open().snapshot().load_table(a))


def test_an_interrupt_leaves_nobody_waiting(monkeypatch):
    """Ctrl-C at any moment, even while a leader takes its group, lets the others go on."""
    group = CommitGroup()
    stopped, next_one = member("stopped"), member("next")
    led = []

    def interrupted(_leader):
        raise KeyboardInterrupt

    def lead(leader, members):
        led.append(members)
        leader.entry = object()

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(group, "_take", interrupted)
        group.run(stopped, lead)
    thread = threading.Thread(target=group.run, args=(next_one, lead), daemon=True)
    thread.start()
    thread.join(10)
    assert [[next_one]] == led
