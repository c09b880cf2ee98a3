"""
The Python half over a REST catalog: transactions, two processes, lost answers, a death.

REST servers guard refs on their side and answer 503 and the like, so what is lost, unknown or
refused shows otherwise than on a SQL catalog.
"""

from __future__ import annotations

import multiprocessing
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

import txns

if TYPE_CHECKING:
    from integration_tests.rest_server import Server

SCHEMA = pa.schema([pa.field("id", pa.int64())])
PROCESSES = 2
TRANSACTIONS = 5
DIED = 9


def catalog_of(uri: str) -> RestCatalog:
    return RestCatalog("lake", uri=uri)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


def ids_of(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


@pytest.fixture
def shop(rest_server: Server, request: pytest.FixtureRequest) -> tuple[str, str]:
    """Two registered tables of one row, in a namespace of the test's own."""
    catalog = catalog_of(rest_server.uri)
    namespace = request.node.name.partition("[")[0]
    catalog.create_namespace(namespace)
    handle = txns.open(catalog)
    names = (f"{namespace}.a", f"{namespace}.b")
    for name in names:
        catalog.create_table(name, SCHEMA).append(rows(1))
        handle.register(name)
    return names


def test_a_transaction_is_seen_as_one(rest_server: Server, shop: tuple[str, str]) -> None:
    """All or nothing, for readers of the protocol at once, for others when it is applied."""
    a, b = shop
    log = txns.open(catalog_of(rest_server.uri))
    log.change_settings(apply="next")
    handle = txns.open(catalog_of(rest_server.uri), apply="next")
    before = handle.upper
    with handle.begin() as txn:
        txn.load_table(a).append(rows(2))
        txn.load_table(b).delete("id = 1")
        txn.create_table(f"{a}_new", SCHEMA).append(rows(3))
    plain = catalog_of(rest_server.uri)
    log.change_settings(apply="inline")  # for the other tests
    assert ([1], [1]) == (ids_of(plain.load_table(a)), ids_of(plain.load_table(b)))
    other = txns.open(catalog_of(rest_server.uri))
    now = other.snapshot()
    assert ([1, 2], [], [3]) == tuple(ids_of(now.load_table(name)) for name in (a, b, f"{a}_new"))
    assert [1] == ids_of(other.snapshot(before).load_table(b))
    assert [] == other.apply_le()
    assert ([1, 2], []) == (ids_of(plain.load_table(a)), ids_of(plain.load_table(b)))


def _count_up(uri: str, table: str, number: int, answers: Any) -> None:
    """Replace the greatest number by the next one, some times, against others who do too."""
    handle = txns.open(catalog_of(uri))
    tries = 0

    def next_one(txn: txns.Transaction) -> None:
        nonlocal tries
        tries += 1
        loaded = txn.load_table(table)
        loaded.append(rows(max(ids_of(loaded)) + 1))

    for _ in range(TRANSACTIONS):
        txns.run_transaction(handle, next_one, max_attempts=100)
    answers.put((number, tries))


@pytest.mark.slow
def test_two_processes_conflict_and_lose_nothing(
    rest_server: Server, shop: tuple[str, str]
) -> None:
    """Each number is there once: who read what another replaced has run again."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    processes = [
        context.Process(target=_count_up, args=(rest_server.uri, shop[0], number, answers))
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    tries = sum(answers.get(timeout=300)[1] for _ in processes)
    for process in processes:
        process.join()
    table = txns.open(catalog_of(rest_server.uri)).catalog().load_table(shop[0])
    assert list(range(1, 2 + PROCESSES * TRANSACTIONS)) == ids_of(table)
    assert tries >= PROCESSES * TRANSACTIONS


class Unanswered(RestCatalog):
    """A catalog whose answers to swaps of the commit table are lost, and which is away then."""

    lost = 0
    away = False

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        response = super().commit_table(table, requirements, updates)
        if table.name() == ("txns", "commits") and self.lost:
            self.lost -= 1
            raise ConnectionError("the answer was lost")
        return response

    def load_table(self, identifier: Any) -> Any:
        if self.away:
            raise ConnectionError("nobody answers")
        return super().load_table(identifier)


def test_a_lost_answer_is_settled_by_the_log(rest_server: Server, shop: tuple[str, str]) -> None:
    """The swap has landed: the next head tells, and there is one entry."""
    catalog = Unanswered("lake", uri=rest_server.uri)
    handle = txns.open(catalog)
    txn = handle.begin()
    txn.load_table(shop[0]).append(rows(2))
    catalog.lost = 1
    committed = txn.commit()
    assert committed.commit_ts == handle.upper
    assert [1, 2] == ids_of(catalog_of(rest_server.uri).load_table(shop[0]))


@pytest.mark.slow
def test_an_unknown_outcome_is_asked_for_later(rest_server: Server, shop: tuple[str, str]) -> None:
    """Nothing was deleted meanwhile; the id answers with the entry."""
    catalog = Unanswered("lake", uri=rest_server.uri)
    handle = txns.open(catalog)
    txn = handle.begin()
    txn.load_table(shop[0]).append(rows(2))
    catalog.lost = 1
    commit_table = catalog.commit_table

    def and_away(*asked: Any) -> Any:
        catalog.away = True
        return commit_table(*asked)

    catalog.commit_table = and_away
    with pytest.raises(txns.CommitStateUnknown):
        txn.commit()
    catalog.away = False
    found = handle.find(txn.txn_id)
    assert found is not None
    found.apply()
    assert [1, 2] == ids_of(catalog_of(rest_server.uri).load_table(shop[0]))


def _commit_and_die(uri: str, a: str, b: str) -> None:
    txn = txns.open(catalog_of(uri)).begin()
    txn.load_table(a).append(rows(2))
    txn.load_table(b).append(rows(2))
    txn.commit_at()
    os._exit(DIED)


@pytest.mark.slow
def test_what_a_dead_process_committed_is_applied(
    rest_server: Server, shop: tuple[str, str]
) -> None:
    """The next one who comes finishes it."""
    process = multiprocessing.get_context("spawn").Process(
        target=_commit_and_die, args=(rest_server.uri, *shop)
    )
    process.start()
    process.join()
    assert DIED == process.exitcode
    handle = txns.open(catalog_of(rest_server.uri))
    with handle.begin() as txn:
        txn.load_table(shop[0]).overwrite(rows(3))
    assert [] == handle.apply_le()
    plain = catalog_of(rest_server.uri)
    assert ([3], [1, 2]) == tuple(ids_of(plain.load_table(name)) for name in shop)
