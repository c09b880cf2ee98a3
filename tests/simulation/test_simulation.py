"""Random runs of the core in a simulated world; docs in tests/simulation/__main__.py."""

from __future__ import annotations

import pytest

from tests.simulation.plan import plan
from tests.simulation.run import run
from tests.simulation.settings import Core, Switch
from tests.simulation.shrink import shrink
from tests.simulation.story import story

SEEDS = 100
SEEDS_OF_JAVA = 10
_BLOCK = 20
_BLOCK_OF_JAVA = 5


@pytest.mark.parametrize("first", range(0, SEEDS, _BLOCK))
def test_no_promise_is_broken(first: int):
    """Every promise holds in every seed; a failing one is printed, small."""
    for seed in range(first, first + _BLOCK):
        _holds(seed, Core.PYTHON)


@pytest.mark.parametrize("first", range(0, SEEDS_OF_JAVA, _BLOCK_OF_JAVA))
@pytest.mark.parametrize("core", [Core.JAVA, Core.BOTH])
def test_no_promise_is_broken_by_java(core: Core, first: int):
    """Every promise holds with Java's core, alone and beside Python's on one lake."""
    for seed in range(first, first + _BLOCK_OF_JAVA):
        _holds(seed, core)


def _holds(seed: int, core: Core) -> None:
    planned = plan(seed, core=core)
    outcome = run(planned)
    if outcome.violation:
        smaller, small = shrink(planned, outcome)
        again = f"python -m tests.simulation --seed {seed} --core {core.value}"
        pytest.fail(
            f"seed {seed}: {outcome.violation}\n"
            f"again: PYTHONHASHSEED=0 {again}\n"
            f"with {smaller.workers} and {small.faults}: {small.violation}\n"
            + "\n".join(story(small.trace)[-60:])
        )


@pytest.mark.parametrize("core", [Core.PYTHON, Core.JAVA])
def test_threads_share_swaps(core: Core):
    """Random runs get to swaps that bring several entries."""
    together = frozenset({Switch.SHARED_IDS})
    assert any(run(plan(seed, together, core)).grouped for seed in range(20))


@pytest.mark.sampled
@pytest.mark.parametrize("core", Core)
@pytest.mark.parametrize("seed", [3, 11, 42, 77])
def test_a_seed_replays_exactly(seed: int, core: Core):
    """Two runs of a seed take the same steps, with the same faults and outcomes."""
    once, again = (run(plan(seed, core=core)) for _ in range(2))
    assert (once.steps, once.digest) == (again.steps, again.digest)
    assert once.steps > 0
