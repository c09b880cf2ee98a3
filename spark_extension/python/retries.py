"""How long who lost a race waits before the next attempt."""

from __future__ import annotations

import random  # noqa: TID251  (no protocol depends on it)
import time

_SYSTEM = random.SystemRandom()


def wait_before_attempt(attempt: int, *, first_ms: int, wait_ms_max: int) -> None:
    """
    Wait a random time, longer from attempt to attempt, and never longer than the bound.

    Two transactions that take equally long would lose to each other in turns for ever.

    Args:
        attempt: The number of the one that has lost, from 1.
        first_ms: The most after the first one, in ms, about what an attempt takes; it doubles.
        wait_ms_max: The bound of all, in ms.
    """
    bound_ms = min(wait_ms_max, first_ms * 2 ** (attempt - 1))
    time.sleep(_SYSTEM.uniform(bound_ms / 2, bound_ms) / 1000)  # noqa: TID251  (as above)
