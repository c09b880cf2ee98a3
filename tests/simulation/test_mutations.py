"""A simulation that finds nothing proves nothing: each protection taken away must be found."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS, NEEDS, without_protection
from tests.simulation.plan import plan
from tests.simulation.run import run
from tests.simulation.settings import ON, Switch
from tests.simulation.shrink import shrink
from tests.simulation.uses import watched

SEEDS_MAX = 120
"""Within how many seeds a missing protection must be noticed."""

QUICK = {
    "applied_not_set",
    "commit_ts_of_the_clock",
    "look_up_forgotten",
    "newest_read",
    "overlay_forgotten",
    "restage_forgotten",
    "restage_under_the_same_id",
    "strangers_seen_at_once",
    "swap_on_another_head",
    "tidy_before_apply",
    "write_check_dropped",
}
"""What some ten seeds find; the others take their time."""

TESTS_SEE = {
    "absence_check_dropped",
    "apply_past_quarantine",
    "conditional_write_counts_as_append",
    "kept_tag_forgotten",
    "reads_by_name_only",
    "set_back_read_as_it_is",
}
"""What 25 seeds do not find, and a test does: which one, docs/simulation.md says."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in sorted(MUTATIONS.keys() - TESTS_SEE)
    ],
)
def test_a_missing_protection_is_found(name: str):
    """Some seed breaks a promise when a protection is missing."""
    with without_protection(name):
        plans = (plan(seed, NEEDS.get(name)) for seed in range(SEEDS_MAX))
        found = next((one.seed for one in plans if run(one).violation), None)
    assert found is not None


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_mutation_takes_what_its_target_takes(name: str):
    """Otherwise every call of it is a crash, which looks like a promise that was broken."""
    with without_protection(name):
        pass


def test_what_a_mutation_replaces_is_used():
    """A protection that nobody asks is none, and to take it away would prove nothing."""
    with watched() as unused:
        for seed in range(20):
            run(plan(seed, ON))
            run(plan(seed, ON - {Switch.CLOCKS}))  # purges go by the clock
            if not unused:
                break
    assert not unused


def test_a_failing_seed_shrinks():
    """A shrunk run breaks the same promise with fewer actions."""
    with without_protection("overlay_forgotten"):
        failing = next(one for one in map(_run, range(SEEDS_MAX)) if one.violation)
        whole = plan(failing.seed)
        smaller, outcome = shrink(whole, failing, runs_max=40)
    assert outcome.violation.promise == failing.violation.promise
    assert _actions(smaller) < _actions(whole)


def _run(seed):
    return run(plan(seed))


def _actions(one):
    return sum(map(len, one.workers.values()))
