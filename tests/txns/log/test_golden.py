"""The stored bytes are those of docs/spec.md: every file of docs/golden is read as it says."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation as SnapshotOperation
from pyiceberg.table.snapshots import Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

from txns._clock import SystemClock
from txns._commit import adoption
from txns._iceberg import places, snapshot_numbers
from txns._iceberg.sql_rows import queue_of
from txns._log import commit_table as _commit_table
from txns._log import entry as _entry
from txns._log import payload as _payload
from txns._log import permitted
from txns._log.change import TABLES, Change, Operation
from txns._log.commit_log import CommitLog
from txns._log.entry import Entry, Isolation, Kind, LoggedChange, Payload, derived_id
from txns._log.reservation import KEY as RESERVE
from txns._log.reservation import Reservation
from txns._log.settings import Settings
from txns._table import mark, outstanding_branch
from txns._table.logged_state import logged_state
from txns.errors import CorruptLog, TxnsError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

GOLDEN = Path(__file__).resolve().parents[3] / "docs" / "golden"
COMMITS = ("txns", "commits")
ERRORS: dict[str, type[TxnsError]] = {"CORRUPT_LOG": CorruptLog, "UNSUPPORTED": Unsupported}


def _files(folder: str) -> list[Any]:
    found = [json.loads(path.read_text("utf-8")) for path in sorted((GOLDEN / folder).iterdir())]
    names = sorted(path.stem for path in (GOLDEN / folder).iterdir())
    assert names == [golden["name"] for golden in found]
    return [pytest.param(golden, id=golden["name"]) for golden in found]


VALID, INVALID, HEAD = _files("valid"), _files("invalid"), _files("head")
INLINE = [param for param in VALID if param.values[0]["entry"]["payload"] is not None]


@pytest.mark.parametrize("golden", VALID)
def test_a_valid_summary_holds_the_entry(golden: dict[str, Any]) -> None:
    """A decoder makes of `summary` what the file's `entry` says."""
    expected = golden["entry"]
    tidy = expected["kind"] == Kind.TIDY.value
    assert Entry(
        kind=Kind(expected["kind"]),
        txn_id=expected["txnId"],
        upper=expected["upper"],
        tidied_upto=expected["tidiedUpto"],
        commit_ts=expected["commitTs"] or 0,
        prev_ts=expected["prevTs"] or 0,
        read_ts=expected["readTs"] or 0,
        isolation=Isolation.SNAPSHOT if tidy else Isolation(expected["isolation"]),
        engine=expected["engine"],
        comment=expected["comment"],
        changes=tuple(_change(table) for table in expected["tables"]),
        payload=Payload(
            expected["payload"], expected["payloadLocation"], expected["payloadSha256"]
        ),
        settings=_settings(expected),
        reserved=_reserved(expected),
    ) == _entry.from_summary(golden["summary"]), golden["why"]


@pytest.mark.parametrize("golden", VALID)
def test_an_entry_is_written_as_its_summary(golden: dict[str, Any]) -> None:
    """An encoder makes of the decoded entry the same keys and texts, or those of `encoded`."""
    expected = dict(golden.get("encoded", golden["summary"]))
    written = _entry.to_summary(_entry.from_summary(golden["summary"]))

    assert _tables(expected) == _tables(written), golden["why"]
    assert expected == written, golden["why"]


@pytest.mark.parametrize("golden", INLINE)
def test_an_inline_payload_names_the_tables_of_its_entry(golden: dict[str, Any]) -> None:
    """A payload that Iceberg wrote is read, one request for each change."""
    entry = _entry.from_summary(golden["summary"])
    assert entry.payload.inline is not None

    requests = _payload.parse(entry, entry.payload.inline.encode())

    named = [(*request.identifier.namespace.root, request.identifier.name) for request in requests]
    assert [change.table for change in entry.carried] == named


@pytest.mark.parametrize("golden", INLINE)
def test_an_inline_payload_keeps_its_meaning(golden: dict[str, Any]) -> None:
    """What Python writes of a payload that it has read says what Iceberg wrote."""
    entry = _entry.from_summary(golden["summary"])
    assert entry.payload.inline is not None

    written = _payload.dump(_payload.parse(entry, entry.payload.inline.encode()))

    assert _said(json.loads(entry.payload.inline)) == _said(json.loads(written))


@pytest.mark.parametrize("golden", INVALID)
def test_an_invalid_summary_is_refused(golden: dict[str, Any]) -> None:
    """A decoder refuses `summary`, with the kind of error that the file names."""
    with pytest.raises(TxnsError) as refused:
        _entry.from_summary(golden["summary"])
    assert ERRORS[golden["error"]] is type(refused.value), golden["why"]


@pytest.mark.parametrize("golden", HEAD)
def test_a_head_says_what_has_committed_or_is_refused(
    golden: dict[str, Any], tmp_path: Path
) -> None:
    """A commit table with the file's snapshots is read as `expected`, or refused as `error`."""
    log = _commit_log(tmp_path, golden["snapshots"], golden["main"])

    if "error" in golden:
        with pytest.raises(TxnsError) as refused:
            log.load()
        assert ERRORS[golden["error"]] is type(refused.value), golden["why"]
        assert golden.get("violated", "") in str(refused.value)
        return
    state, expected = log.load().state, golden["expected"]
    assert expected["upper"] == state.upper
    assert expected["tidiedUpto"] == state.tidied_upto
    assert expected["entries"] == [entry.commit_ts for entry in state.entries]
    assert (_settings(expected) or Settings()) == state.settings
    assert _reserved(expected) == state.reserved


def test_derived_ids_are_the_specifications() -> None:
    """Who does the same deed in either language makes the same transaction id."""
    for golden in json.loads((GOLDEN / "derived_ids.json").read_text("utf-8")):
        deed, uuid, *what = golden["text"].split(":")
        assert golden["txnId"] == derived_id(deed, uuid, *what), golden["why"]


def test_keys_of_queues_are_the_specifications() -> None:
    """Writers of both languages wait in one queue."""
    for golden in json.loads((GOLDEN / "queue_keys.json").read_text("utf-8")):
        table = (*golden["namespace"], golden["name"])
        assert golden["key"] == queue_of(golden["catalog"], table), golden["why"]


def test_names_of_payload_files_are_the_specifications() -> None:
    """Made of the id's hash, so that no id is too long for one, nor two ids the same."""
    for golden in json.loads((GOLDEN / "payload_names.json").read_text("utf-8")):
        sha256 = hashlib.sha256(golden["payload"].encode()).hexdigest()
        assert golden["name"] == _payload.file_name(golden["txnId"], sha256), golden["why"]
        if "again" in golden:
            assert golden["again"] == _payload.again(golden["name"], 1), golden["why"]


def test_a_log_is_named_as_the_specification_says() -> None:
    """By its table's uuid, or by the epoch that a recovery has begun."""
    for golden in json.loads((GOLDEN / "log_ids.json").read_text("utf-8")):
        found = _commit_table.log_id(golden["uuid"], golden["properties"])
        assert golden["logId"] == found, golden["why"]


def test_a_registration_sets_the_properties_of_the_specification() -> None:
    """The mark, what counts as applied, and what keeps expiry away."""
    for golden in json.loads((GOLDEN / "registrations.json").read_text("utf-8")):
        commit_table = golden["commitTable"]
        assert golden["set"] == mark.registration_properties(
            (*commit_table["namespace"], commit_table["name"]),
            golden["logId"],
            golden["tableUuid"],
            golden["upper"],
            golden["before"],
        ), golden["why"]


def test_the_branch_of_what_cannot_be_applied_is_that_of_the_specification() -> None:
    """Copies that every implementation makes alike, and the branch on them."""
    for golden in json.loads((GOLDEN / "outstanding_branches.json").read_text("utf-8")):
        staged = [
            (each["commitTs"], Snapshot.model_validate(each["snapshot"]))
            for each in golden["staged"]
        ]
        base = TableMetadataUtil.parse_obj(golden["base"])
        left = outstanding_branch.Left(golden["fromSnapshotId"], staged)
        *copies, branch = outstanding_branch.put(base, left, golden["nowMs"])
        made = [json.loads(each.snapshot.model_dump_json()) for each in copies]
        assert golden["copies"] == made, golden["why"]
        ref = json.loads(branch.model_dump_json(exclude_none=True))
        assert "txns-outstanding" == ref["ref-name"]
        assert golden["branch"] == {key: ref[key] for key in golden["branch"]}


def test_the_logged_state_is_that_of_the_specification() -> None:
    """Where an entry left `main`, whatever strangers have done to it since."""
    for golden in json.loads((GOLDEN / "logged_states.json").read_text("utf-8")):
        base = TableMetadataUtil.parse_obj(golden["base"])
        care = mark.TableMark("txns.commits", "", 0, mark.applied_ts(base))
        found = logged_state(base, care).snapshot
        assert golden["loggedSnapshotId"] == (found and found.snapshot_id), golden["why"]


PERMITTED = json.loads((GOLDEN / "permitted_changes.json").read_text("utf-8"))


@pytest.mark.parametrize("golden", PERMITTED["changes"], ids=lambda golden: golden["why"])
def test_a_change_has_the_updates_of_the_specification(golden: dict[str, Any]) -> None:
    change = Change(
        ("shop", "a"),
        PERMITTED["uuid"],
        Operation(golden["operation"]),
        golden["fromSnapshotId"],
        PERMITTED["toSnapshotId"],
    )
    ts = PERMITTED["commitTs"]
    entry = Entry(Kind(golden["kind"]), PERMITTED["txnId"], ts, tidied_upto=0, commit_ts=ts)
    request = _request(golden["requirements"], golden["updates"])
    log = tuple(PERMITTED["log"].split("."))
    why = permitted.forbidden(LoggedChange(entry, change), request, log)
    assert golden["permitted"] is (why == ""), why


@pytest.mark.parametrize(
    "golden",
    json.loads((GOLDEN / "named_files.json").read_text("utf-8")),
    ids=lambda golden: golden["why"],
)
def test_manifest_lists_lie_where_the_specification_says(golden: dict[str, Any]) -> None:
    base = golden["base"] and TableMetadataUtil.parse_obj(golden["base"])
    updates = _request([], golden["updates"]).updates
    assert golden["misplaced"] == places.misplaced_files(base, updates)


@pytest.mark.parametrize(
    "golden",
    json.loads((GOLDEN / "snapshot_numbers.json").read_text("utf-8")),
    ids=lambda golden: golden["why"],
)
def test_numbers_are_as_far_ahead_as_the_specification_says(golden: dict[str, Any]) -> None:
    base = golden["base"] and TableMetadataUtil.parse_obj(golden["base"])
    updates = _request([], golden["updates"]).updates
    assert golden["farAhead"] == snapshot_numbers.far_ahead(base, updates)


PLACES = json.loads((GOLDEN / "table_places.json").read_text("utf-8"))


@pytest.mark.parametrize("golden", PLACES["changes"], ids=lambda golden: golden["why"])
def test_tables_stand_where_the_specification_says(golden: dict[str, Any]) -> None:
    base = None if golden["creates"] else TableMetadataUtil.parse_obj(PLACES["base"])
    *namespace, name = golden["table"]
    folders = [
        spelled
        for each in golden["folders"]
        for spelled in places.spellings(each, tuple(namespace))
    ]
    moves = places.moves(base, _request([], golden["updates"]).updates)
    assert golden["elsewhere"] == places.elsewhere(moves, name, golden["allowed"], folders)


@pytest.mark.parametrize("name", ["x", "x y", "x\u2028y", "x\r", "x\n"])
def test_a_name_that_ends_with_an_uuid_has_another_ones_place(name):
    """Whatever the name has."""
    unique = f"{name}-0f1e2d3c4b5a69788796a5b4c3d2e1f0"
    assert places.other_name(f"s3://lake/shop/{unique}", unique) == name
    assert places.other_name(f"s3://lake/shop/{unique}", name) == unique
    assert places.other_name(f"s3://lake/shop/{name}", name) is None


def _request(requirements: list[Any], updates: list[Any]) -> CommitTableRequest:
    return CommitTableRequest.model_validate(
        {
            "identifier": {"namespace": ["shop"], "name": "a"},
            "requirements": requirements,
            "updates": updates,
        }
    )


def test_every_kind_of_record_has_a_valid_file() -> None:
    """No kind is left without an example."""
    kinds = {param.values[0]["entry"]["kind"] for param in VALID}
    assert {kind.value for kind in Kind} == kinds


def _commit_log(folder: Path, snapshots: list[dict[str, Any]], main: int) -> CommitLog:
    """Make a commit table of a golden file's snapshots, in a real catalog."""
    catalog = InMemoryCatalog("golden", warehouse=folder.as_uri())
    catalog.create_namespace(COMMITS[:-1])
    table = catalog.create_table(COMMITS, _commit_table.SCHEMA)
    added = [
        AddSnapshotUpdate(
            snapshot=Snapshot(
                snapshot_id=golden["snapshot-id"],
                parent_snapshot_id=golden.get("parent-snapshot-id"),
                sequence_number=number,
                timestamp_ms=table.metadata.last_updated_ms,
                manifest_list=f"{folder.as_uri()}/snap-{golden['snapshot-id']}.avro",
                summary=Summary(SnapshotOperation(golden["operation"]), **golden["summary"]),
                schema_id=table.metadata.current_schema_id,
            )
        )
        for number, golden in enumerate(snapshots, 1)
    ]
    at = SetSnapshotRefUpdate(ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=main)
    catalog.commit_table(table, (), (*added, at))
    return CommitLog(catalog, COMMITS, SystemClock())


def _change(table: Mapping[str, Any]) -> Change:
    return Change(
        table=(*table["namespace"], table["name"]),
        uuid=table["uuid"],
        operation=Operation(table["operation"]),
        from_snapshot_id=table["fromSnapshotId"],
        to_snapshot_id=table["toSnapshotId"],
        added_records=table["addedRecords"],
        deleted_records=table["deletedRecords"],
        born_applied=table.get("bornApplied", False),
    )


def _tables(summary: dict[str, str]) -> object:
    """Take the keys that are compared as JSON out of a summary."""
    stored = [summary.pop(key, None) for key in (TABLES, _entry.SETTINGS, RESERVE)]
    return [None if each is None else json.loads(each) for each in stored]


def _settings(expected: dict[str, Any]) -> Settings | None:
    """Give the settings that a file says, where it says some."""
    said = expected.get("settings")
    return said and Settings(said["maxAgeMs"], said["idRetentionMs"], said["apply"])


def _reserved(expected: dict[str, Any]) -> tuple[Reservation, ...]:
    """Give the reservations that a file says, where it says some."""
    return tuple(
        Reservation(
            each["txnId"], tuple(each["uuids"]), each["ticket"], each["number"], each["lastsMs"]
        )
        for each in expected.get("reserve", ())
    )


def _said(value: object) -> object:
    """Leave out of JSON what says nothing: an empty value, and what is derived from others."""
    if isinstance(value, dict):
        said = {key: each for key, each in value.items() if each not in (None, {})}
        if said.get("action") == "add-schema":
            # Iceberg writes it for readers that are older than the fields' own ids.
            said.pop("last-column-id", None)
        if not said.get("identifier-field-ids", True):
            del said["identifier-field-ids"]
        return {key: _said(each) for key, each in said.items()}
    return [_said(each) for each in value] if isinstance(value, list) else value


def test_an_adoption_says_what_the_specification_has() -> None:
    """The stranger's own words, in both languages."""
    for golden in json.loads((GOLDEN / "adopted_words.json").read_text("utf-8")):
        theirs = Snapshot(
            snapshot_id=golden["snapshotId"],
            manifest_list="",
            timestamp_ms=1,
            summary=Summary(SnapshotOperation.APPEND, **golden["summary"]),
        )
        assert golden["said"] == adoption.words_for(theirs), golden["why"]
