"""
Drills: how long a recovery takes, for each thing that a lake can lose, against a check of it.

Three tables with a past of forty transactions; in a SQLite catalog, and in PostgreSQL, which the
package pgserver brings. What the first statement is told, and what is gone, is printed, and held
against docs/operations.md; no invariant is broken afterwards.

    make bench NAME=drills
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from _measure import Metric, milliseconds, ratio, write

from integration_tests.drills import DRILLS, Drill, Lake, carry_out
from integration_tests.postgres import Postgres, running_postgres

TABLES = 3
TRANSACTIONS = 40
TURNS = 3


def main() -> None:
    """Carry out all drills, and write results/drills.json."""
    metrics: list[Metric] = []
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as folder, running_postgres() as server:
        for kind in ("sqlite", "postgresql"):
            for number, drill in enumerate(DRILLS):
                metrics += _drill(kind, drill, Path(folder) / f"{kind}-{number}", server)
    write("drills", metrics)


def _drill(kind: str, drill: Drill, place: Path, server: Postgres) -> list[Metric]:
    cures, checks = [], []
    for turn in range(TURNS):
        folder = place / str(turn)
        folder.mkdir(parents=True)
        uri = f"sqlite:///{folder}/catalog.db?timeout=60"
        if kind == "postgresql":
            database = f"{place.name.replace('-', '_')}_{turn}"
            server.create_database(database)
            uri = server.uri(database)
        lake = Lake.make(folder, uri, tables=TABLES, transactions=TRANSACTIONS)
        drilled = carry_out(drill, lake)
        assert not drilled.violations, drilled.violations
        assert drill.lost == drilled.gone == len(drilled.reported)
        cures.append(drilled.cure_s)
        checks.append(drilled.check_s)
    print(f"{kind}, {drill.name}: told {drilled.told[:160]!r}; {drilled.gone} transactions gone")
    name = f"{kind}: {drill.name}"
    return [
        milliseconds(name, cures, against=""),
        ratio(name, cures, checks, against="`txns check` of the lake then"),
    ]


if __name__ == "__main__":
    main()
