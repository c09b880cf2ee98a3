"""How this process carries out what it commits, and why that way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from txns._config import ATOMIC, AUTO
from txns._log.settings import INLINE, NEXT

if TYPE_CHECKING:
    from txns._log.head import Head
    from txns._services import Parts


@dataclass(frozen=True, slots=True)
class ApplyMode:
    """
    How what is committed comes to its tables.

    Attributes:
        name: `atomic`, `inline` or `next`.
        why: For people.
    """

    name: str
    why: str


def apply_mode(parts: Parts, head: Head) -> ApplyMode:
    """Give the way by which a process of these parts goes, under the settings of a head."""
    wanted, says = parts.config.apply, head.state.settings.apply
    if parts.in_force(head).apply == NEXT:
        return ApplyMode(NEXT, "the log leaves it to the next writer: `txns settings`")
    if parts.births.rows is not None:
        return ApplyMode(ATOMIC, "the tables are rows of one database, which moves several at once")
    if wanted == AUTO:
        return ApplyMode(INLINE, "the catalog cannot move several tables at once")
    if wanted == NEXT:
        return ApplyMode(INLINE, f"the log is set to {says}, and not to leave it to others")
    return ApplyMode(INLINE, f"apply=`{wanted}` was given")
