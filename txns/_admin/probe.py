"""What the head alone says: for probes, which load no table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txns._log.entry import Entry
    from txns._log.head import Head


@dataclass(frozen=True, slots=True)
class Probe:
    """
    The head at one moment.

    Attributes:
        head: The head.
        now_ms: The local clock's time, in ms.
    """

    head: Head
    now_ms: int

    @property
    def entries(self) -> int:
        """How many entries stand in it."""
        return len(self.head.state.entries)

    @property
    def bytes(self) -> int:
        """What its records count for (docs/spec.md 4.7), in bytes."""
        return self.head.record_bytes

    @property
    def oldest(self) -> Entry | None:
        """
        The oldest entry that tables may not show yet.

        Those below it are applied. Whether it is itself the tables alone say: what is applied
        everywhere stands until the next tidy.
        """
        state = self.head.state
        return next(
            (
                entry
                for entry in state.entries
                if any(state.forgotten_ts(each.uuid) <= entry.commit_ts for each in entry.carried)
            ),
            None,
        )

    @property
    def oldest_age_ms(self) -> int:
        """How old that one is, in ms; 0 without one."""
        return max(0, self.now_ms - self.oldest.commit_ts) if self.oldest else 0

    @property
    def skew_ms(self) -> int:
        """How far the log is ahead of the local clock, in ms; negative for behind."""
        return self.head.upper - self.now_ms
