"""
`make simulate SEEDS=n`: run seeds, print what fails, small.

    python -m tests.simulation --seeds 2000 [--first 0]      run seeds
    python -m tests.simulation --seed 17                     run one, with its trace
    python -m tests.simulation --mutations [--seeds 60]      take protections away: a table
    python -m tests.simulation --mutations --core java       take Java's away
    python -m tests.simulation --only stale-heads,keys       what every seed has, and nothing else
    python -m tests.simulation --core both                   some users with Java's core
    python -m tests.simulation --damage [--seeds 60]         restored backups: who is told
    python -m tests.simulation --coverage [--seeds 500]      how often what occurred
    python -m tests.simulation --digest [--seeds 200]        a hash of all that happens in them
    python -m tests.simulation --record FOLDER [--seeds 20]  moments, for the Java half
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import statistics
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation import coverage, java_mutations, jvm
from tests.simulation.damage import Damage, report, verdict
from tests.simulation.mutations import CORES, MUTATIONS, NEEDS, without_protection
from tests.simulation.plan import Plan, damaged, plan, verbs
from tests.simulation.recording import record
from tests.simulation.run import STRANGERS, Outcome, run
from tests.simulation.settings import Core, Switch
from tests.simulation.shrink import shrink
from tests.simulation.story import story

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.pool import Pool

_BEGINNINGS = (0, 5000, 10_000)


def main() -> int:
    """Run the seeds of the command line; 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=200, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first one")
    parser.add_argument("--seed", type=int, help="run this one only, and print its trace")
    parser.add_argument("--whole", action="store_true", help="do not shrink what fails")
    parser.add_argument("--mutations", action="store_true", help="what missing protections cost")
    parser.add_argument("--only", help="what every seed has: stale-heads,keys")
    parser.add_argument(
        "--core", type=Core, default=Core.PYTHON, help="whose core users have: python, java, both"
    )
    parser.add_argument("--coverage", action="store_true", help="how often what occurred")
    parser.add_argument("--damage", action="store_true", help="how restored backups are taken")
    parser.add_argument("--processes", type=int, help="in how many at once; as many as processors")
    parser.add_argument("--digest", action="store_true", help="a hash of what happens in seeds")
    parser.add_argument("--record", type=Path, help="write moments of runs into this folder")
    arguments = parser.parse_args()
    switches = None if arguments.only is None else _switches(arguments.only)
    if arguments.record:
        count = record(arguments.record, range(arguments.first, arguments.first + arguments.seeds))
        print(f"moments={count}")
        return 0
    if arguments.mutations:
        if arguments.core is Core.BOTH:
            parser.error("a mutation is of one core: --core python, or java")
        if arguments.core is Core.JAVA:
            jvm.class_path()
        with multiprocessing.Pool(arguments.processes) as pool:
            return _run_mutations(pool, arguments.core, arguments.seeds, switches)
    if arguments.coverage or arguments.damage:
        if arguments.core is not Core.PYTHON:
            jvm.class_path()
        table = _print_coverage if arguments.coverage else _run_damages
        with multiprocessing.Pool(arguments.processes) as pool:
            return table(pool, range(arguments.seeds), arguments.core, switches)
    if arguments.seed is not None:
        planned = plan(arguments.seed, switches, arguments.core)
        outcome = run(planned, keep_trace=True)
        print("\n".join(story(outcome.trace)))
        return _report(planned, outcome, switches, whole=arguments.whole)
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.core is not Core.PYTHON:
        jvm.class_path()  # once, for all of the processes
    with multiprocessing.Pool(arguments.processes) as pool:
        if arguments.digest:
            digest = partial(_digest, switches=switches, core=arguments.core)
            return _print_digest(pool, digest, seeds)
        one_seed = partial(_run_seed, switches=switches, core=arguments.core, whole=arguments.whole)
        return _run_all(pool, one_seed, seeds)


def _switches(names: str) -> frozenset[Switch]:
    return frozenset(Switch(name) for name in names.split(",") if name)


def _run_all(pool: Pool, one_seed: Callable[[int], tuple[int, ...]], seeds: range) -> int:
    """Run seeds, each in one of some processes; a seed is its own whole world."""
    started = time.monotonic()
    ended = list(pool.imap_unordered(one_seed, seeds))
    steps, entries, grouped, violations = (sum(counts) for counts in zip(*ended, strict=True))
    hours = (time.monotonic() - started) / 3600
    print(f"seeds per hour: {len(seeds) / hours:,.0f}")
    print(f"mean steps per seed: {steps / len(seeds):.0f}")
    print(f"mean entries per seed: {entries / len(seeds):.1f}")
    print(f"swaps with several entries: {grouped}")
    print(f"seeds={len(seeds)} violations={violations}")
    return min(violations, 1)


def _print_digest(pool: Pool, digest: Callable[[int], str], seeds: range) -> int:
    """
    Print one hash of the steps, faults, entries and errors of seeds.

    It stays the same while code is moved and renamed: what changes it has changed the order of I/O,
    or what a caller is told.
    """
    digests = pool.map(digest, seeds, chunksize=1)
    whole = hashlib.sha256("".join(digests).encode()).hexdigest()[:16]
    print(f"seeds={len(seeds)} first={seeds.start} digest={whole}")
    return 0


def _digest(seed: int, *, switches: frozenset[Switch] | None, core: Core) -> str:
    return run(plan(seed, switches, core)).digest


def _run_seed(
    seed: int,
    *,
    switches: frozenset[Switch] | None,
    core: Core,
    whole: bool,
) -> tuple[int, int, int, int]:
    """Give steps, entries, swaps with several entries, and 1 when a promise was broken."""
    planned = plan(seed, switches, core)
    outcome = run(planned)
    broken = _report(planned, outcome, switches, whole=whole)
    return outcome.steps, outcome.committed, outcome.grouped, broken


def _run_mutations(
    pool: Pool, core: Core, seeds_max: int, switches: frozenset[Switch] | None
) -> int:
    """Print how many seeds each missing protection took to be found, as a table for the docs."""
    of_java = core is Core.JAVA
    names = sorted(java_mutations.MUTATIONS if of_java else MUTATIONS)
    needs = java_mutations.NEEDS if of_java else NEEDS
    search = partial(
        _search_java if of_java else _search_python, seeds_max=seeds_max, switches=switches
    )
    took = pool.imap(search, [(name, first) for name in names for first in _BEGINNINGS])
    beginnings = (f"from {first}" for first in _BEGINNINGS)
    heads = ("taken away", "switch", *beginnings, "median", "promises that broke")
    print(f"| {' | '.join(heads)} |")
    print(f"|{' --- |' * len(heads)}")
    missed = 0
    for name in names:
        found = [next(took) for _ in _BEGINNINGS]
        missed += not any(count for count, _note, _promise in found)
        promises = dict.fromkeys(promise for _count, _note, promise in found if promise)
        on = ", ".join(f"`{one.value}`" for one in needs.get(name, ()))
        told = (_seeds(count, seeds_max) + note for count, note, _promise in found)
        median = statistics.median(count or seeds_max + 1 for count, _note, _promise in found)
        middle = _seeds(0 if median > seeds_max else int(median), seeds_max)
        cells = (f"`{name}`", on, *told, middle, ", ".join(promises))
        print(f"| {' | '.join(cells)} |", flush=True)
    print(f"mutations={len(names)} missed={missed} within={seeds_max}")
    return min(missed, 1)


def _seeds(count: int, seeds_max: int) -> str:
    return str(count) if count else f"not in {seeds_max}"


def _print_coverage(
    pool: Pool, seeds: range, core: Core, switches: frozenset[Switch] | None
) -> int:
    """Print how often each action, fault and kind of entry occurred, as a table for the docs."""
    occurred: Counter[str] = Counter()
    occurs = partial(_occurred, core=core, switches=switches)
    for each in pool.imap_unordered(occurs, seeds):
        occurred += each
    wanted = coverage.expected(verbs(switches), switches)
    print(coverage.report(occurred, wanted))
    never = sorted(wanted - occurred.keys())
    print(f"seeds={len(seeds)} never={len(never)} {' '.join(never)}")
    return min(len(never), 1)


def _occurred(seed: int, *, core: Core, switches: frozenset[Switch] | None) -> Counter[str]:
    return run(plan(seed, switches, core)).occurred


def _run_damages(pool: Pool, seeds: range, core: Core, _switches: frozenset[Switch] | None) -> int:
    """Print how damages were taken, as a table for the docs."""
    cases = [(seed, kind, core) for kind in Damage for seed in seeds]
    ended = pool.map(_taken, cases, chunksize=5)
    found: dict[Damage, list[tuple[int, str]]] = {kind: [] for kind in Damage}
    for (seed, kind, _core), said in zip(cases, ended, strict=True):
        found[kind].append((seed, said))
    print(report(found))
    return 0


def _taken(case: tuple[int, Damage, Core]) -> str:
    return verdict(run(damaged(*case)))


def _search_python(
    search: tuple[str, int], *, seeds_max: int, switches: frozenset[Switch] | None
) -> tuple[int, str, str]:
    """Give how many seeds a missing protection takes, 0 where it is not found; and the promise."""
    name, first = search
    on = NEEDS.get(name) if switches is None else switches
    with without_protection(name):
        for count, seed in enumerate(range(first, first + seeds_max), 1):
            if violation := run(plan(seed, on, CORES.get(name, Core.PYTHON))).violation:
                return count, "", violation.promise
    return 0, "", ""


def _search_java(
    search: tuple[str, int], *, seeds_max: int, switches: frozenset[Switch] | None
) -> tuple[int, str, str]:
    """Give the same of Java's core; and a note where nothing has asked for the protection."""
    name, first = search
    found = java_mutations.search(name, range(first, first + seeds_max), switches)
    note = ", never asked" if found.unasked and not found.count else ""
    return found.count, note, found.violation.promise if found.violation else ""


def _options(planned: Plan, switches: frozenset[Switch] | None) -> str:
    """Give the options under which a seed has the same plan again."""
    users = {name for name in planned.workers if name not in STRANGERS}
    core = Core.JAVA if planned.java >= users else Core.BOTH
    options = [f"--core {core.value}"] if planned.java else []
    if switches is not None:
        options.append(f"--only '{','.join(sorted(one.value for one in switches))}'")
    return " ".join(options)


def _report(
    planned: Plan, outcome: Outcome, switches: frozenset[Switch] | None, *, whole: bool
) -> int:
    if outcome.violation is None:
        return 0
    print(f"seed {outcome.seed}: {outcome.violation}")
    again = f"python -m tests.simulation --seed {outcome.seed} {_options(planned, switches)}"
    print(f"  again: PYTHONHASHSEED=0 {again}")
    print(f"  it has: {', '.join(sorted(one.value for one in planned.settings.switches))}")
    if not whole:
        smaller, small = shrink(planned, outcome)
        print(f"  with {smaller.workers} and {small.faults}:\n  {small.violation}")
        print("\n".join(f"    {line}" for line in story(small.trace)[-80:]))
    sys.stdout.flush()
    return 1


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a replay
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    code = main()
    sys.stdout.flush()
    # pyarrow's threads may still close a file of the last scan: an orderly end of the
    # interpreter would abort them in C++.
    os._exit(code)
