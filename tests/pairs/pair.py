"""One pair carried out: who comes first commits, and who comes second commits or is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.transforms import BucketTransform, IdentityTransform

import txns
from tests.pairs import delete_files
from tests.pairs.programs import DAYS, program
from txns._verify.compaction import compact
from txns._verify.model import LOOKS, Program, Row, Rows, State, Step, ran
from txns._verify.statements import SCHEMA, arrow, carry_out, rows_of

if TYPE_CHECKING:
    from random import Random

    from pyiceberg.catalog import Catalog

LEVELS = ("SNAPSHOT", "SERIALIZABLE", "STRICT SERIALIZABLE")
_SPECS = (None, ("id", BucketTransform(2)), ("day", IdentityTransform()))


@dataclass
class Pair:
    """
    Two programs that began on one state, and how they ended.

    Attributes:
        level: Of the second one.
        before: What both began on.
        first: What came first, transaction by transaction.
        second: What came second.
        wrote: Whether it has staged anything: who has not stands where it began.
        refused: What its commit was told; None where it has committed.
        after: What the tables hold at the end.
        seen: What the second one saw.
    """

    level: str
    before: State
    first: list[Program]
    second: Program
    wrote: bool = False
    refused: str | None = None
    after: State = field(default_factory=dict)
    seen: list[object] = field(default_factory=list)

    @property
    def between(self) -> State:
        """What the tables held when the first ones had committed."""
        state = self.before
        for each in self.first:
            state, _ = ran(each, state)
        return state

    def fault(self) -> str | None:
        """Say what is wrong with how it ended; None for nothing."""
        if self.seen != ran(self.second, self.before)[1]:
            return "it saw something else than what it began on"
        if self.refused is not None or not self.wrote:
            return None if self.after == self.between else "it has left something"
        left, seen = ran(self.second, self.between)
        if self.after != left:
            return "the tables are not what one after the other leaves"
        written = {step.table for step in self.second if step.verb not in LOOKS}
        protected = {
            number
            for number, step in enumerate(self.second)
            if self.level != "SNAPSHOT" or step.table in written
        }
        differ = [number for number in protected if self.seen[number] != seen[number]]
        return f"it would have seen something else in {differ}" if differ else None

    @property
    def is_true_conflict(self) -> bool:
        """Whether it could not stand after the others, whatever decides that."""
        state, seen = ran(self.second, self.between)
        own, _ = ran(self.second, self.before)
        return seen != self.seen or _difference(self.before, own) != _difference(
            self.between, state
        )


def _difference(before: State, after: State) -> dict[str, tuple[Rows, Rows]]:
    """Give the rows that came to each table, and those that left it."""
    return {
        name: (
            tuple(row for row in after[name] if row not in before[name]),
            tuple(row for row in before[name] if row not in after[name]),
        )
        for name in before
    }


class Pairs:
    """Makes pairs over two tables of a catalog, of which the next one finds what the last left."""

    def __init__(
        self, catalog: Catalog, handle: txns.Handle, rng: Random, days: tuple[int, ...]
    ) -> None:
        """
        Begin without tables.

        Args:
            catalog: Where they are made.
            handle: Of its log.
            rng: What draws them, and their programs.
            days: Of how many a pair of tables may be; one of these.
        """
        self._days = days
        self._catalog = catalog
        self._handle = handle
        self._rng = rng
        self._made = 0
        self._of_days = DAYS
        self._next_id = 1
        self._names: dict[str, str] = {}
        self._state: State = {}
        """What the tables hold."""

    def new_tables(self) -> None:
        """Begin with new tables: `a` by days, `b` in one of several ways."""
        self._made += 1
        self._of_days = self._rng.choice(self._days)
        for name, spec in (("a", _SPECS[-1]), ("b", self._rng.choice(_SPECS))):
            self._names[name] = f"shop.{name}{self._made}"
            table = self._handle.catalog().create_table(self._names[name], SCHEMA)
            if spec:
                with table.update_spec() as update:
                    update.add_field(*spec)
        self._next_id = 1
        self._state = dict.fromkeys(self._names, ())

    def state(self) -> State:
        """Give what the tables hold, as a plain catalog shows it."""
        return {
            name: rows_of(self._catalog.load_table(known).scan())
            for name, known in self._names.items()
        }

    def pair(self) -> Pair:
        """Run one pair."""
        rng = self._rng
        if len(self._state["a"]) > 14 or (self._state["a"] and rng.random() < 0.05):
            with self._handle.begin() as txn:
                txn.load_table(self._names["a"]).delete(
                    "day >= 1" if self._of_days > 1 else "id > 0"
                )
            self._state = self.state()
        elif len(self._state["a"]) < 4:
            self._fill()
            self._state = self.state()
        state = self._state
        first = [self._program(state, others=True) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        pair = Pair(rng.choice(LEVELS), state, first, self._program(state, others=False))
        second = self._handle.begin(isolation=pair.level)
        pair.seen = [self._step(second, step) for step in pair.second]
        pair.wrote = bool(second.tables)
        for each in first:
            with self._handle.begin() as txn:
                for step in each:
                    self._step(txn, step)
        try:
            second.commit()
        except txns.Conflict as error:
            pair.refused = str(error)
        pair.after = self._state = self.state()
        return pair

    def _fill(self) -> None:
        with self._handle.begin() as txn:
            for name in self._names:
                rows = [
                    Row(
                        self._next_id + number,
                        self._rng.randrange(self._of_days),
                        self._rng.randrange(6),
                    )
                    for number in range(6)
                ]
                self._next_id += len(rows)
                for some in (rows[:3], rows[3:]):
                    txn.load_table(self._names[name]).append(arrow(some))

    def _program(self, state: State, *, others: bool) -> Program:
        made = program(self._rng, state, self._next_id, days=self._of_days, others=others)
        self._next_id += sum(len(step.rows) for step in made)
        return made

    def _step(self, txn: Any, step: Step) -> object:
        """Carry out a statement; give what it saw, as the model tells it."""
        table = txn.load_table(self._names[step.table])
        if step.verb == "mark":
            delete_files.mark(table, step.where.holds, way=self._rng.choice(delete_files.WAYS))
            return None
        if step.verb == "compact":
            compact(table)
            return None
        return carry_out(table, step)
