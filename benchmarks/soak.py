"""
The soak: `txns verify-isolation --kill --disturb` on PostgreSQL for half an hour, and what grows.

Four sessions, and beside them compaction, expiry and a stranger; any of these processes is killed
every few seconds, and another one begins. Twice a minute, for as long as they work, somebody else
looks at the head, the files and the memory. What has grown is told as an exponent over time, from
the fifth minute on: 0 is flat, 1 is a line from nothing. Memory does not begin at nothing: with 0.1
it is a fifth more after half an hour. The head is the largest of ten looks, since it grows until a
tidy takes most of it. A second run without kills is for the memory of processes that stay. The
server is of the package pgserver.

    make bench NAME=soak
    PYTHONPATH=. python benchmarks/soak.py --seconds 60  a look; nothing is written
"""

from __future__ import annotations

import argparse
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
from _measure import Metric, exponent, single, write
from pyiceberg.catalog import load_catalog

import txns
from integration_tests.postgres import running_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 1800
STAY_S = 600
LOOK_S = 30
WARM = 10
"""Looks that do not count: pools fill, and the first tidies are due."""
FEW = 4
"""Looks of which the median memory is told; twice as many are needed."""
AGAINST = "a flat line"
FLAT = 0.1


class Look(NamedTuple):
    """What was there so many seconds after the sessions began: bytes, files, MiB of memory."""

    at_s: int
    head_bytes: int
    log_files: int
    table_files: int
    memory: float


def main() -> None:
    """Run both; write results/soak.json, but for a look."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # sessions and server end with it
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=SECONDS)
    seconds = parser.parse_args().seconds
    metrics = [*_soak(seconds, "killed", "--kill"), *_soak(min(seconds, STAY_S), "not killed")]
    if seconds == SECONDS:
        write("soak", metrics)


def _soak(seconds: int, name: str, *options: str) -> Iterator[Metric]:
    """Run the sessions in a lake of their own, look at it meanwhile, and say what it came to."""
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as folder, running_postgres() as server:
        server.create_database("lake")
        properties = {"uri": server.uri("lake"), "warehouse": f"file://{folder}/warehouse"}
        program = str(Path(sys.executable).with_name("txns"))
        where = [program, "--catalog", "lake", *_flags(properties)]
        subprocess.run([*where, "init"], check=True)
        command = [*where, "verify-isolation", "--disturb", *options]
        told = Path(folder, "told")
        command += ["--seconds", str(seconds), "--out", str(told)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                looks = list(_looks(process, properties, Path(folder), seconds))
                said, _ = process.communicate()
            finally:
                process.terminate()  # who is interrupted waits for nobody: its own go with it
                process.wait()
    print(said, flush=True)
    counts = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", said)}
    if process.returncode and not counts.get("anomalies"):
        raise SystemExit("it has shown less than it was to: no figure is written")
    yield from _counts(name, counts)
    yield from _growths(name, _with_highest_heads(looks)[WARM:])


def _counts(name: str, counts: dict[str, int]) -> Iterator[Metric]:
    yield single(f"{name}: committed", counts["committed"], "count", "higher", "nothing")
    yield single(f"{name}: kills", counts["kills"], "count", "higher", "nothing")
    anomalies = single(f"{name}: anomalies", counts["anomalies"], "count", "lower", "nothing")
    yield replace(anomalies, target=0)


def _with_highest_heads(looks: list[Look]) -> list[Look]:
    """Give each the largest head of five minutes: it grows until a tidy takes most of it."""
    before = (looks[max(number - WARM, 0) : number] for number in range(1, len(looks) + 1))
    highest = (max(look.head_bytes for look in some) for some in before)
    return [look._replace(head_bytes=each) for look, each in zip(looks, highest, strict=True)]


def _growths(name: str, looks: list[Look]) -> Iterator[Metric]:
    if len(looks) < 2 * FEW:
        return  # a look
    at_s = [look.at_s for look in looks]
    for what in Look._fields[1:]:
        values = [float(getattr(look, what)) for look in looks]
        said = what.replace("_", " ")
        print(f"{name}: {said}: {values[0]:.0f} ... {values[-1]:.0f}", flush=True)
        target = None if "files" in what else FLAT  # they stay: nobody runs `tidy --files`
        grown = exponent(f"{name}: {said}", at_s, [values], against=AGAINST, target=target)
        yield replace(grown, points=None)  # no curve of one run
    for when, some in (("at first", looks[:FEW]), ("at last", looks[-FEW:])):
        memory = statistics.median(look.memory for look in some)
        yield single(f"{name}: memory, {when}", memory, "MiB", "lower", "nothing")


def _flags(properties: dict[str, str]) -> Iterator[str]:
    for key, value in properties.items():
        yield f"--{key}"
        yield value


def _looks(
    process: subprocess.Popen[str], properties: dict[str, str], folder: Path, seconds: int
) -> Iterator[Look]:
    """Look from time to time, from when the sessions work until just before they end."""
    while not any(path.stat().st_size for path in folder.glob("told/*/session-*.jsonl")):
        if _ends_within(process, 0.5):
            return
    began_s = time.monotonic()
    with txns.open(load_catalog("lake", **properties)) as handle:
        for due_s in range(LOOK_S, seconds - LOOK_S // 2, LOOK_S):
            if _ends_within(process, began_s + due_s - time.monotonic()):
                return
            yield _look(round(time.monotonic() - began_s), handle, folder / "warehouse", process)


def _ends_within(process: subprocess.Popen[str], seconds: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(seconds, 0))
        return True
    return False


def _look(at_s: int, handle: txns.Handle, warehouse: Path, process: subprocess.Popen[str]) -> Look:
    files = [path for path in warehouse.rglob("*") if path.is_file()]
    of_log = sum("txns" in path.relative_to(warehouse).parts for path in files)
    return Look(
        at_s=at_s,
        head_bytes=handle.parts.log.load().record_bytes,
        log_files=of_log,
        table_files=len(files) - of_log,
        memory=sum(_resident(process.pid)) / 2**20,
    )


def _resident(pid: int) -> Iterator[float]:
    """Give the bytes of memory of a process, and of those that it has started."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                yield process.memory_info().rss


if __name__ == "__main__":
    main()
