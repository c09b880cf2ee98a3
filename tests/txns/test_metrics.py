"""What a handle counts, and the gauges of a lake, as Prometheus reads them."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

from tests.txns.lake import Lake, rows
from tests.txns.wrapped import Wrapped
from txns._cli import main
from txns._metrics import Count, Metrics, Phase, Took
from txns.errors import CommitStateUnknown, Conflict

if TYPE_CHECKING:
    import txns

A, B = "shop.a", "shop.b"


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.table("a", [1, 2])
    lake.table("b", [1, 2])
    return lake


def _values(text: str) -> dict[str, float]:
    """What a scrape has, by name; labels in braces where there are any but the lake's."""
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            labels = {k: v for k, v in sample.labels.items() if k in {"phase", "state"}}
            found[sample.name + "".join(f"{{{value}}}" for value in labels.values())] = sample.value
    return found


def _outcomes(handle: txns.Handle) -> dict[str, int]:
    values = _values(handle.metrics())
    return {each.name.lower(): int(values[each.metric + "_total"]) for each in Count}


def _cli(lake: Lake, *words: str) -> str:
    where = ["--catalog", "lake", "--uri", f"sqlite:///{lake.folder}/catalog.db"]
    result = CliRunner().invoke(main, [*where, *words])
    assert 0 == result.exit_code, result.output
    return result.stdout


def test_outcomes_are_counted(shop):
    handle, other = shop.open(), shop.open()
    with handle.begin() as txn:
        txn.load_table(A).append(rows(3))
    handle.catalog().load_table(B).append(rows(3))
    with handle.begin():
        pass
    late = handle.begin()
    late.load_table(A).delete("id == 1")
    other.catalog().load_table(A).delete("id == 1")
    with pytest.raises(Conflict):
        late.commit()
    handle.begin().rollback()
    expected = {"started": 5, "committed": 3, "conflicted": 1, "retried": 0, "unknown": 0}
    assert expected == _outcomes(handle)
    assert {**dict.fromkeys(expected, 0), "started": 1, "committed": 1} == _outcomes(other)


def test_upkeep_is_no_transaction(shop):
    handle = shop.open()
    handle.register(shop.table("c", register=False))
    handle.forget("shop.c")
    handle.tidy()
    assert {0} == set(_outcomes(handle).values())


def test_further_attempts_are_counted(shop):
    lost = iter([True, True, False])

    def swap(real):
        if next(lost, False):
            raise CommitFailedException("not now")
        return real()

    handle = shop.open(Wrapped(shop.catalog, swap=swap))
    with handle.begin() as txn:
        txn.load_table(A).append(rows(3))
    assert 2 == _outcomes(handle)["retried"]
    assert 3 == _values(handle.metrics())["txns_phase_seconds_count{validate}"]
    assert 1 == _values(handle.metrics())["txns_phase_seconds_count{swap}"]


def test_an_unknown_outcome_is_counted(shop):
    def swap(_real):
        shop.clock.ahead_ms += 20_000
        raise OSError("connection reset by peer")

    handle = shop.open(Wrapped(shop.catalog, swap=swap))
    txn = handle.begin()
    txn.load_table(A).append(rows(3))
    with pytest.raises(CommitStateUnknown):
        txn.commit()
    assert 1 == _outcomes(handle)["unknown"]
    assert 0 == _outcomes(handle)["committed"]


def test_phases_are_measured_on_the_handles_clock(shop):
    def swap(real):
        shop.clock.ahead_ms += 7000
        return real()

    handle = shop.open(Wrapped(shop.catalog, swap=swap), tidy_after=1)
    txn = handle.begin()
    txn.load_table(A).append(rows(3))
    shop.clock.ahead_ms += 5000
    txn.commit()
    values = _values(handle.metrics())
    assert 5 <= values["txns_phase_seconds_sum{stage}"] < 7
    assert 7 <= values["txns_phase_seconds_sum{swap}"] < 12
    assert values["txns_phase_seconds_max{swap}"] == values["txns_phase_seconds_sum{swap}"]
    assert 7 <= values["txns_phase_seconds_sum{tidy}"] < 12  # which swaps as well
    assert 1 == values["txns_phase_seconds_count{apply}"]
    assert 1 == values["txns_phase_seconds_count{tidy}"]


def test_threads_lose_no_count(lake):
    metrics = Metrics(lake.clock)

    def work():
        for _ in range(1000):
            metrics.count(Count.STARTED)
            metrics.took(Phase.SWAP, 2)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert 4000 == metrics.counts()[Count.STARTED]
    assert Took(4000, 8000, 2) == metrics.phases()[Phase.SWAP]


def test_a_clock_that_was_put_back_counts_no_negative_time(lake):
    metrics = Metrics(lake.clock)
    with metrics.phase(Phase.APPLY):
        lake.clock.ahead_ms -= 60_000
    assert 0 == metrics.phases()[Phase.APPLY].sum_ms


def test_the_gauges_of_a_lake(shop):
    txn = shop.open().begin()
    for name in (A, B):
        txn.load_table(name).append(rows(3))
    txn.commit_at()
    shop.another_catalog().drop_table(B)
    said = json.loads(_cli(shop, "status", "--json"))
    text = _cli(shop, "metrics")
    assert 'catalog="lake",commit_table="txns.commits"' in text
    values = _values(text)
    assert said["entries_in_head"] == values["txns_head_entries"]
    assert values["txns_head_bytes"] > 1000
    assert 1 == values["txns_unapplied_entries"]
    assert 0 < values["txns_oldest_unapplied_age_seconds"] < 600
    assert 1 == values["txns_tables{unapplied}"]
    assert 1 == values["txns_tables{quarantine}"]
    assert 0 == values["txns_tables{ok}"]
    assert said["upper"] / 1000 == values["txns_upper_timestamp_seconds"]
    assert -600 < values["txns_clock_skew_seconds"] <= 0
    assert 0 == values["txns_off"]
    shop.open().off()
    assert 1 == _values(_cli(shop, "metrics"))["txns_off"]


def test_every_metric_stands_in_the_operators_page(shop, root):
    page = (root / "docs" / "operations.md").read_text("utf-8")
    text = _cli(shop, "metrics") + shop.open().metrics()
    for family in text_string_to_metric_families(text):
        assert f"`{family.name}" in page


# ------------------------------------------------------------------ status --head


def test_a_probe_loads_the_commit_table_once_and_nothing_else(shop, monkeypatch):
    txn = shop.open().begin()
    txn.load_table(A).append(rows(3))
    commit_ts = txn.commit_at().commit_ts
    calls = []
    for name in ("load_table", "list_tables", "list_namespaces", "commit_table"):
        real = getattr(SqlCatalog, name)

        def counted(self, *words, _name=name, _real=real, **more):
            calls.append((_name, words[0] if words else None))
            return _real(self, *words, **more)

        monkeypatch.setattr(SqlCatalog, name, counted)
    probe = json.loads(_cli(shop, "status", "--head", "--json"))
    assert [("load_table", ("txns", "commits"))] == calls
    assert commit_ts == probe["upper"] == probe["oldest_maybe_unapplied"]
    assert 0 < probe["oldest_maybe_unapplied_age_ms"] < 600_000
    assert probe["bytes_in_head"] > 1000
    assert probe["off"] is False


def test_a_probe_knows_no_more_than_the_head(shop):
    """An entry that is applied may stand there: it is told as one that may not be."""
    handle = shop.open()
    with handle.begin() as txn:
        txn.load_table(A).append(rows(3))
    assert txn.committed.applied
    standing = json.loads(_cli(shop, "status", "--head", "--json"))
    assert txn.committed.commit_ts == standing["oldest_maybe_unapplied"]
    assert [] == json.loads(_cli(shop, "status", "--json"))["unapplied"]
    handle.tidy()
    gone = json.loads(_cli(shop, "status", "--head", "--json"))
    assert gone["oldest_maybe_unapplied"] is None
    assert (0, 0) == (gone["oldest_maybe_unapplied_age_ms"], gone["entries_in_head"])


def test_a_probe_for_people(shop):
    words = _cli(shop, "status", "--head")
    assert "writers  on" in words
    assert "waiting  nothing" in words
    shop.open().off()
    assert "off: `txns on`" in _cli(shop, "status", "--head")
