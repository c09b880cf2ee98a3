"""
Measure how much work is lost where two runs of dbt build the same models at once.

Two processes build one project of 20 incremental models in one lake (SQLite, local files, four
threads each); each model is a second's work, and a MERGE or a DELETE and an INSERT of all of its
keys. Of two that build one model, one loses and is run again. What it had done until it was told so
is lost: the time from its BEGIN to its error, over all of both runs, and as a share of the time of
all attempts. All of it is in dbt's own log. In turns with losers that are stopped
while they run, and with such as only COMMIT tells.

    make bench NAME=dbt_contention
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from _dbt_projects import Project, transactional
from _measure import Metric, Times, milliseconds, ratio, take_turns, write

if TYPE_CHECKING:
    from collections.abc import Callable

TURNS = 3
THREADS = 4
MODELS = 20
ROWS = 1_000_000
RETRIES = 20
EARLY, AT_COMMIT = "told early", "told at COMMIT"
FEW = {"spark.sql.shuffle.partitions": "4"}
"""A model of a thousand rows that is written in 200 tasks takes ten seconds on two processors."""
SETTINGS: dict[str, dict[str, str]] = {
    EARLY: FEW,
    AT_COMMIT: FEW | {"spark.sql.txns.early-doom": "false"},
}
STRATEGIES = ("merge", "delete+insert")
MODEL = """
{{{{ config(materialized='incremental', incremental_strategy='{strategy}', unique_key='item',
            retries={retries}) }}}}
select id % 1000 as item, sum(hash(id)) as amount, count(distinct id % 77777) as parts
from range({rows}) group by id % 1000
"""
BEGINS, COMMITS, LOSES = "BEGIN: ", "COMMIT: at ", " is run again: "
_PREFIX = "txns adapter: "


@dataclass(slots=True)
class Work:
    """
    What the attempts of a run have taken, in seconds.

    Attributes:
        won: Of those that have committed.
        lost: Of those that were run again.
        attempts: How many were.
    """

    won: float = 0.0
    lost: float = 0.0
    attempts: int = 0


def work_of(log: str) -> Work:
    """Read it out of the lines of dbt's log, in JSON: a thread has one transaction at a time."""
    begun: dict[str, float] = {}
    work = Work()
    for line in log.splitlines():
        said = json.loads(line)["info"]
        words, thread = str(said["msg"]), str(said["thread"])
        at = datetime.fromisoformat(said["ts"]).timestamp()
        if BEGINS in words and _PREFIX in words:
            begun[thread] = at
        elif COMMITS in words and thread in begun:
            work.won += at - begun.pop(thread)
        elif LOSES in words and thread in begun:
            work.lost += at - begun.pop(thread)
            work.attempts += 1
    return work


def files() -> dict[str, str]:
    """Return the project's models."""
    return {
        f"models/model_{number}.sql": MODEL.format(
            strategy=STRATEGIES[number % 2], retries=RETRIES, rows=ROWS
        )
        for number in range(MODELS)
    }


def _way(folder: Path, settings: dict[str, str]) -> Callable[[Times, int], None]:
    """Make a lake with its tables, and return what two runs do to it."""
    target = transactional(folder / "lake", threads=THREADS, server_side_parameters=settings)
    projects = [Project(folder / name, target, files()) for name in ("one", "two")]
    projects[0].run("run")

    def both(times: Times, _: int) -> None:
        logs = [project.folder / "logs" / "dbt.log" for project in projects]
        for log in logs:
            log.unlink(missing_ok=True)
        processes = [project.start("--log-format-file", "json", "run") for project in projects]
        for process in processes:
            output, _error = process.communicate(timeout=1800)
            if process.returncode != 0:
                raise RuntimeError(output)
        done = [work_of(log.read_text("utf-8")) for log in logs]
        for name in ("won", "lost", "attempts"):
            total = float(sum(getattr(each, name) for each in done))
            times.parts.setdefault(name, []).append(total)

    return both


def _figures(name: str, times: Times) -> list[Metric]:
    lost = times.parts["lost"]
    return [
        ratio(
            f"{name}: work that is lost",
            lost,
            times.total(["won", "lost"]),
            against="the time of all attempts",
            unit="share",
        ),
        milliseconds(f"{name}: work that is lost, of both runs", lost, against="the clock"),
    ]


def main() -> None:
    """Run it and write results/dbt_contention.json."""
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as temporary:
        ways = {
            name: _way(Path(temporary) / str(number), each)
            for number, (name, each) in enumerate(SETTINGS.items())
        }
        times = take_turns(ways, warm_up=0, turns=TURNS)
    for name, each in times.items():
        print(f"{name}: attempts that were lost, by turns: {each.parts['attempts']}")
    metrics = [one for name in times for one in _figures(name, times[name])]
    lost = [times[name].parts["lost"] for name in (EARLY, AT_COMMIT)]
    metrics.append(ratio("work that is lost", *lost, against=AT_COMMIT))
    write("dbt_contention", metrics)


if __name__ == "__main__":
    main()
