"""Sessions of Python: each a process of its own, over pyiceberg."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any

from txns._catalog.outcome import State
from txns._verify.session import Begun, work
from txns._verify.statements import carry_out

if TYPE_CHECKING:
    from txns._catalog.transaction import Transaction
    from txns._handle import Handle
    from txns._verify.model import Step
    from txns._verify.plan import Plan, Timing


class PythonClient:
    """One session's transactions through a handle; see `Client`."""

    def __init__(self, plan: Plan, handle: Handle) -> None:
        """Carry out a plan's transactions."""
        self._plan = plan
        self._handle = handle
        self._txn: Transaction | None = None

    @property
    def _running(self) -> Transaction:
        assert self._txn is not None
        return self._txn

    def begin(self) -> Begun:
        """Begin a transaction."""
        self._txn = self._handle.begin(isolation=self._plan.level)
        return Begun(self._txn.txn_id, self._txn.read_ts)

    def carry_out(self, step: Step) -> Any:
        """Carry out a statement; give what it saw."""
        return carry_out(self._running.load_table(self._plan.tables[step.table]), step)

    def has_written(self) -> bool:
        """Whether the transaction has staged anything."""
        return bool(self._running.tables)

    def commit(self) -> int:
        """Commit; give where it stands, in ms."""
        return self._running.commit().commit_ts

    def end(self) -> None:
        """Delete what it has staged, where that can be told."""
        if self._running.state is State.ACTIVE:
            self._running.rollback()


def run(plan: Plan, timing: Timing, sessions: list[int], life: int) -> None:
    """
    Run one session in this process until the time is over.

    Args:
        plan: Of the run.
        timing: Of all of its processes.
        sessions: Its number alone.
        life: How often it was killed before.
    """
    (session,) = sessions
    ignore_warnings()
    with plan.handle() as handle:
        timing.wait(f"session-{session}")
        work(plan, timing, PythonClient(plan, handle), session, life)


def ignore_warnings() -> None:
    """Say nothing of what pyiceberg remarks about statements that are as they are to be."""
    tables = logging.getLogger("pyiceberg.table")  # noqa: TID251 -- nothing is said by it
    tables.setLevel(logging.ERROR)  # a stranger's append is tried again
    warnings.filterwarnings("ignore", "Delete operation did not match any records")
    warnings.filterwarnings("ignore", "Merge on read is not yet supported")
