"""
Put each fault into the product and see that its test fails.

    python -m tests.mutants                      all thirty
    python -m tests.mutants --only python        those of spark, adapters or python
    python -m tests.mutants dbt-lost-race        some, by name

A mutant is written into the tree, its test is run as `make test` runs it, and the file is put
back, also after Ctrl-C. The environments have to be there: `make install .venv-dbt/.installed`.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.mutants.mutants import Part
from tests.mutants.sources import ROOT, chosen, file_of_test, target_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mutants.mutants import Mutant

JAVA = ROOT / "spark_extension" / "java"
DBT = ROOT / "integration_tests" / "compliance" / "dbt"
_TESTS_FAILED = 1
_QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"


def main() -> int:
    """Run mutants; 1 when one is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--only", choices=[part.value for part in Part], help="of one part")
    parser.add_argument("names", nargs="*", help="some, by name")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    mutants = [
        mutant
        for mutant in chosen(arguments.only)
        if not arguments.names or mutant.name in arguments.names
    ]
    missed = 0
    for mutant in mutants:
        started = time.monotonic()
        target = target_of(mutant)
        with _changed(target, mutant):
            said = _run(mutant)
        missed += said is not None
        took_s = time.monotonic() - started
        what = "found" if said is None else f"NOT FOUND: {said}"
        print(f"{mutant.name}: {what} ({took_s:.0f} s, {target.relative_to(ROOT)})", flush=True)
    print(f"mutants={len(mutants)} missed={missed}")
    return min(missed, 1)


@contextmanager
def _changed(target: Path, mutant: Mutant) -> Iterator[None]:
    """Have a mutant in its file while the block runs."""
    before = target.read_bytes()
    target.write_bytes(before.replace(mutant.old.encode(), mutant.new.encode()))
    try:
        yield
    finally:
        target.write_bytes(before)


def _run(mutant: Mutant) -> str | None:
    """Run a mutant's test; say why it is not found, None where it is."""
    if mutant.part is Part.SPARK:
        return _java(mutant)
    path = file_of_test(mutant)
    test = mutant.found_by.partition("::")[2]
    if DBT in path.parents:
        return _dbt(f"{path.relative_to(DBT)}::{test}")
    return _pytest(f"{path.relative_to(ROOT)}::{test}")


def _java(mutant: Mutant) -> str | None:
    name = file_of_test(mutant).stem
    reports = f"**/surefire-reports/TEST-*.{name}.xml"
    for report in JAVA.glob(reports):
        report.unlink()
    options = [f"-Dtest={mutant.found_by}", "-Dtxns.test.forks=1"]
    done = _command(["mvn", "-B", "-q", "-f", str(JAVA / "pom.xml"), "test", *options])
    found = [ET.parse(report).getroot() for report in JAVA.glob(reports)]
    if any(int(each.get("failures", 0)) + int(each.get("errors", 0)) for each in found):
        return None
    return f"{len(found)} reports without a failure\n{done.stdout[-3000:]}"


def _pytest(test: str) -> str | None:
    command = [".venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = _command([*command, "-m", "not slow", test])
    return None if done.returncode == _TESTS_FAILED else f"{done.returncode}\n{done.stdout[-3000:]}"


def _dbt(test: str) -> str | None:
    command = [".venv-dbt/bin/python", "-m", "integration_tests.compliance.dbt.run"]
    done = _command([*command, "-m", "not slow", test])
    failed = re.search(r"^passed=\d+ failed=[1-9]", done.stdout, re.MULTILINE)
    return None if failed else f"{done.returncode}\n{done.stdout[-3000:]}"


def _command(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {"JDK_JAVA_OPTIONS": _QUICK} | os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
