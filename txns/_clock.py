"""
The only source of time, randomness and ids (ruff forbids others).

A simulation puts its own clock in, so that one seed replays a whole run.
"""

from __future__ import annotations

import os
import random  # noqa: TID251 -- this module is what the rule points to
import time
import uuid
from typing import Protocol

_SYSTEM_RANDOM = random.SystemRandom()


class Clock(Protocol):
    """Time in ms, sleeping, and new ids."""

    def now_ms(self) -> int:
        """Give the wall clock's time, in ms since the epoch."""
        ...

    def elapsed_ms(self) -> int:
        """Give a time in ms that only grows, whatever the wall clock is set to; for differences."""
        ...

    def back_off(self, max_ms: int) -> None:
        """Sleep 1 to `max_ms` ms, jittered."""
        ...

    def sleep(self, ms: int) -> None:
        """Sleep `ms` ms."""
        ...

    def new_txn_id(self) -> str:
        """Give a UUIDv7 (RFC 9562) in its text form."""
        ...

    def new_snapshot_id(self) -> int:
        """Give a positive int64 that no table has as a snapshot id."""
        ...

    def new_uuid(self) -> str:
        """Give a random UUID in its text form, for names of files."""
        ...


class SystemClock:
    """The machine's own clock and randomness."""

    def now_ms(self) -> int:
        """Give the wall clock's time, in ms since the epoch."""
        return time.time_ns() // 1_000_000  # noqa: TID251 -- the one place that asks

    def elapsed_ms(self) -> int:
        """Give a time in ms that only grows, whatever the wall clock is set to; for differences."""
        return time.monotonic_ns() // 1_000_000  # noqa: TID251 -- as above

    def back_off(self, max_ms: int) -> None:
        """Sleep 1 to `max_ms` ms, jittered."""
        time.sleep(_SYSTEM_RANDOM.uniform(1, max_ms) / 1000)  # noqa: TID251 -- as above

    def sleep(self, ms: int) -> None:
        """Sleep `ms` ms."""
        time.sleep(ms / 1000)  # noqa: TID251 -- as above

    def new_txn_id(self) -> str:
        """Give a UUIDv7: 48 bits of time in ms, 74 random bits."""
        return str(uuid_v7(self.now_ms(), os.urandom(10)))  # noqa: TID251 -- as above

    def new_snapshot_id(self) -> int:
        """Give a random positive int64."""
        return _SYSTEM_RANDOM.getrandbits(63) or 1

    def new_uuid(self) -> str:
        """Give a random UUID in its text form."""
        return str(uuid.uuid4())  # noqa: TID251 -- as above


def uuid_v7(ms: int, random_bytes: bytes) -> uuid.UUID:
    """Lay out a UUIDv7 from a time in ms and 10 random bytes (RFC 9562, section 5.7)."""
    value = (ms & (1 << 48) - 1) << 80 | int.from_bytes(random_bytes, "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    return uuid.UUID(int=value & ~(0x3 << 62) | 0x2 << 62)
