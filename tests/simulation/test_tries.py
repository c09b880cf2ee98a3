"""
The rule of tries under one id (docs/spec.md 11.1), in every order of a few steps.

A model, not the core: it says that the rule is enough, and that no part of it can go. A log is a
tuple of entries, whose place is their timestamp, and of which the oldest have left the head for
the archive; a try is in one of these states, after what it knows:

    idle                      it has not begun
    run, read_ts, swaps       it looks at the head, and has swapped before or not
    wait, read_ts, head, e    it has validated: its swap of an entry, on a head, is about to be sent
    told / committed          it is over
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRIES = 2
_LOG_MAX = 5
_COMMIT, _ABORT, _OTHER = "commit", "abort", "other"
_IDLE, _TOLD, _COMMITTED = ("idle",), ("told",), ("committed",)

Log = tuple[tuple[str, int], ...]
State = tuple[Log, int, tuple[Any, ...], tuple[Any, ...]]
"""
The log, how many entries of it are archived, the tries, and the requests that are on their way
after an answer was lost.
"""


class _Rule:
    """What a try does; parts of it can be taken away."""

    def __init__(self, without: str = "") -> None:
        self.without = without

    def found(self, log: Log, tidied: int, *, tried: bool) -> list[tuple[int, str]]:
        """Give what a try finds under its id, with the timestamps."""
        hidden = tidied if self.without == "archive" and not tried else 0
        return [(ts, kind) for ts, (kind, _) in enumerate(log, 1) if ts > hidden]

    def barred(self, found: list[tuple[int, str]], read_ts: int) -> bool:
        """Whether an abort refuses a try."""
        above = 0 if self.without == "order of begins" else read_ts
        return any(kind == _ABORT and ts > above for ts, kind in found)

    def drafts(self, found: list[tuple[int, str]], read_ts: int) -> list[tuple[str, int] | None]:
        """Give what a try may swap; None: it tells a conflict. What clashes is anybody's choice."""
        if self.barred(found, read_ts):
            return [None]
        refused = None if self.without == "abort" else (_ABORT, read_ts)
        return [(_COMMIT, read_ts), refused]


def _steps(rule: _Rule, state: State) -> Iterator[State]:
    log, tidied, tries, flying = state
    for number, each in enumerate(tries):
        for log_after, after, sent in _moves(rule, log, tidied, each):
            on_its_way = (*flying, sent) if sent and not flying else flying
            if sent and flying:
                continue
            yield log_after, tidied, (*tries[:number], after, *tries[number + 1 :]), on_its_way
    for head, entry in flying:  # one request at most: it lands now, or never
        yield (*log, entry) if len(log) == head else log, tidied, tries, ()
    if len(log) < _LOG_MAX - 2 and (_OTHER, 0) not in log:
        yield (*log, (_OTHER, 0)), tidied, tries, flying
    if tidied < len(log):
        yield log, len(log), tries, flying


def _moves(rule: _Rule, log: Log, tidied: int, each: Any) -> Iterator[tuple[Log, Any, Any]]:
    """Give what one try may do: the log, the try, and the request that is on its way afterwards."""
    if each == _IDLE or each[0] == "run":
        found = rule.found(log, tidied, tried=each == _IDLE or each[2])
        if any(kind == _COMMIT for _, kind in found):
            yield log, _COMMITTED, None
        elif each == _IDLE:
            yield log, ("run", len(log), False), None
        else:
            for entry in rule.drafts(found, each[1]):
                if entry is None:
                    yield log, _TOLD, None
                elif len(log) < _LOG_MAX:
                    yield log, ("wait", each[1], len(log), entry), None
    elif each[0] == "wait":
        _, read_ts, head, entry = each
        again = ("run", read_ts, True)
        if len(log) == head:
            yield (*log, entry), _COMMITTED if entry[0] == _COMMIT else _TOLD, None
            yield (*log, entry), again, None  # the answer is lost
        else:
            yield log, again, None
        yield log, again, (head, entry)


def _explore(rule: _Rule) -> tuple[bool, bool]:
    """Give whether what a conflict promised was broken, and whether a try committed after one."""
    first: State = ((), 0, (_IDLE,) * _TRIES, ())
    seen, todo = {(first, -1)}, [(first, -1)]
    broken = later = False
    while todo:
        state, known = todo.pop()
        log, _, tries, _ = state
        for after in _steps(rule, state):
            told = known
            for before, now in zip(tries, after[2], strict=True):
                if now == _TOLD != before:  # neither it, nor one that read where it did or below
                    told = max(told, before[1])
            for kind, read_ts in after[0][len(log) :]:
                broken |= kind == _COMMIT and read_ts <= known
                later |= kind == _COMMIT and read_ts > known >= 0
            broken |= sum(kind == _COMMIT for kind, _ in after[0]) > 1
            if (after, told) not in seen:
                seen.add((after, told))
                todo.append((after, told))
    return broken, later


@pytest.mark.parametrize(
    ("without", "found"),
    [
        ("", (False, True)),
        ("abort", (True, True)),
        ("archive", (True, True)),
        ("order of begins", (False, False)),
    ],
)
def test_what_a_conflict_promises(without: str, found: tuple[bool, bool]):
    """It holds for all tries that began before, and those that begin later may commit."""
    assert found == _explore(_Rule(without))
