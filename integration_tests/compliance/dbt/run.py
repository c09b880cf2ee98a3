"""
Run the dbt suites: `make compliance-dbt`.

First our tests and the classes of dbt-tests-adapter that this folder inherits, then dbt-spark's
own functional tests on our target. With arguments, which are those of pytest, the first only:
`run.py -m "not slow"`.

Prints the reasons of skips with their counts, what tests have counted, the counts of each suite,
how many of dbt's classes are inherited, and as its last line the counts of all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from integration_tests.compliance.dbt import dbt_spark

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
KINDS = ("passed", "failed", "skipped")
# dbt-spark has a folder `tests` of its own, which hides ours.
OPTIONS = (f"--confcutdir={HERE}", "-p", "tests.slowest", "-p", "tests.sampled")
SUITES = ("our tests, and dbt-tests-adapter's", "dbt-spark's functional tests")


def run(folder: Path, *options: str) -> dict[str, Any]:
    """Run the tests of a folder; return what `outcomes` has found."""
    with tempfile.TemporaryDirectory() as temporary:
        outcomes = Path(temporary) / "outcomes.json"
        command = [
            *(sys.executable, "-m", "pytest", "-q", "--show-capture=no"),
            *("-p", "outcomes", "--outcomes", str(outcomes), "-p", "no:cacheprovider"),
            # dbt's fixtures are of a style that pytest 10 drops; they are not ours to change.
            *("-W", "ignore::pytest.PytestRemovedIn10Warning"),
            *options,
        ]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT)])}
        subprocess.run(command, cwd=folder, env=environment, check=False)
        if not outcomes.exists():
            sys.exit(1)
        return json.loads(outcomes.read_text("utf-8"))


def main() -> int:
    """Run the suites; 1 if a test failed."""
    if sys.argv[1:]:
        found = [run(HERE, *OPTIONS, *sys.argv[1:])]
    else:
        found = [run(HERE, *OPTIONS), run(dbt_spark.folder(), *dbt_spark.OPTIONS)]
    reasons: Counter[str] = sum((Counter(each["reasons"]) for each in found), Counter())
    for reason, count in sorted(reasons.items()):
        print(f"  {count} skipped: {reason}")
    for text in (text for each in found for text in each["counted"]):
        print(f"  {text}")
    for name, each in zip(SUITES, found, strict=False):
        print(f"{name}: {_line(each['counts'])}")
    bases = {base for each in found for base in each["bases"]}
    print(f"inherited={len(bases)} classes of dbt-tests-adapter")
    counts: Counter[str] = sum((Counter(each["counts"]) for each in found), Counter())
    print(_line(counts))
    return int(counts["failed"] > 0)


def _line(counts: Mapping[str, int]) -> str:
    return " ".join(f"{kind}={counts.get(kind, 0)}" for kind in KINDS)


if __name__ == "__main__":
    sys.exit(main())
