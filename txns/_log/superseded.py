"""
Removes what newer versions of the commit table have no need of, an hour after it was superseded.

Docs/spec.md 3.3. The last version of each minute is kept, with all that it names, so that a
catalog that was restored finds it; those files, and what a process that has ended has not come to,
are `txns tidy --files`'.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from txns._logger import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.io import FileIO

    from txns._clock import Clock

_LOG = logger(__name__)

GRACE_MS = 60 * 60 * 1000
"""How long what is superseded stays at least, in ms: readers have learnt of it, and backups."""

KEPT_MS = 7 * 24 * 60 * 60 * 1000
"""How long what a kept version names stays, in ms."""

QUEUED = 100_000
"""How many files wait at most: one that finds no room is left to `txns tidy --files`."""

AT_ONCE = 2
"""How many are removed at most at once, for each one that is noted: a committer waits for them."""

_MINUTE_MS = 60 * 1000


def ends_minute(upper: int, later: int) -> bool:
    """
    Say whether a minute ends between two uppers in ms, the first one of which is not greater.

    Of two versions that follow each other the first one is kept then. Of a file that was named from
    the one upper on, and is no more at the other, some kept version names it then.
    """
    return minute_of(upper) != minute_of(later)


def minute_of(upper: int) -> int:
    """Give the minute that an upper in ms lies in."""
    return upper // _MINUTE_MS


class SupersededFiles:
    """Files that wait for the end of their time. Threads may share it."""

    def __init__(self, clock: Clock, may_remove: Callable[[str], bool | None]) -> None:
        """
        Begin with none.

        Args:
            clock: Says when the time of a file has come.
            may_remove: Whether a file is to be removed at all; None for who asks again later.
        """
        self._clock = clock
        self._may_remove = may_remove
        self._queue: deque[tuple[int, str]] = deque()
        self._lock = threading.Lock()

    def add(self, io: FileIO, locations: Sequence[str]) -> None:
        """Note files that no kept version names, if any; remove some whose time has come."""
        now_ms = self._clock.elapsed_ms()  # one that is set far ahead would end every hour
        due: list[str] = []
        with self._lock:
            most = AT_ONCE * max(1, len(locations))
            while self._queue and self._queue[0][0] <= now_ms and len(due) < most:
                due.append(self._queue.popleft()[1])
            self._wait(now_ms, locations)
        left: list[str] = []
        for path in due:
            answer = self._may_remove(path)  # asked here, since it may ask the catalog
            if answer:
                remove(io, path)
            elif answer is None:
                left.append(path)
        with self._lock:
            self._wait(now_ms, left)

    def _wait(self, now_ms: int, locations: Sequence[str]) -> None:
        room = QUEUED - len(self._queue)
        self._queue.extend((now_ms + GRACE_MS, each) for each in locations[:room])


def remove(io: FileIO, path: str) -> None:
    """Delete a file that nothing needs; one that stays is only reported."""
    try:
        io.delete(path)
    except Exception:  # noqa: BLE001 -- a file that stays harms nobody
        _LOG.debug("a superseded file stays: %s", path, exc_info=True)
