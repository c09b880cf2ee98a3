"""
What sessions did, as they write it down: a line of JSON at each turn, kept when they are killed.

`as_elle` gives the part of it that Elle's checkers read: operations on lists.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import IO, TYPE_CHECKING, Any

from txns._verify.model import Condition, Row, Step, Where
from txns._verify.workloads import LISTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


_NS_PER_MS = 1_000_000


class Outcome(Enum):
    """How a transaction ended, as its session was told."""

    COMMITTED = "committed"
    REFUSED = "refused"
    ROLLED_BACK = "rolled_back"
    FAILED = "failed"
    """It got another error before its COMMIT, and was rolled back."""
    UNKNOWN = "unknown"
    """The answer of its COMMIT was lost, or its session was killed."""


@dataclass
class Deed:
    """
    One transaction.

    Attributes:
        txn_id: Its id.
        session: Who ran it.
        began_ms: Just before its BEGIN, in ms of the machine's monotonic clock.
        read_ts: What it read at, in ms.
        steps: Its statements, but for one that got an error.
        seen: What each of them saw.
        committing: Whether its session has asked for the commit.
        wrote: Whether it has staged anything: who has not stands where it began.
        outcome: What its session was told.
        commit_ts: Where it stands, in ms; None where it does not, or only read.
        ended_ms: When its session was told, in ms of the same clock; None for never.
        why: What its session was told besides.
    """

    txn_id: str
    session: int
    began_ms: int
    read_ts: int
    steps: list[Step] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)
    committing: bool = False
    wrote: bool = False
    outcome: Outcome = Outcome.UNKNOWN
    commit_ts: int | None = None
    ended_ms: int | None = None
    why: str = ""


class Journal:
    """Writes down what one session does."""

    def __init__(self, file: IO[str]) -> None:
        """Write to a file, line by line."""
        self._file = file

    def began(self, deed: Deed) -> None:
        """Note a transaction that has begun."""
        self._note(txn=deed.txn_id, session=deed.session, at=deed.began_ms, read_ts=deed.read_ts)

    def did(self, deed: Deed) -> None:
        """Note what a transaction has done, before its commit is asked for, where it is."""
        self._note(
            txn=deed.txn_id,
            steps=list(map(_dumped, deed.steps)),
            seen=deed.seen,
            wrote=deed.wrote,
            committing=deed.committing,
        )

    def ended(self, deed: Deed) -> None:
        """Note what a transaction was told."""
        self._note(
            txn=deed.txn_id,
            outcome=deed.outcome.value,
            commit_ts=deed.commit_ts,
            at=deed.ended_ms,
            why=deed.why,
        )

    def failed(self, why: str) -> None:
        """Note a transaction that could not begin."""
        self._note(failed=why)

    def _note(self, **line: Any) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def read(folder: Path) -> tuple[list[Deed], Counter[tuple[int, str]]]:
    """
    Read what all sessions have written down in a folder.

    Returns:
        Their transactions; and how often one of a session could not begin, by its number and why.
    """
    deeds: dict[str, Deed] = {}
    failures = Counter[tuple[int, str]]()
    for path in sorted(folder.glob("session-*.jsonl")):
        session = int(path.stem.split("-")[1])
        for line in path.read_text().splitlines():
            try:
                told = json.loads(line)
            except ValueError:
                continue  # the last line of one that was killed
            if "failed" in told:
                failures[session, shortened(told["failed"])] += 1
            else:
                _take(deeds, told)
    return list(deeds.values()), failures


def shortened(why: str) -> str:
    """Give an error without the values at its end, by which each is another one."""
    return why.split(";", maxsplit=1)[0]


def _take(deeds: dict[str, Deed], told: dict[str, Any]) -> None:
    txn_id = told["txn"]
    if "read_ts" in told:
        deeds[txn_id] = Deed(txn_id, told["session"], told["at"], told["read_ts"])
    elif "steps" in told:
        deed = deeds[txn_id]
        deed.committing, deed.wrote = told["committing"], told["wrote"]
        deed.steps = list(map(_loaded, told["steps"]))
        deed.seen = list(map(_seen, told["seen"]))
    else:
        deed = deeds[txn_id]
        deed.outcome = Outcome(told["outcome"])
        deed.commit_ts, deed.ended_ms, deed.why = told["commit_ts"], told["at"], told["why"]


def _dumped(step: Step) -> dict[str, Any]:
    return {
        "verb": step.verb,
        "table": step.table,
        "where": step.where.conditions,
        "either": step.where.either,
        "rows": step.rows,
    }


def _loaded(told: dict[str, Any]) -> Step:
    conditions = tuple(Condition(*each) for each in told["where"])
    rows = tuple(Row(*each) for each in told["rows"])
    return Step(told["verb"], told["table"], Where(conditions, told["either"]), rows)


def _seen(told: Any) -> Any:
    return tuple(Row(*each) for each in told) if isinstance(told, list) else told


_ELLES = {Outcome.COMMITTED: "ok", Outcome.UNKNOWN: "info"}
"""The others have failed: nobody may have read what they appended."""


def as_elle(deeds: Iterable[Deed]) -> Iterator[dict[str, Any]]:
    """
    Give what was done to lists as a history of Elle's list-append, operation by operation.

    Invoked, then ok, fail or info, in order of time; of what was in one ms the invocations first,
    since nobody knows more. A process has one operation at a time, and none after one whose end
    it was not told: who goes on is another process, as Jepsen has it.
    """
    of_lists = [deed for deed in deeds if any(step.table == LISTS for step in deed.steps)]
    events = [(deed.began_ms, 0, "invoke", deed) for deed in of_lists]
    events += [
        (deed.ended_ms, 1, _ELLES.get(deed.outcome, "fail"), deed)
        for deed in of_lists
        if deed.ended_ms is not None
    ]
    processes = _Processes(of_lists)
    for index, (at, _, what, deed) in enumerate(sorted(events, key=lambda event: event[:2])):
        yield {
            "index": index,
            "type": what,
            "process": processes.of(deed, what),
            "time": at * _NS_PER_MS,
            "f": "txn",
            "value": list(_operations(deed, known=what == "ok")),
        }


class _Processes:
    """Numbers of processes: that of the session, or a new one where that is not free."""

    def __init__(self, deeds: Iterable[Deed]) -> None:
        self._next = max((deed.session for deed in deeds), default=0) + 1
        self._taken: dict[int, str] = {}
        self._of: dict[str, int] = {}

    def of(self, deed: Deed, what: str) -> int:
        """Give that of a transaction, of which an event is told."""
        if what == "invoke":
            number = deed.session
            if number in self._taken:
                number, self._next = self._next, self._next + 1
            self._of[deed.txn_id] = number
            self._taken[number] = deed.txn_id
            return number
        number = self._of[deed.txn_id]
        if what != "info":
            del self._taken[number]
        return number


def _operations(deed: Deed, *, known: bool) -> Iterator[list[Any]]:
    for step, seen in zip(deed.steps, deed.seen, strict=True):
        if step.table != LISTS:
            continue
        if step.verb == "append":
            yield ["append", step.rows[0].day, step.rows[0].id]
        else:
            found = sorted(seen, key=lambda row: (row.amount, row.id))
            key = step.where.conditions[0].value
            yield ["r", key, [row.id for row in found] if known else None]
