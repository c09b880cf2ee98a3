"""`txns verify-isolation` on a catalog: sessions of their own processes, judged and cleaned up."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from txns._cli import main


def _verify(lake, *options):
    where = ["--uri", f"sqlite:///{lake.folder}/catalog.db?timeout=30", "--catalog", "lake"]
    where += ["--warehouse", f"file://{lake.folder}/warehouse"]
    out = ["--out", str(lake.folder / "told")]
    return CliRunner().invoke(
        main, [*where, "verify-isolation", *out, *options], standalone_mode=False
    )


@pytest.mark.parametrize(
    "kill", [(), pytest.param(("--kill",), marks=pytest.mark.slow)], ids=["", "killed"]
)
@pytest.mark.usefixtures("handle")
def test_a_run_finds_nothing_and_leaves_nothing(lake, kill):
    """Journals, a page, and Elle's history are there; tables and namespace are gone."""
    done = _verify(lake, "--seconds", "6", "--sessions", "2", "--seed", "3", *kill)
    assert not done.return_value, done.output
    assert "anomalies=0" in done.output
    (folder,) = (lake.folder / "told").iterdir()
    assert "None." in (folder / "page.md").read_text()
    lines = [json.loads(line) for line in (folder / "list-append.jsonl").read_text().splitlines()]
    assert {"invoke", "ok"} <= {line["type"] for line in lines}
    assert [("shop",), ("txns",)] == sorted(lake.catalog.list_namespaces())
    assert "stay" not in done.output


@pytest.mark.slow
@pytest.mark.usefixtures("handle")
def test_what_snapshot_allows_is_found(lake):
    """With reads unprotected, judged by a level that protects them: within a few hundred."""
    options = ("--seconds", "12", "--sessions", "3", "--level", "snapshot", "--seed", "6")
    done = _verify(lake, *options, "--judge-by", "serializable")
    assert 1 == done.return_value, done.output
    assert "write skew or phantom" in done.output
