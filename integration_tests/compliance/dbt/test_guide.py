"""The example at the start of docs/dbt.md runs as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml
from dbt.config.profile import Profile
from dbt.config.renderer import ProfileRenderer
from pyiceberg.catalog import load_catalog

from tests.guides import blocks, five_minutes
from txns._cli import main

if TYPE_CHECKING:
    from pathlib import Path

SMALL = "spark.ui.enabled false\nspark.driver.host 127.0.0.1\nspark.sql.shuffle.partitions 1\n"
# Both runs in one process, for one start of Spark.
TWICE = """
import sys
from dbt.cli.main import dbtRunner

sys.exit(not all(dbtRunner().invoke(["run"]).success for _ in range(2)))
"""


@pytest.mark.timeout(1500)
def test_the_five_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its files, each named by its first line, and its commands."""
    monkeypatch.chdir(tmp_path)
    for text in [*five_minutes("docs/dbt.md", "yaml"), *five_minutes("docs/dbt.md", "sql")]:
        comment, _, content = text.partition("\n")
        path = tmp_path / comment.lstrip("#- ")
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(SMALL)
    (commands,) = five_minutes("docs/dbt.md", "sh")
    names = [line.partition("#")[0].split() for line in commands.splitlines()]
    assert [["dbt", "run"], ["dbt", "run"], ["txns", "log"]] == names
    done = subprocess.run(
        [sys.executable, "-c", TWICE],
        env=os.environ
        | {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "SPARK_LOCAL_IP": "127.0.0.1"}
        | {"SPARK_CONF_DIR": str(tmp_path / "conf")},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    with pytest.raises(SystemExit) as ended:
        main(["log"])
    assert 0 == ended.value.code
    assert 2 == capsys.readouterr().out.count("analytics.orders")
    uri = f"sqlite:///{tmp_path}/txns-warehouse/catalog.db"
    rows = load_catalog("lake", uri=uri).load_table("analytics.orders").scan().to_arrow()
    assert [("bolt", 3), ("nut", 7)] == sorted(
        (row["item"], row["amount"]) for row in rows.to_pylist()
    )


def test_the_profile_of_the_page_on_retries() -> None:
    """It is whole: dbt finds its target, and the adapter takes its keys."""
    (text,) = blocks("docs/retries.md", "yaml")
    ((name, raw),) = yaml.safe_load(text).items()
    profile = Profile.from_raw_profile_info(raw, name, ProfileRenderer({}))
    assert ("prod", 3) == (profile.target_name, profile.credentials.retries)
