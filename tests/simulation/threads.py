"""Threads of one simulated process: they share its handle, so they share swaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation import actions
from tests.simulation.scheduler import Process
from tests.simulation.settings import Switch
from tests.simulation.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.attempts import Attempt, Identifier

_MEET_AFTER_MS = 400
"""When threads commit, in ms after their start: at about the same time."""


_SHARE_AN_ID = 3
"""How many threads try one id, where ids are shared."""


def transactions(worker: Worker) -> None:
    """Run some transactions at once, one per thread."""
    threads = [_thread(worker, number) for number in range(worker.rng.randint(3, 5))]
    shared_ids = {}
    if worker.has(Switch.SHARED_IDS):
        names = [thread.process.name for thread in threads[:_SHARE_AN_ID]]
        shared_ids = dict.fromkeys(names, f"job-{worker.process.doing}")
    _let_run(worker, threads, lambda thread: _run(thread, shared_ids.get(thread.process.name)))


def _thread(worker: Worker, number: int) -> Worker:
    world = worker.lake.world
    process = Process(f"{worker.process.name}/t{number}", skew_ms=worker.process.skew_ms)
    process.begin_action(world.seed, f"{worker.process.doing}.t{number}", world.now_ms)
    process.began_above = worker.process.began_above
    process.epoch = worker.process.epoch
    thread = Worker(
        worker.lake,
        worker.name,
        [],
        java=worker.java,
        options=worker.options,
        skew_ms=worker.skew_ms,
        handle=worker.handle,
    )
    thread.process = process
    return thread


def same_id(worker: Worker) -> None:
    """Try a transaction under an id that other processes try at the same time."""
    shared_id = worker.process.doing.split(".")[1]
    actions.transact(worker, actions.statements, shared_id)


def in_one_transaction(worker: Worker) -> None:
    """Let threads write in one transaction, as a program's pool does, and commit it."""
    actions.transact(worker, _shared)


def _shared(worker: Worker, txn: Any, attempt: Attempt) -> None:
    """Append by several threads at once, each to a table of its own, and look at one of them."""
    names = worker.rng.sample(worker.lake.tables, worker.rng.randint(2, 3))
    threads = [_thread(worker, number) for number in range(len(names))]
    own = {thread.process.name: name for thread, name in zip(threads, names, strict=True)}
    _let_run(worker, threads, lambda thread: _appends(thread, txn, attempt, own))
    actions.read(worker, txn, attempt, names[0])


def _appends(thread: Worker, txn: Any, attempt: Attempt, own: dict[str, Identifier]) -> None:
    name = own[thread.process.name]
    for _ in range(thread.rng.randint(1, 3)):
        actions.append_to(thread, txn, attempt, name)


def _let_run(worker: Worker, threads: list[Worker], does: Callable[[Worker], None]) -> None:
    """Let threads do something each; a process dies with all of its threads."""
    ended: list[Worker] = []
    world, processes = worker.lake.world, [thread.process for thread in threads]
    for thread in threads:
        thread.process.mates = [each for each in processes if each is not thread.process]

        def run(thread: Worker = thread) -> None:
            thread.perform(thread.process.doing, does)
            ended.append(thread)

        world.spawn(thread.process, run)
    world.wait_for(lambda: all(process.dead for process in processes))
    if len(ended) < len(threads):
        world.die(worker.process)


def _run(thread: Worker, shared_id: str | None) -> None:
    world = thread.lake.world
    meet_ms = thread.process.began_ms - thread.process.skew_ms + _MEET_AFTER_MS

    def statements(worker: Worker, txn: Any, attempt: Attempt) -> None:
        if shared_id is None and worker.rng.random() < 0.3:
            actions.statements(worker, txn, attempt)
        else:
            name = worker.rng.choice(worker.lake.tables)
            actions.append_to(worker, txn, attempt, name)
        world.sleep(max(0, meet_ms - world.now_ms))

    actions.transact(thread, statements, shared_id)
