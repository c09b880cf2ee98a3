"""The processes of a run: started, killed at random, and ended."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty
from random import Random  # noqa: TID251 -- of a seed that is told
from typing import TYPE_CHECKING, Any, NamedTuple

from txns._verify import disturbances, python_client, session, spark_client
from txns._verify.history import Outcome
from txns._verify.plan import PYTHON, SPARK, Timing
from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.process import BaseProcess

    from txns._verify.plan import Plan

_KILLS_EVERY_S = (1.0, 6.0)
"""A session needs some seconds to begin."""
_ENDS_WITHIN_S = 120
"""After its time a session ends with its transaction."""


class Worker(NamedTuple):
    """
    What one process does.

    Attributes:
        target: Its function, which gets the plan, the timing, `what`, and how often it was killed.
        what: The sessions that it runs, by their numbers, or what it does beside them.
    """

    target: Callable[[Plan, Timing, Any, int], None]
    what: list[Any]

    @property
    def name(self) -> str:
        """What people know it by."""
        if self.disturbs:
            return str(self.what[0])
        sessions = " and ".join(f"session {number}" for number in self.what)
        return f"Spark's driver of {sessions}" if self.target is spark_client.run else sessions

    @property
    def disturbs(self) -> bool:
        """Whether it works beside the sessions."""
        return self.target is disturbances.run

    def has_worked(self, plan: Plan, life: int) -> bool:
        """
        Whether one life of it has written anything down, or committed where that takes it seconds.

        A driver of Spark that were killed before would never commit.
        """
        name = (disturbances if self.disturbs else session).journal_name(self.what[0], life)
        path = Path(plan.folder, name)
        if not path.exists():
            return False
        if self.target is spark_client.run:
            return Outcome.COMMITTED.value in path.read_text()
        return path.stat().st_size > 0


def workers_of(plan: Plan, *, disturb: bool) -> list[Worker]:
    """Give what runs: a process for each session of Python, and one for all of Spark."""
    of_spark = plan.of(SPARK)
    return [
        *(Worker(python_client.run, [number]) for number in plan.of(PYTHON)),
        *([Worker(spark_client.run, of_spark)] if of_spark else []),
        *(Worker(disturbances.run, [name]) for name in (disturbances.ALL if disturb else ())),
    ]


class Ran(NamedTuple):
    """
    How a plan was carried out.

    Attributes:
        kills: How often a process was killed.
        wrong: Which have not ended as they should, in words.
        disturbers: What was to go on beside the sessions.
    """

    kills: int
    wrong: list[str]
    disturbers: Sequence[str] = ()


class Processes:
    """The running processes of a plan; what is left of them when the block ends is killed."""

    def __init__(self, plan: Plan, workers: list[Worker]) -> None:
        """Start one for each worker; none stays where one cannot be started."""
        self._plan = plan
        self._workers = workers
        self._context = multiprocessing.get_context("spawn")
        context = self._context
        self._timing = Timing(context.Queue(), context.Event(), context.Value("q", 0, lock=False))
        self._lives = [0] * len(workers)
        self._kills = 0
        self._wrong: list[str] = []
        self._running: list[BaseProcess] = []
        try:
            for number in range(len(workers)):
                self._running.append(self._started(number))
        except BaseException:
            self._kill_all()
            raise

    def run(self, *, kill: bool) -> Ran:
        """
        Let them work until their time is over.

        Raises:
            InvalidUsage: One of them could not begin.
        """
        try:
            self._await()
            until_s = time.monotonic() + self._plan.seconds  # noqa: TID251
            self._timing.until_ms.value = int(1000 * until_s)
            self._timing.all_ready.set()
            if kill:
                self._kill_until(until_s)
            for process in self._running:
                process.join(max(until_s - time.monotonic(), 0) + _ENDS_WITHIN_S)  # noqa: TID251
            for number, process in enumerate(self._running):
                self._look_at_the_end_of(number)
                if process.exitcode is None:
                    name = self._workers[number].name
                    words = f"was still at work {_ENDS_WITHIN_S} s after its time, and was killed"
                    self._wrong.append(f"{name} {words}")
        finally:
            self._kill_all()
        disturbers = [worker.name for worker in self._workers if worker.disturbs]
        return Ran(self._kills, self._wrong, disturbers)

    def _look_at_the_end_of(self, number: int) -> bool:
        """Say whether a process that nobody killed has ended as it should not, and keep that."""
        code = self._running[number].exitcode
        if code:
            name = self._workers[number].name
            self._wrong.append(f"{name} has ended by itself, with exit code {code}")
        return bool(code)

    def _kill_all(self) -> None:
        for process in self._running:
            _kill(process)

    def _started(self, number: int) -> BaseProcess:
        worker = self._workers[number]
        asked = (self._plan, self._timing, worker.what, self._lives[number])
        process = self._context.Process(target=worker.target, args=asked)
        with _out_of_reach_of_ctrl_c():
            process.start()
        return process

    def _await(self) -> None:
        """Wait until all of them are ready."""
        for _ in self._running:
            while True:
                try:
                    self._timing.ready.get(timeout=1)
                    break
                except Empty:
                    if not all(each.is_alive() for each in self._running):
                        raise InvalidUsage(
                            "42000",
                            "a session could not open the catalog in a process of its own: it is"
                            " opened there by its name and properties, what it said is above",
                        ) from None

    def _kill_until(self, until_s: float) -> None:
        """Kill one that has done something, now and then: a driver takes longer to begin."""
        rng = Random(self._plan.seed)  # noqa: S311 -- no secret
        while (left_s := until_s - time.monotonic()) > 0:  # noqa: TID251
            time.sleep(min(rng.uniform(*_KILLS_EVERY_S), left_s))  # noqa: TID251
            at_work = [
                number
                for number, worker in enumerate(self._workers)
                if worker.has_worked(self._plan, self._lives[number])
            ]
            if at_work:
                number = rng.choice(at_work)
                if not self._look_at_the_end_of(number):
                    _kill(self._running[number])
                    self._running[number].join()
                    self._kills += 1
                self._lives[number] += 1
                self._running[number] = self._started(number)


@contextmanager
def _out_of_reach_of_ctrl_c() -> Iterator[None]:
    """
    Start processes that take no notice of it: who leads them kills them.

    A terminal tells all of them at once, and each would say where it was. They inherit this.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _kill(process: BaseProcess) -> None:
    """Kill a process, and with it the driver of one that leads a group: harmless when it ended."""
    pid = process.pid
    with suppress(ProcessLookupError):
        if pid and process.is_alive() and os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
    process.kill()
