"""The text of metadata that is read and written by what is known is what pyiceberg makes of it."""

from __future__ import annotations

import json
import operator
import random
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.exceptions import ValidationError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.types import LongType, NestedField

from tests.txns.lake import SCHEMA
from txns._iceberg.metadata_text import MetadataText

SEED = 20261126


@pytest.mark.parametrize("version", ["1", "2"])
def test_metadata_is_the_text_of_pyiceberg(lake, version):
    """Versions of two processes, each of which reads and writes what the other one has written."""
    rng = random.Random(SEED)
    shifts = {"write.metadata.previous-versions-max": "3"}  # so that its log loses the oldest
    properties = {"ä": "1", "format-version": version, **shifts}
    table = lake.catalog.create_table("shop.orders", SCHEMA, properties=properties)
    texts = [MetadataText(), MetadataText(), MetadataText()]
    for number in range(12):
        if number and rng.random() < 0.3:
            main = table.current_snapshot().snapshot_id
            table.manage_snapshots().create_tag(main, f"t{number}").commit()
        if rng.random() < 0.2:
            table.update_schema().add_column(f"c{number}", LongType()).commit()
        if number > 2 and rng.random() < 0.3:
            known = {ref.snapshot_id for ref in table.metadata.refs.values()}
            gone = [each.snapshot_id for each in table.snapshots() if each.snapshot_id not in known]
            table.maintenance.expire_snapshots().by_ids(
                rng.sample(gone, min(2, len(gone)))
            ).commit()
        table.append(pa.table({"id": [number], "name": ["x"]}))
        read = rng.choice(texts).read(table.io, table.metadata_location)
        assert read == table.metadata
        location = f"{table.location()}/metadata/{number}.metadata.json"
        rng.choice(texts).write(table.io, location, read)
        assert json_of(table.io, location) == json_of(table.io, table.metadata_location)
        assert rng.choice(texts).read(table.io, location) == table.metadata


def metadata_of_others(rng, version):
    """Metadata as another library may have written it: with fields that pyiceberg lacks."""
    kinds = ["boolean", "uuid", "binary", "fixed[3]", "decimal(9, 2)", "date", "timestamptz"]
    defaults = [True, str(UUID(int=7)), "0001ff", "000102", "1.20", "2020-01-01"]
    columns = [
        {"id": number, "name": f"ä {kind}", "required": False, "type": kind, "doc": 'a "\u2028"'}
        for number, kind in enumerate(kinds, 1)
    ]
    if version == 3:
        for column, default in zip(columns, defaults, strict=False):
            column |= {"initial-default": default, "write-default": default}
    snapshots = [
        {
            "snapshot-id": number,
            "timestamp-ms": 1_700_000_000_000 + number,
            "manifest-list": f"s3://bucket/{number}.avro",
            "summary": {"operation": "append", "ä": f"{rng.random()}"},
            "of-another-library": [number],
            **({"sequence-number": number} if version > 1 else {}),
            **({"first-row-id": number, "added-rows": 1} if version > 2 else {}),
        }
        for number in rng.sample(range(1, 9), rng.randrange(1, 6))
    ]
    main = rng.choice(snapshots)["snapshot-id"]
    return {
        "format-version": version,
        "table-uuid": str(UUID(int=SEED)).upper(),
        "location": "s3://bucket",
        "last-updated-ms": 1_700_000_000_100,
        "last-column-id": len(columns),
        "schemas": [{"type": "struct", "schema-id": 0, "fields": columns}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {"a": "b"},
        "snapshots": snapshots,
        "current-snapshot-id": main,
        "snapshot-log": [{"timestamp-ms": 1_700_000_000_000, "snapshot-id": main}],
        "refs": {"main": {"snapshot-id": main, "type": "branch"}},
        "statistics": [],
        "encryption-keys": [{"key-id": "1", "encrypted-key-metadata": "AA=="}],
        **({"last-sequence-number": 9} if version > 1 else {"schema": {"fields": columns}}),
        **({"next-row-id": 9} if version > 2 else {}),
        **({"partition-spec": []} if version < 2 else {}),
    }


@pytest.mark.parametrize("version", [1, 2, 3])
def test_metadata_of_other_libraries(tmp_path, version):
    """Of one table, in any order of versions: what is known of one is not said of another."""
    rng, io, text = random.Random(SEED + version), PyArrowFileIO(), MetadataText()
    for number in range(40):
        location = f"file://{tmp_path}/{number}.metadata.json"
        with io.new_output(location).create() as stream:
            stream.write(json.dumps(metadata_of_others(rng, version)).encode())
        read = text.read(io, location)
        assert read == FromInputFile.table_metadata(io.new_input(location))
        if version > 2:  # pyiceberg reads it, and writes none
            continue
        text.write(io, f"{location}.ours", read)
        ToOutputFile.table_metadata(read, io.new_output(f"{location}.pyicebergs"))
        assert json_of(io, f"{location}.ours") == json_of(io, f"{location}.pyicebergs")


def test_a_snapshot_that_is_known_is_the_same_and_one_that_says_otherwise_is_not(lake):
    table = lake.catalog.create_table("shop.orders", SCHEMA)
    table.append(pa.table({"id": [1], "name": ["x"]}))
    text = MetadataText()
    [first] = text.read(table.io, table.metadata_location).snapshots
    table.append(pa.table({"id": [2], "name": ["x"]}))
    again, _ = text.read(table.io, table.metadata_location).snapshots
    assert again is first
    forged = json_of(table.io, table.metadata_location)
    forged["snapshots"][0]["summary"]["added-records"] = "7"
    location = f"{table.location()}/metadata/forged.metadata.json"
    with table.io.new_output(location).create() as stream:
        stream.write(json.dumps(forged).encode())
    other, _ = text.read(table.io, location).snapshots
    assert "7" == other.summary.additional_properties["added-records"]
    third, _ = text.read(table.io, table.metadata_location).snapshots
    assert third == first


def test_of_two_snapshots_with_one_id_each_is_written_as_it_is(lake):
    """Nobody of the protocol makes such a table, and who writes it does not change it."""
    table = lake.catalog.create_table("shop.orders", SCHEMA)
    table.append(pa.table({"id": [1], "name": ["x"]}))
    [first] = table.metadata.snapshots
    forged = first.model_copy(update={"timestamp_ms": 7})
    twice = table.metadata.model_copy(update={"snapshots": [first, forged]})
    text, location = MetadataText(), f"{table.location()}/twice.metadata.json"
    for each in (table.metadata, twice):
        text.write(table.io, f"{location}{len(each.snapshots)}", each)
        ToOutputFile.table_metadata(each, table.io.new_output(location), overwrite=True)
        assert json_of(table.io, location) == json_of(table.io, f"{location}{len(each.snapshots)}")
    fresh = f"{location}.fresh"
    MetadataText().write(table.io, fresh, twice)
    assert json_of(table.io, location) == json_of(table.io, fresh)


def test_what_a_version_has_of_the_one_before_is_the_same(lake):
    """Each column, and each time that `main` has moved, costs as much to read as a snapshot."""
    shifts = {"write.metadata.previous-versions-max": "3"}
    table = lake.catalog.create_table("shop.orders", SCHEMA, properties=shifts)
    text = MetadataText()
    for number in range(5):
        table.append(pa.table({"id": [number], "name": ["x"]}))
    first = text.read(table.io, table.metadata_location)
    table.append(pa.table({"id": [1], "name": ["x"]}))
    second = text.read(table.io, table.metadata_location)
    assert first.schemas[0] is second.schemas[0]
    assert all(map(operator.is_, first.snapshot_log, second.snapshot_log))
    assert all(map(operator.is_, first.metadata_log[1:], second.metadata_log))
    assert (6, 3) == (len(second.snapshot_log), len(second.metadata_log))
    assert second == table.metadata
    table.update_schema().update_column("name", doc="said").commit()
    third = text.read(table.io, table.metadata_location)
    assert third == table.metadata
    assert "said" == third.schema().find_field("name").doc
    assert first.schemas == second.schemas


def test_what_is_known_of_wide_tables_counts_for_more(lake):
    """A schema, and its text, are kept as well, and may be larger than many snapshots."""
    columns = [NestedField(each, f"c{each}", LongType(), doc="x" * 100) for each in range(1, 501)]
    table = lake.catalog.create_table("shop.wide", Schema(*columns))
    text, reader = MetadataText(), MetadataText()
    text.write(table.io, f"{table.location()}/wide.metadata.json", table.metadata)
    assert 10 < text.size < 50
    reader.read(table.io, table.metadata_location)
    assert 100 < reader.size < 200


@pytest.mark.parametrize("text", ["{}", "[]", "nothing", '{"format-version": 2, "snapshots": [7]}'])
def test_what_is_no_metadata_is_told_in_pyicebergs_words(lake, text):
    location = f"file://{lake.folder}/x.metadata.json"
    io = PyArrowFileIO()
    with io.new_output(location).create() as stream:
        stream.write(text.encode())
    with pytest.raises(ValidationError):
        MetadataText().read(io, location)


def test_metadata_that_is_compressed_and_of_the_legacy_kind(lake, monkeypatch):
    table = lake.catalog.create_table("shop.orders", SCHEMA)
    location = f"{table.location()}/metadata/1.gz.metadata.json"
    MetadataText().write(table.io, location, table.metadata)
    assert FromInputFile.table_metadata(table.io.new_input(location)) == table.metadata
    assert MetadataText().read(table.io, location) == table.metadata
    monkeypatch.setenv("PYICEBERG_LEGACY_CURRENT_SNAPSHOT_ID", "true")
    MetadataText().write(table.io, f"{location}2", table.metadata)
    assert json_of(table.io, f"{location}2")["current-snapshot-id"] == -1


def json_of(io, location):
    with io.new_input(location).open() as stream:
        return json.loads(stream.read())
