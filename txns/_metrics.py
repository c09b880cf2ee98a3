"""
What a handle counts: transactions by what became of them, and how long their phases took.

The names are those of docs/operations.md, the same in Java. No clock but the handle's own.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

from txns._logger import about, fields, logger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from txns._clock import Clock

_LOG = logger(__name__)


class Count(Enum):
    """What is counted, with its words."""

    STARTED = "transactions that were begun, single statements included"
    RETRIED = "further attempts at the swap, after one that was not won"
    COMMITTED = "transactions that have committed, those that wrote nothing included"
    CONFLICTED = "transactions that were refused by a conflict, and have not committed"
    UNKNOWN = "transactions whose outcome was not known when they ended"

    @property
    def metric(self) -> str:
        """Its name as a metric."""
        return f"txns_transactions_{self.name.lower()}"


class Phase(StrEnum):
    """What a transaction spends its time on; `docs/architecture.md`, Phases."""

    STAGE = "stage"
    """From BEGIN to COMMIT."""
    VALIDATE = "validate"
    """Of one attempt: against newer entries, what has moved restaged, the entry made."""
    SWAP = "swap"
    """The attempts of a commit without that, waiting for others of its group included."""
    APPLY = "apply"
    TIDY = "tidy"


@dataclass(frozen=True, slots=True)
class Took:
    """How long a phase took: how often, in all, and at most, in ms."""

    count: int = 0
    sum_ms: int = 0
    max_ms: int = 0


class Metrics:
    """The counts of one handle. Threads may share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(Count, 0)
        self._took = dict.fromkeys(Phase, Took())

    def count(self, what: Count, by: int = 1) -> None:
        """Count something that has happened."""
        with self._lock:
            self._counts[what] += by

    def took(self, phase: Phase, ms: int) -> None:
        """Note how long a phase took; a clock that was put back makes none shorter than 0."""
        ms = max(0, ms)
        with self._lock:
            last = self._took[phase]
            self._took[phase] = Took(last.count + 1, last.sum_ms + ms, max(last.max_ms, ms))
        _LOG.debug("a phase has ended", extra=fields(phase=phase, ms=ms))

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Note how long a block takes, also where it ends with an error."""
        began_ms = self._clock.now_ms()
        try:
            with about(phase=phase):
                yield
        finally:
            self.took(phase, self._clock.now_ms() - began_ms)

    def counts(self) -> dict[Count, int]:
        """Give what has been counted."""
        with self._lock:
            return dict(self._counts)

    def phases(self) -> dict[Phase, Took]:
        """Give how long the phases took."""
        with self._lock:
            return dict(self._took)
