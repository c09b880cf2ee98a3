"""
A Spark driver in a process of its own, which runs statements of several sessions.

A line of JSON goes each way: txns_spark has the program, since nothing here imports Spark.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Self

from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from txns._verify.plan import Plan

_PROGRAM = "txns_spark._session_server"
_ENDS_WITHIN_S = 30


class StatementFailed(Exception):
    """
    A statement got an error.

    Attributes:
        sqlstate: Its SQLSTATE, where it has one.
    """

    def __init__(self, message: str, sqlstate: str | None) -> None:
        """Say what Spark has said."""
        super().__init__(message)
        self.sqlstate = sqlstate


def check_installed() -> None:
    """
    Look whether there is a Spark to start.

    Raises:
        InvalidUsage: There is none; the message says what to install.
    """
    missing = [name for name in ("pyspark", "txns_spark") if find_spec(name) is None]
    if missing:
        raise InvalidUsage(
            "42000",
            f"sessions of Spark need {' and '.join(missing)}: `pip install '.[spark]'` in a clone"
            " brings both, and the jar; or leave --client at python",
        )


class Driver:
    """Started for a plan's sessions; ends with its block."""

    def __init__(self, plan: Plan, sessions: Iterable[int], log: Path) -> None:
        """
        Start it, and wait until it takes statements.

        Args:
            plan: Says which catalog.
            sessions: Their numbers.
            log: Gets what Spark says.

        Raises:
            InvalidUsage: It does not start; the message says why.
        """
        self._answers: dict[int, SimpleQueue[dict[str, Any]]] = {n: SimpleQueue() for n in sessions}
        self._writing = Lock()
        self._log = log
        self._has_ended = Event()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(  # noqa: S603 -- fixed arguments
                [sys.executable, "-m", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        options = {f"txns.{name.replace('_', '-')}": each for name, each in plan.options.items()}
        self._say(
            catalog=plan.catalog,
            properties=plan.properties,
            options={"txns.commit-table": plan.commit_table, **options},
            sessions=[*self._answers],
            folder=plan.folder,
        )
        first = self._line()
        if "ready" not in first:
            raise InvalidUsage("42000", f"Spark does not start: {first['error']}; {log} says more")
        Thread(target=self._hand_out, daemon=True).start()

    def __enter__(self) -> Self:
        """Begin a block that ends it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it; it ends where nobody writes to it any more."""
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended, and did not read the last line
            self._process.stdin.close()
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def ask(self, session: int, statement: str) -> list[Mapping[str, Any]]:
        """
        Run a session's statement; give its rows, by the names of their columns.

        Raises:
            StatementFailed: Spark's error, or it has ended.
        """
        self._say(session=session, statement=statement)
        answer = self._answers[session].get()
        if "session" not in answer:
            self._answers[session].put(answer)  # of what comes next the same is true
        if "error" in answer:
            raise StatementFailed(answer["error"], answer.get("sqlstate"))
        rows: list[Mapping[str, Any]] = answer["rows"]
        return rows

    def check_at_work(self) -> None:
        """
        See that it takes statements still.

        Raises:
            SystemExit: It has ended: no session gets another answer.
        """
        if self._has_ended.is_set():
            raise SystemExit(f"Spark's driver has ended by itself: {self._log} says more")

    def _say(self, **line: Any) -> None:
        assert self._process.stdin is not None
        with self._writing, suppress(OSError):  # who has ended is missed when its answer is read
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        told: dict[str, Any] = json.loads(line) if line else {"error": "its process has ended"}
        return told

    def _hand_out(self) -> None:
        """Give each session its answers; when it has ended, all of them are told."""
        while True:
            told = self._line()
            if "session" not in told:
                break
            self._answers[told["session"]].put(told)
        self._has_ended.set()
        for each in self._answers.values():
            each.put(told)
