"""What of a sampled test runs, in a run of pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

SOURCE = """
import pytest

@pytest.mark.sampled
@pytest.mark.parametrize("catalog", ["x", "y", "z"])
@pytest.mark.parametrize("kind", ["a", "b", "c"])
def test_sampled(kind, catalog):
    pass

@pytest.mark.parametrize("case", [1, 2, 3])
def test_whole(case):
    pass

@pytest.mark.slow
@pytest.mark.sampled
def test_slow():
    pass
"""


WHOLE = {"test_whole[1]", "test_whole[2]", "test_whole[3]"}
SLOW = {"test_slow", *(f"test_sampled[{kind}-{name}]" for kind in "abc" for name in "xyz")}


@pytest.mark.parametrize(
    ("marks", "run"),
    [
        ("not slow", WHOLE | {"test_sampled[a-x]", "test_sampled[b-y]", "test_sampled[c-z]"}),
        ("slow or sampled", SLOW),
        ("", WHOLE | SLOW),
    ],
)
def test_one_case_in_three_runs_where_slow_tests_are_left_out(
    marks: str, run: set[str], tmp_path: Path
) -> None:
    """Each value of each parameter has a case."""
    path = tmp_path / "test_generated.py"
    path.write_text(SOURCE)
    options = ["-q", "--collect-only", "-p", "no:cacheprovider", "-p", "tests.sampled"]
    command = [sys.executable, "-m", "pytest", *options, "-m", marks, "-c", "pyproject.toml", path]
    collected = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = collected.stdout.splitlines()
    assert {line.partition("::")[2] for line in lines if "::" in line} == run
