"""
Reserves tables for the next try of a transaction that has lost (docs/spec.md 11.4).

Each is a swap that validates nothing. Nothing rests on it: what fails is logged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._commit.drafts import control_entry
from txns._commit.group import Key
from txns._commit.turns import Claim
from txns._log.entry import Kind
from txns._log.reservation import LASTS_MS_MAX, NUMBER_MAX, UUIDS_MAX, Reservation, Turn
from txns._logger import about, logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from txns._clock import Clock
    from txns._commit.group_commit import CommitLoop
    from txns._commit.turns import Turns
    from txns._log.commit_log import CommitLog
    from txns._log.entry import Entry
    from txns._log.head import Head
    from txns._log.state import LogState

_LOG = logger(__name__)


class Reserver:
    """Takes and gives back what is reserved for the tries of transactions. Threads may share it."""

    def __init__(self, log: CommitLog, loop: CommitLoop, turns: Turns, clock: Clock) -> None:
        self._log = log
        self._loop = loop
        self._turns = turns
        self._clock = clock

    def again(self, before: Turn, took_ms: int, uuids: Sequence[str], txn_id: str) -> Turn:
        """
        Wait for those who are older, and reserve tables for the next try; give its turn.

        Args:
            before: That of the try that has lost.
            took_ms: How long that took, without its waits for others.
            uuids: Of the tables at which it can lose again, those that count most first.
            txn_id: The id of the next one.
        """
        reserved, held = None, before.held
        with about(txn=txn_id):
            try:
                reserved = self._reserved(before, took_ms, _first(uuids, before), txn_id)
            except Exception:  # noqa: BLE001 -- the try goes on without it, and may say the same
                _LOG.debug("nothing is reserved for the next try", exc_info=True)
                held |= {txn_id}  # it may have landed all the same
        number = reserved.number if reserved else before.number
        if reserved:
            held = frozenset({txn_id})
        return Turn(before.ticket, self._clock.elapsed_ms(), number, reserved, held)

    def _reserved(
        self, before: Turn, took_ms: int, uuids: Sequence[str], txn_id: str
    ) -> Reservation | None:
        mine = before.reserved
        if not uuids or before.number >= NUMBER_MAX:
            return None
        if mine and mine not in self._log.load().state.reserved:
            self._turns.pause(mine.uuids, mine.lasts_ms)  # it was too slow for somebody
        leaves = before.held | {txn_id}
        self._loop.wait(Claim((before.ticket, txn_id), frozenset(uuids), leaves=leaves))
        if self._turns.are_paused(uuids):
            return None
        wanted = Reservation(
            txn_id,
            tuple(uuids),
            before.ticket,
            before.number + 1,
            max(1, min(took_ms * 3 // 2, LASTS_MS_MAX)),
        )
        entry = self._append(Claim(takes=wanted, leaves=leaves))
        return wanted if entry and wanted in entry.reserved else None

    def give_up(self, turn: Turn) -> None:
        """Take out what was reserved for tries, after which there is none: nobody has to wait."""
        if not turn.held:
            return
        with about(txn=max(turn.held)):
            try:
                reserved = self._log.load().state.reserved
                if any(each.txn_id in turn.held for each in reserved):
                    self._append(Claim(leaves=turn.held))
            except Exception:  # noqa: BLE001 -- others wait for as long as it lasts
                _LOG.debug("what was reserved stays", exc_info=True)

    def _append(self, claim: Claim) -> Entry | None:
        """Append what says nothing but a claim; None where the list is full, or has lost it."""
        key = Key.fresh(self._clock.new_txn_id())

        def attempt(state: LogState, _head: Head, commit_ts: int) -> Entry:
            if not claim.has_effect(state.reserved, self._turns.carried(state.reserved)):
                raise _Unchanged
            return control_entry(Kind.ADVANCE, key.txn_id, state, commit_ts)

        try:
            return self._loop.append(key, attempt, claim=claim)
        except _Unchanged:
            return None


class _Unchanged(Exception):
    """A swap would cost all writers a turn, and change nothing that is reserved."""


def _first(uuids: Sequence[str], before: Turn) -> list[str]:
    """Give the tables that count most, also where the try before has ended before its first one."""
    known = before.reserved.uuids if before.reserved else ()
    return list(dict.fromkeys((*uuids, *known)))[:UUIDS_MAX]
