"""
Appends entries to the log: the only retry loop of the protocol.

Docs/spec.md 11.1. An attempt whose answer was lost, or was a refusal, is settled by a later head:
the entry is there, or the head has moved past what the attempt stood on and it can never land.
A conflict under a caller's own id is told when an abort stands under it: earlier tries may be on
their way.
Imports: _engine, _entry, _group, _log, _state, errors. Used by: _commit, _handle, _marks, _parts,
_purge, _register, _repair, _transaction, _autocommit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from pyiceberg.exceptions import BadRequestError

from txns import _engine
from txns._entry import Entry, Kind
from txns._group import Attempts, CommitGroup, Member
from txns._log import CommitLog, Head, Outcome, Swap, is_transient
from txns._logger import logger
from txns._state import aborted_ts, committed
from txns.errors import CommitStateUnknown, Conflict, CorruptLog, InvalidUsage, Unsupported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from txns._archive import Archive
    from txns._clock import Clock
    from txns._state import LogState

_LOG = logger(__name__)

MAX_ATTEMPTS = 50
MAX_MS = 30_000
BACK_OFF_MAX_MS = 5
MAX_SKEW_MS = 60_000

Attempt = Callable[["LogState", Head, int], Entry]
"""
Validate against a state and make the entry with a `commit_ts` in ms; the head is the one
that was loaded, the state is that head's plus entries of the same group.
"""


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


@dataclass(slots=True)
class _Drafts:
    """
    What one swap is to append.

    Attributes:
        state: The head's, with these entries.
        by_id: An entry per id; an abort where a member with a caller's own id was refused.
        entries: Who gets which.
        aborts: Whose abort it is.
        refused: Who was refused an entry, and why.
    """

    state: LogState
    by_id: dict[str, Entry] = field(default_factory=dict)
    entries: dict[Member, Entry] = field(default_factory=dict)
    aborts: dict[Member, Entry] = field(default_factory=dict)
    refused: dict[Member, Exception] = field(default_factory=dict)

    @property
    def members(self) -> list[Member]:
        """Those of whom there is something in the swap."""
        return [*self.entries, *self.aborts]


class CommitLoop:
    """Appends entries, those of several threads in one swap (`CommitGroup`)."""

    def __init__(self, log: CommitLog, archive: Archive, clock: Clock) -> None:
        self._log = log
        self._archive = archive
        self._clock = clock
        self._group = CommitGroup()

    def append(self, key: Key, attempt: Attempt) -> Entry:
        """
        Append one entry, exactly once.

        Args:
            key: An entry that has its id already is returned instead of a second one.
            attempt: Called at each attempt, from the start.

        Returns:
            The entry that stands in the log.

        Raises:
            Conflict: Every swap was lost, or under the caller's own id an earlier try's abort bars
                this one.
            CommitStateUnknown: The last answer stays unknown. Under the caller's own id also when
                every swap was lost: nothing is known of other tries.
            InvalidUsage: 55000, the commit table is missing, or another one.
            TxnsError: What `attempt` raises; definitely not committed. A conflict under the
                caller's own id: neither by a try that began before.
            Exception: What the catalog or the storage says; it may be appended again. After a
                refusal `key.attempts` tells whether it may still land.
        """
        member = Member(key, attempt)
        self._group.run(member, self._lead)
        if member.failure is not None:
            raise member.failure
        assert member.entry is not None
        return member.entry

    def find(self, head: Head, txn_id: str, since_ts: int) -> Entry | None:
        """Find a transaction by its id in a head, and in rows that left the head since a ts."""
        return committed(self._under(head, txn_id, since_ts))

    def _under(self, head: Head, txn_id: str, since_ts: int) -> list[Entry]:
        """Give the entries under an id, ascending: once one has committed there is no abort."""
        standing = head.state.under(txn_id)
        if committed(standing) or head.state.tidied_upto <= since_ts:
            return standing
        return [*self._archive.under(txn_id, since_ts), *standing]

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
        again = False
        while not again or not self._is_over(leader):
            if again:
                self._clock.back_off(BACK_OFF_MAX_MS)
            again = True
            for member in members:
                member.tries += 1
            try:
                head = self._log.load()
                self._look_up(members, head)
            except Exception as error:
                unsettled = any(member.attempts.stood_on for member in _open(members))
                if unsettled and is_transient(error):
                    _LOG.debug("the log cannot be asked, trying again", exc_info=True)
                    continue
                raise
            if self._attempt(members, head) or not leader.open:
                return
            if any(member.alone for member in members):
                members = [leader]  # the others go on one by one, too
        self._settle(leader, members)

    def _is_over(self, member: Member) -> bool:
        """Whether a member has been tried for as often, or as long, as it may."""
        assert member.deadline_ms is not None
        return member.tries >= MAX_ATTEMPTS or self._clock.now_ms() >= member.deadline_ms

    def _attempt(self, members: list[Member], head: Head) -> bool:
        """Make one swap; give whether no member is open any more."""
        drafts = self._drafts(_open(members), head)
        if not drafts.by_id:
            for member, failure in drafts.refused.items():
                member.failure = _failure(member, failure)
            return True
        swap = self._swap(head, drafts)
        if swap.outcome is Outcome.WON:
            for member, failure in drafts.refused.items():
                member.attempts.stood_on = None  # no attempt on this head can land any more
                member.failure = failure
            for member, entry in drafts.entries.items():
                member.entry = entry
            return True
        # Who was refused stays as well: it may have been because of entries that did not land.
        _LOG.debug("a swap was not won: %s", swap.outcome, exc_info=swap.cause)
        if swap.outcome is Outcome.REFUSED:
            for member in drafts.members:
                member.refusal = swap.cause if len(drafts.members) == 1 else None
                member.alone = True
        return False

    def _drafts(self, members: list[Member], head: Head) -> _Drafts:
        """Make the entries of one swap, each validated against those before it."""
        drafts = _Drafts(head.state)
        for member in members:
            try:
                drafts.entries[member] = self._draft(drafts, member, head)
            except Exception as error:  # noqa: BLE001 -- it is that member's, not the leader's
                self._refuse(drafts, member, error)
        return drafts

    def _draft(self, drafts: _Drafts, member: Member, head: Head) -> Entry:
        """Make a member's entry; who comes second with an id gets the first one's, or its end."""
        txn_id = member.key.txn_id
        if txn_id not in drafts.by_id:
            entry = self._make(member, drafts.state, head)
            following = drafts.state.with_entry(entry)
            _check_invariants(following, entry)
            drafts.by_id[txn_id], drafts.state = entry, following
        entry = drafts.by_id[txn_id]
        if entry.is_abort:
            raise _barred(member, entry.commit_ts)
        return entry

    def _refuse(self, drafts: _Drafts, member: Member, error: Exception) -> None:
        """Note why a member is refused, and draft the abort without which that is not told."""
        key = member.key
        drafts.refused[member] = error
        if not isinstance(error, Conflict) or key.origin is not Origin.CALLERS:
            return
        if drafts.state.off:
            drafts.refused[member] = transactions_off()  # which says nothing of other tries
        elif key.txn_id not in drafts.by_id:
            abort = self._abort(key, drafts.state)
            drafts.by_id[key.txn_id] = drafts.aborts[member] = abort
            drafts.state = drafts.state.with_entry(abort)
            member.conflict = error

    def _abort(self, key: Key, state: LogState) -> Entry:
        """Give what bars all tries under an id that began before it."""
        commit_ts = max(self._clock.now_ms(), state.upper + 1)
        return Entry(
            Kind.ABORT,
            key.txn_id,
            upper=commit_ts,
            tidied_upto=state.tidied_upto,
            commit_ts=commit_ts,
            prev_ts=state.upper,
            read_ts=key.since_ts,
            engine=_engine.NAME,
        )

    def _swap(self, head: Head, drafts: _Drafts) -> Swap:
        """Swap what was noted before: its thread may be stopped before it knows what came of it."""
        for member in drafts.members:
            member.attempts.trying(head)
        try:
            return self._log.append(head, list(drafts.by_id.values()))
        except Exception:
            for member in drafts.members:
                member.attempts.not_sent()
            raise

    def _make(self, member: Member, state: LogState, head: Head) -> Entry:
        now_ms = self._clock.now_ms()
        if state.upper > now_ms + MAX_SKEW_MS:
            _LOG.warning(
                "the log is %d ms ahead of this clock: some clock is fast", state.upper - now_ms
            )
        commit_ts = max(now_ms, state.upper + 1)
        if member.key.commit_ts is not None:
            commit_ts = checked_ts(member.key.commit_ts, state.upper, now_ms)
        entry = member.attempt(state, head, commit_ts)
        if state.off and entry.kind not in {Kind.ON, Kind.OFF}:
            raise transactions_off()
        return entry

    def _look_up(self, members: list[Member], head: Head) -> None:
        """Learn from a head who has landed, and whose attempts never will."""
        for member in _open(members):
            key = member.key
            under = self._under(head, key.txn_id, member.since_ts)
            if known := committed(under):
                member.entry = known
                continue
            if key.is_barred(under):
                member.attempts.settle(head)
                conflict = member.conflict or _barred(member, aborted_ts(under))
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
            if others or member.attempts.stood_on is not None:
                member.failure = CommitStateUnknown(member.key.txn_id)
            else:
                member.failure = Conflict(
                    "too many others were committing",
                    table=self._log.identifier,
                    txn_id=member.key.txn_id,
                    least_ts=head.upper,
                )


def _failure(member: Member, error: Exception) -> Exception:
    if member.attempts.stood_on is None:
        return error
    unknown = CommitStateUnknown(member.key.txn_id)
    unknown.__cause__ = error
    return unknown


def _barred(member: Member, ts: int) -> Conflict:
    """Say that a try is older than one under its id that was refused."""
    return Conflict(
        "a try under its id was refused after this one began",
        txn_id=member.key.txn_id,
        least_ts=ts,
    )


def _lost_a_race(member: Member, head: Head) -> bool:
    """Say whether a refusal was for what the attempt stood on: some servers call that malformed."""
    stood_on = member.attempts.stood_on
    return (
        isinstance(member.refusal, BadRequestError)
        and stood_on is not None
        and head.sequence_number > stood_on.sequence_number
    )


def transactions_off() -> Unsupported:
    """Say that something needs the log, while it takes no writers."""
    return Unsupported(
        "transactions are off for this commit table: `txns on` or CALL system.on() lets writers in;"
        " until then single operations read and write, as plain Iceberg does, the tables to which"
        " everything is applied"
    )


def checked_ts(ts: int, upper: int, now_ms: int) -> int:
    """
    Check a `commit_ts` that a caller chose.

    Raises:
        InvalidUsage: 22023 with the least timestamp that works.
    """
    if ts <= upper:
        raise InvalidUsage(
            "22023",
            f"a commit timestamp lies above the upper; ts=`{ts}` upper=`{upper}`"
            f" least_ts=`{upper + 1}`",
            least_ts=upper + 1,
        )
    if ts > now_ms + MAX_SKEW_MS:
        raise InvalidUsage(
            "22023",
            "a timestamp must not lie more than 60 s in the future: others would have to wait;"
            f" ts=`{ts}` now=`{now_ms}`",
            least_ts=upper + 1,
        )
    return ts


def _open(members: list[Member]) -> list[Member]:
    return [member for member in members if member.open]


def _check_invariants(state: LogState, entry: Entry) -> None:
    """Fail one transaction with what would make the log unreadable for everybody."""
    try:
        state.validate()
    except CorruptLog as error:
        raise Conflict(f"refused: {error}", txn_id=entry.txn_id, least_ts=entry.prev_ts) from error
