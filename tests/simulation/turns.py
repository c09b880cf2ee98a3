"""
Tries after one that has lost: they are as old as that, and others wait for them, for a while.

Nothing of it is judged but that promises hold, and that nobody waits for longer than others have
reserved (docs/spec.md 11.4): holders die, come late, or give up.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.simulation.scheduler import Violation
from tests.simulation.settings import Switch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.worker import Worker

TRIES_MAX = 6
"""How often a user tries at most."""
_AGAIN = 0.85
_GIVES_UP = 0.5
"""How many of those who do not try again say so."""
_DIES = 0.1
"""How many die when their tables are reserved, beside those that faults hit."""
_LATE = 0.15
"""How many do something else first."""
_LATE_MS_MAX = 4000

_IN_ALL_MS = 120_000
_LOOK_MS = 20
_PAUSES_MS = 3_000
"""For how long a core sleeps besides while nothing fails: after lost swaps, for lagging loads."""
_FAILED_MS = 70_000
"""And while calls fail."""
_LAG_MS = 5_000
"""For how long a replica may show what has been taken out."""


class Reserved:
    """What is reserved in the log, and was, by transaction id and number."""

    def __init__(self) -> None:
        self._lasts_ms: dict[tuple[str, int], int] = {}
        self._seen_ms: dict[tuple[str, int], int] = {}
        self._standing: set[tuple[str, int]] = set()

    def note(self, text: str, now_ms: int) -> None:
        """Note what a new record says; some may never have been there, so nothing is checked."""
        found = {(each["txn-id"], each["number"]): each["lasts-ms"] for each in json.loads(text)}
        self._lasts_ms.update(found)
        self._seen_ms.update(dict.fromkeys(self._standing | found.keys(), now_ms))
        self._standing = set(found)

    def longest_ms(self, since_ms: int) -> int:
        """Give for how long somebody may wait who has begun then, each look over time with it."""
        lasts = (
            self._lasts_ms[key]
            for key, at_ms in self._seen_ms.items()
            if key in self._standing or at_ms >= since_ms
        )
        return min(sum(each + max(_LOOK_MS, each // 20) for each in lasts), _IN_ALL_MS)


def begin(worker: Worker, options: dict[str, Any]) -> Any:
    """Begin a transaction, after the try that its user has lost, if there is one."""
    lost, worker.lost = worker.lost, None
    if lost is None:
        return worker.handle.begin(**options)
    with bounded(worker):
        txn = worker.handle.begin(**options, after=lost)
    world = worker.lake.world
    world.occurred["tried again"] += 1
    if worker.rng.random() < _DIES:
        world.die(worker.process)
    if worker.rng.random() < _LATE:
        world.sleep(worker.rng.randint(1, _LATE_MS_MAX))
    return txn


def lose(worker: Worker, txn: Any) -> None:
    """Let a user try again after a conflict, or not, and maybe say so."""
    if not worker.has(Switch.RESERVATIONS):
        return
    if worker.rng.random() < _AGAIN and worker.repeats < TRIES_MAX:
        worker.lost = txn
    elif worker.rng.random() < _GIVES_UP:
        worker.handle.give_up(txn)


@contextmanager
def bounded(worker: Worker) -> Iterator[None]:
    """
    Judge for how long a call has waited for others.

    Raises:
        Violation: For longer than all have reserved that it may have seen.
    """
    process, world = worker.process, worker.lake.world
    before_ms, since_ms = process.paused_ms, world.now_ms
    try:
        yield
    except Exception:
        _judge(worker, process.paused_ms - before_ms, since_ms)
        raise
    _judge(worker, process.paused_ms - before_ms, since_ms)


def _judge(worker: Worker, paused_ms: int, since_ms: int) -> None:
    if not worker.has(Switch.RESERVATIONS):
        return
    faults = worker.lake.world.faults.happened
    failed = any(action == worker.process.doing for action, _step, _fault in faults)
    longest_ms = worker.lake.observer.reserved.longest_ms(since_ms - _LAG_MS)
    allowed_ms = longest_ms + (_FAILED_MS if failed else _PAUSES_MS)
    if paused_ms > allowed_ms:
        raise Violation(
            "turns", f"{worker.process.doing} has waited {paused_ms} ms, {allowed_ms} are allowed"
        )
