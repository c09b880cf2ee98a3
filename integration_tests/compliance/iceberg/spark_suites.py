"""
Run Iceberg's own Spark suites over our Spark catalogs, a JVM for each.

A suite is inherited by a generated class, which puts our catalogs into its parameter rows and our
extension behind Iceberg's. Spark itself comes from pyspark.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from spark_exclusions import EXCLUSIONS

HERE = Path(__file__).resolve().parent / "spark"
JARS = HERE / "target" / "jars"
JAR = Path(__file__).resolve().parents[3] / "spark_extension/python/jars"
# What runs by default, and the parameter rows: of the row-level ones a Hive catalog with ORC files,
# format 2 and local planning, and a session catalog with Avro files, format 3, a branch and
# distributed planning. Any other suite of the package runs by its name, on all of its rows.
ROW_LEVEL = [
    f"Test{mode}{statement}"
    for statement in ("Delete", "Update", "Merge")
    for mode in ("CopyOnWrite", "MergeOnRead")
]
SUITES = {"TestConflictValidation": "0,1", **dict.fromkeys(ROW_LEVEL, "0,5")}
# Spark's own versions of these must not be found before those that Iceberg was built with.
FIRST = (
    "iceberg-",
    "orc-",
    "parquet-",
    "junit-",
    "httpc",
    "RoaringBitmap",
    "caffeine",
    "jakarta.",
    "jetty-",
)
OPENED = [
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
]

SUBCLASS = """package org.apache.iceberg.spark.extensions;

@org.junit.jupiter.api.extension.ExtendWith(org.apache.iceberg.spark.OverTransactions.class)
public class Txn{suite} extends {suite} {{
  @org.junit.jupiter.api.BeforeAll
  public static void withTransactions() throws Exception {{
    org.apache.iceberg.spark.OverTransactions.restart();
  }}

  @org.apache.iceberg.Parameters(name = "over {{0}}")
  public static Object[][] parameters() {{
    return org.apache.iceberg.spark.OverTransactions.rows({suite}.parameters());
  }}
}}
"""


def run(suites: list[str]) -> Counter[str]:
    """Run some suites; count their runs, and print why some failed or were left out."""
    if not JARS.is_dir():
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
        command = ["mvn", "-q", "-B", goal, f"-DoutputDirectory={JARS}"]
        subprocess.run(command, cwd=HERE, check=True)
    total: Counter[str] = Counter()
    passed: set[str] = set()
    failed: set[str] = set()
    for suite in suites:
        class_path = _compiled(suite)
        reports = HERE / "target" / "reports" / suite
        shutil.rmtree(reports, ignore_errors=True)
        with (HERE / "target" / f"{suite}.log").open("w") as log:
            subprocess.run(
                _java(suite, class_path, reports),
                cwd=HERE / "target",
                stdout=log,
                check=False,
                stderr=subprocess.STDOUT,
            )
        counts = _outcome(suite, reports, passed, failed)
        print(f"{suite}: {summary(counts)}", flush=True)
        total += counts
    for name in sorted(passed - failed):  # an exclusion is for those parameter rows that need it
        print(f"{name} passes, its exclusion can go: {EXCLUSIONS[name].reason}")
    return total


def summary(counts: Counter[str]) -> str:
    """Give the counts in one line."""
    return " ".join(f"{key}={counts[key]}" for key in ("passed", "failed", "skipped"))


def why_skipped(skipped: ET.Element) -> str:
    """Give the reason of a test that left itself out, for example for its parameter row."""
    said = skipped.get("message") or skipped.text or ""
    # Behind the words stands where they were said.
    words = re.split(r"\tat |Caused by:", said)[0]
    return " ".join(words.removeprefix("org.opentest4j.TestAbortedException:").split())


def _class_path(classes: Path) -> str:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit("error: pyspark is missing; run make install")
    spark = Path(spec.origin).parent / "jars"
    ours = min(JAR.glob("txns-spark-*.jar"))
    jars = sorted(JARS.glob("*.jar"))
    first = [str(jar) for jar in jars if jar.name.startswith(FIRST)]
    return ":".join([str(classes), str(ours), *first, f"{spark}/*", f"{JARS}/*"])


def _compiled(suite: str) -> str:
    """Write and compile the suite's subclass; give the class path to run it with."""
    sources, classes = HERE / "target" / "sources", HERE / "target" / "classes"
    sources.mkdir(parents=True, exist_ok=True)
    classes.mkdir(parents=True, exist_ok=True)
    subclass = sources / f"Txn{suite}.java"
    subclass.write_text(SUBCLASS.format(suite=suite))
    class_path = _class_path(classes)
    helpers = [str(source) for source in (HERE / "src").rglob("*.java")]
    command = ["javac", "-nowarn", "-d", str(classes), "-cp", class_path, *helpers, str(subclass)]
    subprocess.run(command, check=True)
    return class_path


def _java(suite: str, class_path: str, reports: Path) -> list[str]:
    return [
        "java",
        "-Xmx3g",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
        "-Djdk.reflect.useDirectMethodHandle=false",
        f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}",
        f"-Dtxns.rows={SUITES.get(suite, '')}",
        "-cp",
        class_path,
        "org.junit.platform.console.ConsoleLauncher",
        "execute",
        "--details=none",
        f"--select-class=org.apache.iceberg.spark.extensions.Txn{suite}",
        f"--reports-dir={reports}",
    ]


def _outcome(suite: str, reports: Path, passed: set[str], failed: set[str]) -> Counter[str]:
    """Count a suite's runs; note by which names in `EXCLUSIONS` tests have passed or failed."""
    counts: Counter[str] = Counter()
    report = reports / "TEST-junit-jupiter.xml"
    if not report.is_file():
        print(f"  FAILED {suite}: no report; see {HERE / 'target' / f'{suite}.log'}")
        return Counter(failed=1)
    for case in ET.parse(report).getroot().iter("testcase"):
        method = str(case.get("name")).split("(")[0]
        children = {child.tag: child for child in case}
        failure = next((children[tag] for tag in ("failure", "error") if tag in children), None)
        message = "" if failure is None else str(failure.get("message"))
        name = next((each for each in (method, f"{suite}.{method}") if each in EXCLUSIONS), None)
        known = None if name is None else EXCLUSIONS[name]
        if name is not None and "skipped" not in children:
            (passed if failure is None else failed).add(name)
        if failure is not None and known is not None and known.failure in message:
            counts["skipped"] += 1
            print(f"  skipped {method}: {known.reason}")
        elif failure is not None:
            counts["failed"] += 1
            print(f"  FAILED {method}: {message[:300]}")
        elif "skipped" in children:
            counts["skipped"] += 1
            print(f"  skipped {method}: {why_skipped(children['skipped'])}")
        else:
            counts["passed"] += 1
    if not counts["passed"]:
        print(f"  FAILED {suite}: nothing has passed")
        counts["failed"] += 1
    return counts
