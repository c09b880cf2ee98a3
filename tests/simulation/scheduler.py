"""
Processes, time and steps of a simulated world, all from one seed.

A process is a greenlet. Before each step of I/O it hands over to the hub, which picks
who goes on; so one step runs at a time, and a seed gives one order of steps.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import greenlet

from tests.simulation.faults import CUTS_OFF, Fault, FaultPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

START_MS = 1_750_000_000_000
MINUTE_MS = 60 * 1000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

_HANGS_MS = (1_000, 20_000, 20_000, 2 * HOUR_MS)
"""How long a call may hang before its sender gives up, in ms."""
_SUSPENDED_MS = (20_000, 20 * 60_000, 2 * DAY_MS, 6 * DAY_MS)
"""How long a process may stand still, in ms."""


class ProcessDied(BaseException):
    """A process came to its end in the middle of a step; nothing of it runs any more."""


class Violation(BaseException):
    """
    A promise of the protocol that does not hold; `promise` is its short name.

    No `except Exception` of the core may hide it.
    """

    def __init__(self, promise: str, message: str) -> None:
        self.promise = promise
        super().__init__(f"{promise}: {message}")


@dataclass
class Process:
    """
    One simulated process.

    Attributes:
        name: Unique in the world.
        skew_ms: What its clock is ahead of the world's.
        stranger: Whether it writes tables past the protocol.
        doing: The key of its action, for the trace and the fault plan.
        rng: Randomness of the action: the same whatever other processes do.
        attempt: The transaction that it tries, for the model of history.
        repairing: `adopt` or `reject` while it repairs a table.
        began_ms: Its clock when its action began, in ms.
        began_above: The log's upper then, in ms.
        waits_for: What has to be true before it goes on, if it waits for another process.
        pending: The step that it is about to take, as (kind, label).
        stale: Whether a load of its action gave an older version.
        cut_off_until: Until when all of its steps fail, in ms.
        mates: The other threads of the same process, which die with it.
        epoch: How many recoveries there had been when it last opened a handle (`drills`).
        stands: Whether somebody has stopped it, without ending it.
        spared: Whether none of its steps go wrong.
        seen: The greatest timestamp that a handle has read at or was told, by the handle.
        paused_ms: For how long it has slept because its core asked for it.
    """

    name: str
    skew_ms: int = 0
    stranger: bool = False
    doing: str = ""
    doing_step: int = 0
    began_ms: int = START_MS
    began_above: int = 0
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    fault_rng: random.Random = field(default_factory=lambda: random.Random(0))
    slow_rng: random.Random = field(default_factory=lambda: random.Random(0))
    attempt: Any = None
    repairing: str = ""
    wakes_at: int = 0
    waits_for: Callable[[], bool] | None = None
    dead: bool = False
    greenlet: greenlet.greenlet | None = None
    pending: tuple[str, str] = ("", "")
    stale: bool = False
    cut_off_until: int = 0
    mates: list[Process] = field(default_factory=list)
    epoch: int = 0
    stands: bool = False
    spared: bool = False
    seen: dict[Any, int] = field(default_factory=dict)
    paused_ms: int = 0

    def saw(self, handle: Any, ts: int) -> None:
        """Note what a handle has read at or was told: it reads nothing below that any more."""
        self.seen[handle] = max(ts, self.seen.get(handle, 0))

    def begin_action(self, seed: int, key: str, now_ms: int) -> None:
        """Give an action randomness of its own, so that leaving others out changes nothing."""
        self.doing = key
        self.began_ms = now_ms + self.skew_ms
        self.doing_step = 0
        self.stale = False
        self.rng = random.Random(f"{seed}/{key}/choices")
        self.fault_rng = random.Random(f"{seed}/{key}/faults")
        self.slow_rng = random.Random(f"{seed}/{key}/slow")


class World:
    """Time, processes and the order of steps."""

    def __init__(self, seed: int, faults: FaultPlan, *, switch: float = 0.3) -> None:
        self.seed = seed
        self.faults = faults
        self.now_ms = START_MS
        self.steps = 0
        self.steps_max = 60_000
        self.current: Process | None = None
        self.auditor = Process("auditor")
        self.processes: list[Process] = []
        self.trace: list[str] = []
        self.occurred: Counter[str] = Counter()
        """How often what happened, as `coverage` calls it."""
        self.keep_trace = False
        self.seen: Callable[[Any], Iterable[str]] = lambda _result: ()
        """What a trace says of what a step gave."""
        self.epoch = 0
        """How many recoveries of the log there have been."""
        self._digest = hashlib.sha256()
        self._rng = random.Random(f"{seed}/schedule")
        self._ids = random.Random(f"{seed}/ids")
        self._switch = switch
        self.closed = False
        self._hub = greenlet.getcurrent()
        self._still = False

    # ------------------------------------------------------------ processes

    def spawn(self, process: Process, body: Callable[[], None]) -> None:
        """Let a process run `body`, from the next turn of the hub on."""

        def run() -> None:
            try:
                body()
            except ProcessDied:
                self.note("died")
            finally:
                process.dead = True

        process.greenlet = greenlet.greenlet(run, parent=self._hub)
        self.processes.append(process)

    def run(self) -> None:
        """Run all processes to their end; a violation in one of them is raised here."""
        last: Process | None = None
        while alive := [one for one in self.processes if not one.dead]:
            last = self._next(alive, last)
            self.current = last
            assert last.greenlet is not None
            last.greenlet.switch()
            self.current = None
            if self.steps > self.steps_max:
                raise Violation("progress", f"no end after {self.steps} steps")

    def close(self) -> None:
        """End what a violation left in the middle of a step."""
        self.closed = True
        for process in self.processes:
            if process.greenlet is not None and process.greenlet:
                process.dead = True
                self.current = process
                process.greenlet.throw(ProcessDied)
        self.current = None

    def _next(self, alive: list[Process], last: Process | None) -> Process:
        may = [
            one for one in alive if not one.stands and (one.waits_for is None or one.waits_for())
        ]
        if not may:
            raise Violation("progress", f"all wait for each other: {[one.doing for one in alive]}")
        awake = [one for one in may if one.wakes_at <= self.now_ms]
        if not awake:
            self.now_ms = min(one.wakes_at for one in may)
            awake = [one for one in may if one.wakes_at <= self.now_ms]
        if last in awake and self._rng.random() >= self._switch:
            return last
        return self._rng.choice(awake)

    # ------------------------------------------------------------ steps

    def io(
        self,
        kind: str,
        label: str,
        effect: Callable[[], T],
        errors: Errors,
        *,
        older: Callable[[], T] | None = None,
    ) -> T:
        """
        Take one step of I/O, with whatever fault its turn brings.

        The main greenlet (set-up and audits) does I/O without steps and faults.

        Args:
            kind: What it does.
            label: To what, for the trace.
            effect: Does it.
            errors: What it raises when it fails.
            older: Gives what a replica answers that lags behind.
        """
        process = self.current
        if process is None or self._still or greenlet.getcurrent() is self._hub:
            return effect()
        process.pending = (kind, label)
        self._yield(process)
        if process.cut_off_until > self.now_ms:
            self.note(f"{kind} {label} cut off")
            raise errors.failed(label)
        fault = self._fault(process, kind, label, stale=older is not None)
        if fault is Fault.STALE and older is not None:
            process.stale = True
            return self._told(older())
        if fault in {Fault.HANGS, Fault.HANGS_LANDED}:
            self._hang(process, effect if fault is Fault.HANGS_LANDED else None)
            raise errors.lost(label)
        if fault in {Fault.LANDS_LATE, Fault.REFUSED_LATE}:
            self._later(process, effect)
        else:
            self._before(process, fault, kind, label, errors)
            result = effect()
        if fault is Fault.DIES_AFTER:
            self.die(process)
        if fault in _UNTRUE:
            raise _UNTRUE[fault](errors, process, kind, label)
        return self._told(result)

    def _told(self, result: T) -> T:
        for text in self.seen(result) if self.keep_trace else ():
            self.tell(text)
        return result

    def _before(
        self, process: Process, fault: Fault | None, kind: str, label: str, errors: Errors
    ) -> None:
        """Let a fault happen that comes before the effect."""
        if fault is Fault.DELAYED:
            self.sleep(process.fault_rng.randint(5, 4000))
        elif fault is Fault.SUSPENDED:
            self._stand_still(process, _SUSPENDED_MS)
        elif fault is Fault.DIES_BEFORE:
            self.die(process)
        elif fault in {Fault.FAILS, Fault.OUTAGE}:
            raise errors.failed(label)
        elif fault is Fault.REFUSED:
            raise errors.refused(kind, label, process.fault_rng)

    def _fault(self, process: Process, kind: str, label: str, *, stale: bool) -> Fault | None:
        fault = self.faults.decide(process, kind, stale=stale)
        self.note(f"{kind} {label}{f' {fault.value}' if fault else ''}")
        if fault in CUTS_OFF and process.fault_rng.random() < CUTS_OFF[fault]:
            process.cut_off_until = self.now_ms + process.fault_rng.randint(20, 1500)
        return fault

    def _hang(self, process: Process, effect: Callable[[], object] | None) -> None:
        """Let a request be carried out, or not, and its sender wait until it gives up."""
        if effect is not None:
            self._carry_out(effect)
        self._stand_still(process, _HANGS_MS)

    def _stand_still(self, process: Process, up_to_ms: tuple[int, ...]) -> None:
        self.sleep(process.slow_rng.randint(1, process.slow_rng.choice(up_to_ms)))

    def _carry_out(self, effect: Callable[[], object]) -> None:
        """Carry out a request whose answer nobody hears."""
        try:
            effect()
        except Exception as error:  # noqa: BLE001 -- refused, and nobody is told
            self.note(f"refused {type(error).__name__}")
        else:
            self.note("landed")

    def _later(self, process: Process, effect: Callable[[], object]) -> None:
        """Let a request arrive after its sender has been told that its answer was lost."""
        courier = Process(f"late request of {process.name}", doing=f"{process.doing}.late")
        courier.attempt, courier.repairing = process.attempt, process.repairing
        courier.stranger, courier.began_ms = process.stranger, process.began_ms
        courier.epoch = process.epoch
        courier.mates = [process, *process.mates]
        courier.wakes_at = self.now_ms + process.fault_rng.randint(1, 3000)

        self.spawn(courier, lambda: self._carry_out(effect))

    def _yield(self, process: Process) -> None:
        if process.dead:
            raise ProcessDied
        self.steps += 1
        process.doing_step += 1
        self.now_ms += self._rng.choice((0, 0, 1, 1, 2, 4))
        self._hub.switch()

    @contextmanager
    def still(self) -> Iterator[None]:
        """Let the current process do something in one step, of which nothing goes wrong."""
        self._still = True
        try:
            yield
        finally:
            self._still = False

    def sleep(self, ms: int) -> None:
        """Let the current process sleep; without one, time passes."""
        process = self.current
        if process is None or self._still:
            self.now_ms += ms
            return
        process.wakes_at = self.now_ms + ms
        self._yield(process)

    def pause(self, ms: int) -> None:
        """Let the current process sleep as its core asks for, not because a call takes long."""
        if self.current is not None:
            self.current.paused_ms += ms
        self.sleep(ms)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Let the current process stand until others have made something true."""
        process = self.current
        assert process is not None
        process.waits_for = condition
        self._yield(process)
        process.waits_for = None

    def die(self, process: Process) -> None:
        """End a process here; what it tries while it is unwound does not happen."""
        for each in (process, *process.mates):
            each.dead = True
        raise ProcessDied

    # ------------------------------------------------------------ sources

    def random_bytes(self, count: int) -> bytes:
        """Give bytes for uuids and ids: one stream for the whole world."""
        return self._ids.randbytes(count)

    def clock_ms(self) -> int:
        """Give the current process's clock, in ms."""
        return self.now_ms + (self.current.skew_ms if self.current else 0)

    def note(self, text: str) -> None:
        """Add a line to the trace, whose digest tells whether two runs were the same."""
        line = self._line(text)
        self._digest.update(line.encode())
        if self.keep_trace:
            self.trace.append(line)

    def tell(self, text: str) -> None:
        """Add a line to the trace for who reads it, which follows from what happened."""
        if self.keep_trace:
            self.trace.append(self._line(text))

    def _line(self, text: str) -> str:
        who = self.current.doing or self.current.name if self.current else "-"
        return f"{self.now_ms - START_MS} {who} {text}"

    @property
    def actor(self) -> Process:
        """Who does what is being done."""
        return self.current or self.auditor

    @property
    def digest(self) -> str:
        """A hash of everything that happened so far."""
        return self._digest.hexdigest()[:16]


@dataclass(frozen=True)
class Errors:
    """
    What a failing step raises; each gets the step's label.

    A refusal gets the step's kind as well, and chooses among several.
    """

    failed: Callable[[str], Exception]
    lost: Callable[[str], Exception]
    called_lost: Callable[[str], Exception]
    refused: Callable[[str, str, random.Random], Exception]


def _refused(errors: Errors, process: Process, kind: str, label: str) -> Exception:
    return errors.refused(kind, label, process.fault_rng)


_UNTRUE: dict[Fault, Callable[[Errors, Process, str, str], Exception]] = {
    Fault.LANDS_LATE: lambda errors, _process, _kind, label: errors.lost(label),
    Fault.ANSWER_LOST: lambda errors, _process, _kind, label: errors.lost(label),
    Fault.CALLED_LOST: lambda errors, _process, _kind, label: errors.called_lost(label),
    Fault.REFUSED_LATE: _refused,
    Fault.REFUSED_LANDED: _refused,
}
"""What a process is told of a request that has landed, or is going to."""
