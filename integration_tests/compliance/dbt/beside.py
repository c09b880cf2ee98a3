"""A run of dbt beside one that a test is in: a process of its own, over the same lake."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def run_beside(
    project: Any, model: str, folder: Path, *options: str, command: str = "run", **variables: Any
) -> str:
    """
    Run a model of the project in a process of its own, and return what that said.

    Args:
        project: dbt's fixture.
        model: Its name.
        folder: For what dbt writes besides tables.
        options: Of dbt's command.
        command: Of dbt.
        **variables: Of dbt.
    """
    run = [
        *(sys.executable, "-m", "dbt.cli.main", command, "--select", model, *options),
        *("--project-dir", project.project_root, "--profiles-dir", project.profiles_dir),
        *("--target-path", folder / "target", "--log-path", folder / "logs"),
        *("--vars", json.dumps(variables)),
    ]
    ended = subprocess.run(run, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    return ended.stdout
