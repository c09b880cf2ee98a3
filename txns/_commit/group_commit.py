"""
Appends entries to the log: the only retry loop of the protocol.

Docs/spec.md 11.1. An attempt whose answer was lost, or was a refusal, is settled by a later head:
the entry is there, or the head has moved past what the attempt stood on and it can never land.
A conflict under a caller's own id is told when an abort stands under it: earlier tries may be on
their way.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.exceptions import BadRequestError

from txns._commit.drafts import Drafts, barred
from txns._commit.group import CommitGroup, Member, Origin
from txns._commit.head_bounds import HeadFull
from txns._commit.turns import NO_CLAIM, MustWait
from txns._iceberg.locked_rows import RowsBusy
from txns._log.reservation import LASTS_MS_MAX
from txns._log.state import aborted_ts, committed
from txns._log.swap import Outcome, Swap, is_transient
from txns._logger import fields, logger
from txns.errors import CommitStateUnknown, Conflict

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from txns._clock import Clock
    from txns._commit.group import Attempt, Key
    from txns._commit.head_bounds import HeadBounds
    from txns._commit.tidy import Tidied, Tidier
    from txns._commit.turns import Claim, Turns
    from txns._iceberg.locked_rows import LockedRows, Rows
    from txns._identifier import Identifier
    from txns._log.commit_log import CommitLog
    from txns._log.entry import Entry
    from txns._log.head import Head
    from txns._log.reservation import Reservation
    from txns._log.timeline import Timeline

_LOG = logger(__name__)

MAX_ATTEMPTS = 50
MAX_MS = 30_000
BACK_OFF_MAX_MS = 5
"""After a race that was lost."""
_LOOK_MS = 20
"""After which who waits for his turn looks at the head again, at first."""
_LOOK_MAX_MS = 1_000
FAILED_MAX_MS = 2_000
"""After attempts that catalog or storage failed; the first time it is 10 ms, then twice as long."""


class CommitLoop:
    """Appends entries, those of several threads in one swap (`CommitGroup`)."""

    def __init__(
        self,
        log: CommitLog,
        timeline: Timeline,
        bounds: HeadBounds,
        tidier: Tidier,
        clock: Clock,
        *,
        turns: Turns,
        rows: Rows | None = None,
    ) -> None:
        """`rows` are the catalog's: writers who lock that of the log come one after the other."""
        self._rows = rows
        self._tidier = tidier
        self._log = log
        self._bounds = bounds
        self._timeline = timeline
        self._clock = clock
        self._turns = turns
        self._group = CommitGroup()

    def append(
        self,
        key: Key,
        attempt: Attempt,
        tables: Iterable[Identifier] = (),
        proposed_ts: int = 0,
        claim: Claim = NO_CLAIM,
    ) -> Entry:
        """
        Append one entry, exactly once.

        Args:
            key: An entry that has its id already is returned instead of a second one.
            attempt: Called at each attempt, from the start.
            tables: Those that its swap may move with the log; they stand still at an attempt.
            proposed_ts: The `commit_ts` in ms that it is to have, if the log is below; 0 for none.
            claim: How it stands to reservations: it may have to wait.

        Returns:
            The entry that stands in the log.

        Raises:
            Conflict: Every swap was lost, or under the caller's own id an earlier try's abort bars
                this one.
            CommitStateUnknown: The last answer stays unknown. Under the caller's own id also when
                every swap was lost: nothing is known of other tries.
            InvalidUsage: 55000, the commit table is missing, or another one.
            MustWait: It was given up meanwhile.
            TxnsError: What `attempt` raises; definitely not committed. A conflict under the
                caller's own id: neither by a try that began before.
            Exception: What the catalog or the storage says; it may be appended again. After a
                refusal `key.attempts` tells whether it may still land.
        """
        self._bounds.keep()
        if self._rows is not None and not proposed_ts:
            proposed_ts = self._clock.now_ms()  # as those who wait in the queue do
        member = self._appended(Member(key, attempt, tuple(tables), proposed_ts, claim))
        if isinstance(member.failure, MustWait):
            key.attempts.waited_ms += self.wait(claim)
            if claim.is_given_up():
                raise member.failure
            member = self._appended(member.again())
        if isinstance(member.failure, HeadFull) and self._bounds.make_room():
            member = self._appended(member.again())
        if member.failure is not None:
            raise member.failure
        assert member.entry is not None
        return member.entry

    def wait(self, claim: Claim) -> int:
        """
        Wait until it is somebody's turn, without any lock, for two minutes at most.

        Returns:
            For how long, in ms.
        """
        began_ms, waited_ms = self._clock.elapsed_ms(), 0
        while waited_ms < LASTS_MS_MAX and (one := self._is_waited_for(claim)):
            if claim.is_given_up():
                break
            look_ms = max(_LOOK_MS, min(waited_ms // 4, one.lasts_ms // 20, _LOOK_MAX_MS))
            self._clock.sleep(look_ms - look_ms // 4)
            self._clock.back_off(look_ms // 4)  # or all who wait would look at once
            waited_ms = self._clock.elapsed_ms() - began_ms
        return waited_ms

    def _is_waited_for(self, claim: Claim) -> Reservation | None:
        """Look at the log, or at what was last seen of it where that fails for now."""
        try:
            head = self._log.load()
        except Exception as error:
            if not is_transient(error):
                raise
            _LOG.debug("the log cannot be asked whose turn it is, trying again", exc_info=True)
            head = self._log.newest
        return self._turns.is_waited_for(head.state.reserved, claim)

    def _appended(self, member: Member) -> Member:
        self._group.run(member, self._lead)
        return member

    def find(self, head: Head, txn_id: str, since_ts: int) -> Entry | None:
        """Find a transaction by its id in a head, and in rows that left the head since a ts."""
        return committed(self._timeline.under(head.state, txn_id, since_ts))

    def settle(self, key: Key) -> Entry | None:
        """
        Ask the log what became of the attempts under a key; `key.attempts` learns from it.

        Returns:
            The entry where one has landed.
        """
        head = self._log.load()
        known = self.find(head, key.txn_id, key.since_ts)
        if known is None:
            key.attempts.settle(head)
        return known

    def _lead(self, leader: Member, members: list[Member]) -> None:
        """Append those of the members that are valid; what stops the leader is its own."""
        try:
            self._append_all(leader, members)
        except Exception as error:  # noqa: BLE001 -- its thread raises it
            if leader.open:
                leader.failure = _failure(leader, error)

    def _append_all(self, leader: Member, members: list[Member]) -> None:
        now_ms = self._clock.now_ms()
        for member in members:
            member.deadline_ms = member.deadline_ms or now_ms + MAX_MS
        again, failed = False, 0
        while not again or not self._is_over(leader):
            if again:
                self._clock.back_off(_back_off_ms(failed))
            again = True
            for member in members:
                member.tries += 1
            swap = self._try(members, failed)
            if swap is None or not leader.open:
                return
            failed = failed + 1 if swap.outcome in {Outcome.MAYBE, Outcome.NOT_SENT} else 0
            if any(member.alone for member in members):
                members = [leader]  # the others go on one by one, too
        self._settle(leader, members)

    def _try(self, members: list[Member], failed: int) -> Swap | None:
        """Ask for the head, and make one swap; see `_attempt`."""
        tables = {table for member in _open(members) for table in member.tables}
        asked = False
        try:
            with self._locked(tables) as rows:
                head = self._log.load(rows)
                self._look_up(members, head)
                asked = True
                return self._attempt(members, replace(head, rows=rows))
        except RowsBusy as busy:
            return Swap(Outcome.LOST, busy)
        except Exception as error:
            unsettled = any(member.attempts.stood_on for member in _open(members))
            if not asked and (unsettled or failed) and is_transient(error):
                _tell(members, "the log cannot be asked, trying again", error)
                return Swap(Outcome.NOT_SENT, error)
            raise

    def _locked(self, tables: set[Identifier]) -> AbstractContextManager[LockedRows | None]:
        """Lock the rows that an attempt is to move, the log's first, where a catalog has any."""
        if self._rows is None:
            return nullcontext()
        return self._rows.locked(self._log.identifier, tables)

    def _is_over(self, member: Member) -> bool:
        """Whether a member has been tried for as often, or as long, as it may."""
        assert member.deadline_ms is not None
        return member.tries >= MAX_ATTEMPTS or self._clock.now_ms() >= member.deadline_ms

    def _attempt(self, members: list[Member], head: Head) -> Swap | None:
        """Make one swap; give one that was not won, None where no member is open any more."""
        drafts = Drafts.of(_open(members), head, self._clock, self._turns)
        if not drafts.by_id:
            for member, failure in drafts.refused.items():
                member.failure = _failure(member, failure)
            return None
        swap = self._swap(head, drafts)
        if swap.outcome is Outcome.WON:
            for member, failure in drafts.refused.items():
                member.attempts.stood_on = None  # no attempt on this head can land any more
                member.failure = failure
            for member, entry in drafts.entries.items():
                member.entry = entry
            return None
        # Who was refused stays as well: it may have been because of entries that did not land.
        _tell(drafts.members, f"the swap was not won: {swap.outcome.name}", swap.cause)
        for member in drafts.members:
            member.cause, member.unsent = swap.cause, swap.outcome is Outcome.NOT_SENT
        if swap.outcome is Outcome.REFUSED:
            for member in drafts.members:
                member.refusal = swap.cause if len(drafts.members) == 1 else None
                member.alone = True
        return swap

    def _swap(self, head: Head, drafts: Drafts) -> Swap:
        """Swap what was noted before: its thread may be stopped before it knows what came of it."""
        tidied = self._tidied(head, drafts)
        without, behind = (tidied.removed, tidied.snapshot) if tidied else ((), None)
        for member in drafts.members:
            member.attempts.trying(head)
        outcome = Outcome.MAYBE
        try:
            swap = self._log.append(head, list(drafts.by_id.values()), without, behind=behind)
            # Locked rows are moved by their COMMIT alone: whose were lost before has sent nothing.
            is_unsent = head.rows and swap.outcome is Outcome.LOST
            outcome = Outcome.NOT_SENT if is_unsent else swap.outcome
        except Exception:
            outcome = Outcome.NOT_SENT
            raise
        finally:
            if outcome is Outcome.NOT_SENT:
                _not_sent(drafts.members)
            if tidied:
                self._tidier.ended(tidied, outcome)
        return swap

    def _tidied(self, head: Head, drafts: Drafts) -> Tidied | None:
        """
        Have the swap tidy a head that stands still, if that is due: its entries come behind.

        Not after an attempt that could not be sent: a tidy may have taken too long for that one.
        """
        if not head.rows or any(member.unsent for member in drafts.members):
            return None
        tidied = self._tidier.within(head, len(drafts.by_id), drafts.state.upper)
        if tidied:
            drafts.come_behind(tidied.upto)
        return tidied

    def _look_up(self, members: list[Member], head: Head) -> None:
        """Learn from a head who has landed, and whose attempts never will."""
        for member in _open(members):
            key = member.key
            under = self._timeline.under(head.state, key.txn_id, member.since_ts)
            if known := committed(under):
                member.entry = known
                continue
            if key.is_barred(under):
                member.attempts.settle(head)
                conflict = member.conflict or barred(member, aborted_ts(under))
                member.failure = _failure(member, conflict)
                continue
            if member.refusal and not _lost_a_race(member, head):
                member.failure = member.refusal
            member.refusal = None
            member.since_ts = head.upper
            member.attempts.settle(head)

    def _settle(self, leader: Member, members: list[Member]) -> None:
        """End the leader and those whose attempts are over; the others go on under the next one."""
        head = self._log.load()
        self._look_up(members, head)
        for member in _open(members):
            if member is not leader and not self._is_over(member):
                continue
            others = member.key.origin is Origin.CALLERS  # other tries may be on their way
            if member.attempts.stood_on is None and member.unsent and member.cause:
                member.failure = member.cause  # which is no outcome
            elif others or member.attempts.stood_on is not None:
                member.failure = CommitStateUnknown(member.key.txn_id)
                member.failure.__cause__ = member.cause
            else:
                member.failure = Conflict(
                    "too many others were committing",
                    table=self._log.identifier,
                    txn_id=member.key.txn_id,
                    least_ts=head.upper,
                )


def _tell(members: list[Member], what: str, cause: Exception | None) -> None:
    """Log what has become of an attempt of several: a line for each, and the cause once."""
    for member in members:
        _LOG.info(what, extra=fields(txn=member.key.txn_id))
    _LOG.debug("why: %s", cause, exc_info=cause)


def _not_sent(members: list[Member]) -> None:
    for member in members:
        member.attempts.not_sent()


def _back_off_ms(failed: int) -> int:
    """Give how long a pause is at most, after how many attempts in a row that had no answer."""
    return min(5 * 2**failed, FAILED_MAX_MS) if failed else BACK_OFF_MAX_MS


def _failure(member: Member, error: Exception) -> Exception:
    if member.attempts.stood_on is None:
        return error
    unknown = CommitStateUnknown(member.key.txn_id)
    unknown.__cause__ = error
    return unknown


def _lost_a_race(member: Member, head: Head) -> bool:
    """Say whether a refusal was for what the attempt stood on: some servers call that malformed."""
    stood_on = member.attempts.stood_on
    return (
        isinstance(member.refusal, BadRequestError)
        and stood_on is not None
        and head.sequence_number > stood_on.sequence_number
    )


def _open(members: list[Member]) -> list[Member]:
    return [member for member in members if member.open]
