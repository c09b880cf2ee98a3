"""What whoever may write the commit table makes of the table itself (docs/spec.md 3.1, 3.3)."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlparse

import pytest
from pyiceberg.catalog.sql import IcebergTables
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
)
from sqlalchemy.orm import Session

import txns
from tests.txns.lake import ids, rows
from txns._admin import orphans
from txns._log import commit_table

RAN: list[str] = []


class Code:
    """What a property of the commit table names."""

    def __init__(self, *_given: object) -> None:
        RAN.append("ran")


def changed(lake, *updates) -> None:
    """Let the commit table be what updates make of it, past the protocol."""
    log = lake.another_catalog().load_table("txns.commits")
    lake.another_catalog().commit_table(log, (), updates)


def pointed_at(lake, location: str) -> None:
    """Let the commit table's row name a file."""
    with Session(lake.catalog.engine) as session:
        row = session.query(IcebergTables).filter_by(table_namespace="txns", table_name="commits")
        row.update({"metadata_location": location})
        session.commit()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("write.metadata.delete-after-commit.enabled", "true"),
        ("write.location-provider.impl", "io.example.Code"),
        ("s3.endpoint", "http://example.org"),
        ("DEFAULT_NETLOC", "mine"),
    ],
)
def test_nobody_writes_a_log_whose_table_steers_libraries(lake, key, value):
    """The error names the property; readers go on; without it everybody does."""
    a = lake.table("a", [1])
    changed(lake, SetPropertiesUpdate(updates={key: value}))
    handle = lake.open(lake.another_catalog())
    with pytest.raises(txns.errors.Unsupported, match=key):
        handle.catalog().load_table(a).append(rows(2))
    assert [1] == ids(handle.snapshot().load_table(a))
    changed(lake, RemovePropertiesUpdate(removals=[key]))
    lake.open(lake.another_catalog()).catalog().load_table(a).append(rows(2))
    assert [1, 2] == lake.plain_ids(a)


def test_no_property_of_the_log_makes_a_writer_run_code(lake):
    """Catalogs that pyiceberg plays, and its writers, load what it names."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    log = lake.another_catalog().load_table("txns.commits")
    named = {"write.py-location-provider.impl": f"{Code.__module__}.{Code.__name__}"}
    metadata = log.metadata.model_copy(update={"properties": {**log.properties, **named}})
    forged = f"{log.location()}/metadata/forged.metadata.json"
    Path(urlparse(forged).path).write_text(metadata.model_dump_json())
    pointed_at(lake, forged)
    RAN.clear()
    handle = lake.open(lake.another_catalog())
    for deed in (handle.tidy, lambda: handle.catalog().load_table(a).append(rows(2))):
        try:
            deed()
        except txns.errors.Unsupported:
            continue
    assert [] == RAN


def test_a_property_that_comes_just_before_the_swap_makes_nobody_run_code(lake):
    """
    Catalogs that pyiceberg plays load the table once more, and go by what it says by then.

    1. A writer loads the head. 2. Somebody sets the property. 3. Its catalog loads the table to
    swap it.
    """
    a = lake.table("a", [1])
    catalog = lake.another_catalog()
    log = lake.another_catalog().load_table("txns.commits")
    named = {"write.py-location-provider.impl": f"{Code.__module__}.{Code.__name__}"}
    metadata = log.metadata.model_copy(update={"properties": {**log.properties, **named}})
    forged = f"{log.location()}/metadata/forged.metadata.json"
    Path(urlparse(forged).path).write_text(metadata.model_dump_json())
    inner = catalog.commit_table

    def commit_table_late(table, *changes):
        if table.name() == ("txns", "commits"):
            pointed_at(lake, forged)
        return inner(table, *changes)

    catalog.commit_table = commit_table_late
    handle = lake.open(catalog, apply="inline")
    RAN.clear()
    with pytest.raises(txns.errors.Unsupported, match="py-location-provider"):
        handle.catalog().load_table(a).append(rows(2))
    assert [] == RAN


@pytest.fixture
def victims(lake) -> list[Path]:
    """Files of somebody else, of the names that a log's have."""
    folder = lake.folder / "warehouse" / "raw"
    found = [folder / "data" / "a.parquet", folder / "metadata" / "snap-1.avro"]
    for each in found:
        each.parent.mkdir(parents=True)
        each.write_text("mine")
    return found


def test_files_are_removed_at_the_catalogs_own_place_alone(lake, victims):
    """Where the log's table says that it stands is a forger's to say."""
    lake.table("a", [1])
    place = victims[0].parents[1].as_uri()
    changed(lake, SetLocationUpdate(location=place))
    lake.clock.ahead_ms += 10 * 24 * 3600 * 1000
    handle = lake.open(lake.another_catalog())
    with pytest.raises(txns.errors.Unsupported, match="own place"):
        orphans.remove(handle.parts)
    assert all(each.exists() for each in victims)
    allowed = lake.open(lake.another_catalog(), create_locations=place)
    assert "own place" not in str(_error_of(lambda: orphans.remove(allowed.parts)))


def test_a_tidier_removes_nothing_elsewhere(lake):
    """A list that a record names lies below the place that the table names, and is no log's."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    handle.catalog().load_table(a).append(rows(2))
    handle.apply_le()
    plain = lake.catalog.load_table(lake.table("victim", [66], register=False))
    stolen = plain.current_snapshot().manifest_list
    changed(lake, SetLocationUpdate(location=plain.location()))
    log = lake.another_catalog().load_table("txns.commits")
    main = log.current_snapshot()
    forged = main.model_copy(
        update={
            "snapshot_id": 7,
            "parent_snapshot_id": main.snapshot_id,
            "sequence_number": log.metadata.last_sequence_number + 1,
            "timestamp_ms": log.metadata.last_updated_ms + 1,
            "manifest_list": stolen,
            "summary": _tidied(main),
        }
    )
    changed(lake, AddSnapshotUpdate(snapshot=forged), commit_table.main_at(7))
    again = lake.open(lake.another_catalog(), apply="next")
    _error_of(again.tidy)
    again.parts.log.supersede(stolen)
    lake.pass_an_hour(again)
    assert [66] == lake.plain_ids("shop.victim")


def test_what_stands_at_the_own_place_is_removed_as_ever(lake):
    lake.table("a", [1])
    handle = lake.open()
    lake.begin_minute()
    handle.advance(handle.upper + 1)
    log = Path(urlparse(lake.catalog.load_table("txns.commits").location()).path)
    before = len(list(log.rglob("*.metadata.json")))
    lake.pass_an_hour(handle)
    handle.advance(handle.upper + 1)
    assert len(list(log.rglob("*.metadata.json"))) < before + 13


def test_an_archive_that_is_none_is_told(lake):
    """Its table may be any other one, with a record on top."""
    a = lake.table("a", [1])
    plain = lake.catalog.load_table(lake.table("other", [1], register=False))
    log = lake.another_catalog().load_table("txns.commits")
    main = log.current_snapshot()
    record = main.model_copy(
        update={
            "sequence_number": plain.metadata.last_sequence_number + 1,
            "parent_snapshot_id": plain.metadata.current_snapshot_id,
            "timestamp_ms": plain.metadata.last_updated_ms + 1,
            "manifest_list": plain.current_snapshot().manifest_list,
            "summary": _tidied(main),
        }
    )
    lake.catalog.commit_table(
        plain, (), (AddSnapshotUpdate(snapshot=record), commit_table.main_at(record.snapshot_id))
    )
    pointed_at(lake, lake.catalog.load_table("shop.other").metadata_location)
    handle = lake.open(lake.another_catalog())
    with pytest.raises(txns.errors.CorruptLog, match="archive of the log cannot be read"):
        handle.begin(txn_id="mine")
    with pytest.raises(txns.errors.CorruptLog):
        handle.snapshot().load_table(a)


@pytest.mark.parametrize("what", ["list", "manifest", "rows"])
@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"Obj",
        b"Obj\x01\xff\xff",
        b"none of an archive" * 9,
        b"PAR1none of an archive\x10\0\0\0PAR1",
    ],
)
def test_an_archive_whose_files_are_none_is_told(lake, what, garbage):
    """Whoever may write the commit table may lay anything where its files are."""
    lake.table("a", [1])
    assert lake.open().tidy()
    log = lake.another_catalog().load_table("txns.commits")
    main = log.current_snapshot()
    manifest = main.manifests(log.io)[0]
    rows = manifest.fetch_manifest_entry(log.io)[0].data_file.file_path
    forged = {"list": main.manifest_list, "manifest": manifest.manifest_path, "rows": rows}[what]
    Path(urlparse(forged).path).write_bytes(garbage)
    handle = lake.open(lake.another_catalog())
    with pytest.raises(txns.errors.CorruptLog, match="archive of the log cannot be read"):
        handle.transactions()


def _tidied(main):
    """Give a `tidy` record with the upper of another one."""
    said = dict(main.summary.additional_properties)
    for key in ("commit-ts", "prev-ts", "read-ts", "isolation", "tables", "settings", "payload"):
        said.pop(f"txns.{key}", None)
    upper = said["txns.upper"]
    said |= {"txns.kind": "tidy", "txns.tidied-upto": upper, "txns.txn-id": "forged"}
    return type(main.summary)(main.summary.operation, **said)


def _error_of(deed) -> Exception | None:
    try:
        deed()
    except Exception as error:  # noqa: BLE001 -- what it is said to be
        return error
    return None
