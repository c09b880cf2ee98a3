"""Lost races for rehearsal: who writes retries sees them work before somebody is faster."""

from __future__ import annotations

from threading import Lock

from txns.errors import Conflict


class Rehearsal:
    """The next commits that lose as if somebody had been faster. Threads may share it."""

    def __init__(self, conflicts: int) -> None:
        self._left = conflicts
        self._lock = Lock()

    def lose(self, txn_id: str) -> None:
        """
        Refuse a commit, while some are left to be refused.

        Raises:
            Conflict: It is not committed, as of a race that was lost.
        """
        with self._lock:
            if self._left == 0:
                return
            self._left -= 1
            left = self._left
        raise Conflict(
            f"nobody was faster, this is a rehearsal, rehearse_conflicts asks for {left} more",
            txn_id=txn_id,
        )
