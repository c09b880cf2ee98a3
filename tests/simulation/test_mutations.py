"""A simulation that finds nothing proves nothing: each protection taken away must be found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation import java_mutations, jvm
from tests.simulation.mutations import CORES, MUTATIONS, NEEDS, without_protection
from tests.simulation.plan import plan
from tests.simulation.run import run
from tests.simulation.settings import ON, Core, Switch
from tests.simulation.shrink import shrink
from tests.simulation.uses import watched

SEEDS_MAX = 120
"""Within how many seeds a missing protection must be noticed."""

QUICK = {
    "applied_not_set",
    "born_in_word_only",
    "commit_ts_of_the_clock",
    "earlier_heads_forgotten",
    "kept_versions_removed",
    "look_up_forgotten",
    "newest_read",
    "overlay_forgotten",
    "restage_forgotten",
    "restage_under_the_same_id",
    "strangers_seen_at_once",
    "superseded_at_once",
    "swap_on_another_head",
    "tidy_before_apply",
    "write_check_dropped",
}
"""What some ten seeds find; the others take their time."""

TESTS_SEE = {
    "absence_check_dropped",
    "ahead_taken_for_another_time",
    "applied_over_a_recovery",
    "born_over_strangers",
    "born_over_what_is_outstanding",
    "delete_marks_passed_over",
    "delete_marks_unread",
    "head_not_moved",
    "ids_as_staged",
    "kept_tag_forgotten",
    "missing_list_passed_over",
    "passed_over_written_over",
    "reads_by_name_only",
    "removed_files_unread",
    "set_back_read_as_it_is",
    "void_reads_committed",
}
"""What 25 seeds do not find, and a test does: which one, docs/simulation.md says."""

QUICK_IN_JAVA = {
    "applied_not_set",
    "born_in_word_only",
    "commit_ts_of_the_clock",
    "look_up_forgotten",
    "newest_read",
    "overlay_forgotten",
    "tidy_before_apply",
}
"""What one to three seeds find of Java's core: each takes a JVM."""

TESTS_OF_JAVA_SEE = {
    "added_files_unread",
    "apply_past_quarantine",
    "conditional_write_counts_as_append",
    "delete_marks_passed_over",
    "delete_marks_unread",
    "deletes_by_value_made_again",
    "kept_tag_forgotten",
    "removed_files_passed_over",
    "removed_files_unread",
    "set_back_read_as_it_is",
    "tables_go_by_files",
    "void_reads_committed",
    "waits_without_end",
}
"""What these seeds with Java's core do not find, and a test of Java's does: docs/simulation.md."""

SEEDS_OF_JAVA = (*range(300), *range(5000, 5025))
"""Within which ones a missing protection of Java's must be noticed."""


@pytest.mark.sampled
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
        core = CORES.get(name, Core.PYTHON)
        plans = (plan(seed, NEEDS.get(name), core) for seed in range(SEEDS_MAX))
        found = next((one.seed for one in plans if run(one).violation), None)
    assert found is not None


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK_IN_JAVA else pytest.mark.slow)
        for name in sorted(java_mutations.MUTATIONS - TESTS_OF_JAVA_SEE)
    ],
)
def test_a_missing_protection_of_java_is_found(name: str):
    """Some seed with Java's core breaks a promise that holds when nothing is missing."""
    assert java_mutations.search(name, SEEDS_OF_JAVA).count


def test_all_mutations_of_java_are_known_here():
    """What Java can take away has the names by which it is searched for."""
    assert set(jvm.running().mutations()) == java_mutations.MUTATIONS


@pytest.mark.slow
def test_what_a_mutation_of_java_replaces_is_used():
    """A protection of Java's that nobody asks is none either; to ask changes nothing."""
    unasked: list[str] = []
    try:
        for number in range(120):
            # Where all is on, no purge gets far.
            on = frozenset() if number % 2 else frozenset(Switch)
            planned = plan(number // 2, on, Core.JAVA)
            watched_run = run(replace(planned, mutation=java_mutations.WATCHED))
            assert watched_run.digest == run(planned).digest
            unasked = jvm.running(java_mutations.WATCHED).unasked()
            if not unasked:
                break
    finally:
        jvm.end(java_mutations.WATCHED)
    assert not unasked


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_mutation_takes_what_its_target_takes(name: str):
    """Otherwise every call of it is a crash, which looks like a promise that was broken."""
    with without_protection(name):
        pass


@pytest.mark.slow
def test_what_a_mutation_replaces_is_used():
    """A protection that nobody asks is none, and to take it away would prove nothing."""
    with watched() as unused:
        for seed in range(60):
            run(plan(seed, ON))
            run(plan(seed, frozenset({Switch.BY_FILE})))
            run(plan(seed, frozenset({Switch.DAMAGED})))
            run(plan(seed, frozenset()))  # purges go by the clock, and few get far beside all else
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


def test_a_failing_seed_of_java_shrinks():
    """As one of Python's; each run opens the mutated core once more."""
    name = "overlay_forgotten"
    try:
        wholes = (replace(plan(seed, core=Core.JAVA), mutation=name) for seed in range(SEEDS_MAX))
        whole, failing = next((one, found) for one in wholes if (found := run(one)).violation)
        smaller, outcome = shrink(whole, failing, runs_max=40)
    finally:
        jvm.end(name)
    assert outcome.violation.promise == failing.violation.promise
    assert _actions(smaller) < _actions(whole)


def _run(seed):
    return run(plan(seed))


def _actions(one):
    return sum(map(len, one.workers.values()))
