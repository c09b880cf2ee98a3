"""Random programs of two tables, for pairs of transactions that began on one state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._verify.model import AMOUNTS, Condition, Program, Row, State, Step, Where, ordered

if TYPE_CHECKING:
    from random import Random

DAYS = 4


def where(rng: Random, most: int, days: int) -> Where:
    """Give a random condition on so many days; `most` is the greatest id that there is."""
    day, amount, number = rng.randrange(days), rng.randrange(AMOUNTS), rng.randint(1, most + 2)
    one = rng.choice(
        [
            Condition("day", "=", day),
            Condition("day", ">=", day),
            Condition("day", "!=", day),
            Condition("id", "=", number),
            Condition("id", "in", (number, number + 1)),
            Condition("amount", ">", amount),
            Condition("amount", "is", None),
        ]
    )
    within = Condition("day", "=", rng.randrange(days))
    two = (one, within)
    if days == 1:
        return _of_rows(rng, number, within)
    some = [Where((one,))] * 3 + [Where((within,))] * 2 + [Where(two)] * 2
    return rng.choice([*some, Where(two, either=True), Where()])


def _of_rows(rng: Random, number: int, within: Condition) -> Where:
    """Give a condition on ids, as those have that work on one day."""
    some = [
        Condition("id", "=", number),
        Condition("id", "in", (number, number + 1)),
        Condition("id", ">=", number),
    ]
    one = rng.choice(some)
    return Where((one, within)) if rng.random() < 0.5 else Where((one,))


_OF_ANYBODY = {
    "read": 2,
    "count": 1,
    "append": 3,
    "delete": 3,
    "overwrite": 3,
    "update": 4,
    "upsert": 2,
    "replace": 1,
}
_OF_OTHERS = {**_OF_ANYBODY, "read": 0, "count": 0, "mark": 3, "compact": 2}
"""What came first may have written delete files, or nothing but the same rows again."""

_OF_OTHERS_ON_ONE_DAY = {**_OF_OTHERS, "mark": 12, "append": 1, "replace": 0}


def program(rng: Random, state: State, first_id: int, *, days: int, others: bool) -> Program:
    """
    Give a random program.

    Args:
        rng: Where it comes from.
        state: What it is written for.
        first_id: Ids from here on are nobody else's.
        days: Of how many its tables are.
        others: Whether it is one of those that come first.
    """
    of_others = _OF_OTHERS_ON_ONE_DAY if days == 1 else _OF_OTHERS
    verbs = of_others if others else _OF_ANYBODY
    most = max((row.id for rows in state.values() for row in rows), default=0)
    steps = []
    for verb in rng.choices([*verbs], [*verbs.values()], k=rng.randint(1, 3)):
        count = rng.randint(1, 2)
        on = [rng.randrange(days) for _ in range(count)]
        rows = [
            Row(first_id + number, on[number], rng.choice([None, *range(AMOUNTS)]))
            for number in range(count)
        ]
        first_id += count
        if verb == "upsert" and rng.random() < 0.8:
            known = rng.sample(range(1, most + 3), count)
            rows = [row._replace(id=known[number]) for number, row in enumerate(rows)]
        table = "a" if verb == "replace" else rng.choice("aab")  # it needs partitions by value
        steps.append(Step(verb, table, where(rng, most, days), ordered(rows)))
    return tuple(steps)
