"""
Whose turn it is: the younger wait for those who have lost, for a bounded time.

Docs/spec.md 11.4. Nothing rests on it: whoever comes out of turn is validated like everybody.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from txns._log.reservation import LASTS_MS_MAX, RESERVATIONS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from txns._clock import Clock
    from txns._log.reservation import Reservation


_SEEN_MAX = 4 * RESERVATIONS_MAX
_KEPT_MS = 4 * LASTS_MS_MAX
"""For how long one is remembered that heads do not show any more: some threads are late."""


def never() -> bool:
    """Say that nothing is given up."""
    return False


@dataclass(frozen=True, slots=True)
class Claim:
    """
    How somebody who appends an entry stands to reservations.

    Attributes:
        age: The own ticket and id; who has less is older.
        uuids: Of the tables for which the turn of the older is waited for.
        waits_from: How often an older one must have reserved at least.
        takes: What the entry reserves.
        leaves: The ids of tries whose reservations it takes out.
        is_given_up: Asked while it is waited: whether there is to be no entry any more.
    """

    age: tuple[int, str] = (0, "")
    uuids: frozenset[str] = frozenset()
    waits_from: int = 1
    takes: Reservation | None = None
    leaves: frozenset[str] = frozenset()
    is_given_up: Callable[[], bool] = never

    def reserved(self, before: Iterable[Reservation]) -> tuple[Reservation, ...]:
        """Give what is reserved from its entry on."""
        left = self.others(before)
        if self.takes and len(left) < RESERVATIONS_MAX:
            left.append(self.takes)
        return tuple(left)

    def has_effect(self, reserved: Iterable[Reservation], carried: Iterable[Reservation]) -> bool:
        """
        Whether an entry that says nothing else changes what is reserved.

        Args:
            reserved: What a head has.
            carried: What of it the next record repeats, the own as well.
        """
        if self.takes is not None:
            return len(self.others(carried)) < RESERVATIONS_MAX
        return any(each.txn_id in self.leaves for each in reserved)

    def yields_to(self, other: Reservation) -> bool:
        """Whether another's turn comes before its own."""
        return other.age < self.age and other.number >= self.waits_from

    def others(self, reserved: Iterable[Reservation]) -> list[Reservation]:
        """Give what is reserved for others."""
        return [each for each in reserved if each.txn_id not in self.leaves]


NO_CLAIM = Claim()
"""Of who neither waits nor reserves."""


APPENDS_WAIT_FROM = 2
"""The number of a reservation for which who cannot lose waits, too: its holder has lost to such."""


class MustWait(Exception):
    """It is an older one's turn: an attempt ends, and with it the locks that it has."""


@dataclass(slots=True)
class _Seen:
    """For how long one reservation has been seen, up to when, in ms; and what that has cost."""

    at_ms: int
    seen_ms: int = 0
    waited_for: bool = False
    paused: bool = False

    @property
    def is_over(self) -> bool:
        """Whether who has seen it for as long as it lasts leaves it out of the record."""
        return self.waited_for or self.seen_ms >= LASTS_MS_MAX


class Turns:
    """
    What one process has seen of reservations. Threads may share it.

    Invariant: nobody waits for what it has seen for as long as that lasts, but for the time in
    which the one that reserved has to wait itself.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[tuple[str, int], _Seen] = {}
        self._paused: dict[str, int] = {}
        """Until when nobody waits for a table, or reserves it, by its uuid, in ms."""
        self._lock = threading.Lock()

    def standing(self, reserved: Iterable[Reservation]) -> tuple[Reservation, ...]:
        """Give those of a head's reservations whose time is not over, the oldest first."""
        with self._lock:
            return self._standing(reserved)

    def _standing(self, reserved: Iterable[Reservation]) -> tuple[Reservation, ...]:
        now_ms = self._clock.elapsed_ms()
        if len(self._seen) > _SEEN_MAX:
            self._seen = {key: it for key, it in self._seen.items() if it.at_ms + _KEPT_MS > now_ms}
        standing: list[Reservation] = []
        for each in sorted(reserved, key=lambda one: one.age):
            known = self._seen.setdefault(each.key, _Seen(now_ms))
            if not any(older.shares(frozenset(each.uuids)) for older in standing):
                known.seen_ms += now_ms - known.at_ms
            known.at_ms = now_ms
            if known.seen_ms < each.lasts_ms:
                standing.append(each)
            elif known.waited_for and not known.paused:
                known.paused = True
                self._pause(each.uuids, each.lasts_ms)
        return tuple(standing)

    def carried(self, reserved: Iterable[Reservation]) -> tuple[Reservation, ...]:
        """
        Give those that the next record repeats.

        Not what somebody here has waited for enough, nor what has been there for longer than
        anybody waits.

        Args:
            reserved: All that a head has, those that its next record leaves out as well: the time
                of what is behind one of them stands still until then.
        """
        reserved = tuple(reserved)
        with self._lock:
            standing = self._standing(reserved)
            return tuple(
                each for each in reserved if each in standing or not self._seen[each.key].is_over
            )

    def is_waited_for(self, reserved: Iterable[Reservation], claim: Claim) -> Reservation | None:
        """Give the oldest one for whom somebody has to wait; None where it is his turn."""
        with self._lock:
            for each in claim.others(self._standing(reserved)):  # what waits for his own stands
                shared = claim.uuids.intersection(each.uuids)
                if claim.yields_to(each) and any(not self._is_paused(uuid) for uuid in shared):
                    self._seen[each.key].waited_for = True
                    return each
            return None

    def pause(self, uuids: Iterable[str], lasts_ms: int) -> None:
        """Let there be no turns on tables for a while, in ms: they have cost time for nothing."""
        with self._lock:
            self._pause(uuids, lasts_ms)

    def are_paused(self, uuids: Iterable[str]) -> bool:
        """Whether there are no turns on one of some tables for now."""
        with self._lock:
            return any(map(self._is_paused, uuids))

    def _pause(self, uuids: Iterable[str], lasts_ms: int) -> None:
        now_ms = self._clock.elapsed_ms()
        self._paused = {uuid: until for uuid, until in self._paused.items() if until > now_ms}
        self._paused.update(dict.fromkeys(uuids, now_ms + lasts_ms))

    def _is_paused(self, uuid: str) -> bool:
        return self._paused.get(uuid, 0) > self._clock.elapsed_ms()
