"""What `txns_spark` offers where pyspark-client alone is installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_ROOT = Path(__file__).parent.parent


def _run(code: str, folder: Path) -> str:
    """Run code in the Connect client's environment, with txns_spark on its path."""
    (folder / "txns_spark").symlink_to(_ROOT / "spark_extension" / "python")
    done = subprocess.run(
        [str(_ROOT / ".venv-connect" / "bin" / "python"), "-c", code],
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_without_a_jvm(tmp_path: Path) -> None:
    """Errors and foreach_batch work there, and configure says where to configure instead."""
    code = """
import txns_spark
from pyspark.sql import SparkSession
print(txns_spark.foreach_batch(lambda batch, number: None, query_id="q").__name__)
print(txns_spark.errors.TransactionConflict.__name__)
try:
    txns_spark.configure(SparkSession.builder)
except txns_spark.errors.ConfigurationError as error:
    print(error)
"""
    printed = _run(code, tmp_path).splitlines()
    assert ["<lambda>", "TransactionConflict"] == printed[:2]
    assert "start the server with" in printed[2]
