"""
The entries of one process that wait to be appended: one thread leads them through a swap.

Docs/spec.md 11.1.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from txns._commit.turns import NO_CLAIM
from txns._log.state import aborted_ts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from txns._commit.turns import Claim
    from txns._identifier import Identifier
    from txns._log.entry import Entry
    from txns._log.head import Head
    from txns._log.state import LogState

Attempt = Callable[["LogState", "Head", int], "Entry"]
"""
Validate against a state and make the entry with a `commit_ts` in ms; the head is the one
that was loaded, the state is that head's plus entries of the same group.
"""

MAX_MEMBERS = 32
"""More would make the swap's metadata large for everybody."""

ADOPTIONS_MAX = 8
"""So often a commit adopts what strangers append before it goes on beside them."""


@dataclass(slots=True, eq=False)
class Attempts:
    """
    What is known of the attempts to append one entry, as long as another one may follow.

    Attributes:
        stood_on: The head that attempts stood on which may still land, or have; None where none
            may.
        waited_ms: For how long they have waited for others.
        ended_ms: When what they append was undone, by a clock that only grows; None before.
        adoptions: How many of them have ended at rows of strangers, which were to be adopted first.
    """

    stood_on: Head | None = None
    waited_ms: int = 0
    ended_ms: int | None = None
    adoptions: int = 0
    _stood_on_before: Head | None = None

    def trying(self, head: Head) -> None:
        """Note an attempt before it is made: its leader may be interrupted in the swap."""
        self._stood_on_before, self.stood_on = self.stood_on, head

    def not_sent(self) -> None:
        """Take back the attempt that was noted last: nothing was sent of it."""
        self.stood_on = self._stood_on_before

    @property
    def adopts(self) -> bool:
        """Whether one may still end at rows of strangers: none of them may land then."""
        return self.stood_on is None and self.adoptions < ADOPTIONS_MAX

    def settle(self, head: Head) -> None:
        """Learn from a head that does not hold the entry: past what an attempt asserted, or not."""
        if self.stood_on and head.is_past(self.stood_on):
            self.stood_on = None


class Origin(Enum):
    """Where a transaction id comes from: whether others may append under it."""

    FRESH = auto()
    """Made for this entry: it is another's only who asks with it what became of the entry."""
    DERIVED = auto()
    """Made of what is done: whoever does the same makes the same entry."""
    CALLERS = auto()
    """The caller's own: other tries under it may be on their way, and need not be the same."""


@dataclass(frozen=True, slots=True)
class Key:
    """
    The idempotence key of an entry.

    Attributes:
        txn_id: In at most one entry for as long as ids are looked up (I8); aborts of it are none.
        since_ts: Entries above it, in ms, may hold the id; under a caller's own one it is the try's
            `read_ts`.
        origin: Where the id comes from.
        commit_ts: The timestamp in ms that the caller wants; None for the next one.
        attempts: Those under this key; whoever may append again hands them on.
    """

    txn_id: str
    since_ts: int
    origin: Origin
    commit_ts: int | None = None
    attempts: Attempts = field(default_factory=Attempts, compare=False)

    @classmethod
    def fresh(cls, txn_id: str) -> Key:
        """Give the key of an id that has just been made: nobody knows it before the attempts."""
        return cls(txn_id, sys.maxsize, Origin.FRESH)

    def is_barred(self, under: Sequence[Entry]) -> bool:
        """
        Whether an abort among the entries under its id is for tries as old as this one.

        A fresh id is the caller's own for whoever asks with it what became of it.
        """
        return self.origin is not Origin.DERIVED and aborted_ts(under) > self.since_ts


class Member:
    """
    One waiting entry, and what became of it.

    Attributes:
        tables: Those that its swap may move with the log.
        proposed_ts: The `commit_ts` in ms that it is to have, if the log is below; 0 for none.
        claim: How it stands to reservations.
        since_ts: Archived rows above it, in ms, may hold its id: what stood in the heads that were
            looked into did not.
        alone: Whether a group with it was refused: nobody knows for whose entry.
        refusal: What the catalog said to its last attempt, which the next head judges.
        cause: Why its last attempt was not won.
        unsent: Whether that was because nothing could be sent of it.
        conflict: Why it was refused, to be told when an abort of its id has landed.
        deadline_ms: When its attempts end, in ms; None before the first.
        tries: How many there were, whoever has led them.
    """

    def __init__(
        self,
        key: Key,
        attempt: Attempt,
        tables: tuple[Identifier, ...] = (),
        proposed_ts: int = 0,
        claim: Claim = NO_CLAIM,
    ) -> None:
        self.key = key
        self.claim = claim
        self.proposed_ts = proposed_ts
        self.attempt = attempt
        self.tables = tables
        self.since_ts = key.since_ts
        self.entry: Entry | None = None
        self.failure: BaseException | None = None
        self.alone = False
        self.refusal: Exception | None = None
        self.cause: Exception | None = None
        self.unsent = False
        self.conflict: Exception | None = None
        self.deadline_ms: int | None = None
        self.tries = 0

    def again(self) -> Member:
        """Give the same anew, as it was proposed: who comes now is not waited for."""
        claim = replace(self.claim, uuids=frozenset())
        return Member(self.key, self.attempt, self.tables, self.proposed_ts, claim)

    @property
    def attempts(self) -> Attempts:
        """What is known of its attempts, those of an earlier call included."""
        return self.key.attempts

    @property
    def open(self) -> bool:
        """Whether nothing is decided yet."""
        return self.entry is None and self.failure is None


class CommitGroup:
    """
    The waiting members of one log.

    Invariant: who leads is in the group that it leads, and whoever is done leaves at once: so
    nobody leads for others while its own entry stands, and nobody waits behind those who came
    later.
    """

    def __init__(self) -> None:
        self._waiting: list[Member] = []
        """Those whose threads are in `run`, the oldest first."""
        self._leader: Member | None = None
        self._changed = threading.Condition()

    def run(self, member: Member, lead: Callable[[Member, list[Member]], None]) -> None:
        """
        Wait until a member is done, leading the group when nobody does.

        Args:
            member: Of the calling thread.
            lead: Gets it and all that it leads; whom it leaves open goes on under the next one.
        """
        with self._changed:
            self._waiting.append(member)
        try:
            while members := self._turn(member):
                lead(member, members)
                self._release(member)
        finally:
            # Also where it is interrupted: nobody waits for it, nor commits it later on.
            self._release(member)
            with self._changed:
                self._waiting.remove(member)

    def _turn(self, member: Member) -> list[Member]:
        """Give those that a member is to lead; none when it is done."""
        with self._changed:
            while member.open and self._leader:
                self._changed.wait()
            if not member.open:
                return []
            self._leader = member
            return self._take(member)

    def _take(self, leader: Member) -> list[Member]:
        others = [
            other
            for other in self._waiting
            if other is not leader and other.open and not other.alone and not leader.alone
        ]
        taken = {leader, *others[: MAX_MEMBERS - 1]}
        return [member for member in self._waiting if member in taken]

    def _release(self, leader: Member) -> None:
        with self._changed:
            if self._leader is leader:
                self._leader = None
                self._changed.notify_all()
