"""The commit loop: what an attempt's outcome is, what a failure leaves, who waits for whom."""

from __future__ import annotations

import threading

import pytest
from pyiceberg.exceptions import BadRequestError, CommitFailedException, ForbiddenError

import txns
from tests.txns.lake import ids, rows
from tests.txns.test_regression import commit_together
from tests.txns.wrapped import COMMITS, Wrapped
from txns._commit.group import CommitGroup, Key, Member, Origin


class Replica:
    """Answers loads of the commit table from an older state, while it lags."""

    def __init__(self):
        self.old = None
        self.lags = False

    def __call__(self, real):
        if not self.lags:
            return real()
        self.old = self.old or real()
        return self.old


def staged(handle, table, value, **options):
    """Begin a transaction that has appended one row."""
    txn = handle.begin(**options)
    txn.load_table(table).append(rows(value))
    return txn


# -------------------------------------------------------------------- an id once


def test_an_id_commits_once_in_a_group(lake):
    """Two tries under one id in one swap: both are answered with the one entry."""
    a = lake.table("a")
    handle = lake.open()
    outcomes = commit_together(handle, {a: [1, 2]}, txn_id="load-7")
    assert 1 == len({outcome.commit_ts for outcome in outcomes.values()})
    assert 1 == len(ids(lake.open().snapshot().load_table(a)))
    assert ["load-7"] == [row["txn_id"] for row in handle.transactions() if row["kind"] == "commit"]


# -------------------------------------------------------------------- older heads


def test_an_older_head_settles_nothing(lake):
    """
    "Another head" is not "a newer head".

    1. A replica of the catalog has the log as it was. 2. Somebody commits; T begins.
    3. T's swap lands and its answer is lost. 4. The replica answers from then on.
    """
    a = lake.table("a", [1])
    replica = Replica()

    def lost(real):
        real()
        replica.lags = True
        raise ConnectionError("the answer was lost")

    catalog = Wrapped(lake.another_catalog(), lost, replica)
    handle = lake.open(catalog)
    replica.old = lake.catalog.load_table(COMMITS)
    lake.open().catalog().load_table(a).append(rows(2))
    txn = staged(handle, a, 3)
    with pytest.raises(txns.CommitStateUnknown):
        txn.commit()
    assert [1, 2, 3] == ids(lake.open().snapshot().load_table(a))
    replica.lags = False
    assert handle.find(txn.txn_id) is not None


@pytest.mark.parametrize("by", ["itself", "another"])
def test_a_reader_does_not_go_back(lake, by):
    """What was seen, or made by a swap, stays visible when the catalog answers from before it."""
    a = lake.table("a", [1])
    replica = Replica()
    handle = lake.open(Wrapped(lake.another_catalog(), load=replica))
    replica.old = lake.catalog.load_table(COMMITS)
    if by == "itself":
        replica.lags = True
        commit_ts = staged(handle, a, 2).commit().commit_ts
    else:
        commit_ts = staged(lake.open(), a, 2).commit().commit_ts
        assert commit_ts == handle.upper
        replica.lags = True
    assert commit_ts == handle.upper
    assert [1, 2] == ids(handle.begin().load_table(a))


def test_a_head_that_lags_is_not_taken_for_a_backup(lake):
    """
    A table may show what the log does not say yet.

    1. A replica of the catalog has the log as it was. 2. Somebody commits and applies. 3. A process
    opens the catalog, loads the head from the replica, then the table. 4. The replica catches up.
    """
    a = lake.table("a", [1])
    older, loads = lake.catalog.load_table(COMMITS), []

    def lagging(real):
        loads.append(1)
        return older if len(loads) <= 5 else real()

    staged(lake.open(), a, 2).commit()
    handle = lake.open(Wrapped(lake.another_catalog(), load=lagging))
    assert [1] == ids(handle.snapshot().load_table(a))
    assert [1, 2] == ids(handle.snapshot().load_table(a))


def test_a_writer_tries_again_on_an_older_head(lake):
    """A swap on an older head is lost, and is tried again when the catalog has caught up."""
    a = lake.table("a", [1])
    replica = Replica()
    tries = []

    def swap(real):
        tries.append(1)
        try:
            return real()
        finally:
            replica.lags = len(tries) < 3

    handle = lake.open(Wrapped(lake.another_catalog(), swap, replica))
    txn = staged(handle, a, 3)
    staged(lake.open(), a, 2).commit()
    replica.lags = True
    replica.old = None
    txn.commit()
    assert [1, 2, 3] == lake.plain_ids(a)


@pytest.mark.parametrize("error", [BadRequestError, CommitFailedException])
def test_a_refusal_by_sequence_number_is_a_lost_swap(lake, error):
    """Some servers call an attempt on an outdated head malformed."""
    a = lake.table("a", [1])

    def swap(real):
        catalog.swap = None
        staged(lake.open(), a, 2).commit()
        try:
            return real()
        except CommitFailedException:
            raise error("Cannot add snapshot with sequence number 3 older than 4") from None

    catalog = Wrapped(lake.another_catalog(), swap)
    staged(lake.open(catalog), a, 3).commit()
    assert [1, 2, 3] == lake.plain_ids(a)


# -------------------------------------------------------------------- refusals


@pytest.mark.parametrize("error", [ForbiddenError, BadRequestError])
def test_a_refusal_after_the_swap_landed(lake, error):
    """A client repeats a request by itself: the first has landed, the second is refused."""
    a = lake.table("a", [1])

    def swap(real):
        real()
        raise error("the token has expired meanwhile")

    txn = staged(lake.open(Wrapped(lake.another_catalog(), swap)), a, 2)
    txn.commit()
    assert [1, 2] == lake.plain_ids(a)


@pytest.mark.parametrize("error", [ForbiddenError, BadRequestError])
def test_a_refusal_that_did_not_land(lake, error):
    """It is told as what it is, at once; nothing is deleted, and the next COMMIT may work."""
    a = lake.table("a", [1])

    def swap(_real):
        raise error("no writer here")

    catalog = Wrapped(lake.another_catalog(), swap)
    txn = staged(lake.open(catalog), a, 2)
    before = lake.files()
    with pytest.raises(error, match="no writer here"):
        txn.commit()
    assert lake.clock.slept_ms < 100
    assert before <= lake.files()
    with pytest.raises(txns.InvalidUsage, match="may still land"):
        txn.load_table(a).append(rows(3))
    catalog.swap = None
    txn.commit()
    assert [1, 2] == lake.plain_ids(a)


def test_rollback_after_a_refusal(lake):
    """Files go when no attempt can land any more; until the head has moved they stay."""
    a = lake.table("a", [1])

    def swap(_real):
        raise ForbiddenError("no writer here")

    handle = lake.open(Wrapped(lake.another_catalog(), swap))
    before = lake.files()
    early, late = staged(handle, a, 2), staged(handle, a, 3)
    for txn in (early, late):
        with pytest.raises(ForbiddenError):
            txn.commit()
    with pytest.raises(txns.CommitStateUnknown):
        early.rollback()
    kept = lake.files()
    assert before < kept
    lake.open().advance(lake.open().upper + 1)
    now = lake.files()
    late.rollback()
    assert now > lake.files()
    assert txns.State.UNKNOWN is early.state
    assert txns.State.ROLLED_BACK is late.state


def test_rollback_of_what_has_landed(lake):
    """
    A rollback does not say that it undid what has committed.

    1. T's swap is refused and its request is still on its way. 2. It lands. 3. T is rolled back.
    """
    a = lake.table("a", [1])
    on_its_way = []

    def swap(real):
        on_its_way.append(real)
        raise ForbiddenError("the token has expired meanwhile")

    txn = staged(lake.open(Wrapped(lake.another_catalog(), swap)), a, 2)
    with pytest.raises(ForbiddenError):
        txn.commit()
    on_its_way[0]()
    with pytest.raises(txns.InvalidUsage, match="has committed"):
        txn.rollback()
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))


# -------------------------------------------------------------------- failures that are no outcome


def dropped(_real):
    """Fail as a connection does."""
    raise ConnectionError("connection reset by peer")


def test_a_dropped_connection_at_commit(lake):
    """What was staged stays: COMMIT may be tried again."""
    a = lake.table("a", [1])
    catalog = Wrapped(lake.another_catalog())
    txn = staged(lake.open(catalog), a, 2)
    catalog.load = dropped
    with pytest.raises(ConnectionError):
        txn.commit()
    catalog.load = None
    txn.load_table(a).append(rows(3))
    txn.commit()
    assert [1, 2, 3] == lake.plain_ids(a)


def test_rollback_after_a_dropped_connection(lake):
    """Nothing was sent, so everything that was written goes."""
    a = lake.table("a", [1])
    catalog = Wrapped(lake.another_catalog())
    handle = lake.open(catalog)
    before = lake.files()
    txn = staged(handle, a, 2)
    catalog.load = dropped
    with pytest.raises(ConnectionError):
        txn.commit()
    txn.rollback()
    assert before == lake.files()


def test_run_commits_again(lake):
    """`txns.run_transaction` tries a commit again with what was staged: the callback runs once."""
    a = lake.table("a", [1])
    catalog = Wrapped(lake.another_catalog())
    handle = lake.open(catalog)
    failures, calls = iter([1, 1, 0]), []

    def load(real):
        return dropped(real) if next(failures, 0) else real()

    def work(txn):
        txn.load_table(a).append(rows(2))
        calls.append(1)
        catalog.load = load

    txns.run_transaction(handle, work)
    assert [1] == calls
    assert [1, 2] == lake.plain_ids(a)


def test_a_failed_leader_is_not_the_group(lake):
    """A connection that drops for the leader fails its own transaction, not those it leads."""
    a, b = lake.table("a"), lake.table("b")
    catalog = Wrapped(lake.another_catalog())
    handle = lake.open(catalog)
    loop = handle.parts.loop
    append_all = loop._append_all

    def once(_leader, members):
        loop._append_all = append_all
        assert 3 == len(members)
        raise ConnectionError("connection reset by peer")

    loop._append_all = once
    outcomes = commit_together(handle, {a: [1], b: [2, 3]})
    failed = [each for each in outcomes.values() if isinstance(each, BaseException)]
    assert [ConnectionError] == [type(each) for each in failed]
    read = lake.open().snapshot()
    assert 2 == len(ids(read.load_table(a)) + ids(read.load_table(b)))


def test_a_refused_group_goes_on_one_by_one(lake):
    """A body that the catalog refuses is one member's: the others commit."""
    a, b = lake.table("a"), lake.table("b")

    def swap(real):
        if catalog.refused(handle):
            raise BadRequestError("the body is too large")
        return real()

    catalog = Wrapped(lake.another_catalog(), swap)
    handle = lake.open(catalog)
    append = handle.parts.log.append
    sent = []

    def appending(head, entries, *also, **options):
        sent[:] = [entry for entry in entries if entry.changes[0].table == ("shop", "a")]
        return append(head, entries, *also, **options)

    handle.parts.log.append = appending
    catalog.refused = lambda _handle: bool(sent)
    outcomes = commit_together(handle, {a: [1], b: [2, 3]})
    assert isinstance(outcomes[1], BadRequestError)
    assert [2, 3] == ids(lake.open().snapshot().load_table(b))


# -------------------------------------------------------------------- who waits for whom


def test_whoever_is_done_leaves():
    """
    A member whose entry stands does not wait behind the groups that came later.

    1. A leads B, and is done. 2. C leads, for as long as it takes. 3. B leaves.
    """
    group = CommitGroup()
    leading, both, left = threading.Event(), threading.Event(), threading.Event()
    first = {name: Member(Key(name, 0, Origin.FRESH), None) for name in "ab"}

    def lead_both(_leader, members):
        leading.set()
        both.wait(10)
        for member in members:
            member.entry = object()

    def lead_long(leader, _members):
        left.wait(10)
        leader.entry = object()

    def enter(member, lead, done=None):
        group.run(member, lead)
        if done:
            done.set()

    group._waiting.append(first["b"])  # it has come before its thread looks
    threads = [threading.Thread(target=enter, args=(first["a"], lead_both))]
    threads[0].start()
    leading.wait(10)
    last = Member(Key("c", 0, Origin.FRESH), None)
    threads.append(threading.Thread(target=enter, args=(last, lead_long)))
    threads.append(threading.Thread(target=enter, args=(first["b"], lead_long, left)))
    for thread in threads[1:]:
        thread.start()
    both.set()
    assert left.wait(5)
    for thread in threads:
        thread.join()


# -------------------------------------------------------------------- the commit table


def test_a_commit_table_that_went_away(lake):
    """COMMIT is no acknowledgement into a new log: an error with the cure, and nothing is lost."""
    a = lake.table("a", [1])
    handle = lake.open()
    txn = staged(handle, a, 2)
    location = lake.catalog.load_table(COMMITS).metadata_location
    lake.catalog.drop_table(COMMITS)
    with pytest.raises(txns.InvalidUsage, match="txns recover"):
        txn.commit()
    assert not lake.catalog.table_exists(COMMITS)
    lake.catalog.register_table(COMMITS, location)
    txn.commit()
    assert [1, 2] == lake.plain_ids(a)


@pytest.mark.parametrize("deed", ["commit", "begin", "create", "append", "register", "off"])
def test_another_commit_table_in_its_place(lake, deed):
    """A new and empty log under the name takes nothing of a handle that knows the old one."""
    a = lake.table("a", [1])
    lake.table("b", [1], register=False)
    handle = lake.open()
    txn = staged(handle, a, 2)
    table = handle.catalog().load_table(a)
    lake.catalog.drop_table(COMMITS)
    other = lake.open(lake.another_catalog())
    deeds = {
        "commit": txn.commit,
        "begin": handle.begin,
        "create": lambda: handle.catalog().create_table("shop.n", rows(1).schema),
        "append": lambda: table.append(rows(3)),
        "register": lambda: handle.register("shop.b"),
        "off": handle.off,
    }
    with pytest.raises(txns.InvalidUsage, match="another commit table"):
        deeds[deed]()
    assert 0 == other.upper


def test_a_block_whose_commit_has_no_answer(lake):
    """It ends with what COMMIT said, and what is raised after a refusal says it as well."""
    a = lake.table("a", [1])

    def swap(_real):
        raise ForbiddenError("no writer here")

    handle = lake.open(Wrapped(lake.another_catalog(), swap))
    with pytest.raises(txns.CommitStateUnknown) as raised, handle.begin() as txn:
        txn.load_table(a).append(rows(2))
        txn.commit()
    assert isinstance(raised.value.__context__, ForbiddenError)
    assert txns.State.UNKNOWN is txn.state


def test_rollback_while_the_log_cannot_be_asked(lake):
    """A refused commit may have landed: the rollback does not say that it is undone."""
    a = lake.table("a", [1])

    def swap(_real):
        raise ForbiddenError("no writer here")

    catalog = Wrapped(lake.another_catalog(), swap)
    txn = staged(lake.open(catalog), a, 2)
    with pytest.raises(ForbiddenError):
        txn.commit()
    catalog.load = dropped
    with pytest.raises(txns.CommitStateUnknown) as raised:
        txn.rollback()
    assert isinstance(raised.value.__cause__, ConnectionError)


# -------------------------------------------------------------------- a swap that was won


class Wrong:
    """An answer of a catalog out of which nothing can be made."""

    def __getattr__(self, name):
        raise RuntimeError(f"the answer has no {name}")


@pytest.mark.parametrize("deed", ["clock", "answer"])
def test_what_fails_after_the_swap_is_no_failure(lake, monkeypatch, deed):
    """A swap that was won is answered as one, whatever goes wrong with what follows it."""
    a = lake.table("a", [1])

    def swap(real):
        answer = real()
        if deed == "answer":
            return Wrong()
        monkeypatch.setattr(handle.parts.clock, "elapsed_ms", failing)
        return answer

    def failing():
        monkeypatch.undo()
        raise MemoryError("after the swap")

    handle = lake.open(Wrapped(lake.another_catalog(), swap), apply="next")
    txn = staged(handle, a, 2)
    txn.commit()
    assert txns.State.COMMITTED is txn.state
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))


def test_an_attempt_is_noted_before_it_is_made(lake):
    """
    An interrupt in the swap leaves an unknown outcome, and nothing is deleted.

    1. Ctrl-C comes while T's swap is on its way. 2. T is rolled back: it is not in the log.
    3. The swap arrives.
    """
    a = lake.table("a", [1])
    on_its_way = []

    def swap(real):
        on_its_way.append(real)
        raise KeyboardInterrupt

    handle = lake.open(Wrapped(lake.another_catalog(), swap))
    txn = staged(handle, a, 2)
    with pytest.raises(KeyboardInterrupt):
        txn.commit()
    with pytest.raises(txns.CommitStateUnknown):
        txn.rollback()
    on_its_way.pop()()
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))
