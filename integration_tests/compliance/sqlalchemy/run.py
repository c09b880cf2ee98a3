"""
Run the suites of SQLAlchemy and Alembic over the dialect, by the driver `session`.

    make compliance-sqlalchemy
    make compliance-alembic

Without make, options of pytest may follow a --: `run dialect -- -k JoinTest`.

- `dialect`: `sqlalchemy.testing.suite`, which every dialect is to pass;
- `transactions`: SQLAlchemy's own tests of transactions, of the engine and of the ORM;
- `alembic`: `alembic.testing.suite`.

Every test that SQLite passes (passes_on_sqlite/) passes here, too, or has its reason in
exclusions.py or txns_requirements.py. Excluded tests are run, those of txns_requirements are
not. Exit code 1 if a test has failed without a reason, or a reason is not true any more, or
less than SHARE_MIN of what SQLite passes passes here. The last line has the counts.
"""

from __future__ import annotations

import collections
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

from integration_tests.compliance.sqlalchemy import exclusions, suites
from integration_tests.compliance.sqlalchemy.suites import Outcome

SHARE_MIN = {
    "dialect": 0.9,
    "transactions": 0.9,
    # A quarter of Alembic's list is of computed columns, and of INTEGER beside BIGINT.
    "alembic": 0.7,
}
KINDS = ("passed", "failed", "skipped")
_WHERE = re.compile(r"^Skipped: '.*? \(call\)' : |^Skipped: ")


def main() -> None:
    """Run the suites that the arguments name."""
    arguments, options = sys.argv[1:], []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, options = arguments[:at], arguments[at + 1 :]
    total: collections.Counter[str] = collections.Counter()
    is_good = True
    chosen = [suites.suite(name) for name in arguments]
    with ThreadPoolExecutor(len(chosen)) as pool:  # each in a process of its own, on its own lake
        runs = [
            pool.submit(suites.run, suite, "txns:///lake/main", suite.ours, *options)
            for suite in chosen
        ]
    for suite, run in zip(chosen, runs, strict=True):
        name, found = suite.name, run.result()
        judged = {test: judge(name, test, outcome) for test, outcome in found.items()}
        listed = suite.list_file().read_text("utf-8").splitlines()
        if options:
            listed = [test for test in listed if test in found]
        judged |= uncollected(name, set(listed) - set(found))
        title = f"{name}, SQLAlchemy {version('sqlalchemy')}"
        is_good &= report(title, judged, listed, SHARE_MIN[name])
        total.update(outcome.kind for outcome in judged.values())
        for pattern in exclusions.stale(name, found):
            print(f"passes, and is excluded: {pattern}")
            is_good = False
    print(words(total))
    sys.exit(0 if is_good else 1)


def judge(suite: str, test: str, outcome: Outcome) -> Outcome:
    """Return what an outcome counts as: an expected failure is left out with its reason."""
    reason = exclusions.reason(suite, test)
    if outcome.kind == "failed" and reason is not None:
        return Outcome("skipped", reason)
    if outcome.kind == "skipped":
        return Outcome("skipped", reason or _WHERE.sub("", outcome.reason))
    return outcome


def uncollected(suite: str, tests: set[str]) -> dict[str, Outcome]:
    """Return the tests of classes that SQLAlchemy does not even collect, with their reasons."""
    reasons = {test: exclusions.reason(suite, test) for test in tests}
    return {test: Outcome("skipped", reason) for test, reason in reasons.items() if reason}


def report(title: str, judged: dict[str, Outcome], listed: list[str], share_min: float) -> bool:
    """Print what came of a suite; tell whether it is as it should be."""
    for test, outcome in sorted(judged.items()):
        if outcome.kind == "failed":
            print(f"failed: {test}: {outcome.reason.strip().splitlines()[-1]}")
    skipped = [outcome.reason for outcome in judged.values() if outcome.kind == "skipped"]
    for reason, count in collections.Counter(skipped).most_common():
        print(f"{count} skipped: {reason}")
    open_ones = [test for test in listed if not _is_explained(judged.get(test))]
    for test in open_ones:
        print(f"SQLite passes it, and here it has no reason: {test}")
    kinds = collections.Counter(outcome.kind for outcome in judged.values())
    both = sum(test in judged and judged[test].kind == "passed" for test in listed)
    print(f"{title}: {words(kinds)}, passed of what SQLite passes: {both} of {len(listed)}")
    return not kinds["failed"] and not open_ones and both >= len(listed) * share_min


def _is_explained(outcome: Outcome | None) -> bool:
    if outcome is None:
        return False
    return outcome.kind == "passed" or any(one in outcome.reason for one in exclusions.REASONS)


def words(counts: collections.Counter[str]) -> str:
    """Return counts as every suite of the project prints them."""
    return " ".join(f"{kind}={counts[kind]}" for kind in KINDS)


if __name__ == "__main__":
    main()
