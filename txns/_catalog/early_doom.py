"""
Early doom: a transaction that has lost learns it at its next statement, not at its commit.

What it still has to do may take hours. Safety does not depend on it: the commit validates again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._logger import logger
from txns.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import RLock

    from txns._commit.commit_request import CommitRequest
    from txns._services import Parts

_LOG = logger(__name__)

_PAUSE_MS = 100
"""What a transaction does in less is not worth a look at the log, in ms."""

_SHARE = 10
"""One part in so many of a transaction's time is spent on looks, at most."""


class EarlyDoom:
    """Looks whether one transaction can still commit."""

    def __init__(
        self, parts: Parts, lock: RLock, request: Callable[[], CommitRequest | None]
    ) -> None:
        """
        Begin with a transaction.

        Args:
            parts: The parts of the protocol.
            lock: The transaction's.
            request: Gives what it would commit now; None where it is decided.
        """
        self._parts = parts
        self._lock = lock
        self._request = request
        self._due_ms = parts.clock.elapsed_ms() + _PAUSE_MS

    def before_read(self) -> None:
        """
        Look before a table is read, or looked for; who has only read cannot have lost.

        Raises:
            Conflict: It has lost: run it again from its beginning.
        """
        with self._lock:
            request = self._request() if self._is_due() else None
            if request is not None and request.writes:
                self._look(request)

    def before_write(self) -> None:
        """
        Look before a table is written.

        Raises:
            Conflict: It has lost: run it again from its beginning.
        """
        with self._lock:
            request = self._request() if self._is_due() else None
            if request is not None:
                self._look(request)

    def _is_due(self) -> bool:
        return self._parts.clock.elapsed_ms() >= self._due_ms

    def _look(self, request: CommitRequest) -> None:
        clock = self._parts.clock
        began_ms = clock.elapsed_ms()
        try:
            self._parts.committer.check_standing(request)
        except Conflict:
            raise
        except Exception:  # noqa: BLE001 -- whatever it was, the commit will say it
            _LOG.debug("whether the transaction has lost is not known", exc_info=True)
        ended_ms = clock.elapsed_ms()
        self._due_ms = ended_ms + max(_PAUSE_MS, _SHARE * (ended_ms - began_ms))
