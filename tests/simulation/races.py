"""Processes that meet at one name: some create it, some rely on its absence, some purge it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation import actions
from tests.simulation.attempts import Operation

if TYPE_CHECKING:
    from tests.simulation.attempts import Attempt
    from tests.simulation.worker import Worker


def race(worker: Worker) -> None:
    """Create a name that others look for at the same time, or write because it is absent."""
    actions.transact(worker, _statements)


def _statements(worker: Worker, txn: Any, attempt: Attempt) -> None:
    lake, rng = worker.lake, worker.rng
    name = lake.creatable[0]
    if rng.random() < 0.5:
        actions.create(worker, txn, attempt, name)
    elif actions.read(worker, txn, attempt, name) is None:
        actions.append_to(worker, txn, attempt, lake.tables[0])
    lake.world.sleep(rng.randint(1, 60))


def another_life(worker: Worker) -> None:
    """Drop a name that others purge at the same time, or create it again."""
    actions.transact(worker, _live)


def _live(worker: Worker, txn: Any, attempt: Attempt) -> None:
    name = worker.lake.creatable[0]
    if actions.read(worker, txn, attempt, name) is None:
        actions.create(worker, txn, attempt, name)
        actions.append_to(worker, txn, attempt, name)
    else:
        with actions.meaning(attempt, Operation(name, "drop")):
            txn.drop_table(name)
    worker.lake.world.sleep(worker.rng.randint(1, 30))
