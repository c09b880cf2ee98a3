"""
What one swap is to append: an entry per id, made by the members that wait for it.

Docs/spec.md 11.1. Each is validated against those before it. A conflict under a caller's own id is
told when an abort stands under it: then that is what is drafted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from txns._commit.group import Origin
from txns._commit.head_bounds import HeadFull
from txns._commit.turns import MustWait
from txns._identifier import dotted_name
from txns._log import limits
from txns._log.entry import THIS_ENGINE, Entry, Kind, to_summary
from txns._logger import fields, logger
from txns.errors import Conflict, CorruptLog, InvalidUsage, transactions_off

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from txns._clock import Clock
    from txns._commit.group import Key, Member
    from txns._commit.turns import Turns
    from txns._log.change import Change
    from txns._log.head import Head
    from txns._log.state import LogState

_LOG = logger(__name__)

MAX_SKEW_MS = 60_000


@dataclass(slots=True)
class Drafts:
    """
    What one swap is to append.

    Attributes:
        head: What the swap is to stand on.
        clock: Says when it is.
        turns: Says for whom its members have to wait.
        state: The head's, with these entries.
        by_id: An entry per id; an abort where a member with a caller's own id was refused.
        entries: Who gets which.
        aborts: Whose abort it is.
        refused: Who was refused an entry, and why.
        sizes: What each of these entries counts for (docs/spec.md 4.7), by its `commit_ts`.
    """

    head: Head
    clock: Clock
    turns: Turns
    state: LogState
    by_id: dict[str, Entry] = field(default_factory=dict)
    entries: dict[Member, Entry] = field(default_factory=dict)
    aborts: dict[Member, Entry] = field(default_factory=dict)
    refused: dict[Member, Exception] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, members: Iterable[Member], head: Head, clock: Clock, turns: Turns) -> Self:
        """Make the entries of one swap, each validated against those before it."""
        drafts = cls(head, clock, turns, head.state)
        for member in members:
            before = head.rows.so_far() if head.rows else {}
            try:
                drafts.entries[member] = drafts._draft(member)
            except Exception as error:  # noqa: BLE001 -- it is that member's, not the leader's
                if head.rows:
                    head.rows.back_to(before)
                drafts._refuse(member, error)
        return drafts

    def come_behind(self, tidied_upto: int) -> None:
        """Come behind a tidy in the same swap: what is up to a `commit_ts` leaves the head."""
        moved = {id(each): replace(each, tidied_upto=tidied_upto) for each in self.by_id.values()}
        self.by_id = {txn_id: moved[id(each)] for txn_id, each in self.by_id.items()}
        self.entries = {member: moved[id(each)] for member, each in self.entries.items()}
        self.aborts = {member: moved[id(each)] for member, each in self.aborts.items()}

    @property
    def members(self) -> list[Member]:
        """Those of whom there is something in the swap."""
        return [*self.entries, *self.aborts]

    def _draft(self, member: Member) -> Entry:
        """Make a member's entry; who comes second with an id gets the first one's, or its end."""
        txn_id = member.key.txn_id
        if txn_id not in self.by_id:
            self._check_turn(member)
            entry = self._carrying(member, self._make(member))
            following = self.state.with_entry(entry)
            _check_invariants(following, entry)
            self._add(entry, following, self._check_room(entry))
        entry = self.by_id[txn_id]
        if entry.is_abort:
            raise barred(member, entry.commit_ts)
        return entry

    def _check_turn(self, member: Member) -> None:
        """
        End the attempt of a member that comes before an older one.

        Raises:
            MustWait: Until that one's turn is over; without the locks of an attempt.
        """
        reserved, claim = self.state.reserved, member.claim
        if not reserved or not claim.uuids or member.attempts.stood_on is not None:
            return
        if self.turns.is_waited_for(reserved, claim):
            raise MustWait

    def _carrying(self, member: Member, entry: Entry) -> Entry:
        """Give an entry with what is reserved from it on: nothing that is over."""
        unused = self.state.carried(entry)
        standing = self.turns.carried(self.state.reserved) if unused else ()
        reserved = member.claim.reserved(each for each in standing if each in unused)
        return replace(entry, reserved=reserved) if reserved else entry

    def _refuse(self, member: Member, error: Exception) -> None:
        """Note why a member is refused, and draft the abort without which that is not told."""
        key = member.key
        self.refused[member] = error
        if not isinstance(error, Conflict) or key.origin is not Origin.CALLERS:
            return
        if self.state.off:
            self.refused[member] = transactions_off()  # which says nothing of other tries
        elif key.txn_id not in self.by_id:
            abort = self._carrying(member, self._abort(key))
            self.aborts[member] = abort
            self._add(abort, self.state.with_entry(abort), _record_bytes(abort))
            member.conflict = error

    def _check_room(self, entry: Entry) -> int:
        """
        Give what an entry counts for, in bytes.

        Raises:
            HeadFull: It is a transaction that the head has no room for; what else there is makes
                some.
        """
        own = _record_bytes(entry)
        if entry.kind is not Kind.COMMIT:
            return own
        size = self.head.record_bytes + sum(self.sizes.values()) + own
        if size > limits.HEAD_MAX_BYTES:
            raise HeadFull(self.head, size)
        if size <= limits.HEAD_TABLE_MAX_BYTES:
            return own
        change, of_table = self._fullest(entry.changes)
        if own + of_table > limits.HEAD_TABLE_MAX_BYTES:
            table = dotted_name(self.state.name_of(change))
            raise HeadFull(self.head, own + of_table, limits.HEAD_TABLE_MAX_BYTES, table)
        return own

    def _fullest(self, changes: Collection[Change]) -> tuple[Change, int]:
        """Give the change of that table that has most bytes of records, and how many."""
        sizes = {each.uuid: 0 for each in changes}
        for entry in self.state.entries:
            if written := sizes.keys() & {each.uuid for each in entry.changes}:
                for uuid in written:
                    sizes[uuid] += self._size_of(entry)
        fullest = max(changes, key=lambda each: sizes[each.uuid])
        return fullest, sizes[fullest.uuid]

    def _size_of(self, entry: Entry) -> int:
        """Give what an entry counts for, of the head or drafted: it is not made a record again."""
        drafted = self.sizes.get(entry.commit_ts)
        if drafted is not None:
            return drafted
        return self.head.sizes[self.head.snapshot_ids[entry.commit_ts]]

    def _add(self, entry: Entry, following: LogState, size: int) -> None:
        self.by_id[entry.txn_id], self.state = entry, following
        self.sizes[entry.commit_ts] = size

    def _abort(self, key: Key) -> Entry:
        """Give what bars all tries under an id that began before it."""
        commit_ts = max(self.clock.now_ms(), self.state.upper + 1)
        return Entry(
            Kind.ABORT,
            key.txn_id,
            upper=commit_ts,
            tidied_upto=self.state.tidied_upto,
            commit_ts=commit_ts,
            prev_ts=self.state.upper,
            read_ts=key.since_ts,
            engine=THIS_ENGINE,
        )

    def _make(self, member: Member) -> Entry:
        now_ms, state = self.clock.now_ms(), self.state
        if state.upper > now_ms + MAX_SKEW_MS:
            _LOG.warning(
                "the log is ahead of this clock: some clock is fast",
                extra=fields(txn=member.key.txn_id, ms=state.upper - now_ms),
            )
        # Who came too late to what was proposed goes no further: others wait with what they have.
        commit_ts = max(member.proposed_ts or now_ms, state.upper + 1)
        if member.key.commit_ts is not None:
            commit_ts = checked_ts(member.key.commit_ts, state.upper, now_ms)
        limits.check_commit_ts(commit_ts)
        entry = member.attempt(state, self.head, commit_ts)
        if state.off and entry.kind not in {Kind.ON, Kind.OFF}:
            raise transactions_off()
        return entry


def barred(member: Member, ts: int) -> Conflict:
    """Say that a try is older than one under its id that was refused."""
    return Conflict(
        "a try under its id was refused after this one began",
        txn_id=member.key.txn_id,
        least_ts=ts,
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


def _record_bytes(entry: Entry) -> int:
    return limits.record_bytes(to_summary(entry))


def _check_invariants(state: LogState, entry: Entry) -> None:
    """Fail one transaction with what would make the log unreadable for everybody."""
    try:
        state.validate()
    except CorruptLog as error:
        raise Conflict(f"refused: {error}", txn_id=entry.txn_id, least_ts=entry.prev_ts) from error


def control_entry(
    kind: Kind, txn_id: str, state: LogState, commit_ts: int, changes: tuple[Change, ...] = ()
) -> Entry:
    """Give an entry that has nothing to apply: it moves the upper, or turns writers away."""
    return Entry(
        kind,
        txn_id,
        upper=commit_ts,
        tidied_upto=state.tidied_upto,
        commit_ts=commit_ts,
        prev_ts=state.upper,
        read_ts=state.upper,
        engine=THIS_ENGINE,
        changes=changes,
    )
