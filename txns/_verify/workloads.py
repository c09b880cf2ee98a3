"""
What sessions do: small programs whose invariants break under each anomaly.

List-append and registers as Elle's (Kingsbury and Alvaro, VLDB 2020), a bank of two tables, which
shows write skew, and limits on predicates, which show phantoms; some of each are rolled back, which
nobody may see. Tables are partitioned by `day`;
engines that can write some of them merge-on-read, the others copy-on-write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from txns._verify.model import Condition, Row, State, Step, Where, ordered, where

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random  # noqa: TID251 -- of a seed that is told

    Do = Callable[[Step], Any]
    """Carries out a statement, and gives what it saw."""
    Fresh = Callable[[], int]
    """Gives a number that nobody else has."""

LISTS, REGISTERS, MARKED, EVENTS = "lists", "registers", "marked_registers", "events"
HERE, THERE = "here", "there"
TABLES = (LISTS, REGISTERS, MARKED, HERE, THERE, EVENTS)
ACCOUNT_TABLES = (HERE, THERE)
"""Each account has a row in both, from the beginning to the end."""
MERGED_ON_READ = (MARKED, THERE)
DAYS = 4
"""Few, so that sessions meet."""
ACCOUNTS = range(6)
_OPENED_WITH = 100
_LIMIT = 4
_OFTEN, _SELDOM = 0.6, 0.3
_ROLLED_BACK = 0.05


class RolledBack(Exception):
    """A program's own ROLLBACK."""


def initial() -> State:
    """Give what the tables hold at first."""
    opened = ordered(Row(account, account % DAYS, _OPENED_WITH) for account in ACCOUNTS)
    return {LISTS: (), REGISTERS: (), MARKED: (), HERE: opened, THERE: opened, EVENTS: ()}


def _of(account: int) -> Where:
    """Give the condition of one row, which names its partition."""
    return Where((Condition("day", "=", account % DAYS), Condition("id", "=", account)))


def _balance(do: Do, table: str, account: int) -> int:
    """
    Read an account, which has one row.

    Raises:
        RolledBack: It has none, or several: the replay tells that, and nothing can be made of it.
    """
    amounts = [row.amount for row in do(Step("read", table, _of(account)))]
    if len(amounts) != 1 or amounts[0] is None:
        raise RolledBack
    balance: int = amounts[0]
    return balance


def _set_balance(do: Do, table: str, account: int, amount: int) -> None:
    do(Step("overwrite", table, _of(account), (Row(account, account % DAYS, amount),)))


def list_append(rng: Random, do: Do, fresh: Fresh) -> None:
    """Read lists, and put a number at the end of some: its place is how long the list was."""
    for key in rng.sample(range(DAYS), rng.randint(1, 2)):
        found = do(Step("read", LISTS, where("day", "=", key)))
        if rng.random() < _OFTEN:
            do(Step("append", LISTS, rows=(Row(fresh(), key, len(found)),)))


def registers(rng: Random, do: Do, fresh: Fresh) -> None:
    """Read values, write others over some, and take some away, which others may bring back."""
    for key in rng.sample(range(2 * DAYS), rng.randint(1, 3)):
        table = rng.choice((REGISTERS, MARKED))
        do(Step("read", table, _of(key)))
        if rng.random() < _OFTEN:
            new = Row(key, key % DAYS, fresh())
            do(Step("overwrite", table, _of(key), (new,)))
        elif rng.random() < _SELDOM:
            do(Step("delete", table, _of(key)))


def merge(rng: Random, do: Do, fresh: Fresh) -> None:
    """Insert or update rows by their keys, as a MERGE does."""
    keys = rng.sample(range(2 * DAYS), rng.randint(1, 2))
    rows = ordered(Row(key, key % DAYS, fresh()) for key in keys)
    do(Step("upsert", rng.choice((REGISTERS, MARKED)), rows=rows))


def transfer(rng: Random, do: Do, fresh: Fresh) -> None:
    """Move money from one table to the other: the sum of all stays."""
    del fresh
    tables = [*ACCOUNT_TABLES]
    rng.shuffle(tables)
    amount = rng.randint(1, 30)
    for table, sign in zip(tables, (-1, 1), strict=True):
        account = rng.choice(ACCOUNTS)
        _set_balance(do, table, account, _balance(do, table, account) + sign * amount)


def withdraw(rng: Random, do: Do, fresh: Fresh) -> None:
    """Take from one of two accounts where both together have enough: the shape of write skew."""
    del fresh
    account, amount = rng.choice(ACCOUNTS), rng.randint(1, 30)
    both = {table: _balance(do, table, account) for table in ACCOUNT_TABLES}
    if sum(both.values()) < amount:
        return
    table = rng.choice(ACCOUNT_TABLES)
    _set_balance(do, table, account, both[table] - amount)


def audit(rng: Random, do: Do, fresh: Fresh) -> None:
    """Read all accounts of both tables, and write down what they come to, now and then."""
    total = sum(row.amount or 0 for table in ACCOUNT_TABLES for row in do(Step("read", table)))
    if rng.random() < _SELDOM:
        day = rng.randrange(DAYS)
        do(Step("append", EVENTS, rows=(Row(fresh(), day, total % _LIMIT),)))


def limits(rng: Random, do: Do, fresh: Fresh) -> None:
    """Add to a day for as long as it has few large events; else take them away."""
    day = rng.randrange(DAYS)
    large = Where((Condition("day", "=", day), Condition("amount", ">=", _LIMIT)))
    if do(Step("count", EVENTS, large)) < _LIMIT:
        do(Step("append", EVENTS, rows=(Row(fresh(), day, _LIMIT + 1),)))
    else:
        do(Step("delete", EVENTS, large))


def days(rng: Random, do: Do, fresh: Fresh) -> None:
    """Update or replace one whole day."""
    day = rng.randrange(DAYS)
    if rng.random() < _OFTEN:
        do(Step("update", EVENTS, where("day", "=", day)))
    else:
        do(Step("replace", EVENTS, rows=(Row(fresh(), day, None),)))


WORKLOADS = {
    list_append: 4,
    registers: 3,
    merge: 2,
    transfer: 2,
    withdraw: 2,
    audit: 1,
    limits: 3,
    days: 1,
}
"""How often each is chosen."""


def at_random(rng: Random, do: Do, fresh: Fresh) -> None:
    """
    Run one of them.

    Raises:
        RolledBack: It is not to be committed.
    """
    (workload,) = rng.choices([*WORKLOADS], [*WORKLOADS.values()])
    workload(rng, do, fresh)
    if rng.random() < _ROLLED_BACK:
        raise RolledBack
