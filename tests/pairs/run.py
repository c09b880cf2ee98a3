"""Many pairs, and what became of them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import SqlCatalog

import txns
from tests.pairs.pair import Pairs
from tests.pairs.programs import DAYS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pairs.pair import Pair

_ON_ONE_PAIR_OF_TABLES = 10
"""So that histories stay short."""


@dataclass
class Tally:
    """
    What became of pairs.

    Attributes:
        pairs: How many.
        committed: Of how many the second one has committed.
        true: How many of those that were refused could not have stood.
        false: How many could.
        faults: What is wrong, and of which pair.
    """

    pairs: int = 0
    committed: int = 0
    true: int = 0
    false: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, pair: Pair, where: str) -> None:
        """Count a pair."""
        self.pairs += 1
        if fault := pair.fault():
            self.faults.append(f"{where}: {fault}\n{pair}")
        if pair.refused is None:
            self.committed += 1
        elif pair.is_true_conflict:
            self.true += 1
        else:
            self.false += 1

    def __str__(self) -> str:
        """Give what a program's last lines say."""
        counts = (
            f"pairs={self.pairs} committed={self.committed} conflicts={self.true}"
            f" false={self.false} missed={len(self.faults)}"
        )
        return "\n".join([*self.faults[:5], counts])


MIXED = (DAYS, DAYS, 1)
"""Of how many days tables are: a third of them of one, where others mark rows of its files."""


def run(
    folder: Path,
    seed: int,
    pairs: int,
    conflicts: str,
    tally: Tally,
    *,
    days: tuple[int, ...] = MIXED,
) -> None:
    """Run pairs in a folder of their own, from one seed."""
    warnings.filterwarnings("ignore", "Delete operation did not match any records")
    rng = Random(seed)
    (folder / "warehouse").mkdir()
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
    )
    catalog.create_namespace("shop")
    handle = txns.open(catalog, conflicts=conflicts)
    made = Pairs(catalog, handle, rng, days)
    for number in range(pairs):
        if number % _ON_ONE_PAIR_OF_TABLES == 0:
            made.new_tables()
        tally.add(made.pair(), f"seed {seed}, pair {number}")
