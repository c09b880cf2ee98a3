"""Suites of the Java core, run over a server in place of the lake of their own."""

from __future__ import annotations

import subprocess

from integration_tests.rest_server import ROOT


def run(suites: str, **properties: str) -> None:
    """
    Run test classes, one process for all: their tables have the same names, and the server is one.

    Args:
        suites: Names of classes, with commas.
        properties: What they are told, by names without `txns.test.`, with `_` for a dot.
    """
    command = [
        "mvn",
        "-q",
        "-B",
        "test",
        "-Dspotless.check.skip=true",
        "-pl",
        "core",
        f"-Dtest={suites}",
        "-Dsurefire.failIfNoSpecifiedTests=true",
        "-Dtxns.test.forks=1",
        *(f"-Dtxns.test.{name.replace('_', '.')}={value}" for name, value in properties.items()),
    ]
    result = subprocess.run(
        command,
        cwd=ROOT / "spark_extension" / "java",
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-8000:]
