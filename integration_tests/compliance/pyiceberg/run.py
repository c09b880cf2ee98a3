"""
Run pyiceberg's own catalog suite over our catalogs: `make compliance-pyiceberg`.

The suite, `tests/catalog/test_catalog_behaviors.py`, comes out of pyiceberg's source
distribution of the version that is installed. It runs over

- `plain`: pyiceberg's SqlCatalog, to know what there is to reach;
- `autocommit-plain-tables`: `txns.open(..., register="none").catalog()`, whose tables are not
  under care: nothing may differ;
- `autocommit`: `txns.open(...).catalog()`, whose tables are under care;
- `transaction`: `handle.begin()`.

Prints a line of counts for each, with the rules that exclude cases, and one for all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from integration_tests.compliance.source_suites import unpacked

HERE = Path(__file__).resolve().parent
SUITE = "tests/catalog/test_catalog_behaviors.py"
CATALOGS = ("plain", "autocommit-plain-tables", "autocommit", "transaction")
KINDS = ("passed", "failed", "skipped")


def run(folder: Path, catalog: str) -> dict[str, int]:
    """Run the suite over one catalog, print what came of it, and return the counts."""
    with tempfile.TemporaryDirectory() as temporary:
        counts = Path(temporary) / "counts.json"
        command = [
            *(sys.executable, "-m", "pytest", SUITE, "-q", "--no-header", "-p", "txns_catalogs"),
            *("-p", "no:cacheprovider", "--basetemp", f"{temporary}/pytest"),
            *(f"--catalog={catalog}", f"--counts={counts}", "-r", "fE"),
        ]
        paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            print(done.stdout)
        found = json.loads(counts.read_text("utf-8"))
    print(f"{catalog}: {words(found)}", flush=True)
    for rule, count in found["rules"].items():
        print(f"  {count} skipped, {rule}")
    return {kind: found[kind] for kind in KINDS}


def words(counts: dict[str, int]) -> str:
    """Return counts as every suite of the project prints them."""
    return " ".join(f"{kind}={counts[kind]}" for kind in KINDS)


def main() -> None:
    """Run everything; exit 1 if a case failed."""
    folder = unpacked("pyiceberg", "tests/", "pyproject.toml")
    found = [run(folder, catalog) for catalog in CATALOGS]
    assert len({sum(counts.values()) for counts in found}) == 1, "not the same cases everywhere"
    total = {kind: sum(counts[kind] for counts in found) for kind in KINDS}
    print(words(total))
    sys.exit(1 if total["failed"] else 0)


if __name__ == "__main__":
    main()
