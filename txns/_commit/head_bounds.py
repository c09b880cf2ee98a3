"""
Keeps the head bounded: whoever meets a large one applies and tidies before the swap.

Docs/spec.md 10. A commit that has no room in it all the same is refused (4.7). Nothing depends on
the first, which is tried again by the next who meets it; entries that cannot leave, as those of a
table in quarantine, are no reason to try at each commit.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from txns._identifier import dotted_name
from txns._log import limits
from txns._logger import logger
from txns.errors import TOO_MUCH, InvalidUsage

if TYPE_CHECKING:
    from txns._clock import Clock
    from txns._commit.apply import Applier
    from txns._commit.tidy import Tidier
    from txns._log.commit_log import CommitLog
    from txns._log.head import Head

_LOG = logger(__name__)

_PART = 16
"""The part of a bound by which a head has to grow until it is tried again."""

_AGAIN_MS = 60_000
"""After how long a head that could not be made small is tried again, though it has not grown."""

_NAMED = 5


class HeadFull(InvalidUsage):
    """A transaction for which the head has no room: what fills it has to leave first."""

    def __init__(
        self, head: Head, size: int, most: int = limits.HEAD_MAX_BYTES, table: str = ""
    ) -> None:
        """
        Say what fills a head, and what lets it out.

        Args:
            head: The head.
            size: How many bytes of records it would have, or have of a table.
            most: How many it may have.
            table: Which one they are of; empty for all.
        """
        what = f"more of {table}" if table else "the transaction"
        super().__init__(
            TOO_MUCH,
            f"the log has no room for {what}: it holds {len(head.state.entries)} entries, most of"
            f" them not applied to {_most_named(head)}; find out why with `txns status`,"
            " then `txns apply`, or `txns repair` for a table in quarantine, and run the"
            f" transaction again; bytes=`{size}` most=`{most}`",
        )


@dataclass(frozen=True, slots=True)
class _Left:
    """How large a head was after it had been applied and tidied, and when in ms that was."""

    entries: int
    size: int
    at_ms: int


class HeadBounds:
    """Applies and tidies where the head has become large; threads may share it."""

    def __init__(self, log: CommitLog, applier: Applier, tidier: Tidier, clock: Clock) -> None:
        self._log = log
        self._applier = applier
        self._tidier = tidier
        self._clock = clock
        self._left: _Left | None = None
        self._lock = threading.Lock()

    def keep(self) -> None:
        """
        Apply and tidy where the newest head that was seen is large; errors are logged.

        One thread does, the others go on meanwhile.
        """
        if not self._is_due(self._log.newest) or not self._lock.acquire(blocking=False):
            return
        try:
            self._make_small()
        finally:
            self._lock.release()

    def make_room(self) -> bool:
        """
        Apply and tidy for a transaction that has no room, or wait for who does.

        Returns:
            Whether there may be room now.
        """
        with self._lock:
            if self._is_due(self._log.load()):
                self._make_small()
                return True
            return not _is_large(self._log.newest)

    def _is_due(self, head: Head) -> bool:
        left = self._left
        return _is_large(head) and (
            left is None
            or len(head.state.entries) - left.entries > limits.HEAD_ENTRIES // _PART
            or head.record_bytes - left.size > limits.HEAD_BYTES // _PART
            or abs(self._clock.now_ms() - left.at_ms) > _AGAIN_MS
        )

    def _make_small(self) -> None:
        try:
            head = self._log.load()
            entries = head.state.entries
            names = {head.state.name_of(each): None for one in entries for each in one.carried}
            self._applier.apply_all(head, names)
            # A tidy takes longer than a commit, and loses against one: then it is made again.
            self._tidier.tidy() or self._tidier.tidy()
        except Exception:  # noqa: BLE001 -- the next who meets it tries again
            _LOG.warning("the log stays large", exc_info=True)
        head = self._log.newest
        self._left = _Left(len(head.state.entries), head.record_bytes, self._clock.now_ms())


def _is_large(head: Head) -> bool:
    entries = len(head.state.entries)
    return entries > limits.HEAD_ENTRIES or head.record_bytes > limits.HEAD_BYTES


def _most_named(head: Head) -> str:
    """Name the tables of most entries."""
    entries = head.state.entries
    counts = Counter(head.state.name_of(each) for one in entries for each in one.carried)
    return ", ".join(dotted_name(name) for name, _ in counts.most_common(_NAMED))
