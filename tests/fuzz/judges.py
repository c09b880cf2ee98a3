"""Both cores, each with what it says of inputs, how long that takes, and what memory."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import threading
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.fuzz import verdicts
from tests.simulation.jvm import class_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.fuzz.inputs import Input

_MAIN = "io.txns.iceberg.fuzz.FuzzMain"
_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xss512k")
_HUNG_S = 60
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What a core has said of an input.

    Attributes:
        number: The input's.
        verdict: A value's hash, an error of the protocol, or what begins with CRASH.
        cpu_ms: Of processor time.
        mib: The greatest memory in use, less what the process had before its first input.
    """

    number: int
    verdict: str
    cpu_ms: float
    mib: float

    @property
    def crashed(self) -> bool:
        """Whether it is none that the protocol has."""
        return self.verdict.startswith("CRASH")


class PythonJudge:
    """Python's core, in this process."""

    def __init__(self) -> None:
        """Begin to measure."""
        warnings.simplefilter("ignore")  # pyiceberg tells of what it finds odd
        signal.signal(signal.SIGALRM, _hung)
        self._before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def answers(self, inputs: Iterable[Input]) -> Iterator[Answer]:
        """Judge one after the other."""
        for one in inputs:
            signal.alarm(_HUNG_S)
            before = time.process_time()
            verdict = verdicts.verdict(one)
            cpu_ms = (time.process_time() - before) * 1000
            signal.alarm(0)
            kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self._before_kib
            yield Answer(one["n"], verdict, cpu_ms, kib / 1024)


def _hung(*_: object) -> None:
    raise TimeoutError("it takes for ever")


class JavaJudge:
    """Java's core, in a JVM of its own."""

    def __init__(self, heap_mib: int) -> None:
        """Start it, with as much memory as it may take."""
        self._process = subprocess.Popen(
            ["java", *_OPTIONS, f"-Xmx{heap_mib}m", "-cp", class_path(), _MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._send(verdicts.EMPTY.replace("\n", ""))

    def answers(self, inputs: Iterable[Input]) -> Iterator[Answer]:
        """Judge one after the other, while the caller makes more."""
        lines = [json.dumps(one) for one in inputs]
        writer = threading.Thread(target=self._send_all, args=(lines,))
        writer.start()
        for one in lines:
            yield self._answer(one)
        writer.join()

    def whole(self, one: Input) -> str:
        """Give the value itself."""
        self._send(json.dumps({**one, "whole": True}))
        return str(self._read()["verdict"])

    def end(self) -> None:
        """End it."""
        with self._process as process:
            process.kill()

    def _answer(self, line: str) -> Answer:
        said = self._read()
        assert said["n"] == json.loads(line)["n"]
        return Answer(said["n"], said["verdict"], said["us"] / 1000, said["bytes"] / _MIB)

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the JVM has ended; exit code {self._process.wait()}")
        return json.loads(line)

    def _send_all(self, lines: list[str]) -> None:
        for line in lines:
            self._send(line)

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
