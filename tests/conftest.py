"""
Fixtures of the fast tests.

No test here starts Spark in pytest's own process: a JVM stays for the life of
its process, and `configure` treats a process that has one differently. Tests
that need Spark run a script of their own, see `run_script`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def root() -> Path:
    """The repository's folder."""
    return ROOT


@pytest.fixture
def run_script(tmp_path: Path) -> Callable[[str], str]:
    """Run Python source in a process and an empty folder of its own; return what it prints."""

    def run(source: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(source)],
            cwd=tmp_path,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
