"""Threads of one simulated process: they share its handle, so they share swaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation import actions
from tests.simulation.scheduler import Process
from tests.simulation.settings import Switch
from tests.simulation.worker import Worker

if TYPE_CHECKING:
    from tests.simulation.history import Attempt

_MEET_AFTER_MS = 400
"""When threads commit, in ms after their start: at about the same time."""


_SHARE_AN_ID = 3
"""How many threads try one id, where ids are shared."""


def transactions(worker: Worker) -> None:
    """Run some transactions at once, one per thread; a process dies with all of its threads."""
    world, main = worker.lake.world, worker.process
    threads = [_thread(worker, number) for number in range(worker.rng.randint(3, 5))]
    processes = [thread.process for thread in threads]
    shared_ids = {}
    if worker.has(Switch.SHARED_IDS):
        shared_ids = {each.name: f"job-{main.doing}" for each in processes[:_SHARE_AN_ID]}
    ended: list[Worker] = []
    for thread in threads:
        thread.process.mates = [each for each in processes if each is not thread.process]
        shared_id = shared_ids.get(thread.process.name)
        world.spawn(
            thread.process,
            lambda thread=thread, shared_id=shared_id: _run(thread, ended, shared_id),
        )
    world.wait_for(lambda: all(process.dead for process in processes))
    if len(ended) < len(threads):
        world.die(main)


def _thread(worker: Worker, number: int) -> Worker:
    world = worker.lake.world
    process = Process(f"{worker.process.name}/t{number}", skew_ms=worker.process.skew_ms)
    process.begin_action(world.seed, f"{worker.process.doing}.t{number}", world.now_ms)
    process.began_above = worker.process.began_above
    thread = Worker(
        worker.lake,
        worker.name,
        [],
        java=worker.java,
        skew_ms=worker.skew_ms,
        handle=worker.handle,
    )
    thread.process = process
    return thread


def same_id(worker: Worker) -> None:
    """Try a transaction under an id that other processes try at the same time."""
    shared_id = worker.process.doing.split(".")[1]
    actions.transact(worker, actions.statements, shared_id)


def _run(thread: Worker, ended: list[Worker], shared_id: str | None) -> None:
    world = thread.lake.world
    meet_ms = thread.process.began_ms - thread.process.skew_ms + _MEET_AFTER_MS

    def statements(worker: Worker, txn: Any, attempt: Attempt) -> None:
        if shared_id is None and worker.rng.random() < 0.3:
            actions.statements(worker, txn, attempt)
        else:
            name = worker.rng.choice(worker.lake.tables)
            attempt.touched.add(name)
            actions.append(worker, txn.load_table(name), attempt, name)
        world.sleep(max(0, meet_ms - world.now_ms))

    thread.perform(
        thread.process.doing, lambda worker: actions.transact(worker, statements, shared_id)
    )
    ended.append(thread)
