"""A history is replayed in commit order: each anomaly is found, and nothing else."""

from __future__ import annotations

import json

import pytest

from txns._log.entry import Isolation
from txns._verify.history import Deed, Outcome, as_elle
from txns._verify.model import Row, Step, where
from txns._verify.replay import Replay

SNAPSHOT, STRICT = Isolation.SNAPSHOT, Isolation.STRICT_SERIALIZABLE
READ_A, READ_B = Step("read", "a"), Step("read", "b", where("day", "=", 1))
BEFORE = {"a": (), "b": (Row(1, 1, 5),)}


def _append(number, table="a"):
    return Step("append", table, rows=(Row(number, 1, 0),))


def _deed(name, read_ts, commit_ts, *statements, began_ms=0, outcome=Outcome.COMMITTED):
    steps, seen = zip(*statements, strict=True)
    wrote = any(step.verb not in {"read", "count"} for step in steps)
    deed = Deed(name, 1, began_ms, read_ts, list(steps), list(seen), outcome=outcome)
    deed.wrote, deed.committing = wrote, True
    deed.commit_ts, deed.ended_ms = commit_ts, began_ms + 1
    return deed


def _found(deeds, level, after):
    return [each.name for each in Replay(BEFORE, deeds).anomalies(level, after)]


def test_one_after_the_other_is_none():
    deeds = [
        _deed("one", 10, 11, (READ_A, ()), (_append(7), None)),
        _deed("two", 11, 12, (READ_A, (Row(7, 1, 0),)), (READ_B, BEFORE["b"]), began_ms=5),
    ]
    assert [] == _found(deeds, STRICT, {**BEFORE, "a": (Row(7, 1, 0),)})


@pytest.mark.parametrize(("level", "found"), [(SNAPSHOT, []), (STRICT, ["write skew or phantom"])])
def test_write_skew(level, found):
    deeds = [
        _deed("one", 10, 11, (READ_B, BEFORE["b"]), (_append(7), None)),
        _deed("two", 10, 12, (READ_A, ()), (_append(8, "b"), None)),
    ]
    assert found == _found(deeds, level, {"a": (Row(7, 1, 0),), "b": (*BEFORE["b"], Row(8, 1, 0))})


def test_a_lost_update():
    put = Step("overwrite", "b", where("id", "=", 1), (Row(1, 1, 6),))
    again = Step("overwrite", "b", where("id", "=", 1), (Row(1, 1, 7),))
    deeds = [
        _deed("one", 10, 11, (READ_B, BEFORE["b"]), (put, None)),
        _deed("two", 10, 12, (READ_B, BEFORE["b"]), (again, None)),
    ]
    assert ["lost update"] == _found(deeds, SNAPSHOT, {**BEFORE, "b": (Row(1, 1, 7),)})


def test_a_torn_read():
    """One table with the other transaction, and one without."""
    deeds = [
        _deed("one", 10, 11, (_append(7), None), (_append(8, "b"), None)),
        _deed("two", 11, 11, (READ_A, (Row(7, 1, 0),)), (READ_B, BEFORE["b"])),
    ]
    after = {"a": (Row(7, 1, 0),), "b": (*BEFORE["b"], Row(8, 1, 0))}
    assert ["snapshot read"] == _found(deeds, SNAPSHOT, after)


def test_a_stale_read():
    deeds = [
        _deed("one", 10, 11, (_append(7), None), began_ms=0),
        _deed("two", 10, 10, (READ_A, ()), began_ms=50),
    ]
    assert ["stale read"] == _found(deeds, STRICT, {**BEFORE, "a": (Row(7, 1, 0),)})


def test_lost_and_doubled_rows():
    deeds = [_deed("one", 10, 11, (_append(7), None))]
    assert ["other rows in the end"] == _found(deeds, STRICT, BEFORE)
    doubled = {**BEFORE, "a": (Row(7, 1, 0), Row(7, 1, 0))}
    assert ["other rows in the end"] == _found(deeds, STRICT, doubled)
    (told,) = Replay(BEFORE, deeds).anomalies(STRICT, doubled)
    assert "a: lost [], more [Row(id=7, day=1, amount=0)]" == told.words


def test_elles_format():
    """Invoked without what reads gave; then what became of it, in order of time."""
    lists = Step("read", "lists", where("day", "=", 3))
    deeds = [
        _deed("one", 10, 11, (lists, (Row(9, 3, 1), Row(4, 3, 0))), (_on_list(5), None)),
        _deed("two", 10, None, (lists, ()), began_ms=3, outcome=Outcome.UNKNOWN),
    ]
    lines = [json.loads(json.dumps(line)) for line in as_elle(deeds)]
    assert [
        ("invoke", [["r", 3, None], ["append", 3, 5]]),
        ("ok", [["r", 3, [4, 9]], ["append", 3, 5]]),
        ("invoke", [["r", 3, None]]),
        ("info", [["r", 3, None]]),
    ] == [(line["type"], line["value"]) for line in lines]


def _lists(name, began_ms, ended_ms, session, outcome=Outcome.COMMITTED):
    deed = _deed(name, 10, 11, (_on_list(began_ms), None), began_ms=began_ms, outcome=outcome)
    deed.session, deed.ended_ms = session, ended_ms
    return deed


def test_in_elles_format_a_process_has_one_operation_at_a_time():
    """
    Its readers refuse another history.

    1. A session ends a transaction and begins the next one in one ms; another one begins there.
    2. Its process is killed; the session goes on in a new one.
    3. What became of one is not known.
    """
    deeds = [
        _lists("one", 0, 5, 1),
        _lists("two", 5, 5, 1),
        _lists("beside", 5, 9, 2),
        _lists("killed", 6, None, 1, Outcome.UNKNOWN),
        _lists("after", 10, 12, 1),
        _lists("lost", 12, 13, 2, Outcome.UNKNOWN),
        _lists("last", 14, 15, 2),
    ]
    lines = [*as_elle(deeds)]
    assert [*range(len(lines))] == [line["index"] for line in lines]
    running, ended = {}, set()
    for line in lines:
        process = line["process"]
        if line["type"] == "invoke":
            assert process not in running, line
            assert process not in ended, line
            running[process] = line["value"]
        else:
            assert running.pop(process) == line["value"]
            if line["type"] == "info":
                ended.add(process)
    assert 1 == len(running)  # the one that was killed
    assert [0, 5, 5, 5, 5] == [line["time"] // 1_000_000 for line in lines[:5]]
    assert ["invoke"] * 3 == [line["type"] for line in lines[:3]]  # what ended is told after them


def _on_list(number):
    return Step("append", "lists", rows=(Row(number, 3, 2),))
