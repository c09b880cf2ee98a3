"""
Run SQLAlchemy's own dialect suite over the dialect: `make compliance-sqlalchemy`.

The suite is `sqlalchemy.testing.suite` of the installed SQLAlchemy, inherited whole; what is
not asked for is closed in txns_requirements, each with its reason. It runs over the driver
`session`, and over SQLite, to know what there is to reach.

Prints the failures, the reasons of what was skipped with their counts, how much of what
SQLite passes passes here, and a line of counts.

Imports: txns_plugin and txns_requirements, through pytest. Used by: make.
"""

from __future__ import annotations

import collections
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
KINDS = ("passed", "failed", "skipped")
_DIALECT = re.compile(r"_(?:txns|sqlite)\+[a-z]+_[0-9_]+(?=::)")
_WHERE = re.compile(r"^Skipped: '.*? \(call\)' : |^Skipped: ")


def run(url: str, folder: Path, *options: str) -> dict[str, Any]:
    """Run the suite over one URL; return outcomes and reasons by test."""
    outcomes = folder / "outcomes.json"
    (folder / "lake").mkdir()
    command = [
        *(sys.executable, "-m", "pytest", "suite.py", "-q", "--no-header", "--tb=no", "-r", "N"),
        *("-p", "txns_plugin", "--rootdir", ".", "-c", "setup.cfg", "-o", "python_files=suite.py"),
        *("-p", "no:cacheprovider", "--dburi", url, *options),
    ]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT)]),
        "TXNS_SUITE_LAKE": str(folder / "lake"),
        "TXNS_SUITE_OUTCOMES": str(outcomes),
    }
    log = folder / "log"
    with log.open("wb") as output:
        subprocess.run(
            command,
            cwd=HERE,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if not outcomes.exists():
        sys.exit(log.read_text(errors="replace")[-4000:])
    found = json.loads(outcomes.read_text("utf-8"))
    return {kind: {_DIALECT.sub("", n): o for n, o in found[kind].items()} for kind in found}


def words(outcomes: dict[str, str]) -> str:
    """Return counts as every suite of the project prints them."""
    counts = collections.Counter(outcomes.values())
    return " ".join(f"{kind}={counts[kind]}" for kind in KINDS)


def main() -> None:
    """Run both; exit 1 if less than nine tenths of what SQLite passes passes here."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        options = sys.argv[1:]
        reference = run("sqlite://", Path(first), *options)["outcomes"]
        found = run("txns:///lake/main", Path(second), *options)
    outcomes, reasons = found["outcomes"], found["reasons"]
    for name, outcome in sorted(outcomes.items()):
        if outcome == "failed":
            print(f"failed: {name}: {reasons[name].strip().splitlines()[-1]}")
    skipped = collections.Counter(
        _WHERE.sub("", reasons[name]) for name, outcome in outcomes.items() if outcome == "skipped"
    )
    for reason, count in skipped.most_common():
        print(f"{count} skipped: {reason}")
    reached = [name for name, outcome in reference.items() if outcome == "passed"]
    both = sum(outcomes.get(name) == "passed" for name in reached)
    print(f"sqlite: {words(reference)}")
    print(f"passed of what sqlite passes: {both} of {len(reached)}")
    print(words(outcomes))
    sys.exit(0 if both * 10 >= len(reached) * 9 else 1)


if __name__ == "__main__":
    main()
