"""How often what a run can do was done: what never occurs proves nothing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.simulation.disaster import Drill
from tests.simulation.faults import Fault
from tests.simulation.settings import Switch
from txns._log.change import Operation
from txns._log.entry import Kind
from txns.errors import (
    CommitStateUnknown,
    Conflict,
    InvalidUsage,
    Quarantined,
    Unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulation.faults import FaultPlan
    from tests.simulation.worker import Lake

COMMITTED = "told committed"
"""What a commit is counted under."""

_TOLD = (Conflict, CommitStateUnknown, InvalidUsage, Quarantined, Unsupported)

_ABSENT = {
    Switch.DAMAGED: {Fault.STALE, Fault.SUSPENDED},
    Switch.MALICIOUS: {Fault.SUSPENDED},
}
"""What goes wrong only where something else is on, which no such run has."""

_NO_ENTRIES = {Kind.TIDY.value, Kind.QUARANTINE.value}
"""Records that are no entries, and a kind that is reserved: nobody writes it."""


def action(key: str) -> str:
    """Give what an action is counted under."""
    return f"action {key.rsplit('.', 1)[1]}"


def drill(drill: Drill) -> str:
    """Give what a strike is counted under."""
    return f"drill {drill.value}"


def told(error: Exception) -> str:
    """Give what an error is counted under that a user's action ends with."""
    return f"told {type(error).__name__}"


def of_run(faults: FaultPlan, lake: Lake | None) -> Counter[str]:
    """Count the faults of a run, and the entries of its log with the changes that they are of."""
    found = Counter(f"fault {fault.value}" for _action, _step, fault in faults.happened)
    if lake:
        found["passed by others in one table"] += lake.observer.history.passed_by
    for logged in lake.observer.entries.values() if lake else ():
        found[f"entry {logged.kind}"] += 1
        found.update(f"change {table['operation']}" for table in logged.tables if logged.changes)
    return found


def expected(actions: Iterable[str], only: frozenset[Switch] | None = None) -> set[str]:
    """Give everything that is to occur, for the actions that there are, and what all seeds have."""
    on = only or frozenset()
    faults = set(Fault).difference(*(_ABSENT[one] for one in on & _ABSENT.keys()))
    found = {*(f"action {name}" for name in actions), *(f"fault {fault.value}" for fault in faults)}
    if Switch.MALICIOUS in on:  # no log is judged there
        return found
    return {
        *found,
        *(f"entry {kind.value}" for kind in Kind if kind.value not in _NO_ENTRIES),
        *(drill(each) for each in Drill),
        COMMITTED,
        *(f"told {each.__name__}" for each in _TOLD),
        *(f"change {operation.value}" for operation in Operation),
    }


def report(occurred: Counter[str], wanted: set[str]) -> str:
    """Give the table for docs/simulation.md, what never occurred with a zero."""
    lines = ["| what | how often |", "| --- | --- |"]
    names = sorted(wanted | occurred.keys())
    return "\n".join([*lines, *(f"| {name} | {occurred[name]:,} |" for name in names)])
