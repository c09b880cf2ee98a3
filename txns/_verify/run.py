"""A run of sessions against a catalog: tables made, sessions started and killed, all judged."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from random import Random  # noqa: TID251 -- of a seed that is told
from typing import TYPE_CHECKING

from pyiceberg.transforms import IdentityTransform

from txns._log.entry import Isolation, Kind
from txns._verify import history, session
from txns._verify.history import Outcome
from txns._verify.replay import Anomaly, Replay
from txns._verify.statements import SCHEMA, arrow, rows_of
from txns._verify.workloads import TABLES, initial
from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from txns._handle import Handle
    from txns._verify.history import Deed
    from txns._verify.model import State
    from txns._verify.session import Plan, Timing

_KILLS_EVERY_S = (1.0, 6.0)
"""A session needs some seconds to begin."""
_ENDS_WITHIN_S = 120
"""After its time a session ends with its transaction."""


@dataclass
class Verdict:
    """
    What a run has shown.

    Attributes:
        deeds: Everything that was tried.
        anomalies: What the level forbids, and was seen.
        kills: How often a session was killed.
        failures: Errors that were no conflicts, by their words.
    """

    deeds: list[Deed]
    anomalies: list[Anomaly]
    kills: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def count(self, outcome: Outcome) -> int:
        """Say how many transactions ended so."""
        return sum(deed.outcome is outcome for deed in self.deeds)


def make_tables(handle: Handle, names: dict[str, str]) -> None:
    """Make the tables of a run, all but one partitioned by `day`, with what they hold at first."""
    lake = handle.catalog()
    for name, rows in initial().items():
        table = lake.create_table(names[name], SCHEMA)
        if name != TABLES[2]:
            with table.update_spec() as update:
                update.add_field("day", IdentityTransform())
        if rows:
            lake.load_table(names[name]).append(arrow(rows))


def drop_tables(handle: Handle, names: dict[str, str]) -> None:
    """Take the tables of a run from care, and away with their files: nobody reads them any more."""
    handle.apply_le()
    for name in names.values():
        handle.forget(name)
        handle.parts.catalog.purge_table(name)


def run(plan: Plan, sessions: int, *, kill: bool) -> int:
    """Run sessions until their time is over; give how many were killed."""
    context = multiprocessing.get_context("spawn")
    lives = dict.fromkeys(range(sessions), 0)
    timing = session.Timing(context.Queue(), context.Event(), context.Value("q", 0))

    def start(number: int) -> BaseProcess:
        asked = (plan, timing, number, lives[number])
        process = context.Process(target=session.run, args=asked)
        process.start()
        return process

    def left_s() -> float:
        return max(timing.until_ms.value / 1000 - time.monotonic(), 0)  # noqa: TID251

    running = {number: start(number) for number in lives}
    _await(timing, running)
    timing.until_ms.value = int(1000 * (time.monotonic() + plan.seconds))  # noqa: TID251
    timing.all_ready.set()
    rng = Random(plan.seed)  # noqa: S311 -- no secret
    while kill and left_s():
        time.sleep(min(rng.uniform(*_KILLS_EVERY_S), left_s()))  # noqa: TID251
        number = rng.choice([*lives])
        running[number].kill()
        running[number].join()
        lives[number] += 1
        running[number] = start(number)
    for process in running.values():
        process.join(left_s() + _ENDS_WITHIN_S)
        process.kill()  # harmless when it has ended
    return sum(lives.values())


def _await(timing: Timing, running: dict[int, BaseProcess]) -> None:
    """Wait until all sessions are ready."""
    for _ in running:
        while True:
            try:
                timing.ready.get(timeout=1)
                break
            except Empty:
                if not all(each.is_alive() for each in running.values()):
                    for each in running.values():
                        each.kill()
                    raise InvalidUsage(
                        "42000",
                        "a session could not open the catalog in a process of its own: it is"
                        " opened there by its name and properties, what it said is above",
                    ) from None


def judge(handle: Handle, plan: Plan, kills: int, level: str) -> Verdict:
    """
    Settle what became of every transaction, and replay what has committed.

    Args:
        handle: Over the catalog.
        plan: Of the run.
        kills: How often a session was killed.
        level: What is judged by.
    """
    deeds = history.read(Path(plan.folder))
    failures: Counter[str] = Counter()
    anomalies: list[Anomaly] = []
    standing = _standing(handle, min((deed.read_ts for deed in deeds), default=0))
    for deed in deeds:
        if deed.outcome is Outcome.UNKNOWN and deed.why:
            failures[deed.why.split(";", maxsplit=1)[0]] += 1
        anomalies += _settled(deed, standing.get(deed.txn_id))
    replay = Replay(initial(), deeds)
    anomalies += replay.anomalies(Isolation.parse(level), state(handle, plan.tables))
    return Verdict(deeds, anomalies, kills, failures)


def _standing(handle: Handle, since_ts: int) -> dict[str, int]:
    """Give where each transaction stands in the log that was committed above a timestamp."""
    parts = handle.parts
    entries = parts.timeline.above(parts.log.load().state, since_ts)
    return {entry.txn_id: entry.commit_ts for entry in entries if entry.kind is Kind.COMMIT}


def _settled(deed: Deed, stands_at: int | None) -> list[Anomaly]:
    """Settle what became of a transaction; give what the log says against what was told."""
    if deed.outcome is Outcome.COMMITTED and not deed.wrote:
        return []
    told = deed.outcome, deed.commit_ts
    if deed.outcome is Outcome.UNKNOWN and (stands_at is None or deed.committing):
        deed.commit_ts = stands_at
        return []
    expected = deed.commit_ts if deed.outcome is Outcome.COMMITTED else None
    if stands_at == expected:
        return []
    words = f"it was told {told[0].value} at {told[1]}, and the log has it at {stands_at}"
    return [Anomaly("untrue answer", deed.txn_id, words)]


def state(handle: Handle, names: dict[str, str]) -> State:
    """Give what the tables hold now."""
    now = handle.snapshot()
    return {name: rows_of(now.load_table(known).scan()) for name, known in names.items()}


def write_elle(plan: Plan, verdict: Verdict) -> Path:
    """Write the history of lists as Elle's checkers read it."""
    path = Path(plan.folder, "list-append.jsonl")
    with path.open("w") as file:
        file.writelines(json.dumps(line) + "\n" for line in history.as_elle(verdict.deeds))
    return path
