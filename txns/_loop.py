"""
Appends entries to the log: the only retry loop of the protocol, with group commit.

Docs/spec.md 11.1. An attempt whose answer was lost is settled by the next head: the entry
is there, or the head has moved past what the attempt stood on and it can never land.
Imports: _archive, _log, errors. Used by: _commit, _handle, _marks, _parts,
_purge, _register, _transaction, _autocommit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from txns._entry import Entry, Kind
from txns._log import CommitLog, Head, Outcome, Swap, is_transient
from txns.errors import CommitStateUnknown, Conflict, CorruptLog, InvalidUsage, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from txns._archive import Archive
    from txns._clock import Clock
    from txns._state import LogState

_LOG = logging.getLogger(__name__)

MAX_ATTEMPTS = 50
MAX_MS = 30_000
BACK_OFF_MAX_MS = 5
MAX_SKEW_MS = 60_000
MAX_MEMBERS = 32
"""More would make the swap's metadata large for everybody."""

Attempt = Callable[["LogState", Head, int], Entry]
"""
Validate against a state and make the entry with a `commit_ts` in ms; the head is the one
that was loaded, the state is that head's plus entries of the same group.
"""


@dataclass(frozen=True, slots=True)
class Key:
    """
    The idempotence key of an entry.

    Attributes:
        txn_id: In at most one entry, ever.
        since_ts: Archived rows above it, in ms, may hold the id.
        fresh: Whether nobody can have used the id before the first attempt.
        commit_ts: The timestamp in ms that the caller wants; None for the next one.
    """

    txn_id: str
    since_ts: int
    fresh: bool
    commit_ts: int | None = None


class _Member:
    """One waiting entry, and what is known of its attempts."""

    def __init__(self, key: Key, attempt: Attempt) -> None:
        self.key = key
        self.attempt = attempt
        self.entry: Entry | None = None
        self.failure: BaseException | None = None
        self.tried = False
        self.stood_on: Head | None = None
        """The head of an attempt whose outcome is not known, while it may still land."""

    @property
    def open(self) -> bool:
        return self.entry is None and self.failure is None

    def trying(self, head: Head) -> None:
        """Note an attempt before it is made: its leader may be interrupted in the swap."""
        self.tried = True
        self.stood_on = head

    def settle(self, head: Head) -> None:
        """Learn from a newer head, which does not hold the entry."""
        if self.stood_on and self.stood_on.main_id != head.main_id:
            self.stood_on = None


class CommitLoop:
    """
    Appends entries, those of several threads in one swap.

    One of the waiting threads leads: it takes all that wait along, while the others sleep.
    """

    def __init__(self, log: CommitLog, archive: Archive, clock: Clock) -> None:
        self._log = log
        self._archive = archive
        self._clock = clock
        self._waiting: list[_Member] = []
        self._guard = threading.Lock()
        self._lead = threading.Lock()

    def append(self, key: Key, attempt: Attempt) -> Entry:
        """
        Append one entry, exactly once.

        Args:
            key: An entry that has its id already is returned instead of a second one.
            attempt: Called at each attempt, from the start.

        Returns:
            The entry that stands in the log.

        Raises:
            Conflict: Every swap was lost.
            CommitStateUnknown: The last answer stays unknown.
            TxnsError: What `attempt` raises; definitely not committed.
        """
        member = _Member(key, attempt)
        with self._guard:
            self._waiting.append(member)
        try:
            with self._lead:
                while member.open:
                    self._lead_group()
        except BaseException:
            # Interrupted: nobody else may commit it later on.
            with self._guard:
                self._waiting = [other for other in self._waiting if other is not member]
            raise
        if member.failure is not None:
            raise member.failure
        assert member.entry is not None
        return member.entry

    def find(self, head: Head, txn_id: str, since_ts: int) -> Entry | None:
        """Find a transaction by its id in a head, and in rows that left the head since a ts."""
        known = head.state.find(txn_id)
        if known or head.state.tidied_upto <= since_ts:
            return known
        return self._archive.find(txn_id, since_ts)

    def _lead_group(self) -> None:
        with self._guard:
            members, self._waiting = self._waiting[:MAX_MEMBERS], self._waiting[MAX_MEMBERS:]
        try:
            self._append_all(members)
        except Exception as error:  # noqa: BLE001 -- each waiting thread raises it on its own
            for member in _open(members):
                member.failure = self._failure(member, error)
        finally:
            left = _open(members)
            if left:  # the leader was interrupted: the others go on
                with self._guard:
                    self._waiting[:0] = left

    @staticmethod
    def _failure(member: _Member, error: Exception) -> Exception:
        if member.stood_on is None:
            return error
        unknown = CommitStateUnknown(member.key.txn_id)
        unknown.__cause__ = error
        return unknown

    def _append_all(self, members: list[_Member]) -> None:
        deadline_ms = self._clock.now_ms() + MAX_MS
        tries = 0
        while tries < MAX_ATTEMPTS and self._clock.now_ms() < deadline_ms:
            if tries:
                self._clock.back_off(BACK_OFF_MAX_MS)
            tries += 1
            try:
                head = self._log.load_or_create()
            except Exception as error:
                unsettled = any(member.stood_on for member in _open(members))
                if unsettled and is_transient(error):
                    _LOG.debug("the log cannot be asked, trying again", exc_info=True)
                    continue
                raise
            if self._attempt(members, head):
                return
        self._settle(members)

    def _attempt(self, members: list[_Member], head: Head) -> bool:
        """Make one swap; give whether no member is open any more."""
        self._look_up(members, head)
        entries: dict[_Member, Entry] = {}
        refused: dict[_Member, Exception] = {}
        state = head.state
        for member in _open(members):
            try:
                entry = self._make(member, state, head)
                following = state.with_entry(entry)
                _check_invariants(following, entry)
            except Exception as error:  # noqa: BLE001 -- it is that member's, not the leader's
                refused[member] = error
            else:
                entries[member] = entry
                state = following
        if not entries:
            for member, failure in refused.items():
                member.failure = self._failure(member, failure)
            return True
        swap = self._swap(head, entries)
        if swap.outcome is Outcome.WON:
            for member, failure in refused.items():
                member.failure = failure  # no attempt on this head or an older one can land now
            for member, entry in entries.items():
                member.entry = entry
            return True
        # Who was refused stays as well: it may have been because of entries that did not land.
        _LOG.debug("a swap was not won: %s", swap.outcome, exc_info=swap.cause)
        return False

    def _swap(self, head: Head, entries: Mapping[_Member, Entry]) -> Swap:
        before = {member: member.stood_on for member in entries}
        for member in entries:
            member.trying(head)
        try:
            return self._log.append(head, list(entries.values()))
        except Exception:
            for member, stood_on in before.items():
                member.stood_on = stood_on  # refused: this attempt has certainly not landed
            raise

    def _make(self, member: _Member, state: LogState, head: Head) -> Entry:
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

    def _look_up(self, members: list[_Member], head: Head) -> None:
        """Learn from a newer head who has landed, and whose attempts never will."""
        for member in _open(members):
            known = None
            if member.tried or not member.key.fresh:
                known = self.find(head, member.key.txn_id, member.key.since_ts)
            if known:
                member.entry = known
            else:
                member.settle(head)

    def _settle(self, members: list[_Member]) -> None:
        head = self._log.load()
        self._look_up(members, head)
        for member in _open(members):
            if member.stood_on is not None:
                member.failure = CommitStateUnknown(member.key.txn_id)
            else:
                member.failure = Conflict(
                    "too many others were committing",
                    table=self._log.identifier,
                    txn_id=member.key.txn_id,
                    least_ts=head.upper,
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


def _open(members: list[_Member]) -> list[_Member]:
    return [member for member in members if member.open]


def _check_invariants(state: LogState, entry: Entry) -> None:
    """Fail one transaction with what would make the log unreadable for everybody."""
    try:
        state.validate()
    except CorruptLog as error:
        raise Conflict(f"refused: {error}", txn_id=entry.txn_id, least_ts=entry.prev_ts) from error
