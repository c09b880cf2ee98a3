"""
Run Iceberg's own suite for catalogs over ours, and over JdbcCatalog beside it.

    make compliance-iceberg

The last line counts the runs over ours. Exit code 1 where any of them failed.
Imports: nothing of the project. Used by: make compliance-iceberg.
"""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPORTS = HERE / "target" / "surefire-reports"
SUITES = {"JdbcCatalog": "PlainJdbcTest", "TxnCatalog over JdbcCatalog": "TxnCatalogTest"}


def main() -> int:
    """Run Maven, print what came out of each suite, and give the exit code."""
    for report in REPORTS.glob("*.xml"):
        report.unlink()
    subprocess.run(["mvn", "-q", "-B", "test"], cwd=HERE, check=True)
    counts = Counter()
    for name, suite in SUITES.items():
        counts = outcome(suite)
        print(f"{name}: {summary(counts)}")
    print(summary(counts))
    return 1 if counts["failed"] else 0


def outcome(suite: str) -> Counter[str]:
    """Count a suite's runs, and print why some failed or were left out."""
    counts: Counter[str] = Counter()
    root = ET.parse(REPORTS / f"TEST-io.txns.compliance.{suite}.xml").getroot()
    for case in root.iter("testcase"):
        children = {child.tag: child for child in case}
        failed = next((children[tag] for tag in ("failure", "error") if tag in children), None)
        if failed is not None:
            counts["failed"] += 1
            print(f"  FAILED {case.get('name')}: {failed.get('message')}")
        elif "skipped" in children:
            counts["skipped"] += 1
            print(f"  skipped {case.get('name')}: {children['skipped'].get('message')}")
        else:
            counts["passed"] += 1
    return counts


def summary(counts: Counter[str]) -> str:
    """Give the counts in one line."""
    return " ".join(f"{key}={counts[key]}" for key in ("passed", "failed", "skipped"))


if __name__ == "__main__":
    sys.exit(main())
