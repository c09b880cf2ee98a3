"""What a record may hold at most (docs/spec.md 4.7): nobody is let in who would keep others out."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StructType

import txns
from tests.txns.lake import ids, rows
from txns._admin.invariants import check_all
from txns._commit.drafts import control_entry
from txns._log import limits, payload
from txns._log.entry import Entry, Kind, Payload
from txns._log.swap import Outcome


@pytest.mark.parametrize("character", ["a", "€"])
def test_a_comment_has_a_limit(lake, handle, character):
    longest = character * (limits.COMMENT_MAX_BYTES // len(character.encode()))
    with handle.begin(comment=longest) as txn:
        txn.load_table(lake.table("a")).append(rows(1))
    [*_, last] = handle.transactions()
    assert last["comment"] == longest
    with pytest.raises(txns.errors.InvalidUsage, match="shorten it") as refused:
        handle.begin(comment=longest + character)
    assert refused.value.sqlstate == "54000"


def test_a_transaction_of_too_many_tables_is_refused_and_leaves_nothing(lake, handle, monkeypatch):
    """Others who commit in the same moment go on."""
    monkeypatch.setattr(limits, "TABLES_MAX", 2)
    names = [lake.table(name) for name in "abc"]
    with handle.begin() as txn:
        for name in names[:2]:
            txn.load_table(name).append(rows(1))
    before = lake.files()
    with pytest.raises(txns.errors.InvalidUsage, match="divide it"), handle.begin() as txn:
        for name in names:
            txn.load_table(name).append(rows(2))
    assert before == {each for each in lake.files() if each in before}
    assert [1] == lake.plain_ids(names[0])
    assert not {each for each in lake.files() - before if each.endswith(".parquet")}


def test_a_schema_that_nests_too_deeply_is_refused(handle):
    deep: LongType | StructType = LongType()
    for number in range(2, 40):
        deep = StructType(NestedField(number, "inner", deep, required=False))
    with pytest.raises(txns.errors.InvalidUsage, match="flatten it"), handle.begin() as txn:
        txn.create_namespace_if_not_exists("shop")
        txn.create_table("shop.deep", Schema(NestedField(1, "outer", deep, required=False)))


_LARGE = 9_000_000
_CHANGE = '{"identifier":{"namespace":["shop"],"name":"a"},"requirements":[],"updates":[]}'


def _written(entry: Entry, folder: Path, name: str, size: int) -> Entry:
    text = f'{{"table-changes":[{_CHANGE}],"x":"{"x" * size}"}}'
    placed = payload.placed(str(folder), name, text)
    (folder / "metadata").mkdir(exist_ok=True)
    payload.write(PyArrowFileIO(), str(placed.location), text, lambda: None)
    return replace(entry, kind=Kind.COMMIT, txn_id=name, payload=placed)


def test_of_large_payloads_the_newest_is_kept(lake, handle, tmp_path):
    """Parsed they take many times as much: whoever writes the log would fill everybody's memory."""
    lake.table("a")
    [entry, *_] = handle.parts.log.load().state.entries
    small, one, two = (
        _written(entry, tmp_path, name, size)
        for name, size in {"small": 70_000, "one": _LARGE, "two": _LARGE}.items()
    )
    payloads = payload.Payloads()

    def read(entry: Entry) -> None:
        assert len(payloads.requests(entry, PyArrowFileIO(), str(tmp_path))) == 1

    read(one)
    read(small)
    read(two)
    for each in (one, small, two):
        Path(str(each.payload.location)).unlink()
    read(two)
    read(small)
    with pytest.raises(FileNotFoundError):
        read(one)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [limits.NESTING_MAX + 1, 100_000])
def test_json_that_nests_too_deeply_is_no_json_of_the_log(opening, depth):
    closing = "]" if opening == "[" else "}"
    with pytest.raises(ValueError, match="nested"):
        limits.parsed(opening * depth + ("1" if closing == "}" else "") + closing * depth)


def test_json_of_the_greatest_nesting_is_parsed():
    depth = limits.NESTING_MAX
    assert limits.parsed("[" * depth + "]" * depth)


def test_a_payload_file_that_is_too_large_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "PAYLOAD_MAX_BYTES", 10)
    file = tmp_path / "txns-payload-1.json"
    file.write_bytes(b"x" * 1000)
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    with pytest.raises(txns.errors.CorruptLog, match="at most 10 bytes"):
        payload.read(Payload(location=file.as_uri(), sha256=sha256), PyArrowFileIO())


def _append(log, clock, commit_ts: int) -> None:
    """Append what only moves the upper, as a program without the limit does."""
    head = log.load()
    moved = control_entry(Kind.ADVANCE, clock.new_txn_id(), head.state, commit_ts)
    assert Outcome.WON is log.append(head, [moved]).outcome


def test_a_clock_past_the_year_9999_commits_nothing(lake, handle):
    """The archive has no such time: who commits is refused, and the log stays as it was."""
    name = lake.table("a", [1])
    upper = handle.upper
    lake.clock.ahead_ms = limits.COMMIT_TS_LE
    with pytest.raises(txns.errors.InvalidUsage, match="the year 9999") as refused:
        handle.catalog().load_table(name).append(rows(2))
    assert refused.value.sqlstate == "54000"
    lake.clock.ahead_ms = 0
    assert upper == handle.upper
    handle.catalog().load_table(name).append(rows(2))
    assert [1, 2] == lake.plain_ids(name)


@pytest.mark.parametrize("commit_ts", [limits.COMMIT_TS_LE + 1, 9_223_372_036_854_775_807])
def test_a_log_past_the_year_9999_is_read_and_tidied(lake, handle, commit_ts):
    """And nobody commits to it any more."""
    name = lake.table("a", [1])
    _append(handle.parts.log, lake.clock, commit_ts)
    assert commit_ts == lake.open().upper
    assert lake.open().tidy()
    assert not lake.open().parts.log.load().state.entries
    [*_, last] = lake.open().transactions()
    assert (commit_ts, 9999) == (last["commit_ts"], last["committed_at"].year)
    assert [] == check_all(lake.open().parts).violations
    assert [1] == ids(lake.open().snapshot().load_table(name))
    with pytest.raises(txns.errors.InvalidUsage, match="the year 9999"):
        lake.open().catalog().load_table(name).append(rows(2))
