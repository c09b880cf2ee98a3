"""Lines of the log: what they are about, at which level, as text and as fields."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException
from pythonjsonlogger.json import JsonFormatter

from tests.txns.lake import Lake, rows
from tests.txns.mute_catalog import MuteCatalog
from tests.txns.wrapped import Wrapped
from txns import _message
from txns._logger import about, fields, logger
from txns.errors import CommitStateUnknown, Conflict

GOLDEN = json.loads((Path(__file__).parents[2] / "docs/golden/messages.json").read_text("utf-8"))

A, B = "shop.a", "shop.b"


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.DEBUG, "txns")
    return caplog


def _lines(said, txn: str, level: int = logging.DEBUG) -> list[str]:
    """What is said of a transaction, without times, which differ."""
    return [
        f"{each.levelname} {each.getMessage().partition(' ms=')[0]}"
        for each in said.records
        if each.levelno >= level and getattr(each, "txn", None) == txn
    ]


@pytest.mark.parametrize(("value", "written"), GOLDEN["fields"])
def test_a_value_ends_where_it_ends(value, written):
    assert written == _message.field(value)


def test_a_commit_is_told_below_what_is_shown_by_default(lake: Lake, said):
    """Each phase that the metrics measure, with what it took, under one id."""
    lake.table("a", [1])
    said.clear()
    with lake.open().begin(txn_id="job 7") as txn:
        txn.load_table(A).append(rows(2))
    about = 'txn="job 7"'
    assert [
        f"DEBUG a phase has ended {about} phase=stage",
        f"DEBUG a phase has ended {about} phase=validate",
        f"DEBUG a phase has ended {about} phase=swap",
        f"DEBUG committed at {txn.committed.commit_ts} {about}",
        f"DEBUG a phase has ended {about} phase=apply",
    ] == _lines(said, "job 7")
    assert {"job 7"} == {each.txn for each in said.records}
    assert all(each.ms >= 0 for each in said.records if "phase has ended" in each.getMessage())


def test_a_formatter_has_the_fields(lake: Lake, said):
    """Whoever writes JSON gets them by name."""
    lake.table("a", [1])
    said.clear()
    with lake.open().begin(txn_id='x" phase=y') as txn:
        txn.load_table(A).append(rows(2))
    record = next(each for each in said.records if getattr(each, "phase", None) == "swap")
    written = json.loads(JsonFormatter().format(record))
    text = written.pop("message")
    assert rf'a phase has ended txn="x\" phase=y" phase=swap ms={record.ms}' == text
    assert {"txn": 'x" phase=y', "phase": "swap", "ms": record.ms} == written


def test_lost_races_are_told(lake: Lake, said):
    lake.table("a", [1])
    catalog = lake.another_catalog()
    lost = iter([True, True, False])

    def lose(commit):
        if next(lost, False):
            raise CommitFailedException("somebody was first")
        return commit()

    handle = lake.open(Wrapped(catalog, lose))
    said.clear()
    with handle.begin(txn_id="t") as txn:
        txn.load_table(A).append(rows(2))
    won = ["INFO the swap was not won: LOST txn=t phase=swap"] * 2
    assert won == _lines(said, "t", logging.INFO)


def test_a_conflict_is_told(lake: Lake, said):
    lake.table("a", [1])
    handle = lake.open()
    txn = handle.begin(txn_id="late")
    txn.load_table(A).delete("id = 1")
    handle.catalog().load_table(A).delete("id = 1")
    with pytest.raises(Conflict):
        txn.commit()
    [line] = _lines(said, "late", logging.INFO)
    assert line.startswith("INFO not committed: ")


def test_an_unknown_outcome_is_a_warning(lake: Lake, said):
    lake.table("a", [1])
    catalog = MuteCatalog("lake", **lake.catalog.properties)
    txn = lake.open(catalog).begin(txn_id="lost")
    txn.load_table(A).append(rows(2))
    with pytest.raises(CommitStateUnknown):
        txn.commit()
    assert "WARNING nobody knows yet whether it has committed txn=lost" in _lines(said, "lost")


def test_who_applies_says_whose_change_it_is(lake: Lake, said):
    """A line about a table is about the transaction whose change is carried over."""
    lake.table("a", [1])
    with lake.open(apply="next").begin(txn_id="first") as txn:
        txn.load_table(A).append(rows(2))
    catalog = lake.another_catalog()
    commit = catalog.commit_table

    def refuse(table, *changes):
        if table.name() == ("shop", "a"):
            raise CommitFailedException("not now, nor later")
        return commit(table, *changes)

    catalog.commit_table = refuse
    said.clear()
    lake.open(catalog).apply_le()
    [line] = _lines(said, "first", logging.WARNING)
    assert line.endswith("nobody has moved main txn=first table=shop.a phase=apply")


def test_what_cannot_be_carried_over_is_told_of_whose_it_is(lake: Lake, said):
    """Who has come by with a transaction of his own has nothing to do with it."""
    lake.table("a", [1])
    lake.table("b", [1])
    log = lake.open(apply="next")
    with log.begin(txn_id="first") as txn:
        txn.load_table(A).append(rows(2))
    log.change_settings(apply="inline")
    catalog = lake.another_catalog()
    commit = catalog.commit_table

    def fail(table, *changes):
        if table.name() == ("shop", "a"):
            raise OSError("no answer")
        return commit(table, *changes)

    catalog.commit_table = fail
    said.clear()
    with lake.open(catalog).begin(txn_id="second") as txn:
        txn.load_table("shop.b").append(rows(2))
        txn.load_table(A).append(rows(3))
    [line] = _lines(said, "first", logging.WARNING)
    assert line.startswith("WARNING entries stay unapplied")
    assert not _lines(said, "second", logging.WARNING)


def test_what_a_line_is_about_ends_with_its_block(said):
    log = logger("txns.test")
    with about(txn="t", phase="swap"):
        with about(table=("shop", "a.b"), phase="apply"):
            log.info("inside", extra=fields(ms=3))
        log.info("outside", extra=fields(txn="another"))
    log.info("after")
    assert [
        'inside txn=t table="shop.`a.b`" phase=apply ms=3',
        "outside txn=another phase=swap",
        "after",
    ] == [each.getMessage() for each in said.records]
