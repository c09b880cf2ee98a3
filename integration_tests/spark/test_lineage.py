"""OpenLineage sees through our commands what it sees on plain Iceberg."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What runs a statement of ours around Iceberg's own plan does so in the analysis, and is no job.
COMMAND = "execute_txn_dml_command"


@pytest.mark.slow
def test_jobs_and_their_tables(tmp_path: Path) -> None:
    """The same jobs have the same inputs and outputs, statement by statement."""
    subprocess.run(
        [sys.executable, "-m", "integration_tests.lineage_program", str(tmp_path)],
        cwd=ROOT,
        check=True,
    )
    lines = (tmp_path / "events.json").read_text().splitlines()
    ended = [event for event in map(json.loads, lines) if event["eventType"] == "COMPLETE"]
    plain = [_job(event, "plain") for event in ended if _is_of(event, tmp_path / "plain")]
    ours = [_job(event, "ours") for event in ended if _is_of(event, tmp_path / "ours")]
    assert 11 == len(plain)
    assert plain == ours
    assert not any(COMMAND in event["job"]["name"] for event in ended)


def _is_of(event: dict, folder: Path) -> bool:
    """Tell whether the job reads or writes tables below the folder."""
    tables = [*event["inputs"], *event["outputs"]]
    return any(table["name"].startswith(str(folder)) for table in tables)


def _job(event: dict, catalog: str) -> tuple[str, list[str], list[str]]:
    """Give a job's name, inputs and outputs, with one name for both catalogs."""

    def names(tables: list[dict]) -> list[str]:
        return sorted({table["name"].split(f"/{catalog}/")[-1] for table in tables})

    name = event["job"]["name"].replace(f"{catalog}_", "")
    return name, names(event["inputs"]), names(event["outputs"])
