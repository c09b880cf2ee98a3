"""
Run Iceberg's own suites over ours: for catalogs, with JdbcCatalog beside it, and for Spark.

    make compliance-iceberg
    make compliance-iceberg SUITES="catalog TestConflictValidation"

The last line counts the runs over ours. Exit code 1 where any of them failed.
"""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import spark_suites
from spark_suites import summary, why_skipped

HERE = Path(__file__).resolve().parent
REPORTS = HERE / "target" / "surefire-reports"
SUITES = {"JdbcCatalog": "PlainJdbcTest", "TxnCatalog over JdbcCatalog": "TxnCatalogTest"}


def main() -> int:
    """Run what the arguments name, or everything; give the exit code."""
    chosen = sys.argv[1:] or ["catalog", *spark_suites.SUITES]
    counts: Counter[str] = Counter()
    if "catalog" in chosen:
        counts += catalog()
    counts += spark_suites.run([name for name in chosen if name != "catalog"])
    print(summary(counts))
    return 1 if counts["failed"] else 0


def catalog() -> Counter[str]:
    """Run the suite for catalogs by Maven, and count what came out of it over ours."""
    for report in REPORTS.glob("*.xml"):
        report.unlink()
    subprocess.run(["mvn", "-q", "-B", "test"], cwd=HERE, check=True)
    counts = Counter()
    for name, suite in SUITES.items():
        counts = outcome(suite)
        print(f"{name}: {summary(counts)}", flush=True)
    return counts


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
            print(f"  skipped {case.get('name')}: {why_skipped(children['skipped'])}")
        else:
            counts["passed"] += 1
    return counts


if __name__ == "__main__":
    sys.exit(main())
