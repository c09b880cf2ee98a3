"""
Measure what a large log costs whoever uses it: processor time and memory of whole processes.

Each figure is of a new process, its imports included: a read, a commit, and the commands that an
operator runs; on a log of a hundred rows, on one with a million rows in its archive, and on one
with 10,000 entries in its head, which stand there since their table cannot be applied. These are
more than a head may have (docs/spec.md 4.7): a commit is refused there, and measured at 1,800, too.

    make bench NAME=large_log
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _measure import Metric, write

_HERE = Path(__file__).resolve().parent
TURNS = 5
MEMORY_TARGET_MIB = 400
LAKES = {
    "small": (100, 0),
    "archive": (1_000_000, 0),
    "half": (100, 1_800),
    "head": (100, 10_000),
}
WORDS = {
    "archive": "a million archived rows",
    "half": "1,800 entries in the head",
    "head": "10,000 entries in the head",
}
REFUSED = ("commit", "head")
"""A head above 8 MiB takes no commit."""

_OPEN = """
import sys; sys.path.insert(0, {here!r})
from _large_log import ROW, open_lake
from pathlib import Path
catalog, handle = open_lake(Path({folder!r}))
"""
_READ = "handle.snapshot().load_table('shop.t1').scan().to_arrow()"
_COMMIT = """
with handle.begin() as txn:
    txn.load_table('shop.t1').append(ROW)
"""
_IDS = """
rows = handle.parts.timeline.archive.rows(columns=("commit_ts", "txn_id"))
print(rows[-1]["txn_id"], rows[len(rows) // 2]["txn_id"])
"""
_CLI = "from txns._cli import main; main()"
PROGRAMS = {
    "read of one table": _READ,
    "read of a table that nobody has written since": _READ.replace("t1", "t0"),
    "commit": _COMMIT,
}
COMMANDS = {
    "txns status": ["status"],
    "txns log": ["log"],
    "txns log --limit 1000": ["log", "--limit", "1000"],
    "txns log --since 0 --json": ["log", "--since", "0", "--json"],
    "txns log --table (of the past)": ["log", "--table", "shop.past7"],
    "txns show (the newest)": ["show", "{newest}"],
    "txns show (in the middle)": ["show", "{middle}"],
    "txns show (no such id)": ["show", "01a21694-703a-7685-b3f9-ae4a020e05d7"],
    "txns check": ["check"],
}


def main() -> None:
    """Run everything on each lake, in turns, and write results/large_log.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lakes", type=Path, help="A folder to keep the lakes in, and find them.")
    parser.add_argument("--turns", type=int, default=TURNS)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as folder:
        place = told.lakes or Path(folder)
        for name, (archived, standing) in LAKES.items():
            if not (place / name).exists():
                print(f"making {name}", flush=True)
                _make(place / name, archived=archived, standing=standing)
        write("large_log", _metrics(place, told.turns))


def _metrics(place: Path, turns: int) -> list[Metric]:
    metrics = []
    lines = {name: _lines(place / name) for name in LAKES}
    for what in (*PROGRAMS, *COMMANDS):
        kept: dict[str, list[tuple[float, float]]] = {name: [] for name in LAKES}
        for _ in range(turns):
            for name in LAKES:
                kept[name].append(_run(lines[name][what], refused=(what, name) == REFUSED))
        small = [statistics.median(each) for each in zip(*kept.pop("small"), strict=True)]
        for name, runs in kept.items():
            cpu_ms, mib = ([run[at] for run in runs] for at in (0, 1))
            end = " (refused, 54000)" if (what, name) == REFUSED else ""
            label = f"{what}, {WORDS[name]}{end}"
            print(f"{label}: {cpu_ms} {mib}", flush=True)
            metrics += [
                _metric(f"{label}: processor time", cpu_ms, "ms", None, small[0]),
                _metric(f"{label}: memory", mib, "MiB", MEMORY_TARGET_MIB, small[1]),
            ]
    return metrics


def _metric(name: str, values: list[float], unit, target: float | None, small: float) -> Metric:
    middle = round(statistics.median(values))
    ends = (round(min(values)), round(max(values)))
    against = f"a small log: {small:.0f} {unit}"
    return Metric(name, middle, unit, target, "lower", against, *ends, len(values))


def _make(folder: Path, *, archived: int, standing: int) -> None:
    """Make a lake in a process of its own: those that are measured begin with this one's memory."""
    words = [str(folder), "--archived", str(archived), "--standing", str(standing)]
    subprocess.run([sys.executable, str(_HERE / "_large_log.py"), *words], check=True)


def _lines(folder: Path) -> dict[str, list[str]]:
    """Give the command line of each thing to be measured."""
    opened = _OPEN.format(here=str(_HERE), folder=str(folder))
    ids = subprocess.run([sys.executable, "-c", opened + _IDS], check=True, stdout=subprocess.PIPE)
    newest, middle = ids.stdout.decode().split()
    lines = {what: [sys.executable, "-c", opened + text] for what, text in PROGRAMS.items()}
    where = ["--catalog", "lake", "--uri", f"sqlite:///{folder}/catalog.db"]
    for what, words in COMMANDS.items():
        given = [each.format(newest=newest, middle=middle) for each in words]
        lines[what] = [sys.executable, "-c", _CLI, *where, *given]
    return lines


def _run(line: list[str], *, refused: bool) -> tuple[float, float]:
    """Run a process; give its processor time in ms and its greatest memory in MiB."""
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    words = process.stderr.read().decode()
    if refused is not ("no room for the transaction" in words) or process.returncode > 2:
        raise RuntimeError(words)
    return 1000 * (used.ru_utime + used.ru_stime), used.ru_maxrss / 1024


if __name__ == "__main__":
    main()
