"""
The transactions of `small_transactions`, with a catalog in a file of SQLite.

As one that moves its tables with the log (`atomic`), and as one whose tables are applied after it
(`inline`): SQLite has one lock for all, which the former holds for longer, and asks for once.

    make bench NAME=small_transactions_on_sqlite
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from _measure import Metric, rate_ratio, write
from _small_cells import PROCESSES, SHARINGS, Cell, figures
from _small_writers import Place

WAYS = ("inline", "atomic")


def main() -> None:
    """Run all cells, both ways in turns, and write results/small_transactions_on_sqlite.json."""
    metrics: list[Metric] = []
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as folder:
        for sharing in SHARINGS:
            for processes in PROCESSES:
                cell = Cell(processes, sharing, partial(_place, folder))
                runs = cell.runs(WAYS)
                ours, theirs = runs["atomic"].rates, runs["inline"].rates
                name = f"{cell.name}: rate"
                ratio = rate_ratio(name, ours, theirs, against="inline", target=1.0)
                metrics += [*figures(cell.name, runs), ratio]
    write("small_transactions_on_sqlite", metrics)


def _place(folder: str, database: str) -> Place:
    own = Path(folder, database)
    own.mkdir()
    return Place(str(own), f"sqlite:///{own}/catalog.db", database, "")


if __name__ == "__main__":
    main()
