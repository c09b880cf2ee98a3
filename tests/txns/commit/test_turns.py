"""Who has lost is waited for, by the younger and for a bounded time (docs/spec.md 11.4)."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import replace

import pytest

import txns
from tests.txns.lake import ids, rows
from txns._admin.adopt import adopt_all
from txns._clock import SystemClock
from txns._commit.adoption import Adoption
from txns._commit.drafts import control_entry
from txns._commit.group import Key
from txns._commit.turns import Claim, Turns
from txns._log.entry import Kind
from txns._log.reservation import NUMBER_MAX, RESERVATIONS_MAX, Reservation


@pytest.fixture
def turns(lake):
    return Turns(lake.clock)


@pytest.fixture
def names(lake):
    return lake.table("a", [1]), lake.table("b")


def _reserved(holder, *uuids, ticket=5, number=1, lasts_ms=1000):
    return Reservation(holder, uuids or ("t",), ticket, number, lasts_ms)


def _young(*uuids, ticket=9, holder="young"):
    return Claim((ticket, holder), frozenset(uuids or ("t",)))


def _standing(handle):
    return handle.parts.log.load().state.reserved


# ---------------------------------------------------------------- whose turn it is


def test_the_younger_waits_for_as_long_as_it_lasts(lake, turns):
    one = _reserved("old")
    assert turns.is_waited_for([one], _young()) is one
    lake.clock.ahead_ms += 990
    assert turns.is_waited_for([one], _young()) is one
    lake.clock.ahead_ms += 20
    assert turns.is_waited_for([one], _young()) is None
    assert () == turns.standing([one])


def test_the_older_does_not_wait(turns):
    """Nor who has nothing to do with its tables; of two with one ticket the lesser id is older."""
    one = _reserved("m")
    assert turns.is_waited_for([one], _young(ticket=4)) is None
    assert turns.is_waited_for([one], _young("another")) is None
    assert turns.is_waited_for([one], _young(ticket=5, holder="a")) is None
    assert turns.is_waited_for([one], _young(ticket=5, holder="z")) is one


def test_what_has_cost_time_for_nothing_is_followed_by_a_pause(lake, turns):
    """Of its tables, for as long; then it is somebody's turn again."""
    dead, next_one = _reserved("dead"), _reserved("next", lasts_ms=60_000)
    other = _reserved("other", "u", lasts_ms=60_000)
    assert turns.is_waited_for([dead], _young()) is dead
    lake.clock.ahead_ms += 1010
    assert turns.is_waited_for([dead, next_one], _young()) is None
    assert turns.is_waited_for([other], _young("u")) is other
    assert turns.are_paused(["u", "t"])
    lake.clock.ahead_ms += 1010
    assert turns.is_waited_for([next_one], _young()) is next_one
    assert not turns.are_paused(["t"])


def test_what_nobody_has_waited_for_has_cost_nothing(lake, turns):
    """So there is no pause after it, and it is repeated, but not for ever."""
    one, waited_for = _reserved("stands"), _reserved("waited", "u")
    turns.standing([one])
    assert turns.is_waited_for([waited_for], _young("u"))
    lake.clock.ahead_ms += 1010
    assert (one,) == turns.carried([one, waited_for])
    assert turns.is_waited_for([one], _young()) is None
    assert (False, True) == (turns.are_paused(["t"]), turns.are_paused(["u"]))
    lake.clock.ahead_ms += 120_000
    assert () == turns.carried([one])
    assert not turns.are_paused(["t"])


def test_who_only_appends_waits_for_who_has_lost_again(turns):
    append = Claim((9, "young"), frozenset("t"), waits_from=2)
    again = _reserved("old", number=2)
    assert turns.is_waited_for([_reserved("old")], append) is None
    assert turns.is_waited_for([again], append) is again


def test_a_renewed_one_is_waited_for_anew(lake, turns):
    turns.standing([_reserved("old")])
    lake.clock.ahead_ms += 900
    again = _reserved("old", number=2)
    assert turns.is_waited_for([again], _young()) is again
    lake.clock.ahead_ms += 900
    assert turns.is_waited_for([again], _young()) is again


def test_the_time_of_who_waits_itself_stands_still(lake, turns):
    """It is behind an older one on a table of both."""
    first, second = _reserved("a", ticket=1), _reserved("b", "t", "u", ticket=2)
    turns.standing([first, second])
    lake.clock.ahead_ms += 900
    assert [first, second] == list(turns.standing([first, second]))
    lake.clock.ahead_ms += 900  # the first one's is over
    assert [second] == list(turns.standing([second]))
    lake.clock.ahead_ms += 200
    assert [] == list(turns.standing([second]))


def test_it_stands_still_behind_an_own_one_as_well(lake, turns):
    """Somebody looks who has reserved himself, and another thread of his process later."""
    own, younger = _reserved("own", ticket=1, lasts_ms=60_000), _reserved("b", ticket=2)
    holder = Claim((1, "own"), frozenset("t"), leaves=frozenset({"own"}))
    for _ in range(3):
        assert turns.is_waited_for([own, younger], holder) is None
        lake.clock.ahead_ms += 900
    assert (younger,) == turns.carried([own, younger])[1:]
    assert turns.is_waited_for([younger], _young()) is younger
    lake.clock.ahead_ms += 1010
    assert turns.is_waited_for([younger], _young()) is None


# ---------------------------------------------------------------- in the log


def _lose(handle, other, read, written, after=None, *, took_ms=0, faster=None):
    """Begin, read a table that somebody writes then, and lose at the commit."""
    faster = faster or other.begin()
    txn = handle.begin(after=after)
    ids(txn.load_table(read))
    handle.parts.clock.ahead_ms += took_ms
    txn.load_table(written).append(rows(7))
    faster.load_table(read).append(rows(8))
    faster.commit()
    with pytest.raises(txns.Conflict):
        txn.commit()
    return txn


def test_the_second_try_reserves_what_the_first_has_touched(lake, handle, names):
    """For half as long again as that took, with its age; its commit leaves it out."""
    read, written = names
    upper = handle.upper
    lost = handle.begin()
    ids(lost.load_table(read))
    lost.load_table(written).append(rows(7))
    lake.open().catalog().load_table(read).append(rows(8))
    lake.clock.ahead_ms += 2000
    with pytest.raises(txns.Conflict):
        lost.commit()
    assert () == _standing(handle)
    again = handle.begin(after=lost)
    (one,) = _standing(handle)
    uuids = [str(handle.catalog().load_table(name).metadata.table_uuid) for name in names]
    assert (again.txn_id, [uuids[1], uuids[0]]) == (one.txn_id, list(one.uuids))
    assert (upper, 1) == (one.ticket, one.number)
    assert 3000 <= one.lasts_ms < 9000
    lake.open().catalog().load_table(read).append(rows(9))  # a blind append does not wait
    assert (one,) == _standing(handle)
    handle.tidy()
    assert (one,) == _standing(handle)
    again = handle.begin(after=again)
    (renewed,) = _standing(handle)
    assert (again.txn_id, upper, 2) == (renewed.txn_id, renewed.ticket, renewed.number)
    again.load_table(written).append(rows(7))
    again.commit()
    assert () == _standing(handle)


def test_there_are_only_so_many(lake, handle, names):
    other, lost = lake.open(), None
    older = [other.begin() for _ in range(NUMBER_MAX + 2)]  # who wait for nobody
    handle.catalog().load_table(names[1]).append(rows(9))
    for each in older:
        lost = _lose(handle, other, *names, after=lost, faster=each)
    handle.begin(after=lost)
    assert [NUMBER_MAX] == [each.number for each in _standing(handle)]


def _reserve(handle, wanted):
    key = Key.fresh(handle.parts.clock.new_txn_id())
    handle.parts.loop.append(
        key,
        lambda state, _head, ts: control_entry(Kind.ADVANCE, key.txn_id, state, ts),
        claim=Claim(takes=wanted),
    )


def _fill(handle, count):
    """Reserve another table for some who are younger than all."""
    parts, key = handle.parts, Key.fresh(handle.parts.clock.new_txn_id())
    table = "5f1d9c5e-7a31-4c5c-9f0b-2f6f6f0c6a01"
    upper = parts.log.load().upper
    full = tuple(_reserved(f"z{n}", table, ticket=upper, lasts_ms=120_000) for n in range(count))

    def attempt(state, _head, commit_ts):
        entry = control_entry(Kind.ADVANCE, key.txn_id, state, commit_ts)
        return replace(entry, reserved=full)

    parts.loop.append(key, attempt)


def test_a_full_list_costs_nobody_a_swap(lake, handle, names):
    """Nothing can be reserved, nor can be given up what somebody has taken out."""
    lost = _lose(handle, lake.open(), *names)
    _fill(handle, RESERVATIONS_MAX)
    full, upper = _standing(handle), handle.upper
    assert RESERVATIONS_MAX == len(full)
    again = handle.begin(after=lost)
    assert (None, upper, full) == (again.options.turn.reserved, handle.upper, _standing(handle))
    again.rollback()
    handle.give_up(again)
    assert upper == handle.upper


def test_the_last_one_is_waited_for_by_nobody_once_its_transaction_has_committed(
    lake, handle, names
):
    """Not by that one itself, in its tries after it."""
    lost = None
    for _ in range(NUMBER_MAX + 1):
        lost = _lose(handle, lake.open(), *names, after=lost)
    last = handle.begin(after=lost)
    assert last.options.turn.reserved is None
    last.load_table(names[0]).overwrite(rows(9))
    lake.clock.slept_ms = 0
    last.commit()
    assert (0, ()) == (lake.clock.slept_ms, _standing(handle))


def test_what_may_have_been_reserved_is_left_out(lake, handle, names, monkeypatch):
    """The answer of its swap was lost, or its try has ended before another one."""
    lost = _lose(handle, lake.open(), *names)
    append = handle.parts.loop.append

    def unheard(*args, **options):
        append(*args, **options)
        raise OSError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(handle.parts.loop, "append", unheard)
        unsure = handle.begin(after=lost)
    assert [unsure.txn_id] == [each.txn_id for each in _standing(handle)]
    unsure.rollback()
    handle.give_up(unsure)
    assert () == _standing(handle)


def test_what_is_taken_out_meanwhile_costs_nobody_a_swap(lake, handle, names, monkeypatch):
    """1. Who gives up sees that it stands. 2. Somebody takes it out, who has waited for it."""
    own = handle.begin(after=_lose(handle, lake.open(), *names))
    own.rollback()
    new_txn_id, uppers = lake.clock.new_txn_id, []

    def taken_out():  # before the swap that has this id
        monkeypatch.setattr(lake.clock, "new_txn_id", new_txn_id)
        lake.open().give_up(own)
        uppers.append(handle.upper)
        return new_txn_id()

    monkeypatch.setattr(lake.clock, "new_txn_id", taken_out)
    assert 1 == len(_standing(handle))
    handle.give_up(own)
    assert ([handle.upper], ()) == (uppers, _standing(handle))


@pytest.mark.parametrize("again", [False, True])
def test_what_waits_behind_an_own_one_has_its_time_before_it(lake, handle, names, again):
    """When its transaction gives up, or reserves anew, however late."""
    seen = handle.parts.loop._turns
    lost = _lose(handle, lake.open(), *names, took_ms=20_000)
    own = handle.begin(after=lost)
    (first,) = _standing(handle)
    behind = Reservation("behind", first.uuids, first.ticket + 1, 1, 1000)
    _reserve(handle, behind)
    assert (first, behind) == seen.standing(_standing(handle))
    lake.clock.ahead_ms += 1100
    own.rollback()
    if again:
        handle.begin(after=own)
    else:
        handle.give_up(own)
    assert behind in seen.standing(_standing(handle))


@pytest.mark.parametrize("ends", [lambda _txn: None, lambda txn: txn.rollback()])
def test_a_try_that_ends_well_without_a_record_gives_it_up(lake, handle, names, ends):
    other, tries = lake.open(), []

    def work(txn):
        tries.append(txn)
        if len(tries) > 1:
            assert len(_standing(handle)) == 1
            return ends(txn)
        ids(txn.load_table(names[0]))
        txn.load_table(names[1]).append(rows(1))
        return other.catalog().load_table(names[0]).append(rows(2))

    txns.run_transaction(handle, work)
    assert () == _standing(handle)


def test_what_it_has_waited_counts_for_nothing(lake, handle, names):
    """Neither for others before its swap, nor between its tries: it would ask for ever more."""
    old = _lose(handle, lake.open(), *names, took_ms=20_000)
    handle.begin(after=old)  # and nothing more comes of it
    (dead,) = _standing(handle)
    other = lake.open()
    young = other.begin()
    ids(young.load_table(names[0]))
    young.load_table(names[1]).overwrite(rows(3))
    handle.catalog().load_table(names[0]).append(rows(4))
    with pytest.raises(txns.Conflict):
        young.commit()
    assert lake.clock.slept_ms >= 20_000
    lake.clock.ahead_ms += 2 * dead.lasts_ms
    other.begin(after=young)
    (asked,) = [each for each in _standing(handle) if each != dead]
    assert asked.lasts_ms < 15_000


def test_who_waits_long_looks_less_often(lake, handle, names, monkeypatch):
    """And goes on where the log cannot be asked for once."""
    lost = _lose(handle, lake.open(), *names, took_ms=40_000)
    handle.begin(after=lost)
    other, looks = lake.open(), []
    load = other.parts.log.load

    def counted(*args):
        looks.append(1)
        if len(looks) % 10 == 0:
            raise OSError("for now")
        return load(*args)

    claim = Claim((sys.maxsize, "young"), frozenset(_standing(handle)[0].uuids))
    load()
    monkeypatch.setattr(other.parts.log, "load", counted)
    assert other.parts.loop.wait(claim) >= 55_000
    assert 20 < len(looks) < 200


def test_who_has_waited_commits_at_the_time_that_was_proposed_before(lake, handle, names):
    """What it has written ahead is made for that, and the time that it is would overtake others."""
    lost = _lose(handle, lake.open(), *names, took_ms=20_000)
    handle.begin(after=lost)
    young = lake.open(apply="atomic").begin()
    young.load_table(names[0]).overwrite(rows(5))
    lake.clock.slept_ms, began_ms = 0, lake.clock.now_ms()
    committed = young.commit()
    assert lake.clock.slept_ms >= 20_000
    assert committed.commit_ts < began_ms + 20_000


def test_who_has_chosen_his_time_does_not_wait(lake, handle, names):
    lost = _lose(handle, lake.open(), *names, took_ms=2000)
    handle.begin(after=lost)
    other = lake.open()
    timed = other.begin()
    timed.load_table(names[0]).overwrite(rows(5))
    lake.clock.slept_ms = 0
    timed.commit_at(other.upper + 1000)
    assert lake.clock.slept_ms < 1000


def test_who_gives_up_takes_it_out(lake, handle, names):
    read, _ = names
    other = lake.open()

    def loses(txn):
        ids(txn.load_table(read))
        txn.load_table(names[1]).append(rows(1))
        other.catalog().load_table(read).append(rows(2))

    with pytest.raises(txns.Conflict):
        txns.run_transaction(handle, loses, max_attempts=3)
    assert () == _standing(handle)


def test_a_try_that_does_not_begin_reserves_nothing(lake, handle, names, monkeypatch):
    """1. It has reserved. 2. Something fails, or somebody interrupts it, before it has begun."""
    lost = _lose(handle, lake.open(), *names)
    with pytest.raises(txns.InvalidUsage):
        handle.begin(after=lost, as_of=handle.upper + 1000, isolation="serializable")
    assert () == _standing(handle)
    with pytest.raises(txns.InvalidUsage, match="level"):
        handle.begin(after=lost, isolation="none")
    monkeypatch.setattr("txns._handle.Transaction", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        handle.begin(after=lost)
    assert () == _standing(handle)


def _interrupted(*_args):
    raise KeyboardInterrupt


def test_who_is_interrupted_between_two_tries_reserves_nothing(lake, handle, names, monkeypatch):
    """1. The second try loses, too. 2. In the pause after it somebody presses Ctrl-C."""
    other = lake.open()

    def loses(txn):
        ids(txn.load_table(names[0]))
        txn.load_table(names[1]).append(rows(1))
        other.catalog().load_table(names[0]).append(rows(2))
        if _standing(handle):
            monkeypatch.setattr(handle, "back_off", _interrupted)

    with pytest.raises(KeyboardInterrupt):
        txns.run_transaction(handle, loses)
    assert () == _standing(handle)


def test_a_holder_that_has_died_is_waited_for_once(lake, handle, names):
    """Who has waited leaves it out; who only appends has not waited."""
    read, written = names
    lost = _lose(handle, lake.open(), read, written, took_ms=2000)
    handle.begin(after=lost)  # and nothing more comes of it
    (dead,) = _standing(handle)
    other = lake.open()
    other.catalog().load_table(read).append(rows(3))
    assert (dead,) == _standing(handle)
    lake.clock.slept_ms = 0
    other.catalog().load_table(read).delete("id = 3")
    assert dead.lasts_ms - 1500 <= lake.clock.slept_ms <= 1.5 * dead.lasts_ms
    assert () == _standing(handle)
    handle.begin(after=lost)
    (_late,) = _standing(handle)
    lake.clock.slept_ms = 0
    other.catalog().load_table(read).delete("id = 1")  # there are no turns there for a while
    assert lake.clock.slept_ms < 1000


def test_a_stream_of_appends_waits_for_a_third_try(lake, handle, names):
    """Of who reads the whole table; an append of who began before it does not."""
    read, written = names
    stream, old = lake.open(), lake.open().begin()
    old.load_table(read).append(rows(4))
    lost = None
    for _ in range(2):
        lost = handle.begin(after=lost)
        ids(lost.load_table(read))
        lost.load_table(written).append(rows(7))
        lake.clock.ahead_ms += 2000
        stream.catalog().load_table(read).append(rows(8))
        with pytest.raises(txns.Conflict):
            lost.commit()
    third = handle.begin(after=lost)
    (two,) = _standing(handle)
    lake.clock.slept_ms = 0
    old.commit()
    assert 0 == lake.clock.slept_ms
    stream.catalog().load_table(read).append(rows(9))
    assert two.lasts_ms - 1500 <= lake.clock.slept_ms <= 1.5 * two.lasts_ms
    assert () == _standing(handle)
    third.rollback()


def _lose_twice(lake, handle, read, written):
    """Give the third try of a transaction, for which appends wait, too."""
    lost = None
    for _ in range(2):
        lost = handle.begin(after=lost)
        ids(lost.load_table(read))
        lost.load_table(written).append(rows(7))
        lake.clock.ahead_ms += 2000
        lake.open().catalog().load_table(read).append(rows(8))
        with pytest.raises(txns.Conflict):
            lost.commit()
    return handle.begin(after=lost)


@pytest.mark.parametrize("apply", ["inline", "atomic"])
def test_who_only_adopts_waits_for_a_third_try(lake, handle, names, apply):
    """
    Else `txns adopt --watch` would have who reads a table lose beside a stream of strangers.

    1. A transaction has lost twice, and reads a table. 2. A stranger appends. 3. That is adopted.
    """
    read, written = names
    third = _lose_twice(lake, handle, read, written)
    (two,) = _standing(handle)
    ids(third.load_table(read))
    lake.another_catalog().load_table(read).append(rows(100))
    lake.clock.slept_ms = 0
    assert lake.open(lake.another_catalog(), apply=apply).parts.committer.adopt(("shop", "a"))
    assert two.lasts_ms - 1500 <= lake.clock.slept_ms <= 1.5 * two.lasts_ms
    third.rollback()


@pytest.mark.parametrize("apply", ["inline", "atomic"])
def test_who_adopts_on_his_way_is_as_old_as_he_is(lake, handle, names, apply):
    """Who began before the holder does not wait, and who waits says for how long."""
    read, written = names
    other = lake.open(lake.another_catalog(), apply=apply)
    old = other.begin()
    old.load_table(read).append(rows(4))
    third = _lose_twice(lake, handle, read, written)
    (two,) = _standing(handle)
    young = other.begin()
    young.load_table(read).append(rows(5))
    young.load_table(written)
    lake.another_catalog().load_table(read).append(rows(100))
    lake.clock.slept_ms = 0
    old.commit()
    assert lake.clock.slept_ms < 1000
    lake.another_catalog().load_table(read).append(rows(101))
    young.commit()
    assert two.lasts_ms - 1500 <= young.attempts.waited_ms <= 1.5 * two.lasts_ms
    third.rollback()


@pytest.mark.parametrize("apply", ["inline", "atomic"])
def test_who_adopts_on_his_way_does_not_wait_for_his_tries_before(lake, names, monkeypatch, apply):
    """
    1. The third try reserves for the second time, and does not hear of it. 2. It loses.

    3. Nothing can be reserved for the fourth one, which adopts.
    """
    read, written = names
    handle = lake.open(apply=apply)
    other = lake.open()
    older = [other.begin() for _ in range(3)]  # who wait for nobody
    handle.catalog().load_table(written).append(rows(9))
    append = handle.parts.loop.append

    def unheard(*args, **options):
        append(*args, **options)
        raise OSError("no answer")

    def unsent(*_args, **_options):
        raise OSError("no route")

    lost = _lose(handle, other, *names, faster=older.pop(), took_ms=2000)
    lost = _lose(handle, other, *names, after=lost, faster=older.pop(), took_ms=2000)
    with monkeypatch.context() as patched:
        patched.setattr(handle.parts.loop, "append", unheard)
        third = handle.begin(after=lost)
        patched.undo()
        assert [(third.txn_id, 2)] == [(each.txn_id, each.number) for each in _standing(handle)]
        ids(third.load_table(read))
        third.load_table(written).append(rows(7))
        older[0].load_table(read).append(rows(8))
        older[0].commit()
        with pytest.raises(txns.Conflict):
            third.commit()
        patched.setattr(handle.parts.loop, "append", unsent)
        fourth = handle.begin(after=third)
    assert fourth.options.turn.number == 1
    fourth.load_table(read).append(rows(4))
    ids(fourth.load_table(written))
    lake.another_catalog().load_table(read).append(rows(100))
    lake.clock.slept_ms = 0
    fourth.commit()
    assert (0, ()) == (fourth.attempts.waited_ms, _standing(handle))
    assert lake.clock.slept_ms < 1000
    (adoption,) = [each for each in lake.standing() if each.kind is Kind.ADOPT]
    assert () == adoption.reserved


def test_who_only_adopts_waits_once(lake, names, monkeypatch):
    """
    Else `txns adopt --watch` would leave all other tables for one of them.

    1. It waits for an older one. 2. Somebody commits to the table, and another one reserves it.
    """
    lazy = lake.open(apply="next")
    begun = [lazy.begin() for _ in range(5)]  # who wait for nobody
    for txn in begun:
        txn.load_table(names[0]).append(rows(4))
    ticket = lazy.upper + 1
    lazy.catalog().load_table(names[1]).append(rows(9))
    lake.another_catalog().load_table(names[0]).append(rows(100))
    uuid = str(lake.catalog.load_table(names[0]).metadata.table_uuid)
    due, found = Adoption.due, []

    def due_and_overtaken(adoption, table):
        request = due(adoption, table)
        if begun and len(found) % 2 == 0:  # the second look of each is whether something is left
            begun.pop().commit()
            _reserve(lazy, _reserved(f"again{len(found)}", uuid, ticket=ticket, number=2))
        found.append(request)
        return request

    monkeypatch.setattr(Adoption, "due", due_and_overtaken)
    committer = lake.open().parts.committer
    lake.clock.slept_ms = 0
    with pytest.raises(txns.Conflict):
        [*committer.adopting(("shop", "a"))]
    assert 4 == len(begun)
    assert 900 <= lake.clock.slept_ms <= 1500
    begun.clear()
    assert 1 == len([*committer.adopting(("shop", "a"))])
    assert 100 in ids(lazy.snapshot().load_table(names[0]))


def test_who_adopts_ends_while_he_waits(lake, handle, names):
    """And leaves nothing: SIGTERM ends `txns adopt --watch`, not a turn that may take minutes."""
    uuid = str(handle.catalog().load_table(names[0]).metadata.table_uuid)
    _reserve(handle, _reserved("older", uuid, ticket=0, number=2, lasts_ms=60_000))
    lake.another_catalog().load_table(names[0]).append(rows(100))
    before, standing = lake.files(), _standing(handle)
    lake.clock.slept_ms = 0
    parts = lake.open().parts
    assert [] == [*adopt_all(parts, lambda: lake.clock.slept_ms > 2000)]
    assert 2000 < lake.clock.slept_ms < 5000
    assert (before, standing) == (lake.files(), _standing(handle))
    assert 1 == len([*adopt_all(parts, lambda: False)])


def test_who_was_overridden_reserves_nothing_for_a_while(lake, handle, names):
    """Its try took longer than it had asked for."""
    read, _ = names
    lost = _lose(handle, lake.open(), *names)
    late = handle.begin(after=lost)
    lake.open().catalog().load_table(read).delete("id = 1")
    assert () == _standing(handle)
    again = handle.begin(after=late)
    assert again.options.turn.reserved is None
    assert late.options.turn.ticket == again.options.turn.ticket
    assert () == _standing(handle)


def test_a_long_transaction_beside_short_ones_commits(lake, names):
    """It reads for a quarter of a second what is written all the time; three tries, if not slow."""
    read, written = names
    over = threading.Event()
    committed = []
    long_handle, short_handle = (
        txns.open(lake.another_catalog(), clock=SystemClock()) for _ in range(2)
    )

    def write(txn):
        txn.load_table(read).overwrite(rows(len(committed)))

    def write_all_the_time():
        while not over.is_set():
            txns.run_transaction(short_handle, write, max_attempts=50)
            committed.append(1)
            time.sleep(0.01)

    thread = threading.Thread(target=write_all_the_time)
    thread.start()
    tries = []

    def work(txn):
        tries.append(1)
        ids(txn.load_table(read))
        time.sleep(0.25)
        txn.load_table(written).append(rows(1))

    try:
        for _ in range(3):
            txns.run_transaction(long_handle, work, max_attempts=8)
    finally:
        over.set()
        thread.join()
    assert 3 < len(tries) <= 3 * 5  # it has lost, so there is something that it beats
    assert () == _standing(long_handle)
    assert [1, 1, 1] == lake.plain_ids("shop.b")
