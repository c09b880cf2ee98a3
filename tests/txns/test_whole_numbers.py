"""Numbers that callers give: what is not whole, or out of bounds, is told, and never logged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import txns
from tests.txns.lake import ids, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.txns.lake import Lake

HOUR_MS = 3600 * 1000
INT64_MAX = 2**63 - 1


@pytest.fixture
def a(lake: Lake) -> str:
    return lake.table("a", [1])


def _written_at(handle: txns.Handle, read_ts: Any) -> None:
    with handle.begin(as_of=read_ts) as txn:
        txn.load_table("shop.a").append(rows(2))


def _committed_at(handle: txns.Handle, ts: Any) -> None:
    txn = handle.begin()
    txn.load_table("shop.a").append(rows(2))
    txn.commit_at(ts)


def _wait(handle: txns.Handle, after_ts: Any, timeout_ms: Any) -> None:
    handle.wait("shop.a", after_ts, timeout_ms=timeout_ms)


LOGGED: dict[str, Callable[[txns.Handle, Any], Any]] = {
    "max_age_ms": lambda handle, _: handle.change_settings(max_age_ms=1.5 * HOUR_MS),  # type: ignore[arg-type]
    "id_retention_ms": lambda handle, _: handle.change_settings(id_retention_ms=2e9),  # type: ignore[arg-type]
    "ts of a commit": lambda handle, upper: _committed_at(handle, upper + 1.0),
    "after_ts": lambda handle, upper: _wait(handle, str(upper), 1),
    "timeout_ms": lambda handle, upper: _wait(handle, upper, "60"),
    "ts": lambda handle, upper: handle.advance(upper + 1.0),
    "as_of": lambda handle, upper: _written_at(handle, float(upper)),
    "basis": lambda handle, upper: handle.begin(basis=str(upper)),  # type: ignore[arg-type]
    "basis_timeout_ms": lambda handle, upper: handle.begin(basis=upper, basis_timeout_ms=1e3),  # type: ignore[arg-type]
    "read_ts": lambda handle, upper: handle.hold("kept", read_ts=float(upper)),  # type: ignore[arg-type]
    "ttl_ms": lambda handle, _: handle.hold("kept", ttl_ms=1.5 * HOUR_MS),  # type: ignore[arg-type]
}


@pytest.mark.usefixtures("a")
@pytest.mark.parametrize("name", LOGGED)
def test_a_fraction_is_refused_by_its_name(lake, name):
    """A record that has one nobody reads: the whole log would have to be recovered."""
    handle = lake.open()
    with pytest.raises(txns.InvalidUsage, match=rf"whole number.*; {name.split()[0]}="):
        LOGGED[name](handle, handle.upper)
    another = txns.open(lake.another_catalog(), clock=lake.clock)
    assert [1] == ids(another.snapshot().load_table("shop.a"))
    assert "recover" not in str(another.settings())


@pytest.mark.usefixtures("a")
@pytest.mark.parametrize("as_of", [-1, -HOUR_MS, -(2**70)])
def test_a_time_before_1970_is_none_of_the_log(lake, as_of):
    """As the beginning of 1970 is east of Greenwich; a record has no sign."""
    handle = lake.open()
    with pytest.raises(txns.InvalidUsage, match="1970") as refused:
        handle.begin(as_of=as_of)
    assert "25000" == refused.value.sqlstate
    with handle.begin(as_of=0) as txn:
        txn.create_table("shop.new", rows(1).schema)
    txns.open(lake.another_catalog(), clock=lake.clock)


@pytest.mark.usefixtures("a")
def test_whole_numbers_of_other_libraries_are_taken(lake):
    """As a timestamp is that stands in a DataFrame."""
    handle = lake.open()
    upper = np.int64(handle.upper)
    _written_at(handle, upper)
    handle.change_settings(max_age_ms=np.int64(HOUR_MS))
    assert upper + 5000 == handle.advance(upper + 5000)
    another = txns.open(lake.another_catalog(), clock=lake.clock)
    assert HOUR_MS == another.settings().max_age_ms
    assert [1, 2] == ids(another.snapshot().load_table("shop.a"))


@pytest.mark.parametrize("wrong", [1.5, "60", float("nan"), True, None])
@pytest.mark.parametrize("option", ["max_age_s", "id_retention_days", "tidy_after"])
def test_an_option_that_is_no_whole_number(lake, option, wrong):
    if wrong is None and option != "tidy_after":
        return  # that is the log's
    with pytest.raises(txns.InvalidUsage, match=rf"{option}=") as refused:
        txns.open(lake.another_catalog(), **{option: wrong})
    assert "42000" == refused.value.sqlstate


def test_a_rehearsal_that_is_no_whole_number(lake):
    with pytest.raises(txns.InvalidUsage, match=r"rehearse_conflicts="):
        txns.open(lake.another_catalog(), rehearse_conflicts="2")


@pytest.mark.usefixtures("a")
@pytest.mark.parametrize("ttl_ms", [0, -1, 101 * 365 * 24 * HOUR_MS, INT64_MAX, 10**30])
def test_a_hold_lasts_a_hundred_years_at_most(lake, ttl_ms):
    """Longer ones have an end that no time has, or that no reader takes."""
    with pytest.raises(txns.InvalidUsage, match=r"1 ms to 36500 days; ttl_ms="):
        lake.open().hold("kept", ttl_ms=ttl_ms)
