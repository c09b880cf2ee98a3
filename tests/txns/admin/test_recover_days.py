"""Logs and catalogs of days ago, of which most versions are gone."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlparse

import pytest

from tests.txns.admin.recovering import assert_whole, recovered
from tests.txns.backups import LOG, restore
from txns._admin.recover import recoverable
from txns._config import Config

A, B = ("shop", "a"), ("shop", "b")


def test_a_catalog_of_three_days_ago_goes_on_with_the_version_after_its_own(apply, days):
    """
    What was committed in the rest of that minute is back; what came later is named.

    It is applied again, or, where the log's own swap has moved the tables, in their own files.
    """
    restore(days.catalog, days.amid)
    dry = recoverable(days.another_catalog(), Config.of(), days.clock, forward=False)
    found = recovered(days)
    assert found.begun.registered
    assert days.at_the_end[LOG] == found.begun.registered.path
    assert days.amid[LOG].endswith(found.begun.missing.rpartition("/")[2])
    assert 14 == len([*found.found.gone, *found.found.unknown])
    assert ([], []) == (found.found.taken_back, found.found.told_by_tables)
    assert ((A, B) if apply == "atomic" else ()) == dry.forward == found.forward
    assert {} == dry.broken == found.broken
    assert_whole(days, 1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize("forward", [True, False])
def test_a_dry_run_says_what_would_be_gone_with_a_version_that_is_gone(days, forward):
    """Whether to go forward is to be said before: nothing is taken forward afterwards."""
    restore(days.catalog, days.amid)
    before = days.files()
    dry = recoverable(days.another_catalog(), Config.of(), days.clock, forward=forward)
    assert before == days.files()
    done = recovered(days, forward=forward)
    for each in ("registered", "missing"):
        assert getattr(dry.begun, each) == getattr(done.begun, each)
    names = ("taken_back", "told_by_tables", "gone", "unknown", "upper")
    assert all(getattr(dry.found, each) == getattr(done.found, each) for each in names)
    assert [] == (dry.found.gone if forward else dry.found.taken_back)


def test_a_catalog_of_three_days_ago_whose_version_is_kept(days):
    """Versions between it and the newest one are gone, and what was committed is named."""
    restore(days.catalog, days.at_the_end)
    found = recovered(days)
    assert found.begun.registered is None
    assert 14 == len([*found.found.gone, *found.found.unknown])
    assert_whole(days, 1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize("kept", [True, False])
def test_a_log_of_three_days_ago_is_taken_to_where_its_tables_are(days, kept):
    """The tables are of now: the log alone was set back, and its newest version is there."""
    restore(days.catalog, days.at_the_end if kept else days.amid, [LOG])
    found = recovered(days)
    assert [] == found.found.gone
    assert {} == found.broken
    assert_whole(days, 1, 2, 3, 4, 5, 6, *range(10, 24))


def test_a_version_of_a_swap_that_was_lost_is_not_gone_on_with(days):
    """
    Its number is that of the version that is gone, and its entry is none of the log.

    1. A metadata file is written on the version before, with another entry, and never landed.
    """
    end = Path(urlparse(days.at_the_end[LOG]).path)
    number = int(Path(urlparse(days.amid[LOG]).path).name.split("-")[0])
    stored = json.loads(end.read_text("utf-8"))
    summaries = [each["summary"] for each in stored["snapshots"]]
    newest = max((each for each in summaries if each.get("txns.txn-id")), key=_upper)
    lost = str(_upper(newest) - 1)
    newest |= {"txns.txn-id": "lost", "txns.commit-ts": lost, "txns.upper": lost}
    stored["metadata-log"][-1]["metadata-file"] = "file:///gone.metadata.json"
    stored["last-sequence-number"] -= 1
    end.with_name(f"{number:05d}-lost.metadata.json").write_text(json.dumps(stored), "utf-8")
    restore(days.catalog, days.amid)
    found = recovered(days)
    assert found.begun.registered
    assert days.at_the_end[LOG] == found.begun.registered.path
    assert_whole(days, 1, 2, 3, 4, 5, 6)


@pytest.mark.usefixtures("apply")
def test_who_dies_once_the_log_is_registered_has_taken_the_tables_there(days, monkeypatch):
    """The next run finds a log that nobody has lost, by which a table that is behind may stay."""
    restore(days.catalog, days.amid)
    monkeypatch.setattr("txns._admin.recover.take_back", _dies)
    with pytest.raises(KeyboardInterrupt):
        recovered(days)
    monkeypatch.undo()
    assert {} == recovered(days).broken
    assert_whole(days, 1, 2, 3, 4, 5, 6)


def _dies(*_args: object) -> None:
    raise KeyboardInterrupt


def _upper(summary: dict[str, str]) -> int:
    return int(summary["txns.upper"])


@pytest.mark.usefixtures("apply")
def test_a_catalog_of_three_days_ago_is_taken_forward(days):
    """The newest version is registered, and the tables follow."""
    restore(days.catalog, days.amid)
    newest = recovered(days, forward=True)
    assert newest.begun.registered
    assert days.at_the_end[LOG] != newest.begun.registered.path
    assert {} == newest.broken
    assert_whole(days, 1, 2, 3, 4, 5, 6, *range(10, 24))
