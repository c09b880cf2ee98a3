"""What the model of history says of two that meet in one table, and of who waits for whom."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from pyiceberg.manifest import DataFileContent

from tests.simulation import turns
from tests.simulation.attempts import Attempt, Operation, Read, Version
from tests.simulation.contents import Contents, File
from tests.simulation.history import History
from tests.simulation.scheduler import Violation
from tests.simulation.settings import Switch
from tests.simulation.where import ALL, Where

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

T = ("lake", "t0")
BEFORE = frozenset({1, 2, 3, 6})
AFTER = frozenset({1, 2, 3, 4})
"""Of the parts 1, 2, 0 and 1: row 4 of part 1 came, row 6 of part 0 went."""
APPENDS = Operation(T, "append", frozenset({7}))
REMOVES = Operation(T, "overwrite", removed=frozenset({2}))
ALTERS = Operation(T, "alter", columns=frozenset({"c long"}))


@pytest.fixture
def history():
    made = History()
    made.by_file = True
    made.add(T, Version(10, exists=True, rows=BEFORE))
    made.add(T, Version(20, exists=True, rows=AFTER))
    return made


def attempt(isolation: str, where: Where, *operations: Operation, **more: bool) -> Attempt:
    """Give one that has read some rows of a table at 10."""
    tried = Attempt("it", isolation=isolation, read_ts=10, by_table=more.pop("by_table", False))
    tried.reads.append(Read(T, where.of(BEFORE), (), where=where, **more))
    tried.operations.extend(operations)
    return tried


@pytest.mark.parametrize("met", [Where(1), Where(0), Where(high=4), Where(low=5), ALL])
def test_a_read_whose_rows_came_or_went_is_found(history: History, met: Where):
    """From SERIALIZABLE on, of whatever table; at SNAPSHOT of one that is written as well."""
    history.judge_commit(attempt("snapshot", met), 30)
    with pytest.raises(Violation, match="serializable"):
        history.judge_commit(attempt("serializable", met), 30)
    for writes in (APPENDS, REMOVES):
        with pytest.raises(Violation, match="lost update"):
            history.judge_commit(attempt("snapshot", met, writes), 30)


@pytest.mark.parametrize("level", ["snapshot", "serializable", "strict-serializable"])
@pytest.mark.parametrize("missed", [Where(2), Where(high=3), Where(1, high=3)])
def test_who_has_read_other_rows_may_write_the_table(history: History, level: str, missed: Where):
    """Others have changed rows of it that the filter does not match."""
    for writes in (APPENDS, REMOVES):
        history.judge_commit(attempt(level, missed, writes), 30)
    assert history.passed_by == 1


def test_a_filter_that_was_to_be_written_by_is_held_at_every_level(history: History):
    """Also where it has matched nothing, so that nothing was written."""
    where = Where(low=4, high=4)
    with pytest.raises(Violation, match="lost update"):
        history.judge_commit(attempt("snapshot", where, conditional=True), 30)


def test_a_row_that_is_gone_is_not_taken_away_again(history: History):
    """Its own operation sees it, whatever was read."""
    gone = Operation(T, "overwrite", removed=frozenset({6}))
    tried = attempt("snapshot", Where(2), gone)
    history.judge_commit(tried, 30)
    with pytest.raises(Violation, match="lost update"):
        tried.state(T, history.newest(T))


def test_to_alter_a_table_is_to_write_over_all_of_it(history: History):
    """As is anything but to add and to remove rows."""
    with pytest.raises(Violation, match="lost update"):
        history.judge_commit(attempt("snapshot", Where(2), ALTERS), 30)


def test_who_goes_by_tables_clashes_with_any_change_of_one(history: History):
    """What was written over must be as it was, and so must what was read."""
    with pytest.raises(Violation, match="lost update"):
        history.judge_commit(attempt("snapshot", Where(2), REMOVES, by_table=True), 30)
    with pytest.raises(Violation, match="by table"):
        history.judge_commit(attempt("serializable", Where(2), by_table=True), 30)


@pytest.mark.parametrize(("marked", "left"), [("new", set()), ("old", {7}), (None, set())])
def test_a_position_delete_takes_rows_from_the_file_that_it_names(marked: str | None, left: set):
    """One that was made again over a compaction leaves the row that was moved."""
    paths = {"old": "memory://t/data/7-1.parquet", "new": "memory://t/data/7-2.parquet", None: None}
    data = File(paths["new"], DataFileContent.DATA, 2, None, 1, is_live=True)
    deletes = File(
        "memory://t/data/position-deletes/7-3.parquet",
        DataFileContent.POSITION_DELETES,
        3,
        None,
        1,
        is_live=True,
        marks=paths[marked],
    )
    contents = Contents(SimpleNamespace(expired_data=set()))
    contents.live = lambda _list: [data, deletes]
    assert contents.rows_of_list("list") == left


@pytest.mark.parametrize(
    ("ms", "judged"), [(6_000, nullcontext()), (9_000, pytest.raises(Violation, match="turns"))]
)
def test_who_waits_for_longer_than_was_reserved_is_found(
    ms: int, judged: AbstractContextManager[object]
):
    """What stood in the log while he waited counts, whoever had reserved it."""
    reserved = turns.Reserved()
    one = {"txn-id": "a", "number": 1, "lasts-ms": 4000}
    reserved.note(json.dumps([one]), 1_000)
    reserved.note("[]", 2_000)
    worker = SimpleNamespace(
        process=SimpleNamespace(doing="b.1", paused_ms=0),
        has=lambda switch: switch is Switch.RESERVATIONS,
        lake=SimpleNamespace(
            observer=SimpleNamespace(reserved=reserved),
            world=SimpleNamespace(now_ms=1_500, faults=SimpleNamespace(happened=[])),
        ),
    )
    with judged, turns.bounded(worker):
        worker.process.paused_ms = ms
