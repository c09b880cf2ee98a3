"""One session: a process that runs random transactions until its time is over."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251 -- of a seed that is told
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import load_catalog

from txns._catalog.outcome import State
from txns._open import open as open_handle
from txns._verify.history import Deed, Journal, Outcome
from txns._verify.statements import carry_out
from txns._verify.workloads import WORKLOADS
from txns.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.queues import Queue
    from multiprocessing.sharedctypes import Synchronized
    from multiprocessing.synchronize import Event

    from txns._catalog.transaction import Transaction
    from txns._handle import Handle
    from txns._verify.model import Step

_NUMBERS = 1_000_000
"""Each life of a session has so many of its own."""


@dataclass(frozen=True)
class Plan:
    """
    What all sessions of a run have in common.

    Attributes:
        catalog: The catalog's name.
        properties: Its properties.
        commit_table: The log.
        tables: By the model's names those in the catalog.
        options: Those of `txns.open` besides.
        level: Of all transactions.
        seconds: How long they run, from when all of them are ready.
        folder: Where they write down what they did.
        seed: Of all that is random.
    """

    catalog: str
    properties: dict[str, str]
    commit_table: str
    tables: dict[str, str]
    options: dict[str, Any]
    level: str
    seconds: int
    folder: str
    seed: int

    def handle(self) -> Handle:
        """Open the protocol over the catalog."""
        catalog = load_catalog(self.catalog, **self.properties)
        return open_handle(catalog, commit_table=self.commit_table, **self.options)


@dataclass(frozen=True)
class Timing:
    """
    When sessions run.

    Attributes:
        ready: Gets the number of each session that is ready.
        all_ready: Set when all of them are.
        until_ms: When they end, in ms of the machine's monotonic clock.
    """

    ready: Queue[int]
    all_ready: Event
    until_ms: Synchronized[int]


def run(plan: Plan, timing: Timing, session: int, life: int) -> None:
    """
    Run transactions until the time is over.

    Args:
        plan: Of the run.
        timing: Of all of its sessions.
        session: Its number.
        life: How often it was killed before.
    """
    warnings.filterwarnings("ignore", "Delete operation did not match any records")
    rng = Random(f"{plan.seed}/{session}/{life}")  # noqa: S311 -- no secret
    numbers = iter(range((100 * session + life) * _NUMBERS, 2**62))
    path = Path(plan.folder, f"session-{session}-{life}.jsonl")
    with path.open("w") as file, plan.handle() as handle:
        journal = Journal(file)
        timing.ready.cancel_join_thread()  # one that is killed may leave its lock to nobody
        timing.ready.put(session)
        timing.all_ready.wait()
        clock = handle.parts.clock
        while clock.elapsed_ms() < timing.until_ms.value:
            (workload,) = rng.choices([*WORKLOADS], [*WORKLOADS.values()])
            program = partial(workload, rng, fresh=lambda: next(numbers))
            _transact(handle, plan, session, journal, program)


def _transact(
    handle: Handle,
    plan: Plan,
    session: int,
    journal: Journal,
    program: Callable[[Callable[[Step], Any]], None],
) -> None:
    clock = handle.parts.clock
    began_ms = clock.elapsed_ms()
    txn = handle.begin(isolation=plan.level)
    deed = Deed(txn.txn_id, session, began_ms, txn.read_ts)
    journal.began(deed)

    def do(step: Step) -> Any:
        seen = carry_out(txn.load_table(plan.tables[step.table]), step)
        deed.steps.append(step)
        deed.seen.append(seen)
        return seen

    try:
        program(do)
        deed.wrote = bool(txn.tables)
        journal.commits(deed)
        committed = txn.commit()
        deed.outcome, deed.commit_ts = Outcome.COMMITTED, committed.commit_ts
    except Conflict as conflict:
        deed.outcome, deed.why = Outcome.REFUSED, str(conflict)
    except Exception as error:  # noqa: BLE001 -- whatever it was, the log tells what became of it
        deed.why = f"{type(error).__name__}: {error}"
    deed.ended_ms = clock.elapsed_ms()
    journal.ended(deed)
    _end(txn)


def _end(txn: Transaction) -> None:
    """Delete what it has staged, where that can be told."""
    if txn.state is State.ACTIVE:
        with suppress(Exception):
            txn.rollback()
