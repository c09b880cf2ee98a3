"""The examples with Spark in README.md and at the start of each guide run as they stand."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.guides import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SMALL = "spark.ui.enabled false\nspark.driver.host 127.0.0.1\nspark.sql.shuffle.partitions 2\n"


def test_every_example_prints_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(SMALL)
    done = subprocess.run(
        [sys.executable, "-m", "integration_tests.guides_program"],
        cwd=tmp_path,
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_CONF_DIR": str(tmp_path / "conf"),
        },
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    printed = [line for line in done.stdout.splitlines() if line.strip()]
    readme = ["-- README.md", "committed", "-- README.md"]
    spark = ["-- docs/spark.md", "40001 default.accounts", "jon 35", "mara 70"]
    orm = ["-- docs/sqlalchemy.md", "[3, None]"]
    retries = ["-- docs/retries.md", "6", *["-- docs/retries.md", "7"] * 3]
    assert [*readme, *spark, *orm, *retries] == printed
    assert (tmp_path / "txns-warehouse" / "catalog.db").is_file()
