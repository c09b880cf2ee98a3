"""Makes a failing seed small: leaves out actions and faults while the same promise breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tests.simulation.run import Outcome, run, without

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.plan import Plan

T = TypeVar("T")


def shrink(plan: Plan, failing: Outcome, runs_max: int = 80) -> tuple[Plan, Outcome]:
    """
    Find a smaller run of a plan that breaks the same promise.

    Args:
        plan: What failed.
        failing: How it failed.
        runs_max: How many runs the search may take.
    """
    assert failing.violation is not None
    promise = failing.violation.promise
    budget = [runs_max]

    def breaks(actions: list[str], faults: list[tuple[str, int]]) -> bool:
        budget[0] -= 1
        return _breaks(_run(plan, actions, faults, failing), promise)

    actions = [key for keys in plan.workers.values() for key in keys]
    faults = [(action, step) for action, step, _fault in failing.faults]
    actions = _fewest(actions, lambda left: breaks(left, faults), budget)
    faults = _fewest(faults, lambda left: breaks(actions, left), budget)
    smaller = without(plan, set(_all(plan)) - set(actions))
    outcome = _run(plan, actions, faults, failing)
    if not _breaks(outcome, promise):  # the budget ended before a smaller one was found
        return plan, failing
    return smaller, outcome


def _all(plan: Plan) -> list[str]:
    return [key for keys in plan.workers.values() for key in keys]


def _run(
    plan: Plan, actions: list[str], faults: list[tuple[str, int]], failing: Outcome
) -> Outcome:
    happened = {(action, step) for action, step, _fault in failing.faults}
    smaller = without(plan, set(_all(plan)) - set(actions))
    return run(smaller, left_out=frozenset(happened - set(faults)), keep_trace=True)


def _breaks(outcome: Outcome, promise: str) -> bool:
    return outcome.violation is not None and outcome.violation.promise == promise


def _fewest(items: list[T], breaks: Callable[[list[T]], bool], budget: list[int]) -> list[T]:
    """Leave out halves, quarters, ... and single items (delta debugging)."""
    size = max(1, len(items) // 2)
    while items and budget[0] > 0:
        start, progress = 0, False
        while start < len(items) and budget[0] > 0:
            left = items[:start] + items[start + size :]
            if breaks(left):
                items, progress = left, True
            else:
                start += size
        if size == 1 and not progress:
            break
        size = max(1, size // 2)
    return items
