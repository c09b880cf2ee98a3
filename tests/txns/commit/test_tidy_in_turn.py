"""A tidy under the lock of the commit table's row, where writers wait for each other."""

from __future__ import annotations

import threading

import pytest

from tests.txns.commit.test_ahead import together
from tests.txns.commit.test_atomic import append
from tests.txns.lake import rows
from txns._commit import tidy
from txns._commit.tidy import Tidier
from txns._log.archive import Archive


@pytest.fixture
def atomic(lake):
    return lake.open(apply="atomic", tidy_after=4)


def test_what_another_one_has_tidied_is_not_left_by_the_own_tidy(lake, atomic):
    """
    Only what a tidy had to leave makes the next one wait.

    1. A head is due. 2. Another process tidies. 3. The own tidy finds nothing to do.
    4. The next one comes after as many entries as ever.
    """
    a = lake.table("a")
    calm = lake.open(apply="atomic", tidy_after=1_000)
    for number in range(12):
        append(calm, number, to=(a,))
    head = calm.parts.log.load()
    assert 13 == calm.tidy()
    assert atomic.parts.tidier.tidy_when_due(head)
    for number in range(5):
        append(atomic, number, to=(a,))
    assert 5 > len(lake.standing())


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
    assert 44 > most


def test_one_thread_of_a_process_tidies_the_others_go_on(lake, atomic, monkeypatch):
    a = lake.table("a")
    real, found = Tidier._tidy_if_still_due, []
    tidier = atomic.parts.tidier

    def tidied(self, head):
        other = threading.Thread(target=lambda: found.append(tidier.tidy_when_due(head)))
        other.start()
        other.join(5)
        found.append(other.is_alive())
        return real(self, head)

    monkeypatch.setattr(Tidier, "_tidy_if_still_due", tidied)
    for number in range(4):
        append(atomic, number, to=(a,))
    assert [False, False] == found
    assert 2 == len(lake.standing())


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
    ("large", "expected"), [(1 << 20, [2, 3, 4, 2, 3, 4, 2]), (100, [2, 0, 1, 2, 0, 1, 2])]
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


def unread(*_args, **_kwargs):
    raise AssertionError("the archive is read")
