"""
Transactions that one process builds and another commits, as bytes; some are merged.

Imports: actions, history. Used by: plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import txns
from tests.simulation import actions
from tests.simulation.history import Attempt

if TYPE_CHECKING:
    from tests.simulation.worker import Worker


@dataclass(frozen=True)
class Letter:
    """
    An uncommitted transaction as bytes, with what it means.

    Attributes:
        copies: How many processes take it over: more than one commit the same bytes.
    """

    attempt: Attempt
    data: bytes
    copies: int


def hand_over(worker: Worker) -> None:
    """Build a transaction, and leave it to whoever comes."""
    rng = worker.rng
    txn, attempt = _begin(worker)
    copies = rng.choice((1, 1, 2))
    letter = Letter(attempt, txn.serialize(), copies)
    worker.lake.letters += [letter] * copies


def _begin(worker: Worker) -> tuple[Any, Attempt]:
    history = worker.lake.observer.history
    isolation = worker.rng.choice(actions.LEVELS)
    attempt = Attempt(worker.process.doing, isolation=isolation, began_above=history.upper)
    history.attempts.append(attempt)
    worker.process.attempt = attempt
    txn = worker.handle.begin(isolation=isolation)
    attempt.txn_id, attempt.read_ts = txn.txn_id, txn.read_ts
    try:
        actions.statements(worker, txn, attempt)
    except Exception:
        txn.rollback()
        raise
    return txn, attempt


def take_over(worker: Worker) -> None:
    """Commit what others have built, sometimes together with more, or roll it back."""
    lake, rng = worker.lake, worker.rng
    if not lake.letters:
        hand_over(worker)
    letter = lake.letters.pop(rng.randrange(len(lake.letters)))
    attempt = _copy(worker, letter.attempt)
    lake.observer.history.attempts.append(attempt)
    worker.process.attempt = attempt
    txn = txns.deserialize(worker.handle, letter.data)
    if letter.copies == 1:  # what several commit is the same for each
        try:
            txn = _more(worker, txn, attempt)
        except Exception:
            txn.rollback()
            raise
        if rng.random() < 0.1:
            attempt.refused = True
            txn.rollback()
            return
    actions.commit(worker, txn, attempt)


def _copy(worker: Worker, attempt: Attempt) -> Attempt:
    return replace(
        attempt,
        key=worker.process.doing,
        operations=list(attempt.operations),
        reads=list(attempt.reads),
        listed=list(attempt.listed),
        logged_ts=None,
    )


def _more(worker: Worker, txn: Any, attempt: Attempt) -> Any:
    """Add statements, or merge with a transaction of this process."""
    rng = worker.rng
    if rng.random() < 0.4:
        actions.statements(worker, txn, attempt)
    if rng.random() < 0.5:
        own, added = _begin(worker)
        worker.process.attempt = attempt
        try:
            txn = txns.merge(txn, own)
        except Exception:
            own.rollback()
            raise
        _widen(attempt, added)
        if rng.random() < 0.5:
            actions.statements(worker, txn, attempt)
    return txn


def _widen(attempt: Attempt, other: Attempt) -> None:
    attempt.operations += other.operations
    attempt.reads += other.reads
    attempt.listed += other.listed
    attempt.read_ts = min(attempt.read_ts, other.read_ts)
    attempt.isolation = max(attempt.isolation, other.isolation, key=actions.LEVELS.index)
