"""
Reservations of those who have lost (docs/spec.md 11.4), in every order of steps.

A model, not the core: it says that the rules are enough, and that none of them can go. Time is
ticks. Everybody writes one table by what it holds, so a transaction loses where somebody has
written since it began. One short writer wants to commit at each tick, or not; long ones work for
some ticks, and may die. The short writer may be one that only appends to what the long ones read:
it waits for those alone who have reserved twice. Who waits does so by what it has seen itself. No
safety is modelled: who has lost never commits, with reservations or without.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORK = 2
_LATE = 7
"""What a try may take that was short before: longer than its reservation lasts."""
_SHORT = "short"
_FUTURE = 99

Reserved = tuple[str, int, int, int]
"""Whose, ticket, number, and for how many ticks."""
Seen = tuple[tuple[str, str, int, int], ...]
"""Who has seen whose, which number, and for how many ticks already."""


@dataclass(frozen=True)
class _Long:
    name: str
    work: tuple[int, ...] = (_WORK,)
    """Ticks of each try; the last for all further ones."""
    dies: bool = False
    ticket: int = -1
    tries: int = 0
    number: int = 0
    reserved: int = 0
    """For how long, before this try; 0 for not."""
    left: int = 0
    """Ticks of work; 0 between tries."""
    read_ts: int = 0
    over: bool = False
    waited: int = 0
    waits_for: str = ""

    def takes(self, tries: int) -> int:
        return self.work[min(tries, len(self.work)) - 1]


@dataclass(frozen=True)
class _World:
    longs: tuple[_Long, ...]
    upper: int = 1
    written_ts: int = 0
    reserved: tuple[Reserved, ...] = ()
    seen: Seen = ()
    cost: frozenset[tuple[str, str, int]] = frozenset()
    """Who has waited for whose, and which number."""
    paused: tuple[tuple[str, int], ...] = ()
    """Who neither waits nor reserves, for how many ticks."""
    ticket: int | None = None
    """The short writer's, while it waits."""
    waited: int = 0
    """Ticks of the short writer, for whatever it waits."""


class _Rules:
    def __init__(self, without: str = "", *, appends: bool = False) -> None:
        self.without = without
        self.waits_from = {_SHORT: 2 if appends else 1}
        """What number of a reservation one waits for at least; 1 for everybody else."""

    def ticks(self, world: _World) -> Iterator[_World]:
        """Let everybody come once, in each order; the short writer may have nothing to do."""
        names = [each.name for each in world.longs if not each.over]
        for order in permutations([*names, _SHORT]):
            for comes in (True, False):
                worlds = [world]
                looked = world.reserved
                for name in order:
                    worlds = [
                        after for one in worlds for after in self._step(one, name, comes, looked)
                    ]
                yield from (self._older(one) for one in worlds)

    def _step(
        self,
        world: _World,
        name: str,
        comes: bool,  # noqa: FBT001 -- of a tick
        looked: tuple[Reserved, ...],
    ) -> Iterator[_World]:
        """Let one come; who is to reserve has looked before, and somebody else may have, too."""
        if name == _SHORT:
            yield self._short(world) if comes or world.ticket is not None else world
            return
        place = next(i for i, each in enumerate(world.longs) if each.name == name)
        yield self._long(world, place, looked)
        if world.longs[place].dies and world.longs[place].number:
            yield _with(world, place, over=True)

    def _short(self, world: _World) -> _World:
        ticket = world.upper if world.ticket is None else world.ticket
        world = self._see(world, _SHORT)
        if holder := self._waits(world, _SHORT, (ticket, _SHORT)):
            world = self._has_waited(world, _SHORT, holder)
            return replace(world, ticket=ticket, waited=world.waited + 1)
        return replace(self._written(world, _SHORT), ticket=None, waited=0)

    def _long(self, world: _World, place: int, looked: tuple[Reserved, ...]) -> _World:
        long = world.longs[place]
        if long.left > 1:
            return _with(world, place, left=long.left - 1)
        world = self._see(world, long.name)
        ticket = world.upper if long.ticket < 0 else long.ticket
        seen = world if long.left else replace(world, reserved=looked)
        if holder := self._waits(seen, long.name, (ticket, long.name)):
            world = self._has_waited(world, long.name, holder)
            return _with(world, place, waited=long.waited + 1, waits_for=holder)
        world = _with(world, place, waits_for="")
        if long.left == 0:
            return self._begun(world, place, ticket)
        if world.written_ts > long.read_ts:
            return _with(world, place, left=0)
        return _with(self._written(world, long.name), place, left=0, over=True)

    def _begun(self, world: _World, place: int, ticket: int) -> _World:
        long = world.longs[place]
        ours = [each for each in world.reserved if each[0] == long.name]
        paused, number = dict(world.paused), long.number
        if long.reserved and not ours:
            paused[long.name] = long.reserved
        lasts = 0
        if long.tries and long.name not in paused and self.without != "reserve":
            number, lasts = number + 1, _lasts(long.takes(long.tries))
            own = (long.name, ticket, number, lasts)
            world = replace(
                world,
                upper=world.upper + 1,
                reserved=(*(each for each in world.reserved if each not in ours), own),
            )
        world = replace(world, paused=tuple(sorted(paused.items())))
        return _with(
            world,
            place,
            ticket=ticket,
            tries=long.tries + 1,
            number=number,
            reserved=lasts,
            left=long.takes(long.tries + 1),
            read_ts=world.upper,
        )

    def _waits(self, world: _World, who: str, age: tuple[int, str]) -> str:
        """Give for whom one waits; nothing for nobody."""
        if who in dict(world.paused):
            return ""
        for name, ticket, number, _ in self._standing(world, who):
            older = (self._clamped(ticket, world), name) < age
            counts = number >= self.waits_from.get(who, 1)
            if counts and name != who and (older or self.without == "age"):
                return name
        return ""

    @staticmethod
    def _has_waited(world: _World, who: str, holder: str) -> _World:
        waited = {(who, name, number) for name, _, number, _ in world.reserved if name == holder}
        return replace(world, cost=world.cost | waited)

    def _standing(self, world: _World, who: str) -> list[Reserved]:
        """Give those whose time is not over, as one process has seen it."""
        if self.without == "override":
            return list(world.reserved)
        seen = {(by, name, number): ticks for by, name, number, ticks in world.seen}
        return [each for each in world.reserved if seen.get((who, each[0], each[2]), 0) < each[3]]

    def _clamped(self, ticket: int, world: _World) -> int:
        return ticket if self.without == "clamp" else min(ticket, world.upper)

    def _see(self, world: _World, who: str) -> _World:
        known = {(by, name, number) for by, name, number, _ in world.seen}
        new = [(who, name, number, 0) for name, _, number, _ in world.reserved]
        return replace(
            world, seen=tuple(sorted((*world.seen, *(e for e in new if e[:3] not in known))))
        )

    def _written(self, world: _World, who: str) -> _World:
        """Commit: what is one's own has been used, and what was waited for, and out, goes."""
        standing = self._standing(world, who)
        passed = [
            each
            for each in world.reserved
            if each not in standing
            and each[0] != who
            and (self.without == "cost" or (who, each[0], each[2]) in world.cost)
        ]
        paused = dict(world.paused)
        for each in passed:
            paused[who] = max(each[3], paused.get(who, 0))
        upper = world.upper + 1
        return replace(
            world,
            upper=upper,
            written_ts=upper,
            reserved=tuple(
                (name, self._clamped(ticket, world), number, lasts)
                for name, ticket, number, lasts in world.reserved
                if name != who and (name, ticket, number, lasts) not in passed
            ),
            paused=tuple(sorted(paused.items())),
        )

    def _older(self, world: _World) -> _World:
        """Let a tick pass on the clocks of all: the time of who waits for another's turn rests."""
        there = {(name, number): lasts for name, _, number, lasts in world.reserved}
        first = min(((ticket, name) for name, ticket, *_ in world.reserved), default=(0, ""))[1]
        rests = "" if self.without == "rest" else first
        return replace(
            world,
            seen=tuple(
                (by, name, number, min(ticks + (rests in {"", name}), there[name, number]))
                for by, name, number, ticks in world.seen
                if (name, number) in there
            ),
            cost=frozenset(each for each in world.cost if each[1:] in there),
            paused=tuple((who, ticks - 1) for who, ticks in world.paused if ticks > 1),
        )


def _lasts(ticks: int) -> int:
    return ticks + (ticks + 1) // 2


def _with(world: _World, place: int, **changed: object) -> _World:
    longs = list(world.longs)
    longs[place] = replace(longs[place], **changed)  # type: ignore[arg-type] -- by its names
    return replace(world, longs=tuple(longs))


def _explore(rules: _Rules, *longs: _Long, tries: int = 3, first: _World | None = None) -> set[str]:
    """Give what goes wrong in all that can happen."""
    begun = first or _World(longs)
    lasts = max(_lasts(max(long.work)) for long in begun.longs)
    seen, todo, wrong = {begun}, [begun], set()
    while todo:
        world = todo.pop()
        if any(long.tries > tries for long in world.longs):
            wrong.add("starved")
        elif _crossed(world.longs):
            wrong.add("wait for each other")
        elif world.waited > 2 * len(world.longs) * lasts or any(
            long.waited > 2 * len(world.longs) * lasts for long in world.longs
        ):
            wrong.add("waits without end")
        elif not all(long.over for long in world.longs) or world.ticket is not None:
            for after in map(_low, rules.ticks(world)):
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
    return wrong


def _crossed(longs: tuple[_Long, ...]) -> bool:
    pairs = {(each.name, each.waits_for) for each in longs}
    return any((other, name) in pairs for name, other in pairs)


def _low(world: _World) -> _World:
    """Give a world with low timestamps in the same order, so that few differ."""
    stamps = [world.upper, world.written_ts, *(each[1] for each in world.reserved)]
    stamps += [ts for long in world.longs for ts in (long.ticket, long.read_ts) if ts >= 0]
    if world.ticket is not None:
        stamps.append(world.ticket)
    low = {ts: place for place, ts in enumerate(sorted({*stamps} - {_FUTURE}))}
    low |= {-1: -1, _FUTURE: _FUTURE}
    return replace(
        world,
        upper=low[world.upper],
        written_ts=low[world.written_ts],
        reserved=tuple((name, low[ts], *more) for name, ts, *more in world.reserved),
        longs=tuple(
            replace(long, ticket=low[long.ticket], read_ts=low[long.read_ts])
            for long in world.longs
        ),
        ticket=None if world.ticket is None else low[world.ticket],
    )


def test_a_long_transaction_beside_short_ones_commits_at_its_second_try():
    assert not _explore(_Rules(), _Long("a"), tries=2)


def test_a_long_transaction_that_reads_what_is_appended_commits_at_its_third_try():
    """Its second is free to lose: an append waits for nobody who has lost once."""
    assert not _explore(_Rules(appends=True), _Long("a"), tries=3)
    assert not _explore(_Rules(appends=True), _Long("a", dies=True), tries=3)
    assert "starved" in _explore(_Rules(appends=True), _Long("a"), tries=2)


def test_two_that_read_what_is_appended_take_turns():
    assert not _explore(_Rules(appends=True), _Long("a"), _Long("b"), tries=4)


def test_a_holder_that_has_died_costs_what_it_asked_for():
    assert not _explore(_Rules(), _Long("a", dies=True))


def test_two_that_have_lost_take_turns():
    """And one of them may die."""
    assert not _explore(_Rules(), _Long("a"), _Long("b"))
    assert not _explore(_Rules(), _Long("a", dies=True), _Long("b"))


def test_who_is_late_needs_more_tries_and_keeps_nobody_longer():
    """Its reservation is over, and there is none for as long; then it asks for more."""
    assert not _explore(_Rules(), _Long("a", work=(_WORK, _LATE)), tries=4)


def _forged() -> _World:
    """Give a world in which somebody has reserved by a clock that is fast."""
    own = ("a", _FUTURE, 1, _lasts(_WORK))
    long = _Long("a", tries=2, number=1, left=_WORK, ticket=_FUTURE, read_ts=1)
    return _World((long,), reserved=(own,))


def test_the_ticket_of_a_clock_that_is_fast_is_one_of_now():
    """Who began in the same head may still be in its way; whoever comes later waits."""
    assert not _explore(_Rules(), first=_forged())


@pytest.mark.parametrize(
    ("without", "longs", "wrong"),
    [
        ("reserve", (_Long("a"),), "starved"),
        ("override", (_Long("a", dies=True),), "waits without end"),
        ("age", (_Long("a"), _Long("b")), "wait for each other"),
        ("rest", (_Long("a"), _Long("b")), "starved"),
    ],
)
def test_no_rule_can_go(without: str, longs: tuple[_Long, ...], wrong: str):
    assert wrong in _explore(_Rules(without), *longs)


def test_what_nobody_has_waited_for_is_not_overridden():
    """A stream of appends would have it out before the next try, and a pause would follow."""
    assert "starved" in _explore(_Rules("cost", appends=True), _Long("a"), tries=3)


def test_without_a_bound_for_tickets_a_fast_clock_starves_its_own():
    assert "starved" in _explore(_Rules("clamp"), first=_forged())
