"""docs/python.md and examples/python_ingest do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import txns
from txns import errors

if TYPE_CHECKING:
    from pathlib import Path


def test_the_programs_of_the_guide_run_one_after_the_other(root: Path, tmp_path: Path) -> None:
    guide = (root / "docs" / "python.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    program = "\n".join(blocks).replace("/data/lake", str(tmp_path))
    names: dict[str, object] = {}
    exec(compile(program, "docs/python.md", "exec"), names)
    assert 13 == names["new_price"]


def test_every_error_is_in_the_guide(root: Path) -> None:
    guide = (root / "docs" / "python.md").read_text("utf-8")
    kinds = [name for name in txns.__all__ if hasattr(errors, name)]
    assert [] == [name for name in kinds if f"`{name}`" not in guide and f".{name}`" not in guide]


def test_every_option_is_in_the_guide(root: Path) -> None:
    guide = (root / "docs" / "python.md").read_text("utf-8")
    options = set(txns.open.__kwdefaults__ or ()) - {"clock"}
    assert set() == {name for name in options if f"| `{name}` |" not in guide}


def test_the_example_does_what_it_says(root: Path) -> None:
    """It stops with an error where something is not so."""
    script = root / "examples" / "python_ingest" / "ingest.py"
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "run it again" in done.stdout
    assert "Done in" in done.stdout
