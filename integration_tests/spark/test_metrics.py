"""Spark's own metrics system shows what its transactions count, where the plugin is on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = """
import json, sys, urllib.request
import txns_spark
from pyspark.sql import SparkSession
from txns_spark.errors import TransactionConflict, translated

builder = SparkSession.builder.config("spark.ui.enabled", "true").config("spark.ui.port", "0")
if sys.argv[1] == "on":
    builder = builder.config("spark.plugins", "io.txns.spark.TxnMetricsPlugin")
spark = txns_spark.configure(builder).getOrCreate()
spark.sql("CREATE TABLE lake.default.a AS SELECT 1 AS id")
spark.sql("BEGIN")
spark.sql("INSERT INTO lake.default.a VALUES (2)")
spark.sql("COMMIT")
other = spark.newSession()
spark.sql("BEGIN")
spark.sql("UPDATE lake.default.a SET id = 7")
other.sql("UPDATE lake.default.a SET id = 8")
try:
    with translated():
        spark.sql("COMMIT")
    raise AssertionError
except TransactionConflict:
    pass
url = spark.sparkContext.uiWebUrl.rpartition(":")[2]
shown = json.load(urllib.request.urlopen(f"http://127.0.0.1:{url}/metrics/json/"))
found = {}
for kind, value in (("counters", "count"), ("gauges", "value")):
    for name, each in shown[kind].items():
        if "txns_" in name:
            found["txns_" + name.partition("txns_")[2]] = each[value]
print(json.dumps(found))
"""


@pytest.mark.parametrize("plugin", ["on", pytest.param("off", marks=pytest.mark.slow)])
def test_a_driver_shows_what_its_sessions_count(tmp_path: Path, plugin: str) -> None:
    """Without the plugin everything else works as before."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, plugin],
        cwd=tmp_path,
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    if plugin == "off":
        assert {} == found
        return
    counts = {
        name.removeprefix("txns_transactions_").removesuffix("_total"): value
        for name, value in found.items()
        if name.startswith("txns_transactions_")
    }
    expected = {"started": 4, "committed": 3, "conflicted": 1, "retried": 0, "unknown": 0}
    assert expected == counts
    gauges = {name.removesuffix(".lake.txns.commits"): each for name, each in found.items()}
    assert 3 <= gauges["txns_head_entries"] <= 6
    assert gauges["txns_head_bytes"] > 1000
    assert 0 <= gauges["txns_oldest_maybe_unapplied_age_seconds"] < 300
    assert -300 < gauges["txns_clock_skew_seconds"] < 1
    assert gauges["txns_upper_timestamp_seconds"] > 1.7e9
    assert 0 == gauges["txns_off"]
    assert 4 == found["txns_phase_seconds_count.stage"]
    assert found["txns_phase_seconds_count.swap"] >= 3
    assert 0 < found["txns_phase_seconds_max.swap"] <= found["txns_phase_seconds_sum.swap"]
