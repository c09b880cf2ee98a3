"""
Wait for the log: until its upper is reached, or until somebody has written a table.

Imports: errors. Used by: _handle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from txns._log import Head
    from txns._parts import Parts
    from txns.errors import Identifier

_POLL_MS = 50


def for_upper(parts: Parts, basis: int, timeout_ms: int) -> Head:
    """See `basis` of `Handle.begin`."""
    clock = parts.clock
    deadline_ms = clock.now_ms() + timeout_ms
    head = parts.log.load()
    while head.upper < basis:
        if clock.now_ms() >= deadline_ms:
            raise InvalidUsage(
                "25000",
                f"the basis was not reached in time; basis=`{basis}` upper=`{head.upper}`"
                f" timeout_ms=`{timeout_ms}`",
            )
        clock.sleep(_POLL_MS)
        head = parts.log.load()
    return head


def for_write(parts: Parts, table: Identifier, after_ts: int, timeout_ms: int) -> int | None:
    """See `Handle.wait`."""
    clock = parts.clock
    deadline_ms = clock.now_ms() + timeout_ms
    while True:
        written = _written(parts, table, after_ts)
        if written:
            return max(written)
        if clock.now_ms() >= deadline_ms:
            return None
        clock.sleep(_POLL_MS)


def _written(parts: Parts, table: Identifier, after_ts: int) -> list[int]:
    head = parts.log.load()
    newer = list(head.state.after(after_ts))
    if head.state.tidied_upto > after_ts:
        newer += parts.archive.between(after_ts, head.state.tidied_upto)
    return [
        entry.commit_ts for entry in newer if any(change.table == table for change in entry.changes)
    ]
