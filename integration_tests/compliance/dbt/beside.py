"""A run of dbt beside one that a test is in: a process of its own, over the same lake."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def run_beside(project: Any, model: str, folder: Path, **variables: Any) -> str:
    """
    Run a model of the project in a process of its own, and return what that said.

    Args:
        project: dbt's fixture.
        model: Its name.
        folder: For what dbt writes besides tables.
        **variables: Of dbt.
    """
    command = [
        *(sys.executable, "-m", "dbt.cli.main", "run", "--select", model),
        *("--project-dir", project.project_root, "--profiles-dir", project.profiles_dir),
        *("--target-path", folder / "target", "--log-path", folder / "logs"),
        *("--vars", json.dumps(variables)),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    return ended.stdout
