"""Wait for the log: until its upper is reached, or until somebody has written a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._catalog.changefeed import known_as
from txns._log import limits
from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from txns._identifier import Identifier
    from txns._log.head import Head
    from txns._services import Parts

_POLL_MS = 50


def for_upper(parts: Parts, basis: int, timeout_ms: int) -> Head:
    """
    Wait until the upper is at or above a basis, and give the head that shows it.

    Args:
        parts: Of the handle.
        basis: A timestamp in ms that must have been seen.
        timeout_ms: How long to wait for it.

    Raises:
        InvalidUsage: 25000, it was not reached in time.
    """
    clock = parts.clock
    deadline_ms = clock.elapsed_ms() + timeout_ms
    head = parts.log.load()
    while head.upper < basis:
        if clock.elapsed_ms() >= deadline_ms:
            raise InvalidUsage(
                "25000",
                "the basis was not reached in time: wait longer, or take the commit_ts of what has"
                f" committed in this log; basis=`{basis}` upper=`{head.upper}`"
                f" timeout_ms=`{timeout_ms}`",
            )
        clock.sleep(_POLL_MS)
        head = parts.log.load()
    return head


def for_write(parts: Parts, table: Identifier, after_ts: int, timeout_ms: int) -> int | None:
    """
    Wait until a transaction above a timestamp has written a table.

    Args:
        parts: Of the handle.
        table: Its name.
        after_ts: In ms.
        timeout_ms: How long to wait.

    Returns:
        The newest such `commit_ts` in ms; None when there is none in time.
    """
    clock = parts.clock
    after_ts, timeout_ms = (
        limits.whole(after_ts, "after_ts"),
        limits.whole(timeout_ms, "timeout_ms"),
    )
    deadline_ms = clock.elapsed_ms() + timeout_ms
    seen_ts = after_ts
    while True:
        head = parts.log.load()
        written = [
            entry.commit_ts
            for entry in parts.timeline.above(head.state, seen_ts)
            if any(known_as(parts, head, change, [table]) for change in entry.changes)
        ]
        if written:
            return max(written)
        seen_ts = max(seen_ts, head.upper)  # what is old is looked at once
        if clock.elapsed_ms() >= deadline_ms:
            return None
        clock.sleep(_POLL_MS)
