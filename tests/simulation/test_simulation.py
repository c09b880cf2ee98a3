"""Random runs of the core in a simulated world; docs in tests/simulation/__main__.py."""

from __future__ import annotations

import pytest

from tests.simulation.plan import plan
from tests.simulation.run import run
from tests.simulation.shrink import shrink

SEEDS = 200
_BLOCK = 20


@pytest.mark.parametrize("first", range(0, SEEDS, _BLOCK))
def test_no_promise_is_broken(first: int):
    """Every promise holds in every seed; a failing one is printed, small."""
    for seed in range(first, first + _BLOCK):
        outcome = run(plan(seed))
        if outcome.violation:
            smaller, small = shrink(plan(seed), outcome)
            pytest.fail(
                f"seed {seed}: {outcome.violation}\n"
                f"again: PYTHONHASHSEED=0 python -m tests.simulation --seed {seed}\n"
                f"with {smaller.workers} and {small.faults}: {small.violation}\n"
                + "\n".join(small.trace[-40:])
            )


def test_threads_share_swaps():
    """Random runs get to swaps that bring several entries."""
    assert any(run(plan(seed)).grouped for seed in range(20))


@pytest.mark.parametrize("seed", [3, 11, 42, 77])
def test_a_seed_replays_exactly(seed: int):
    """Two runs of a seed take the same steps, with the same faults and outcomes."""
    once, again = run(plan(seed)), run(plan(seed))
    assert (once.steps, once.digest) == (again.steps, again.digest)
    assert once.steps > 0
