"""Scene: a driver is killed after its commit, before anything of it is in the data tables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import lake
from correction import day_by_both_tables
from show import run, say, step, table

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

DAY = 7
_CHILD = Path(__file__).resolve().parent / "crash_child.py"


def play(spark: SparkSession) -> None:
    """Kill a process that has committed; look at its tables in both ways, before and after."""
    before = _day(spark)
    with step("another process corrects 7 January: BEGIN ... COMMIT, and applies nothing"):
        child, commit_ts = _commit_in_child()
    _kill(child)
    spark.sql("CALL lake.system.settings(apply => 'inline')")
    say(f"  It has committed (commit_ts {commit_ts}), and is killed: kill -9.")

    through_txns, plainly = _day(spark.newSession()), _day(lake.outsider(spark))
    _compare({"before": before, "a new session": through_txns, "plain Iceberg": plainly})
    assert through_txns != before
    assert plainly == before
    say(
        "A new session reads what has committed, all of it: it lays the entry over the tables. "
        "Plain Iceberg sees none of it yet. Whoever writes next applies it, or a call:"
    )
    run(spark, "CALL lake.system.apply()")
    plainly_after = _day(lake.outsider(spark))
    _compare({"a new session": _day(spark.newSession()), "plain Iceberg": plainly_after})
    assert plainly_after == through_txns


def _commit_in_child() -> tuple[subprocess.Popen[str], int]:
    """Start a driver, wait for its commit; return the process and the commit_ts."""
    child = subprocess.Popen(
        [sys.executable, str(_CHILD), str(DAY)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # A group of its own: the driver's JVM is to be killed with it.
        start_new_session=True,
    )
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith("committed "):
            return child, int(line.split()[1])
    raise RuntimeError(f"the other process failed: exit={child.wait()} log={lake.LOG}")


def _kill(child: subprocess.Popen[str]) -> None:
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def _day(session: SparkSession) -> Row:
    row = session.sql(day_by_both_tables("lake", day=DAY)).first()
    assert row is not None
    return row


def _compare(states: dict[str, Row]) -> None:
    rows = [[name, row.counted, row.reported, row.mean_delay] for name, row in states.items()]
    table(["7 January, as seen by", "flights", "in carrier_daily", "mean delay"], rows)
