"""The handle: options, time, subscriptions, transactions of several processes."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException

import txns
from tests.txns.lake import ids, rows


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"register": "some"}, "register"),
        ({"apply": "later"}, "apply"),
        ({"tidy_after": 0}, "tidy_after"),
        ({"isolation": "CHAOS"}, "level"),
        ({"commit_table": ("a.b", "c")}, "commit_table"),
    ],
)
def test_a_wrong_option_is_named(lake, options, named):
    """The message says which, and what it may be."""
    with pytest.raises(txns.InvalidUsage, match=named):
        lake.open(**options)


def test_two_openers_make_one_commit_table(lake):
    """And both use it."""
    one, two = lake.open(), lake.open(lake.another_catalog())
    assert one.parts.log.load().uuid == two.parts.log.load().uuid


def test_two_openers_make_one_namespace(lake, monkeypatch):
    """The second one's database refuses its key, in words of its own: no error of ours."""
    late = lake.another_catalog()
    asked = []
    real = type(late).namespace_exists

    def namespace_exists(namespace):
        if not asked:
            asked.append(namespace)
            lake.catalog.create_namespace(namespace)
            return False
        return real(late, namespace)

    monkeypatch.setattr(late, "namespace_exists", namespace_exists)
    lake.open(late)
    assert lake.catalog.table_exists("txns.commits")


def test_a_missing_commit_table(lake, handle):
    """A registered table without its log: an error with the cure."""
    lake.table("a", [1])
    lake.catalog.drop_table("txns.commits")
    with pytest.raises(txns.InvalidUsage, match="txns recover"):
        _ = handle.upper


def test_advance_makes_a_time_readable(lake, handle):
    """The upper moves to it, not beyond a minute from now."""
    a = lake.table("a", [1])
    now = lake.clock.now_ms()
    assert now + 5000 == handle.advance(now + 5000)
    assert [1] == ids(handle.snapshot(now + 5000).load_table(a))
    assert now + 5000 == handle.advance(now)
    with pytest.raises(txns.InvalidUsage, match="60 s"):
        handle.advance(now + 600_000)


def test_basis(lake, handle):
    """Waits until the log has come so far; an error when it does not."""
    with pytest.raises(txns.InvalidUsage, match="basis"):
        handle.begin(basis=handle.upper + 1, basis_timeout_ms=5_000)
    assert lake.clock.slept_ms >= 2_500  # the rest is what a busy machine takes
    assert handle.upper == handle.begin(basis=handle.upper).read_ts


def test_wait(lake, handle):
    """Gives the newest commit above a timestamp that wrote a table."""
    a, b = lake.table("a"), lake.table("b")
    ts = handle.upper
    handle.catalog().load_table(b).append(rows(1))
    assert handle.wait(a, ts, timeout_ms=100) is None
    handle.catalog().load_table(a).append(rows(1))
    assert handle.upper == handle.wait(a, ts)


def test_subscribe(lake, handle):
    """Every transaction once, in order, with its net rows; archive and head alike."""
    a, b = lake.table("a", [1, 2, 3]), lake.table("b")
    start = handle.upper
    with handle.begin() as first:
        first.load_table(a).append(rows(4))
        first.load_table(b).append(rows(40))
    with handle.begin() as second:
        second.load_table(a).delete("id = 2")
        second.load_table(a).append(rows(5))
    handle.tidy()
    handle.catalog().load_table(b).append(rows(41))
    *deliveries, progress = handle.subscribe([a], as_of=start, until=handle.upper)
    seen = [
        (
            delivery.commit_ts,
            delivery.txn_id,
            sorted(delivery.tables[0].appended["id"].to_pylist()),
            delivery.tables[0].removed["id"].to_pylist(),
        )
        for delivery in deliveries
    ]
    assert [
        (first.committed.commit_ts, first.txn_id, [4], []),
        (second.committed.commit_ts, second.txn_id, [5], [2]),
    ] == seen
    assert (handle.upper, None) == (progress.commit_ts, progress.txn_id)
    assert [] == list(handle.subscribe([a], as_of=handle.upper, until=handle.upper))


def test_threads_share_swaps(lake):
    """Transactions that wait in one process are appended together; each row is there once."""
    a = lake.table("a")
    handle = lake.open(tidy_after=1000)
    swaps = []
    append = handle.parts.log.append
    started = threading.Barrier(8)

    def counting(head, entries, *also, **options):
        swaps.append(len(entries))
        return append(head, entries, *also, **options)

    handle.parts.log.append = counting

    def work(number):
        with handle.begin() as txn:
            txn.load_table(a).append(rows(number))
            started.wait()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(range(8)) == lake.plain_ids(a)
    assert 8 > len(swaps)
    assert list(range(8)) == ids(handle.snapshot().load_table(a))


class Unreliable:
    """A catalog whose swaps of the commit table lose their answers, or tell falsely."""

    def __init__(self, catalog, outcomes):
        self.catalog, self.outcomes = catalog, list(outcomes)

    def __getattr__(self, name):
        return getattr(self.catalog, name)

    def commit_table(self, table, requirements, updates):
        outcome = "fine"
        if table.name() == ("txns", "commits") and self.outcomes:
            outcome = self.outcomes.pop(0)
        if outcome == "lost before":
            raise ConnectionError("the request was lost")
        response = self.catalog.commit_table(table, requirements, updates)
        if outcome == "lost after":
            raise ConnectionError("the answer was lost")
        if outcome == "falsely lost":
            raise CommitFailedException("the catalog tried again by itself")
        return response


@pytest.mark.parametrize("outcome", ["lost before", "lost after", "falsely lost"])
def test_unknown_answers_are_settled_by_the_log(lake, outcome):
    """Exactly once, whatever the catalog says."""
    a = lake.table("a", [1])
    handle = lake.open(Unreliable(lake.another_catalog(), [outcome]))
    with handle.begin() as txn:
        txn.load_table(a).append(rows(2))
    assert [1, 2] == lake.plain_ids(a)
    assert 1 == sum(row["txn_id"] == txn.txn_id for row in handle.transactions())


def test_an_outcome_that_stays_unknown(lake):
    """CommitStateUnknown: nothing is deleted; the id tells later."""
    a = lake.table("a", [1])
    catalog = Unreliable(lake.another_catalog(), ["lost before"] * 1000)
    handle = lake.open(catalog)
    txn = handle.begin()
    txn.load_table(a).append(rows(2))
    before = lake.files()
    with pytest.raises(txns.CommitStateUnknown) as raised:
        txn.commit()
    assert ("08007", txn.txn_id) == (raised.value.sqlstate, raised.value.txn_id)
    with pytest.raises(txns.CommitStateUnknown):
        txn.rollback()
    assert before <= lake.files()
    catalog.outcomes.clear()
    assert handle.find(txn.txn_id) is None
    assert txns.State.UNKNOWN is txn.state


def test_a_foreign_snapshot_of_the_commit_table(lake, handle):
    """CorruptLog, and nothing is written."""
    a = lake.table("a", [1])
    commits = lake.catalog.load_table("txns.commits")
    row = pa.Table.from_pylist(
        [
            {
                "commit_ts": 1,
                "committed_at": 1,
                "txn_id": "x",
                "kind": "commit",
                "read_ts": 1,
                "isolation": "snapshot",
            }
        ],
        schema=commits.schema().as_arrow(),
    )
    commits.append(row)
    with pytest.raises(txns.CorruptLog, match="somebody wrote to the commit table"):
        handle.catalog().load_table(a)
