"""Spark's own test classes watch what rules of its analyzer do; our statements run in one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_statements_run_under_sparks_own_tests(tmp_path: Path) -> None:
    """The queries inside are queries of their own, and no part of the analysis around them."""
    ran = subprocess.run(
        [sys.executable, "-m", "integration_tests.testing_program", str(tmp_path / "lake")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert 0 == ran.returncode, ran.stderr[-4000:]
    assert [[1, 0], [2, 1], [3, 2]] == json.loads(ran.stdout.splitlines()[-1])
