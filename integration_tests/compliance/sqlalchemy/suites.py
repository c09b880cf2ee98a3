"""The suites of SQLAlchemy and Alembic, and how pytest runs one of them over a database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from integration_tests.compliance.source_suites import unpacked

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


class Suite(NamedTuple):
    """
    A suite of tests that others wrote.

    Attributes:
        name: What we call it.
        project: Whose it is; its version belongs to the name of its list.
        files: Its tests.
        ours: The class that says what is asked of our dialect.
        theirs: The class by which the project itself runs it over SQLite.
        sources: Where that class is.
    """

    name: str
    project: str
    files: list[Path]
    ours: str
    theirs: str
    sources: Path

    def list_file(self) -> Path:
        """Return the list of its tests that SQLite passes."""
        release = ".".join(version("sqlalchemy").split(".")[:2])
        return HERE / "passes_on_sqlite" / f"{self.name}-{release}.txt"


class Outcome(NamedTuple):
    """What became of a test: passed, failed or skipped, and why."""

    kind: str
    reason: str


def suite(name: str) -> Suite:
    """Return a suite by its name: dialect, transactions or alembic."""
    if name == "alembic":
        sources = unpacked("alembic", "tests/")
        files = [HERE / "alembic_suite.py"]
        return Suite(
            name,
            "alembic",
            files,
            "alembic_requirements:AlembicRequirements",
            "tests.requirements:DefaultRequirements",
            sources,
        )
    sources = unpacked("sqlalchemy", "test/")
    files = [HERE / "dialect_suite.py"]
    if name == "transactions":
        files = [sources / "test" / part / "test_transaction.py" for part in ("engine", "orm")]
    return Suite(
        name,
        "sqlalchemy",
        files,
        "txns_requirements:Requirements",
        "test.requirements:DefaultRequirements",
        sources,
    )


def run(chosen: Suite, url: str, requirements: str, *options: str) -> dict[str, Outcome]:
    """
    Run a suite over a database; pytest prints how far it is.

    Args:
        chosen: The suite.
        url: The database, as SQLAlchemy names it.
        requirements: One of the suite's two classes.
        *options: More of pytest's.

    Returns:
        What became of each test, by "Class::test[parameters]".
    """
    with tempfile.TemporaryDirectory(prefix="txns-suite-") as temporary:
        folder = Path(temporary)
        config = f"[sqla_testing]\nrequirement_cls = {requirements}\nprofile_file = profiles.txt\n"
        (folder / "setup.cfg").write_text(config)
        command = [
            *(sys.executable, "-m", "pytest", *map(str, chosen.files), "-p", "txns_plugin"),
            *("-q", "--no-header", "--tb=no", "-r", "N", "--noconftest"),
            *("--rootdir", ".", "-c", "setup.cfg", "-o", "python_files=*.py"),
            *("-p", "no:cacheprovider", "--dburi", url, *options),
        ]
        (folder / "lake").mkdir()
        outcomes = folder / "outcomes.json"
        # The suites' own folders first: one of them is called like a package of Python's.
        paths = [str(chosen.sources), str(HERE), str(ROOT)]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "TXNS_SUITE_LAKE": str(folder / "lake"),
            "TXNS_SUITE_OUTCOMES": str(outcomes),
        }
        subprocess.run(command, cwd=folder, env=environment, check=False)
        found = json.loads(outcomes.read_text("utf-8")) if outcomes.exists() else {}
        if not found:
            sys.exit(f"no test has run; what pytest says stands above: {' '.join(command)}")
    return {name: Outcome(*outcome) for name, outcome in found.items()}
