"""
The Java core in a JVM of its own, which works in the simulated world line by line.

Python tells a simulated process of it to do something; whatever Java has to do for that with the
catalog, storage, time or chance comes back as a step, which the world takes as it takes Python's
own. One side works at a time, and of Java one thread: the one that was told to go on. Who has to
wait for another thread of its process stands in a step until that has let go of something.

What the lines hold: see `SimulationServer` of Java's tests.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.simulation.java_steps import type_of
from tests.simulation.scheduler import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.scheduler import World

Line = dict[str, Any]
_CORE = Path(__file__).resolve().parents[2] / "spark_extension" / "java" / "core"
_SERVER = "io.txns.iceberg.simulation.SimulationServer"
_MUTATION = "txns.simulation.mutation"
# Runs are short, and the machine has one processor for each of its worlds. Hash codes of objects
# are all the same, or the archive's Parquet files would have other bytes in each JVM.
_OPTIONS = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1g", "-XX:-UsePerfData"),
    *("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2"),
)


class JavaError(Exception):
    """What a call of Java has thrown; `line` has its type and what belongs to it."""

    def __init__(self, line: Line) -> None:
        """Keep the line."""
        self.line = line
        super().__init__(f"{line['type']}: {line.get('message')}")


class Jvm:
    """A JVM that runs the Java core of all processes of one world after the other."""

    def __init__(self, mutation: str | None = None) -> None:
        """Start it; `mutation` names a protection that its core is without."""
        self.changes: dict[str, dict[str, int]] = {}
        """How often threads of a process have let go of something, and have given notice."""
        mutated = [] if mutation is None else [f"-D{_MUTATION}={mutation}"]
        self._process = subprocess.Popen(
            ["java", *_OPTIONS, *mutated, "-cp", class_path(), _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What it warns of are the faults of the run, most of them.
            stderr=None if os.environ.get("TXNS_SIMULATION_JVM_LOG") else subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        atexit.register(self._process.kill)

    def reset(self) -> None:
        """Forget all processes, before another world begins."""
        self.changes.clear()
        self._asked("reset")

    def mutations(self) -> list[str]:
        """Give the names of the protections that a core can be without."""
        names: list[str] = self._asked("mutations")
        return names

    def unasked(self) -> list[str]:
        """Give what its mutation takes the place of and nothing has asked so far."""
        targets: list[str] = self._asked("unasked")
        return targets

    def end(self) -> None:
        """End it."""
        atexit.unregister(self._process.kill)
        with self._process as process:
            process.kill()

    def _asked(self, name: str) -> Any:
        self._send({"call": name})
        return self._receive()["result"]

    def call(
        self, world: World, process: str, name: str, arguments: Line, step: Callable[[Line], Any]
    ) -> Any:
        """
        Let a process of it do something; gives the result.

        Args:
            world: Whose time and chance it has.
            process: Who; the thread that runs is the world's.
            name: What.
            arguments: With what.
            step: Takes a step for it; what it raises, Java is told.

        Raises:
            JavaError: The call has thrown.
            ProcessDied: The process has died in one of its steps.
        """
        chance = int.from_bytes(world.random_bytes(8), "big", signed=True)
        who: Line = {"process": process, "thread": world.actor.name}
        told: Line = {"call": name, "args": arguments, "random": chance}
        while True:
            clocks = {"now": world.clock_ms(), "elapsed": world.now_ms}
            self._send({**who, **clocks, **told})
            line = self._heard(who)
            if "step" in line:
                told = self._taken(who, line, step)
            elif "error" in line:
                raise JavaError(line["error"])
            else:
                return line["result"]

    def _heard(self, who: Line) -> Line:
        line = self._receive()
        assert who.items() <= line.items(), line
        self.changes[line["process"]] = line["changes"]
        return line

    def _taken(self, who: Line, line: Line, step: Callable[[Line], Any]) -> Line:
        """Take a step, and say what Java is told of it."""
        try:
            try:
                return {"answer": step(line)}
            except Exception as error:  # noqa: BLE001 -- Java is told, or it is our own fault
                return {"raise": {"type": type_of(error), "message": str(error)}}
        except BaseException as error:  # it dies, or a promise is broken: nothing of it goes on
            self._send({**who, "die": True})
            assert self._heard(who)["died"]
            if isinstance(error, Exception):  # of our own: nobody may take it for an answer
                raise Violation("crash", repr(error)) from error
            raise

    def _send(self, line: Line) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def _receive(self) -> Line:
        assert self._process.stdout is not None
        text = self._process.stdout.readline()
        if not text:
            raise AssertionError(f"the JVM has ended; exit code {self._process.wait()}")
        line: Line = json.loads(text)
        return line


@cache
def class_path() -> str:
    """Compile the core and its tests, and give their class path."""
    target = _CORE / "target" / "simulation-class-path"
    target.parent.mkdir(exist_ok=True)
    command = ["mvn", "-q", "-B", "-f", str(_CORE.parent / "pom.xml"), "-pl", "core"]
    command += ["test-compile", "dependency:build-classpath", f"-Dmdep.outputFile={target}"]
    with (target.parent / "simulation-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Maven is not made for two at once
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    classes = [_CORE / "target" / "test-classes", _CORE / "target" / "classes"]
    return os.pathsep.join([*map(str, classes), target.read_text("utf-8")])


_RUNNING: dict[str | None, Jvm] = {}


def running(mutation: str | None = None) -> Jvm:
    """Give the one JVM of this process with a mutation, or none; it starts when needed first."""
    if mutation not in _RUNNING:
        _RUNNING[mutation] = Jvm(mutation)
    return _RUNNING[mutation]


def end(mutation: str) -> None:
    """End the JVM with a mutation, if it runs: each takes its memory."""
    if mutation in _RUNNING:
        _RUNNING.pop(mutation).end()
