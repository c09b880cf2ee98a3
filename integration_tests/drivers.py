"""Start Spark drivers and Python writers in processes of their own, and kill them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

_ROOT = Path(__file__).parent.parent


class Driver:
    """
    A driver that runs a part of a program; killed, if it lives, when the block ends.

    Attributes:
        program: The module that it runs.
        under: The command that runs its command.
        lines: The lines that it has printed, as far as they have been read.
    """

    program = "driver_program"
    under: tuple[str, ...] = ()

    def __init__(
        self,
        what: str,
        folder: Path,
        name: str,
        log: Path,
        *,
        python: str | None = None,
        **options: Any,
    ) -> None:
        self.lines: list[str] = []
        self._log = log
        run = [python or sys.executable, "-m", f"integration_tests.{self.program}"]
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*self.under, *run, what, str(folder), name, json.dumps(options)],
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # A group of its own, so that its JVM is killed with it.
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def wait_for_line(self) -> str:
        """Wait for the next line and return it."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the driver has ended: {self._log.read_text()[-4000:]}"
        self.lines.append(line.strip())
        return self.lines[-1]

    def say(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def read_to_end(self) -> list[str]:
        """Wait until it has printed all and ended by itself, and return its lines."""
        rest, _ = self._process.communicate()
        self.lines += rest.splitlines()
        assert self._process.returncode == 0, f"it failed: {self._log.read_text()[-4000:]}"
        return self.lines

    def kill(self) -> None:
        """
        Kill -9 the driver and its JVM, and read what it has printed.

        Its output ends when all that wrote to it are dead.
        """
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            rest, _ = self._process.communicate()
            self.lines += rest.splitlines()

    @property
    def was_killed(self) -> bool:
        """Whether kill -9 has ended it, and not an error or its own end."""
        return self._process.returncode == -signal.SIGKILL


class PythonDriver(Driver):
    """A writer that knows no Spark: it runs a part of python_program."""

    program = "python_program"


class LoadDriver(Driver):
    """A loader on SQLAlchemy: it runs a part of load_program."""

    program = "load_program"
