"""One session: random transactions, one after the other, whatever client carries them out."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251 -- of a seed that is told
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from txns._clock import SystemClock
from txns._message import said_by
from txns._verify.history import Deed, Journal, Outcome
from txns._verify.workloads import RolledBack, at_random
from txns.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable

    from txns._verify.model import Step
    from txns._verify.plan import Plan, Timing

_NUMBERS = 1_000_000
"""Each life of a session has so many of its own."""
_LIVES = 10_000

_PAUSE_MS = 200
"""After a BEGIN that has failed: a catalog may be away for a while."""


class Begun(NamedTuple):
    """A transaction that has begun: its id, and what it reads at, in ms."""

    txn_id: str
    read_ts: int


class Client(Protocol):
    """
    What carries out one session's transactions, one at a time.

    Any of its methods raises Conflict where the transaction has lost; what else they raise says
    nothing of what became of it, which the log tells.
    """

    def begin(self) -> Begun:
        """
        Begin a transaction.

        Raises:
            SystemExit: None can begin here any more: the session is over.
        """
        ...

    def carry_out(self, step: Step) -> Any:
        """Carry out a statement; give what it saw, as the model tells it."""
        ...

    def has_written(self) -> bool:
        """Whether the transaction has staged anything."""
        ...

    def commit(self) -> int:
        """Commit; give where it stands, in ms."""
        ...

    def end(self) -> None:
        """Undo what is still open."""
        ...


def journal_name(session: int, life: int) -> str:
    """Give the name of the file that one life of a session writes."""
    return f"session-{session}-{life}.jsonl"


def work(plan: Plan, timing: Timing, client: Client, session: int, life: int) -> None:
    """
    Run transactions until the time is over.

    Args:
        plan: Of the run.
        timing: Of all of its processes; they are ready.
        client: Carries them out.
        session: Its number.
        life: How often it was killed before.
    """
    rng = Random(f"{plan.seed}/{session}/{life}")  # noqa: S311 -- no secret
    numbers = iter(range((_LIVES * session + life) * _NUMBERS, 2**62))
    with Path(plan.folder, journal_name(session, life)).open("w") as file:
        journal = Journal(file)
        while timing.goes_on():
            program = partial(at_random, rng, fresh=lambda: next(numbers))
            transact(client, session, journal, program)


def transact(
    client: Client,
    session: int,
    journal: Journal,
    program: Callable[[Callable[[Step], Any]], None],
) -> None:
    """
    Run a program as one transaction, and write down what it did and saw, however it ends.

    Args:
        client: Carries it out.
        session: Its number.
        journal: Gets what was done.
        program: Is given what carries out its statements; RolledBack is its ROLLBACK.
    """
    clock = SystemClock()
    began_ms = clock.elapsed_ms()
    try:
        begun = client.begin()
    except Exception as error:  # noqa: BLE001 -- the next one may begin
        journal.failed(said_by(error))
        clock.sleep(_PAUSE_MS)
        return
    deed = Deed(begun.txn_id, session, began_ms, begun.read_ts)
    journal.began(deed)

    def do(step: Step) -> Any:
        seen = client.carry_out(step)
        deed.steps.append(step)
        deed.seen.append(seen)
        return seen

    try:
        program(do)
        deed.wrote = client.has_written()
    except Exception as error:  # noqa: BLE001 -- whatever it was, it is told
        deed.outcome, deed.why = _before_commit(error)
    else:
        deed.committing = True
    journal.did(deed)  # what it read is judged all the same
    if deed.committing:
        _commit(client, deed)
    deed.ended_ms = clock.elapsed_ms()
    journal.ended(deed)
    with suppress(Exception):  # what it has staged stays, where nobody knows
        client.end()


def _before_commit(error: Exception) -> tuple[Outcome, str]:
    """Give how a transaction has ended that has not asked for its commit, and why."""
    if isinstance(error, RolledBack):
        return Outcome.ROLLED_BACK, ""
    if isinstance(error, Conflict):
        return Outcome.REFUSED, str(error)
    return Outcome.FAILED, said_by(error)


def _commit(client: Client, deed: Deed) -> None:
    try:
        commit_ts = client.commit()
    except Conflict as conflict:
        deed.outcome, deed.why = Outcome.REFUSED, str(conflict)
    except Exception as error:  # noqa: BLE001 -- whatever it was, the log tells what became of it
        deed.why = said_by(error)
    else:
        deed.outcome, deed.commit_ts = Outcome.COMMITTED, commit_ts
