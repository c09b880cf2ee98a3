"""A tidy under the lock of the commit table's row, where writers wait for each other."""

from __future__ import annotations

import pytest

from tests.txns.commit.test_ahead import together
from tests.txns.commit.test_atomic import append
from tests.txns.lake import rows
from txns._admin.invariants import check_all
from txns._commit import tidy
from txns._commit.outstanding import AppliedTo
from txns._log.archive import Archive
from txns._log.swap import Outcome, Swap


@pytest.fixture
def atomic(lake):
    return lake.open(apply="atomic", tidy_after=4)


def test_what_another_one_has_tidied_is_not_left_by_the_own_tidy(lake, atomic, monkeypatch):
    """
    Only what a tidy had to leave makes the next one wait.

    1. A tidy finds a table that does not answer. 2. It does, and another process tidies.
    3. The next one of the first process comes after as many entries as ever.
    """
    a = lake.table("a")
    calm = lake.open(apply="atomic", tidy_after=1_000)
    for number in range(12):
        append(calm, number, to=(a,))
    with monkeypatch.context() as silent:
        silent.setattr(AppliedTo, "everywhere", lambda *_args: False)
        append(atomic, 12, to=(a,))
    assert 14 == calm.tidy()
    for number in range(5):
        append(atomic, number, to=(a,))
    assert 5 > len(lake.standing())


def test_a_commit_tidies_in_its_own_swap(lake, atomic):
    """Whoever waits for a lock twice waits for everybody twice."""
    a = lake.table("a")
    for number in range(3):
        append(atomic, number, to=(a,))
    versions = len(log_versions(lake))
    append(atomic, 3, to=(a,))
    assert 2 == len(lake.standing())
    assert versions + 1 == len(log_versions(lake))
    head = atomic.parts.log.load()
    assert head.state.entries[-1].tidied_upto == head.state.tidied_upto > 0
    assert 5 == sum(1 for _ in atomic.transactions())
    assert [] == check_all(atomic.parts).violations


@pytest.mark.parametrize("outcome", [Outcome.LOST, Outcome.NOT_SENT, Outcome.MAYBE])
def test_a_swap_that_is_not_won_has_not_tidied(lake, atomic, monkeypatch, outcome):
    """The next attempt tidies anew; of the first one nothing is left once a head tells."""
    a = lake.table("a")
    for number in range(3):
        append(atomic, number, to=(a,))
    real, swaps = atomic.parts.log.replace, []

    def replaced(*args, **options):
        swaps.append(1)
        return Swap(outcome) if len(swaps) == 1 else real(*args, **options)

    monkeypatch.setattr(atomic.parts.log, "replace", replaced)
    append(atomic, 3, to=(a,))
    assert 2 == len(swaps)
    assert 2 == len(lake.standing())
    for number in range(4, 8):
        append(atomic, number, to=(a,))
    assert list(range(8)) == lake.plain_ids(a)
    assert [] == check_all(atomic.parts).violations


def test_a_tidy_that_fails_holds_up_no_commit(lake, atomic, monkeypatch):
    a = lake.table("a")
    monkeypatch.setattr(tidy, "rows_of_files", unread)
    for number in range(6):
        append(atomic, number, to=(a,))
    assert 7 == len(lake.standing())
    assert list(range(6)) == lake.plain_ids(a)


def test_entries_that_come_in_twos_are_tidied(lake, atomic, monkeypatch):
    """Of a number of entries that is always even one of so many is never the next."""
    a, b = lake.table("a"), lake.table("b")
    most = 0
    for number in range(24):
        first, second = atomic.begin(), atomic.begin()
        first.load_table(a).append(rows(number))
        second.load_table(b).append(rows(number))
        together(atomic, monkeypatch, first, second)
        most = max(most, len(atomic.parts.log.newest.state.entries))
    assert 6 > most


def test_a_transaction_finds_in_the_head_what_others_have_committed_since_it_began(
    lake, atomic, monkeypatch
):
    """Half of what may stand there: a tidy meanwhile leaves it, and no archive is read for it."""
    a, b = lake.table("a"), lake.table("b")
    append(atomic, 0, to=(a, b))
    others = lake.open(apply="atomic", tidy_after=4)
    for number in range(8):
        txn = atomic.begin()
        txn.load_table(a).append(rows(number))
        for each in range(2):
            append(others, each, to=(b,))
        with monkeypatch.context() as patched:
            patched.setattr(Archive, "rows", unread)
            txn.commit()
    assert 6 > len(lake.standing())
    assert 8 < sum(1 for _ in atomic.transactions())


@pytest.mark.parametrize(
    ("large", "expected"), [(1 << 20, [2, 3, 4, 2, 3, 4, 2]), (100, [2, 1, 2, 1, 2, 1, 2])]
)
def test_a_head_of_many_bytes_is_tidied_earlier_and_whole(
    lake, atomic, monkeypatch, large, expected
):
    """Each swap writes it again; of one of few bytes the newer half stays."""
    a = lake.table("a")
    monkeypatch.setattr(tidy, "LARGE_HEAD_BYTES", large)
    standing = []
    for number in range(len(expected)):
        append(atomic, number, to=(a,))
        standing.append(len(lake.standing()))
    assert expected == standing  # with the registration


def log_versions(lake):
    return [each for each in lake.files() if "/commits/metadata/" in each and ".json" in each]


def unread(*_args, **_kwargs):
    raise AssertionError("the archive is read")
