"""The checks of the simulation themselves: what they must let pass, and what they must not."""

from __future__ import annotations

import pytest

from tests.simulation.history import History, Version
from tests.simulation.scheduler import DAY_MS, Violation
from tests.simulation.stage import A, Stage, staged


@pytest.fixture
def stage():
    with staged(server=False) as made:
        yield made


def test_a_timestamp_that_was_clamped_may_land_late(stage: Stage):
    """A swap that was sent while the log was ahead of the clock lands days later (seed 1997)."""
    handle = stage.handle()
    handle.advance(stage.world.now_ms + 60_000)
    txn = stage.begin(handle)
    txn.append(A)
    commit_ts = txn.commit_at().commit_ts
    late = stage.actor("late", stage.handle().apply_le).until("swap", "lake.t0")
    stage.world.now_ms += 9 * DAY_MS
    late.finish()
    main = stage.observer.registry.metadata(A).current_snapshot()
    assert main.timestamp_ms < commit_ts


def test_a_timestamp_that_nothing_clamped_is_the_commit_ts(stage: Stage, monkeypatch):
    """An applier that takes its own time for a snapshot is found (I7)."""
    handle = stage.handle()
    txn = stage.begin(handle)
    txn.append(A)
    txn.commit_at()
    monkeypatch.setattr("txns._iceberg.timestamps.acceptable_ts", lambda _base, ts, _now_ms: ts + 1)
    with pytest.raises(Violation, match="I7"):
        handle.apply_le()


def test_care_that_was_interrupted_is_no_care():
    """A table that came under care during a statement may hold what it did (seed 1713)."""
    name, history = ("lake", "t0"), History()
    history.add(name, Version(10, exists=True))
    history.add(name, Version(20, exists=True, cared=False))
    history.add(name, Version(30, exists=True))
    assert [history.cared_since(name, ts) for ts in (5, 15, 25, 35)] == [False, False, False, True]
