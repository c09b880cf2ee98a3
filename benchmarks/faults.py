"""
Faults: how long a lake feels a real one that is over, while processes write it all through.

Two Python processes and a Spark driver append to two tables on PostgreSQL (of the
package pgserver) while it is stopped as by a crash and started again after 2 s, is read-only for
2 s, and loses connections for 6 s behind, before and in front of a COMMIT; then three Python
processes write a lake in SQLite whose disk, a tmpfs, is full for 4 s. Measured is from the end of
the fault to each writer's next commit, and until all is applied, every table is well and all rows
of before are read. Nobody runs a command; nothing is lost or doubled, which is asserted.

    make bench NAME=faults
"""

from __future__ import annotations

import random
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from _measure import Metric, milliseconds, write

from integration_tests.cut_connections import Cut, Proxy
from integration_tests.faults import (
    Course,
    Lake,
    carry_out,
    end,
    fill,
    small_filesystem,
)
from integration_tests.postgres import running_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARE_CUT = 0.4
SEED = 1


def main() -> None:
    """Carry out all faults, and write results/faults.json."""
    metrics: list[Metric] = []
    for name, course in [*_of_a_database(), _of_a_disk()]:
        print(f"{name}: {course}", flush=True)
        metrics += [
            milliseconds(f"{name}: a writer's next commit", course.next_commit_s, against=""),
            milliseconds(f"{name}: consistent again", [course.consistent_s], against=""),
        ]
    write("faults", metrics)


def _of_a_database() -> Iterator[tuple[str, Course]]:
    draw = random.Random(SEED)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="txns-bench-")))
        server = stack.enter_context(running_postgres())
        proxy = stack.enter_context(Proxy(server.socket))
        server.create_database("lake")
        lake = Lake(folder, server.uri("lake")).make()
        uri = server.uri("lake", port=proxy.port)
        spark = lake.spark_writer("spark", server.jdbc_uri("lake", port=proxy.port))
        writers = [spark, lake.writer("p1", uri=uri), lake.writer("p2", uri=uri)]
        for writer in writers:
            stack.enter_context(writer)

        def cut() -> Cut | None:
            return draw.choice(list(Cut)) if draw.random() < SHARE_CUT else None

        def cuts(draws) -> None:
            proxy.draw = draws

        faults = {
            "PostgreSQL restarted": (server.stop_at_once, server.start, 2),
            "PostgreSQL read-only": (
                lambda: server.set_read_only(True),
                lambda: server.set_read_only(False),
                2,
            ),
            "connections cut": (lambda: cuts(cut), lambda: cuts(lambda: None), 6),
        }
        for name, (strike, heal, lasts_s) in faults.items():
            yield name, carry_out(lake, writers, strike, heal, lasts_s=lasts_s)
        end(lake, writers)


def _of_a_disk() -> tuple[str, Course]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="txns-bench-")))
        disk = stack.enter_context(small_filesystem(folder / "disk", 48))
        uri = f"sqlite:///{disk}/catalog.db?timeout=60"
        lake = Lake(folder, uri, warehouse=f"file://{disk}/files").make()
        writers = [stack.enter_context(lake.writer(f"p{number}")) for number in range(3)]
        course = carry_out(lake, writers, lambda: fill(disk), (disk / "filler").unlink, lasts_s=4)
        end(lake, writers)
        return "disk full", course


if __name__ == "__main__":
    main()
