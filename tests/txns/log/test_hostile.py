"""What the fuzzer (tests/fuzz) has found once: hostile bytes are *CorruptLog*, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table.metadata import TableMetadataUtil

from txns._iceberg.snapshots import History
from txns._log import archive, entry, limits, payload
from txns._log.change import Change, Operation
from txns._log.entry import Entry, Kind, LoggedChange, Payload
from txns._table import mark, outstanding_branch, replay
from txns.errors import CorruptLog

GOLDEN = Path(__file__).resolve().parents[3] / "docs" / "golden"
TABLE: dict[str, Any] = {
    "identifier": {"namespace": ["shop"], "name": "a"},
    "uuid": "u",
    "operation": "append",
    "to-snapshot-id": 1,
    "added-records": 0,
    "deleted-records": 0,
}


def valid(name: str) -> dict[str, str]:
    summary: dict[str, str] = json.loads((GOLDEN / f"valid/{name}.json").read_text())["summary"]
    return summary


@pytest.mark.parametrize("key", ["txns.commit-ts", "txns.format-version", "txns.upper"])
def test_a_number_of_very_many_digits_is_refused(key):
    with pytest.raises(CorruptLog, match="int64"):
        entry.from_summary({**valid("commit"), key: "9" * 100_000})


@pytest.mark.parametrize(
    "txn_id",
    ["\u3000\u00a0", "half \ud800 of a pair", "\udfff", "\x85", "x" * 256],
)
def test_an_id_that_nobody_can_write_or_see_is_refused(txn_id):
    with pytest.raises(CorruptLog, match="printable"):
        entry.from_summary({**valid("advance"), "txns.txn-id": txn_id})


def test_words_for_people_keep_nobody_from_the_archive():
    """Half of a pair in them is in no file."""
    found = entry.from_summary(
        {**valid("advance"), "txns.engine": "a\ud800", "txns.comment": "\udfff"}
    )
    assert ("a?", "?") == (found.engine, found.comment)
    assert 1 == archive.to_arrow(archive.rows_of(found)).num_rows


@pytest.mark.parametrize(
    "changed",
    [
        {"identifier": {"namespace": ["shop"], "name": ""}},
        {"identifier": {"namespace": ["shop"], "name": "a\0"}},
        {"identifier": {"namespace": ["sh\0p"], "name": "a"}},
        {"from-snapshot-id": -(2**63) - 1},
    ],
)
def test_a_table_that_no_catalog_can_have_is_refused(changed):
    tables = json.dumps([{**TABLE, **changed}])
    with pytest.raises(CorruptLog):
        entry.from_summary({**valid("register"), "txns.tables": tables})


def test_the_least_id_of_a_snapshot_is_one():
    tables = json.dumps([{**TABLE, "from-snapshot-id": -(2**63)}])
    [change] = entry.from_summary({**valid("register"), "txns.tables": tables}).changes
    assert -(2**63) == change.from_snapshot_id


@pytest.mark.parametrize(
    "stored",
    [
        *("[NaN]", "[Infinity]", "[-Infinity]", "[] []", "[]x", "\ufeff[]", "", "[1,]"),
        *('["\\ud800"]', '["\ud800"]', '{"\\udc00":1}', "[01]", "[+1]", "[.5]"),
        *("[1" + "0" * 100 + "]", "[0." + "1" * 100 + "]", "[1e" + "9" * 100 + "]"),
        *("[" * 65 + "]" * 65, '["' + "x" * (limits.TEXT_MAX_CHARACTERS + 1) + '"]'),
        *("[" + "0," * limits.VALUES_MAX + "0]", "[" + "[]," * limits.VALUES_MAX + "0]"),
    ],
    ids=lambda stored: stored[:12],
)
def test_what_one_library_alone_takes_is_no_json_of_the_log(stored):
    with pytest.raises(ValueError, match=r"."):
        limits.parsed(stored)


@pytest.mark.parametrize(
    "stored",
    [
        *("[1e999999999]", "[1" + "0" * 99 + "]", "[-0, -0.0, 1E+2]", '{"a":1,"a":2}'),
        *('["\\ud83d\\ude00"]', " [\n] ", "0", '["' + "x" * limits.TEXT_MAX_CHARACTERS + '"]'),
    ],
    ids=lambda stored: stored[:12],
)
def test_what_every_library_takes_is_json_of_the_log(stored):
    limits.parsed(stored)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_a_payload_is_utf_8(encoding):
    text = valid("commit")["txns.payload"]
    with pytest.raises(CorruptLog, match="cannot be read"):
        payload.parse(entry.from_summary(valid("commit")), text.encode(encoding))


def test_a_payload_with_half_of_a_pair_is_refused():
    stored = Payload(inline='{"table-changes": ["\ud800"]}')
    with pytest.raises(CorruptLog, match="cannot be read"):
        payload.parse(entry.from_summary(valid("commit")), payload.read(stored, None))  # type: ignore[arg-type]


def test_an_inline_payload_that_belongs_into_a_file_is_refused():
    with pytest.raises(CorruptLog, match="inline"):
        entry.from_summary({**valid("commit"), "txns.payload": "€" * 30_000})


SNAPSHOT: dict[str, Any] = {
    "snapshot-id": 2,
    "sequence-number": 2,
    "timestamp-ms": 1,
    "manifest-list": "x",
    "summary": {"operation": "append"},
}
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}


NO_DECIMAL = {"id": 1, "name": "id", "required": False, "type": "decimal(0,0)"}


@pytest.mark.parametrize(
    "update",
    [
        {"action": "unheard-of"},
        {"action": "ADD-SNAPSHOT", "snapshot": SNAPSHOT},
        {"action": "set-properties", "updates": {"a": 1}},
        {"action": "set-current-schema", "schema-id": "0"},
        {"action": "set-current-schema", "schema-id": 2**31},
        {"action": "remove-snapshots", "snapshot-ids": [1.0]},
        {"action": "add-snapshot", "snapshot": {**SNAPSHOT, "summary": {"operation": "sync"}}},
        {
            "action": "add-snapshot",
            "snapshot": {**SNAPSHOT, "summary": {"operation": "append", "n": 1}},
        },
        {"action": "add-snapshot", "snapshot": {**SNAPSHOT, "parent-snapshot-id": None}},
        {"action": "add-snapshot", "snapshot": {**SNAPSHOT, "first-row-id": 0, "added-rows": -1}},
        {"action": "add-snapshot", "snapshot": {**SNAPSHOT, "first-row-id": -1, "added-rows": 0}},
        {"action": "add-snapshot", "snapshot": {**SNAPSHOT, "first-row-id": 0}},
        {"action": "add-schema", "schema": {**SCHEMA, "type": "list"}},
        {"action": "add-schema", "schema": {**SCHEMA, "fields": [NO_DECIMAL]}},
        {"action": "add-schema", "schema": {**SCHEMA, "fields": SCHEMA["fields"] * 2}},
        {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": []}},
        {"action": "assign-uuid", "uuid": "{c8f2a7e4-5b19-4f63-a0d2-6e4b8c1f9d03}"},
    ],
    ids=str,
)
def test_a_payload_has_the_shape_of_the_specification(update):
    """One library or the other takes each of them, the other one does not."""
    said = {**TABLE, "requirements": [], "updates": [update]}
    with pytest.raises(CorruptLog, match="cannot be read"):
        payload.parse(entry.from_summary(valid("create")), dumped({"table-changes": [said]}))


def dumped(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    "changed",
    [
        *(
            {"kind": "commits"},
            {"isolation": "SNAPSHOT"},
            {"operation": None},
            {"table_uuid": None},
        ),
        *({"table_name": each} for each in ("", "shop.", "`shop.a", "sh`op.a", "`shop`.a", "a\0")),
    ],
)
def test_rows_of_the_archive_that_hold_no_entry_are_refused(changed):
    row = {
        "commit_ts": 5,
        "txn_id": "t",
        "kind": "commit",
        "table_name": "shop.a",
        "table_uuid": "u",
        "operation": "append",
        "parent_snapshot_id": 1,
        "snapshot_id": 2,
        "added_records": 1,
        "deleted_records": 0,
        "read_ts": 4,
        "isolation": "snapshot",
        "engine": None,
        "comment": None,
    }
    assert archive.entries_of([row])
    with pytest.raises(CorruptLog):
        archive.entries_of([{**row, **changed}])


def metadata(*snapshots: dict[str, Any]) -> Any:
    golden = json.loads((GOLDEN / "logged_states.json").read_text())[0]["base"]
    made = [{**SNAPSHOT, "schema-id": 0, **each} for each in snapshots]
    return TableMetadataUtil.parse_obj(
        {**golden, "snapshots": made, "current-snapshot-id": 2, "refs": {}, "snapshot-log": []}
    )


@pytest.mark.parametrize("parents", [(2,), (3, 2)])
def test_a_history_that_goes_in_a_circle_comes_to_an_end(parents):
    table = metadata(
        *({"snapshot-id": n, "parent-snapshot-id": each} for n, each in enumerate(parents, 2))
    )
    with pytest.raises(CorruptLog, match="circle"):
        list(History(table).ancestors(table.current_snapshot()))


@pytest.mark.parametrize("stored", ["x", "1,,2", "1,", ",", " 1", "1.0", "٣", str(2**63), 5])
def test_what_a_summary_adopts_are_ids(stored):
    table = metadata({"summary": {"operation": "append", "txns.adopted": stored}})
    with pytest.raises(CorruptLog, match=r"adopted"):
        mark.adopted_by(table.current_snapshot())


def test_what_a_copy_is_of_is_a_number():
    table = metadata({"summary": {"operation": "append", "txns.outstanding": "soon"}})
    with pytest.raises(CorruptLog, match="outstanding"):
        outstanding_branch.done(table, 5)


@pytest.mark.parametrize("left_out", ["add-schema", "add-snapshot", "set-snapshot-ref", "add-spec"])
def test_a_creation_that_makes_no_table_is_refused(left_out):
    created = entry.from_summary(valid("create"))
    assert created.payload.inline is not None
    said = json.loads(created.payload.inline)
    [one] = said["table-changes"]
    one["updates"] = [each for each in one["updates"] if each["action"] != left_out]
    [request] = payload.parse(created, dumped(said))
    with pytest.raises(CorruptLog, match="creates"):
        replay.create(LoggedChange(created, created.changes[0]), request, now_ms=1)


def test_a_change_that_names_what_is_not_there_is_quarantine():
    """Libraries take a default that is none, and is at a loss later."""
    change = Change(("shop", "a"), "u", Operation.APPEND, 2, 3)
    ours = Entry(Kind.COMMIT, "t", 5, 0, 5, changes=(change,))
    said = {**TABLE, "requirements": [], "updates": [{"action": "set-default-spec", "spec-id": 77}]}
    [request] = payload.parse(ours, dumped({"table-changes": [said]}))
    with pytest.raises(replay.Quarantined, match="fit"):
        replay.replay(
            metadata({}), LoggedChange(ours, change), request, 1, replay.renumber_in_memory
        )
