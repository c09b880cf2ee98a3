"""
What can go wrong at a step of I/O, and when it does.

Each action draws its faults from a stream of its own, so that a failing seed shrinks:
leaving out one action or one fault leaves the others where they were.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from tests.simulation.settings import Settings, Switch

if TYPE_CHECKING:
    from tests.simulation.scheduler import Process


class Fault(Enum):
    """What happens to one step."""

    FAILS = "fails"
    DELAYED = "delayed"
    ANSWER_LOST = "answer-lost"
    CALLED_LOST = "called-lost"
    LANDS_LATE = "lands-late"
    OUTAGE = "outage"
    STALE = "stale"
    REFUSED = "refused"
    REFUSED_LANDED = "refused-landed"
    REFUSED_LATE = "refused-late"
    HANGS = "hangs"
    HANGS_LANDED = "hangs-landed"
    SUSPENDED = "suspended"
    DIES_BEFORE = "dies-before"
    DIES_AFTER = "dies-after"


CUTS_OFF = {Fault.OUTAGE: 1.0, Fault.ANSWER_LOST: 0.9, Fault.LANDS_LATE: 0.9}
"""Faults after which a process may reach nothing for a while, with the chance of it."""

_WRITES = (
    Fault.FAILS,
    Fault.ANSWER_LOST,
    Fault.DIES_BEFORE,
    Fault.DIES_AFTER,
)
_SLOW: dict[Switch, tuple[Fault, ...]] = {
    Switch.HUNG_CALLS: (Fault.HANGS, Fault.HANGS_LANDED, Fault.REFUSED),
    Switch.SUSPENDED: (Fault.SUSPENDED,),
}
"""What calls of each kind may have where it is switched on."""
_REFUSALS = (Fault.REFUSED, Fault.REFUSED_LANDED, Fault.REFUSED_LANDED, Fault.REFUSED_LATE)
"""Answers of a server that says no, and is right, has done it, or is going to do it."""

_OF_STRANGERS = "s."
"""What the keys of strangers' changes begin with."""

_BY_KIND = {
    "read": (Fault.FAILS, Fault.FAILS, Fault.DIES_BEFORE),
    "write": _WRITES,
    "delete": _WRITES,
    "load": (Fault.FAILS, Fault.FAILS, Fault.OUTAGE, Fault.DIES_BEFORE),
    "swap": (
        *_WRITES,
        Fault.ANSWER_LOST,
        Fault.ANSWER_LOST,
        Fault.ANSWER_LOST,
        Fault.CALLED_LOST,
        Fault.CALLED_LOST,
        Fault.LANDS_LATE,
        Fault.LANDS_LATE,
        Fault.DIES_AFTER,
    ),
    "create": (*_WRITES, Fault.CALLED_LOST),
    "drop": _WRITES,
    "rename": _WRITES,
}


@dataclass
class FaultPlan:
    """
    How often steps go wrong, and which faults are left out.

    Attributes:
        rate: The chance of a fault per step.
        delay_rate: The chance of a delay per step.
        swap_factor: How much more often swaps go wrong than other steps.
        settings: What else goes wrong.
        slow_alone: What the name of the only worker begins with that hangs or is suspended; else
            all may be.
        left_out: Faults that do not happen, as (action, step) (a shrunk run).
        scripted: Faults that do happen at (action, step), whatever the rates say.
        happened: Faults of this run, as (action, step, fault).
    """

    rate: float = 0.0
    delay_rate: float = 0.0
    swap_factor: float = 6.0
    settings: Settings = field(default_factory=Settings)
    slow_alone: str = ""
    left_out: frozenset[tuple[str, int]] = frozenset()
    scripted: dict[tuple[str, int], Fault] = field(default_factory=dict)
    happened: list[tuple[str, int, Fault]] = field(default_factory=list)

    def decide(self, process: Process, kind: str, *, stale: bool = False) -> Fault | None:
        """
        Give the fault of a process's next step, if it has one.

        Args:
            process: Whose step it is.
            kind: What it does.
            stale: Whether an older version could be given in its place.
        """
        key = (process.doing, process.doing_step)
        fault = self.scripted.get(key) or self._draw(process, kind, stale=stale)
        if fault is None or key in self.left_out:
            return None
        self.happened.append((*key, fault))
        return fault

    def _draw(self, process: Process, kind: str, *, stale: bool) -> Fault | None:
        rng = process.fault_rng
        chance, choice, older = rng.random(), rng.random(), rng.random()
        if process.spared or (process.stranger and not self._may_fail(process)):
            return None
        if slow := self._draw_slow(process):
            return slow
        if chance < self.delay_rate:
            return Fault.DELAYED
        rate = self.rate * (self.swap_factor if kind in {"swap", "create"} else 1)
        if chance < self.delay_rate + rate:
            kinds = _BY_KIND[kind]
            if self.settings.has(Switch.FALSE_REFUSALS) and kind in {"swap", "create"}:
                kinds += _REFUSALS
            drawn = kinds[int(choice * len(kinds))]
            false = drawn in {Fault.CALLED_LOST, Fault.REFUSED_LANDED, Fault.REFUSED_LATE}
            # Who knows nothing of the protocol believes a refusal, and removes what he has written.
            return Fault.ANSWER_LOST if false and process.stranger else drawn
        return Fault.STALE if stale and older < self.settings.stale_rate else None

    def _may_fail(self, stranger: Process) -> bool:
        """Whether what a stranger does goes wrong: what is one change, not what upsets the lake."""
        one_change = stranger.doing.startswith(_OF_STRANGERS)
        return one_change and self.settings.has(Switch.FAULTY_STRANGERS)

    def _draw_slow(self, process: Process) -> Fault | None:
        """Draw what takes long: of a stream of its own, so that it changes nothing else."""
        kinds = [one for switch, each in _SLOW.items() if self.settings.has(switch) for one in each]
        if not (kinds and process.doing.startswith(self.slow_alone)):
            return None
        slow = process.slow_rng.random() < self.rate
        return process.slow_rng.choice(kinds) if slow else None
