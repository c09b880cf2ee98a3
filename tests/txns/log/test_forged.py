"""What somebody who may write the commit table alone makes others do (docs/spec.md 4.5, 7, 10)."""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlparse
from uuid import UUID

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.locations import SimpleLocationProvider
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AssignUUIDUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    TableUpdate,
)
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import ListType, LongType, NestedField, StringType

import txns
from tests.txns.forged import last_applicable, log_creation, log_entry, log_forged
from tests.txns.lake import ids, rows
from txns._admin.void import void
from txns._config import Config
from txns._iceberg import places
from txns._iceberg.snapshots import branch_at
from txns._log import payload
from txns._log.change import Operation as LoggedOperation
from txns._log.entry import Kind, Payload
from txns._services import Parts

PLACES = [
    "{folder}/victim.json",
    "{folder}/../victim.json",
    "{folder}/txns-payload-1-2.json/../../../victim.json",
    "file:///victim",
    "{folder}/txns-payload-ab-cd.json.bak",
]


def log_payload(handle, location: str) -> None:
    """Log what was logged last once more, with a payload that is said to lie somewhere."""
    [change] = last_applicable(handle).changes
    to = change.to_snapshot_id
    assert to is not None
    log_entry(
        handle,
        replace(change, from_snapshot_id=to, to_snapshot_id=to - 1),
        Payload(location=location, sha256=hashlib.sha256(b"{}").hexdigest()),
    )


@pytest.mark.parametrize("place", PLACES)
def test_a_payload_that_lies_elsewhere_is_neither_read_nor_removed(lake, tmp_path, place):
    """`txns.applied` may say that it is applied: whoever writes the table can set that."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    handle.catalog().load_table(a).append(rows(2))
    folder = f"{handle.parts.log.load().metadata.location}/metadata"
    victim = tmp_path / "victim.json"
    location = victim.as_uri() if place == "file:///victim" else place.format(folder=folder)
    if place != "file:///victim":
        victim = Path(location.removeprefix("file://"))
        victim.parent.mkdir(parents=True, exist_ok=True)
    victim.write_text("{}")
    handle.apply_le()
    log_payload(handle, location)
    assert [("shop", "a")] == handle.apply_le()
    with pytest.raises(txns.errors.CorruptLog, match="lies where no writer"):
        handle.snapshot().load_table(a)
    lake.catalog.load_table(a).transaction().set_properties(
        {"txns.applied": str(handle.upper)}
    ).commit_transaction()
    assert handle.tidy()
    lake.pass_an_hour(handle)
    assert victim.exists()


@pytest.mark.parametrize("kind", [Kind.REPAIR, Kind.FORGET, Kind.ADOPT])
def test_no_record_changes_a_table_that_was_never_under_care(lake, kind, caplog):
    """Whoever may write the commit table alone has no right to it, and appliers may have."""
    a, b = lake.table("a", [1]), lake.table("b", [1], register=False)
    handle = lake.open(apply="next")
    handle.catalog().load_table(a).append(rows(2))
    handle.apply_le()
    plain = lake.catalog.load_table(b)
    main = plain.current_snapshot()
    log_forged(handle, plain, [], kind, LoggedOperation.OVERWRITE)
    assert [("shop", "b")] == handle.apply_le()
    assert "was never under" in caplog.text
    assert plain.metadata_location == lake.catalog.load_table(b).metadata_location
    shown = handle.snapshot().load_table(b)
    assert (main.snapshot_id, [1]) == (shown.metadata.current_snapshot_id, ids(shown))
    handle.catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == ids(handle.snapshot().load_table(a))


@pytest.mark.parametrize("number", [2**63 - 1, 2**40])
def test_no_record_takes_the_last_numbers_of_a_table(lake, number):
    """Nobody would write the table any more: neither is it applied, nor kept on a branch."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    handle.catalog().load_table(a).append(rows(2))
    handle.apply_le()
    table = lake.catalog.load_table(a)
    own = f"{table.location()}/metadata/snap-7.avro"
    shutil.copy(urlparse(table.current_snapshot().manifest_list).path, urlparse(own).path)
    ts = log_forged(handle, table, [own], number=number)
    assert [("shop", "a")] == handle.apply_le()
    assert table.metadata_location == lake.catalog.load_table(a).metadata_location
    with pytest.raises(txns.errors.Quarantined, match=f"sequence-number {number}.*--void {ts}"):
        lake.open(lake.another_catalog()).catalog().load_table(a).append(rows(3))
    void(Parts.of(lake.another_catalog(), Config.of(), lake.clock), ts)
    again = lake.open()
    again.repair_adopt(a)
    again.catalog().load_table(a).append(rows(4))
    assert [1, 2, 4] == lake.plain_ids(a)


def added(*columns: NestedField) -> list[TableUpdate]:
    """Give the updates that add columns to those of the lake's tables."""
    fields = (*OWN_COLUMNS, *columns)
    return [
        AddSchemaUpdate(schema_=Schema(*fields, schema_id=1)),
        SetCurrentSchemaUpdate(schema_id=-1),
    ]


def partitioned(field_id: int = 1000, name: str = "part", spec_id: int = 1) -> TableUpdate:
    field = PartitionField(1, field_id, BucketTransform(4), name)
    return AddPartitionSpecUpdate(spec=PartitionSpec(field, spec_id=spec_id))


OWN_COLUMNS = (
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
)
LAST = 2**31 - 1
ITEMS = ListType(LAST, LongType(), element_required=False)


@pytest.mark.parametrize(
    ("updates", "parent", "told"),
    [
        (added(NestedField(LAST, "more", LongType(), required=False)), None, f"column {LAST}"),
        (added(NestedField(3, "more", ITEMS, required=False)), None, f"column {LAST}"),
        ([partitioned(LAST)], None, f"field-id {LAST}"),
        ([partitioned(1)], None, "field-id 1"),
        ([partitioned(spec_id=LAST)], None, f"spec-id {LAST}"),
        ([], 7, "parent-snapshot-id 7"),
        ([partitioned(name="name")], None, "`name`"),
        ([partitioned(name="")], None, "``"),
        (
            [partitioned(), *added(NestedField(3, "part", LongType(), required=False))],
            None,
            "`part`",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_no_record_uses_up_ids_or_leaves_a_table_that_nobody_loads(lake, updates, parent, told):
    """
    The last id of all was the last one; Java walked a circle for ever, and did not load the others.

    Neither is it applied, nor kept on a branch, and the command that readers are told ends it.
    """
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    handle.catalog().load_table(a).append(rows(2))
    handle.apply_le()
    table = lake.catalog.load_table(a)
    own = f"{table.location()}/metadata/snap-7.avro"
    shutil.copy(urlparse(table.current_snapshot().manifest_list).path, urlparse(own).path)
    ts = log_forged(handle, table, [*updates, own], parent=parent)
    assert [("shop", "a")] == handle.apply_le()
    main = lake.catalog.load_table(a).metadata
    assert table.metadata.schemas == main.schemas
    assert table.metadata.partition_specs == main.partition_specs
    with pytest.raises(txns.errors.Quarantined, match=f"{re.escape(told)}.*--void {ts}"):
        lake.open(lake.another_catalog()).catalog().load_table(a).append(rows(3))
    void(Parts.of(lake.another_catalog(), Config.of(), lake.clock), ts)
    again = lake.open()
    again.repair_adopt(a)
    again.catalog().load_table(a).append(rows(4))
    assert [1, 2, 4] == lake.plain_ids(a)


def test_a_table_whose_partitions_are_called_as_other_columns_goes_on(lake):
    """Pyiceberg makes such tables, and reads them."""
    a = lake.table("a", [1], register=False)
    plain = lake.catalog.load_table(a)
    spec = partitioned(name="name")
    lake.catalog.commit_table(plain, (), (spec, SetDefaultSpecUpdate(spec_id=-1)))
    handle = lake.open()
    handle.register(a)
    handle.catalog().load_table(a).append(rows(2))
    with handle.begin() as txn, txn.load_table(a).transaction() as change:
        change._apply((partitioned(1001, "more", 2),))
    handle.catalog().load_table(a).transaction().set_properties(
        {"write.metadata.previous-versions-max": "-1"}
    ).commit_transaction()
    assert [] == handle.apply_le()
    assert 2 == lake.catalog.load_table(a).scan().to_arrow().num_rows


@pytest.fixture
def victim(lake):
    return lake.catalog.load_table(lake.table("victim", [66], register=False))


@pytest.mark.parametrize(
    "place", ["{victim}", "{own}/../../victim/metadata/{name}", "{own}x/{name}"]
)
def test_no_record_makes_a_table_read_manifests_of_another_one(lake, victim, place):
    """Readers and appliers may have more rights than who writes the commit table."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    handle = lake.open(apply="next")
    handle.catalog().load_table(a).append(rows(2))
    handle.apply_le()
    table = lake.catalog.load_table(a)
    stolen = victim.current_snapshot().manifest_list
    own, name = f"{table.location()}/metadata", stolen.rpartition("/")[2]
    forged_list = place.format(victim=stolen, own=own, name=name)
    before = handle.upper
    ts = log_forged(handle, table, [forged_list])
    assert [("shop", "a")] == handle.apply_le()
    stood = lake.catalog.load_table(a)
    assert forged_list not in {each.manifest_list for each in stood.metadata.snapshots}
    assert [1, 2] == lake.plain_ids(a)
    assert [1, 2] == ids(handle.snapshot(before).load_table(a))
    with pytest.raises(txns.errors.Quarantined, match=f"--void {ts}"):
        handle.snapshot().load_table(a)
    handle.catalog().load_table(b).append(rows(3))
    assert [1, 3] == ids(handle.snapshot().load_table(b))
    void(Parts.of(lake.another_catalog(), Config.of(), lake.clock), ts)
    again = lake.open()
    again.repair_adopt(a)
    assert [1, 2] == ids(again.snapshot().load_table(a))
    again.catalog().load_table(a).append(rows(4))
    assert [1, 2, 4] == lake.plain_ids(a)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"manifest_list": "victim"}, txns.errors.Quarantined),
        ({"uuid": str(UUID(int=2))}, txns.errors.CorruptLog),
        ({"txns.commit-table": "mine.log"}, txns.errors.CorruptLog),
        ({}, None),
    ],
)
def test_no_record_creates_a_table_that_is_not_its_own(lake, victim, changes, error):
    """Of its own uuid, under this commit table's care, and with its own manifests."""
    lake.table("a", [1])
    handle = lake.open(apply="next", create_locations=f"{lake.folder}/warehouse/shop/new")
    schema = lake.catalog.load_table("shop.a").schema()
    with handle.begin() as txn:
        txn.create_table("shop.new", schema=schema).append(rows(1))
    if "manifest_list" in changes:
        changes = {"manifest_list": victim.current_snapshot().manifest_list}
    log_creation(handle, **changes)
    assert ([("shop", "forged")] if error else []) == handle.apply_le()
    assert lake.catalog.table_exists("shop.forged") is (error is None)
    assert lake.catalog.table_exists("shop.new")
    if error:
        with pytest.raises(error):
            handle.snapshot().load_table("shop.forged")


PURGING = SetPropertiesUpdate(updates={"txns.purging": "somebody"})
FORBIDDEN = [
    (Kind.COMMIT, AssignUUIDUpdate(uuid=UUID(int=1)), "assign-uuid"),
    (Kind.COMMIT, SetPropertiesUpdate(updates={"txns.applied": "9"}), "txns.applied"),
    (Kind.COMMIT, SetPropertiesUpdate(updates={"txns.commit-table": "mine.log"}), "commit-table"),
    (Kind.COMMIT, SetPropertiesUpdate(updates={"txns.created": "9"}), "txns.created"),
    (Kind.COMMIT, PURGING, "txns.purging"),
    (Kind.COMMIT, RemovePropertiesUpdate(removals=["txns.commit-table"]), "txns.commit-table"),
    (Kind.COMMIT, branch_at("txns-foreign-1", 7), "txns-foreign-1"),
    (Kind.COMMIT, branch_at("txns-hold-x", 7), "txns-hold-x"),
    (Kind.FORGET, SetPropertiesUpdate(updates={"owner": "me"}), "set-properties"),
    (Kind.FORGET, RemovePropertiesUpdate(removals=["txns.applied"]), "txns.applied"),
    (Kind.FORGET, RemovePropertiesUpdate(removals=["owner"]), "owner"),
    (Kind.ADOPT, SetPropertiesUpdate(updates={"owner": "me"}), "owner"),
    (Kind.ADOPT, SetLocationUpdate(location="file:///victim"), "set-location"),
    (Kind.REPAIR, SetPropertiesUpdate(updates={"txns.table-uuid": "another"}), "txns.table-uuid"),
    (Kind.REPAIR, RemoveSnapshotRefUpdate(ref_name="users"), "users"),
    (Kind.REPAIR, RemoveSnapshotsUpdate(snapshot_ids=[1]), "remove-snapshots"),
]


@pytest.mark.parametrize(("kind", "update", "why"), FORBIDDEN)
def test_no_record_has_an_update_that_the_protocol_does_not_write(lake, kind, update, why):
    a, b = lake.table("a", [1]), lake.table("b", [1])
    handle = lake.open(apply="next")
    handle.catalog().load_table(a).append(rows(2))
    handle.apply_le()
    table = lake.catalog.load_table(a)
    own = f"{table.location()}/metadata/snap-7.avro"
    log_forged(handle, table, [own, update], kind)
    assert [("shop", "a")] == handle.apply_le()
    assert table.metadata_location == lake.catalog.load_table(a).metadata_location
    with pytest.raises(txns.errors.CorruptLog, match=why):
        handle.parts.log.request(
            handle.parts.log.load().state.changes(
                str(table.metadata.table_uuid), after=0, upto=handle.upper
            )[-1]
        )
    handle.catalog().load_table(b).append(rows(3))
    assert [1, 3] == ids(handle.snapshot().load_table(b))


def test_a_forged_record_is_taken_out_of_the_log(lake):
    """Its error names the commands, and nothing of it is left."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    handle.catalog().load_table(a).append(rows(2))
    handle.apply_le()
    table = lake.catalog.load_table(a)
    own = f"{table.location()}/metadata/snap-7.avro"
    ts = log_forged(handle, table, [own, SetPropertiesUpdate(updates={"txns.applied": "9"})])
    with pytest.raises(txns.errors.CorruptLog, match=f"--void {ts}.*repair adopt"):
        lake.open().snapshot().load_table(a)
    void(Parts.of(lake.another_catalog(), Config.of(), lake.clock), ts)
    again = lake.open()
    again.repair_adopt(a)
    again.catalog().load_table(a).append(rows(4))
    assert [1, 2, 4] == lake.plain_ids(a)


def test_no_record_makes_a_writer_run_code(lake, tmp_path):
    """What a property of the table names is called by pyiceberg: who may write the log wrote it."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    table = lake.catalog.load_table(a)
    own = f"{table.location()}/metadata/snap-7.avro"
    shutil.copy(urlparse(table.current_snapshot().manifest_list).path, urlparse(own).path)
    ran = tmp_path / "ran"
    code = SetLocationUpdate(location=f"open({str(ran)!r}, 'w')")
    calling = SetPropertiesUpdate(updates={"write.py-location-provider.impl": "builtins.exec"})
    ts = log_forged(handle, table, [own, code, calling])
    assert [("shop", "a")] == handle.apply_le()
    with pytest.raises(txns.errors.CorruptLog, match=f"--void {ts}"):
        lake.open(lake.another_catalog()).catalog().load_table(a).append(rows(3))
    lake.another_catalog().load_table(a).append(rows(4))
    assert not ran.exists()


@pytest.mark.parametrize(
    "key", ["py-io-impl", "s3.endpoint", "uri", "DEFAULT_SCHEME", "DEFAULT_NETLOC"]
)
def test_a_property_by_which_libraries_reach_storage_is_set_past_the_protocol(lake, key):
    """There it stays, and whoever names it again as it is changes nothing."""
    a = lake.table("a", [1])
    handle = lake.open()
    table = handle.catalog().load_table(a)
    with pytest.raises(txns.InvalidUsage, match="with the catalog itself"):
        table.transaction().set_properties({key: "x"}).commit_transaction()
    value = lake.catalog.properties.get(key, "x")
    with lake.catalog.load_table(a).transaction() as plain:
        plain.set_properties({key: value})
    table = handle.catalog().load_table(a)
    with table.transaction() as update:
        update.set_properties({**table.properties, "owner": "me"})
    assert {(key, value), ("owner", "me")} <= lake.catalog.load_table(a).properties.items()


@pytest.mark.parametrize(
    ("key", "value"),
    [("schema.name-mapping.default", "{"), ("write.metadata.previous-versions-max", "x")],
)
def test_no_property_is_set_that_libraries_cannot_parse(lake, key, value):
    """By no user, who is told so, and by no record: nobody would read or write the table."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    with pytest.raises(txns.InvalidUsage, match=f"can parse;.*{key}"):
        handle.catalog().load_table(a).transaction().set_properties(
            {key: value}
        ).commit_transaction()
    handle.catalog().load_table(a).append(rows(2))
    handle.apply_le()
    table = lake.catalog.load_table(a)
    own = f"{table.location()}/metadata/snap-7.avro"
    shutil.copy(urlparse(table.current_snapshot().manifest_list).path, urlparse(own).path)
    ts = log_forged(handle, table, [own, SetPropertiesUpdate(updates={key: value})])
    assert [("shop", "a")] == handle.apply_le()
    with pytest.raises(txns.errors.CorruptLog, match=f"--void {ts}.*{key}"):
        lake.open(lake.another_catalog()).snapshot().load_table(a)
    lake.another_catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == lake.plain_ids(a)


@pytest.mark.parametrize("timestamp_ms", [2**63 - 1, 253_402_300_800_000])
def test_no_record_puts_a_table_ahead_of_all_clocks(lake, timestamp_ms):
    """What is applied is 59 seconds ahead of the applier's clock at most: others write on."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    handle.catalog().load_table(a).append(rows(2))
    handle.apply_le()
    table = lake.catalog.load_table(a)
    own = f"{table.location()}/metadata/snap-7.avro"
    shutil.copy(urlparse(table.current_snapshot().manifest_list).path, urlparse(own).path)
    log_forged(handle, table, [own], timestamp_ms=timestamp_ms)
    handle.apply_le()
    shown = lake.catalog.load_table(a).metadata
    newest = max(shown.last_updated_ms, *(each.timestamp_ms for each in shown.snapshots))
    assert newest <= lake.clock.now_ms() + 59_000
    lake.another_catalog().load_table(a).append(rows(3))
    handle.repair_adopt(a)
    handle.catalog().load_table(a).append(rows(4))
    assert [] == handle.apply_le()
    assert [1, 2, 3, 4] == lake.plain_ids(a)


class Elsewhere(SimpleLocationProvider):
    """A location provider of a user's own, which lays metadata where no other library does."""

    def new_metadata_location(self, metadata_file_name: str) -> str:
        return f"{self.table_location}/elsewhere/{metadata_file_name}"


def test_a_writer_whose_manifest_lists_lie_elsewhere_is_refused(lake):
    """Before the swap: nobody else would read what it has committed."""
    a = lake.table("a", [1])
    provider = f"{Elsewhere.__module__}.{Elsewhere.__name__}"
    plain = lake.catalog.load_table(a)
    with plain.transaction() as change:
        change.set_properties({"write.py-location-provider.impl": provider})
    handle = lake.open()
    with (
        pytest.raises(txns.errors.Unsupported, match=r"write\.metadata\.path"),
        handle.begin() as txn,
    ):
        txn.load_table(a).append(rows(2))
    assert [1] == ids(handle.snapshot().load_table(a))
    assert not [path for path in lake.files() if "/elsewhere/snap-" in path]


def test_properties_of_the_protocol_that_stay_as_they_are_may_be_named(lake):
    """Whoever sets all that `SHOW TBLPROPERTIES` gives names those of the protocol, too."""
    a = lake.table("a", [1])
    handle = lake.open()
    table = handle.catalog().load_table(a)
    with table.transaction() as update:
        update.set_properties({**table.properties, "owner": "me"})
    assert "me" == lake.catalog.load_table(a).properties["owner"]


def test_a_branch_of_the_protocol_is_not_a_users(lake):
    a = lake.table("a", [1])
    table = lake.open().catalog().load_table(a)
    tag = table.manage_snapshots().create_branch(
        table.metadata.current_snapshot_id, "txns-foreign-1"
    )
    with pytest.raises(txns.errors.InvalidUsage, match="txns-foreign-1"):
        tag.commit()


@pytest.mark.parametrize("moves", [True, False])
def test_a_table_whose_location_changes_reads_its_own_manifests(lake, tmp_path, moves):
    """By a transaction or outside of it: what was staged before lies where the table was."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next", create_locations=tmp_path.as_uri())
    elsewhere = SetLocationUpdate(location=(tmp_path / "elsewhere").as_uri())
    if moves:
        with handle.begin() as txn, txn.load_table(a).transaction() as change:
            change._apply((elsewhere,))
    handle.catalog().load_table(a).append(rows(2))
    if not moves:
        plain = lake.catalog.load_table(a)
        lake.catalog.commit_table(plain, (), (elsewhere,))
    assert [] == handle.apply_le()
    handle.catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == ids(handle.snapshot().load_table(a))
    assert [] == handle.apply_le()
    assert [1, 2, 3] == lake.plain_ids(a)


@pytest.mark.parametrize(
    ("path", "folder", "is_below"),
    [
        ("s3a://lake/t/metadata/x", "s3://lake/t/metadata/", True),
        ("file:/t/metadata/x", "file:///t/metadata", True),
        ("/t/metadata/x", "file:///t//metadata", True),
        ("s3://lake/t/metadata", "s3://lake/t/metadata", False),
        ("s3://lake/t/metadatas/x", "s3://lake/t/metadata", False),
        ("s3://other/t/metadata/x", "s3://lake/t/metadata", False),
        ("file:///lake/t/x", "s3://lake/t", False),
        ("s3://lake/t/../u/x", "s3://lake/t", False),
        ("file:///x", "file:///", True),
    ],
)
def test_what_lies_below_a_place(path, folder, is_below):
    assert places.is_below(path, folder) is is_below


@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        ("txns-payload-0a-1b.json", True),
        ("txns-payload-0a-1b-7.json", True),
        ("txns-payload-0a-1b.json/x", False),
        ("txns-payload-.json", False),
        ("00001-x.metadata.json", False),
    ],
)
def test_names_of_payload_files(name, is_ours):
    assert payload.is_at_its_place(f"s3://lake/log/metadata/{name}", "s3://lake/log") is is_ours
    assert payload.is_at_its_place(f"s3://lake/log/metadata/{name}", "s3://lake/log/") is is_ours
    assert not payload.is_at_its_place(f"s3://lake/other/metadata/{name}", "s3://lake/log")
