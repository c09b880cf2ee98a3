"""
Swaps that move the log and its tables at once (docs/spec.md 11.3), in every order of steps.

A model, not the core: it says that the rules are enough, and that none of them can go. A log is a
tuple of entries, whose place is their timestamp; each says of its tables whether it was born
applied to it. A data table is the tuple of what stands on its `main`: timestamps, and strangers'
rows. Both tables are written by everybody. One writer moves rows of a database together, one only
knows the commit table's, an applier may be as late as it likes, and somebody reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLES = ("a", "b")
_STRANGER = 0
_BORN, _LOGGED = "born", "logged"

Entry = tuple[str, tuple[str, ...]]
"""An id, and how it came to each of the tables."""
Main = tuple[int, ...]
Process = tuple[object, ...]


@dataclass(frozen=True)
class _World:
    log: tuple[Entry, ...] = ()
    mains: tuple[Main, ...] = ((), ())
    before: tuple[Main, ...] = ((), ())
    """What a replica answers with."""
    atomic: Process = ("idle",)
    inline: Process = ("idle",)
    applier: Process = ("idle",)
    reader: Process = ("idle",)
    strangers: int = 1


def _applied(main: Main) -> int:
    return max(main, default=0)


def _outstanding(log: tuple[Entry, ...], main: Main, table: int, upto: int) -> list[int]:
    """Give the timestamps of what is to be applied to a table, or laid over it."""
    return [
        ts
        for ts, (_, how) in enumerate(log[:upto], 1)
        if ts > _applied(main) and how[table] == _LOGGED
    ]


class _Rules:
    """What processes do; parts of it can be taken away."""

    def __init__(self, without: str = "") -> None:
        self.without = without

    def steps(self, world: _World) -> Iterator[_World]:
        yield from self._atomic(world)
        yield from self._inline(world)
        yield from self._applier(world)
        yield from self._reader(world)
        for table in range(len(_TABLES)):
            if world.strangers:
                main = (*world.mains[table], _STRANGER)
                yield replace(_moved(world, table, main), strangers=world.strangers - 1)

    def _atomic(self, world: _World) -> Iterator[_World]:
        """Prepare; then lock the rows in one step, since nobody else moves them meanwhile."""
        state = world.atomic
        if state[0] in {"idle", "unknown"}:
            yield replace(world, atomic=("ready", world.mains, len(world.log), state[0]))
        if state[0] != "ready":
            return
        _, seen, upto, before = state
        known = any(txn_id == "atomic" for txn_id, _ in world.log)
        if known and not (self.without == "look-up" and before == "unknown"):
            yield replace(world, atomic=("done",))
            return
        mains = seen if self.without == "rows" else world.mains
        log = world.log[:upto] if self.without == "head" else world.log
        how = tuple(self._comes(log, mains[table], table) for table in range(len(_TABLES)))
        ts = len(world.log) + 1
        after = replace(world, log=(*world.log, ("atomic", how)))
        for table, way in enumerate(how):
            if way == _BORN:
                after = _moved(after, table, (*mains[table], ts))
        yield replace(after, atomic=("done",))
        yield replace(after, atomic=("unknown",))  # the answer is lost, and it has landed
        yield replace(world, atomic=("unknown",))  # or it has not

    def _comes(self, log: tuple[Entry, ...], main: Main, table: int) -> str:
        if self.without != "outstanding" and _outstanding(log, main, table, len(log)):
            return _LOGGED
        return _LOGGED if main[-1:] == (_STRANGER,) else _BORN

    def _inline(self, world: _World) -> Iterator[_World]:
        state = world.inline
        if state[0] == "idle":
            yield replace(world, inline=("ready", len(world.log)))
        elif state[0] == "ready" and state[1] == len(world.log):
            yield replace(world, log=(*world.log, ("inline", (_LOGGED, _LOGGED))), inline=("done",))
        elif state[0] == "ready":
            yield replace(world, inline=("idle",))

    def _applier(self, world: _World) -> Iterator[_World]:
        """Load the head and a table; swap what was loaded, however late."""
        state = world.applier
        for table, main in enumerate(world.mains):  # another one, who is fast
            for ts in _outstanding(world.log, main, table, len(world.log))[:1]:
                yield _moved(world, table, (*main, ts))
        if state[0] == "idle":
            for table, main in enumerate(world.mains):
                if _outstanding(world.log, main, table, len(world.log)):
                    yield replace(world, applier=("ready", table, main, len(world.log)))
        else:
            _, table, main, upto = state
            done = replace(world, applier=("idle",))
            yield done
            if world.mains[table] == main or self.without == "guard":
                ts = _outstanding(world.log, main, table, upto)[0]
                yield _moved(done, table, (*main, ts))

    def _reader(self, world: _World) -> Iterator[_World]:
        """Load the head, then each table, of which a replica may lag; it may be refused."""
        state = world.reader
        if state[0] == "idle":
            yield replace(world, reader=("loaded", len(world.log)))
        elif state[0] in {"loaded", "half"}:
            table = len(state) - 2
            for main in {world.mains[table], world.before[table]}:
                read = self.read(world.log, main, table, state[1])
                whole = "read" if table else "half"
                yield replace(world, reader=(whole, *state[1:], read))

    def read(self, log: tuple[Entry, ...], main: Main, table: int, upto: int) -> Main | None:
        """Give what a table is at a timestamp: None is the error that it lacks something."""
        born = [ts for ts, (_, how) in enumerate(log[:upto], 1) if how[table] == _BORN]
        if self.without != "lacks" and any(ts > _applied(main) for ts in born):
            return None
        ours = [ts for ts in main if 0 < ts <= upto]
        return (*ours, *_outstanding(log, main, table, upto))


def _moved(world: _World, table: int, main: Main) -> _World:
    mains, before = list(world.mains), list(world.before)
    mains[table], before[table] = main, world.mains[table]
    return replace(world, mains=tuple(mains), before=tuple(before))


def _broken(world: _World) -> str:
    ids = [txn_id for txn_id, _ in world.log]
    if len(set(ids)) < len(ids):
        return "committed twice"
    kept = sum(main.count(_STRANGER) for main in world.mains)
    if kept + world.strangers < _World.strangers:
        return "a stranger's rows are gone"
    for table, main in enumerate(world.mains):
        ours = [ts for ts in main if ts]
        if ours != list(range(1, _applied(main) + 1)):
            return "skipped, or out of order"
        born = {ts for ts, (_, how) in enumerate(world.log, 1) if how[table] == _BORN}
        if not born <= set(ours):
            return "acknowledged, and not there"
    if world.reader[0] == "read":
        _, upto, *reads = world.reader
        if any(read not in (None, tuple(range(1, upto + 1))) for read in reads):
            return "read what never was"
    return ""


def _explore(rules: _Rules) -> tuple[set[str], set[tuple[str, ...]]]:
    """Give what was broken in all that can happen, and how entries of the atomic writer came."""
    first = _World()
    seen, todo = {first}, [first]
    broken, ways = set(), set()
    while todo:
        world = todo.pop()
        ways.update(how for txn_id, how in world.log if txn_id == "atomic")
        if found := _broken(world):
            broken.add(found)
            continue
        for after in rules.steps(world):
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return broken, ways


def test_nothing_is_broken_and_each_way_is_taken():
    broken, ways = _explore(_Rules())
    assert not broken
    assert ways == {(x, y) for x in (_BORN, _LOGGED) for y in (_BORN, _LOGGED)}


@pytest.mark.parametrize(
    ("without", "found"),
    [
        ("rows", "a stranger's rows are gone"),
        ("head", "skipped, or out of order"),
        ("outstanding", "skipped, or out of order"),
        ("look-up", "committed twice"),
        ("guard", "acknowledged, and not there"),
        ("lacks", "read what never was"),
    ],
)
def test_no_rule_can_go(without: str, found: str):
    broken, _ = _explore(_Rules(without))
    assert found in broken
