"""
`txns verify-isolation` without one protection: what it sees, and after how many transactions.

    python -m tests.unprotected --seconds 20 [--only read_check_dropped]

Its sessions run the core without the protection (tests/simulation/mutations.py), on SQLite, beside
compaction, expiry and strangers; it is judged with all of them. Each protection is taken from a
lake whose settings have need of it often (`SEEN`). Exit code 1 where nothing was seen.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from bisect import bisect_right
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.sql import SqlCatalog

import txns
from tests.simulation.mutations import without_protection
from txns._verify import python_client, run
from txns._verify.plan import PYTHON, Plan, Timing
from txns._verify.processes import Processes, workers_of
from txns._verify.workloads import TABLES
from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from txns._verify.history import Deed
    from txns._verify.run import Verdict

_TOLD = ("Quarantined", "CorruptLog")
"""Errors by which sessions themselves are told that a table, or the log, is not what it was."""
NEXT = "next"
_SMALL_HEAD = {"tidy_after": 2}
"""What has committed while a transaction runs is in the archive by then."""


@dataclass(frozen=True)
class Setting:
    """
    Of a lake, and of all transactions.

    Attributes:
        apply: When entries are applied; with `auto` tables move with the log.
        options: More of `txns.open`.
        level: Of the transactions, by which they are judged as well.
        also: What is taken away besides, since it stands in for the protection.
    """

    apply: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    level: str = "STRICT SERIALIZABLE"
    also: tuple[str, ...] = ()


AS_IT_IS = Setting()
BEHIND = Setting(NEXT)
"""Several entries are due at once, and readers see what is not applied."""
AFTERWARDS = Setting("inline")

SEEN = {
    "head_from_a_cache": AFTERWARDS,
    "apply_out_of_order": BEHIND,
    "apply_skips_one": BEHIND,
    "tidy_before_apply": Setting(NEXT, _SMALL_HEAD),
    "tidied_upto_ignored": Setting("auto", _SMALL_HEAD),
    "read_check_dropped": AS_IT_IS,
    "write_check_dropped": AS_IT_IS,
    "conditional_write_counts_as_append": Setting(level="SNAPSHOT"),
    "restage_forgotten": AS_IT_IS,
    "restage_under_the_same_id": AFTERWARDS,
    "renumbering_forgotten": AFTERWARDS,
    "overlay_forgotten": BEHIND,
    "newest_read": AS_IT_IS,
    "strangers_seen_at_once": AFTERWARDS,
    "applied_not_set": AFTERWARDS,
    "applied_by_snapshot_id": BEHIND,
    "added_files_unread": AS_IT_IS,
    "removed_files_unread": AS_IT_IS,
    "removed_files_passed_over": Setting(also=("added_files_unread", "removed_files_unread")),
}
"""Protections that transactions need of which none fails, no clock is wrong, and each has a process
of its own; and that the catalog does not hold itself, as SQLite does a swap."""


@dataclass(frozen=True)
class Without:
    """The target of a process: a session whose core lacks protections."""

    names: tuple[str, ...]

    def __call__(self, plan: Plan, timing: Timing, sessions: list[int], life: int) -> None:
        """Run one session until the time is over."""
        with ExitStack() as missing:
            for name in self.names:
                missing.enter_context(without_protection(name))
            python_client.run(plan, timing, sessions, life)


def verdict_without(name: str, folder: Path, seconds: int, seed: int) -> Verdict:
    """Run four sessions without a protection in a catalog of their own, and judge what they saw."""
    setting = SEEN[name]
    uri, warehouse = f"sqlite:///{folder}/catalog.db?timeout=30", f"file://{folder}/warehouse"
    catalog = SqlCatalog("lake", uri=uri, warehouse=warehouse)
    handle = txns.open(catalog)
    handle.parts.log.load_or_create()
    if setting.apply == NEXT:
        handle.change_settings(apply=NEXT)  # or the log's own setting counts
    plan = Plan(
        catalog="lake",
        properties=dict(catalog.properties),
        commit_table="txns.commits",
        tables={table: f"verify.{table}" for table in TABLES},
        options={"apply": setting.apply, **setting.options},
        level=setting.level,
        seconds=seconds,
        folder=str(folder),
        seed=seed,
        clients=(PYTHON,) * 4,
    )
    catalog.create_namespace("verify")
    run.make_tables(handle, plan.tables)
    without = Without((name, *setting.also))
    workers = [
        worker._replace(target=without) if worker.target is python_client.run else worker
        for worker in workers_of(plan, disturb=True)
    ]
    ran = Processes(plan, workers).run(kill=False)
    return run.judge(handle, plan, ran, setting.level)


def first_seen(verdict: Verdict) -> tuple[int, str]:
    """
    Give how many writers had committed at the first anomaly, that one among them, and its name.

    Who only reads stands where it has read; what is seen in the end comes after all of them.
    """
    committed = writers_committed(verdict)
    seen_at = {each.txn_id: bisect_right(committed, _place(each)) for each in verdict.deeds}
    return min((seen_at.get(each.txn_id, len(committed)), each.name) for each in verdict.anomalies)


def writers_committed(verdict: Verdict) -> list[int]:
    """Give where those stand that have written and committed, in order."""
    return sorted(each.commit_ts for each in verdict.deeds if each.commit_ts is not None)


def _place(deed: Deed) -> int:
    return deed.read_ts if deed.commit_ts is None else deed.commit_ts


def main() -> int:
    """Take away one protection after the other; 1 where one of them was not missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.unprotected")
    parser.add_argument("--seconds", type=_seconds, default=20, help="for each of them")
    parser.add_argument(
        "--only", type=_names, default=[*SEEN], help="read_check_dropped,newest_read"
    )
    parser.add_argument("--seed", type=int, help="of all that is random; another one each time")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    print(f"seed={seed}", flush=True)
    missed = 0
    for name in arguments.only:
        with tempfile.TemporaryDirectory() as folder:
            said = _said(name, Path(folder), arguments.seconds, seed)
        missed += said.startswith("not")
        print(f"| `{name}` | {said} |", flush=True)
    return min(missed, 1)


def _seconds(told: str) -> int:
    seconds = int(told)
    if seconds < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return seconds


def _names(told: str) -> list[str]:
    names = [each.strip() for each in told.split(",")]
    if unknown := [each for each in names if each not in SEEN]:
        raise argparse.ArgumentTypeError(f"no protections: {unknown}; there are {', '.join(SEEN)}")
    return names


def _said(name: str, folder: Path, seconds: int, seed: int) -> str:
    """Say after how many transactions what was seen."""
    try:
        verdict = verdict_without(name, folder, seconds, seed)
    except InvalidUsage:
        raise  # a session could not begin: nothing was tried
    except Exception as error:  # noqa: BLE001 -- the log, or a table, is not what it was: that is told as well
        return f"by the end | {type(error).__name__}: {str(error)[:150]}"
    told = [words for words in verdict.failures if words.startswith(_TOLD)]
    if told and not verdict.anomalies:
        return f"by the end | {told[0][:150]}"
    if not verdict.anomalies:
        failures = "".join(f"; {n} x {words[:100]}" for words, n in verdict.failures.most_common(2))
        committed = len(writers_committed(verdict))
        return f"not in {committed} | {'; '.join(verdict.wrong)}{failures}"
    number, anomaly = first_seen(verdict)
    return f"{number} | {anomaly}"


if __name__ == "__main__":
    sys.exit(main())
