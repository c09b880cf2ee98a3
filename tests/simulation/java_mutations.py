"""
Protections of Java's core taken away on purpose: which there are, and seeds that notice.

What takes their place stands in Java's tests (`Mutations`, `MutationsOfLoads`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.simulation import jvm, mutations
from tests.simulation.plan import plan
from tests.simulation.run import run
from tests.simulation.settings import Core, Switch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulation.scheduler import Violation

WATCHED = "watched"
"""In the place of a mutation: everything as it is, and it is seen what is asked."""

NOT_IN_JAVA = {
    "missing_list_passed_over": "`tidy --files` is Python's",
    "head_not_moved": "`tidy --files` is Python's",
    "earlier_heads_forgotten": "`tidy --files` is Python's",
    "kept_versions_removed": "`tidy --files` is Python's",
    "minutes_forgotten": "none yet: a test of Java's holds the rule",
    "superseded_at_once": "none yet",
    "told_by_nobody": "`txns recover` is Python's",
    "passed_over_written_over": "`txns recover` is Python's",
    "void_tables_taken_for_cared": "`txns recover` is Python's",
    "applied_over_a_recovery": "none yet: of Python's no 25 seeds notice it, either",
}
"""Python's that Java's core does not have, and why."""

IN_JAVA_ALONE = {
    "row_ids_as_staged": frozenset({Switch.FORMAT_3}),
    "deletes_by_value_made_again": frozenset({Switch.BY_FILE, Switch.EQUALITY_DELETES}),
}
"""
Java's that Python's core does not have, and what each needs: that writes neither format 3 nor
equality deletes.
"""

MUTATIONS = mutations.MUTATIONS.keys() - NOT_IN_JAVA.keys() | IN_JAVA_ALONE.keys()
"""The names of Java's; those of Python's core take the same away."""

NEEDS = {name: on for name, on in {**mutations.NEEDS, **IN_JAVA_ALONE}.items() if name in MUTATIONS}
"""What has to be on for a missing protection to be noticed; it is on in each seed then."""


@dataclass(frozen=True)
class Found:
    """
    What became of a search.

    Attributes:
        count: How many seeds it took; 0 where none has noticed.
        violation: The promise that was broken.
        unasked: What the mutation takes the place of and no seed has asked.
    """

    count: int
    violation: Violation | None
    unasked: tuple[str, ...]


def search(name: str, seeds: Iterable[int], switches: frozenset[Switch] | None = None) -> Found:
    """
    Run seeds without a protection until one breaks a promise that holds with it.

    Args:
        name: Which protection.
        seeds: In this order.
        switches: What is on in each; what the mutation needs where it is not given.
    """
    on = NEEDS.get(name) if switches is None else switches
    found = Found(0, None, ())
    try:
        for count, seed in enumerate(seeds, 1):
            planned = plan(seed, on, Core.JAVA)
            violation = run(replace(planned, mutation=name)).violation
            assert "LinkageError" not in str(violation), (name, seed, violation)
            if violation and run(planned).violation is None:
                found = Found(count, violation, ())
                break
        return replace(found, unasked=tuple(jvm.running(name).unasked()))
    finally:
        jvm.end(name)
