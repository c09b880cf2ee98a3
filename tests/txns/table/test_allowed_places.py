"""Where tables of the log may stand, whoever has written it (docs/spec.md 7)."""

from __future__ import annotations

from uuid import UUID

import pytest
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
)

import txns
from tests.txns.forged import last_applicable, log_creation, log_forged
from tests.txns.lake import SCHEMA, ids, lake_catalog, rows
from txns._admin.void import void
from txns._config import Config
from txns._services import Parts

METADATA_PATH = "write.metadata.path"
UUID_1 = str(UUID(int=1))


@pytest.fixture
def victim(lake):
    return lake.catalog.load_table(lake.table("victim", [66], register=False))


@pytest.fixture
def log(lake):
    """Give a handle whose log holds the creation of `shop.new`, not applied."""
    lake.table("a", [1])
    handle = lake.open(apply="next")
    with handle.begin() as txn:
        txn.create_table("shop.new", schema=SCHEMA).append(rows(1))
    return handle


@pytest.mark.parametrize("place", ["{0}", "{0}/sub", "{0}/metadata/../../forged/../victim"])
def test_no_record_creates_a_table_over_another_ones_files(lake, victim, log, place):
    """Readers of it would see rows of the other one, and writers would lay files beside its."""
    stolen = victim.current_snapshot().manifest_list
    before = lake.files()
    ts = log_creation(log, place.format(victim.location()), stolen)
    assert [("shop", "forged")] == log.apply_le()
    assert not lake.catalog.table_exists("shop.forged")
    assert lake.catalog.table_exists("shop.new")
    assert not [path for path in lake.files() - before if "/victim/" in path]
    log.catalog().load_table("shop.a").append(rows(2))
    assert [1, 2] == ids(log.snapshot().load_table("shop.a"))
    void(Parts.of(lake.another_catalog(), Config.of(), lake.clock), ts)
    assert [] == lake.open().apply_le()


def test_no_record_creates_a_table_whose_metadata_is_another_ones(lake, victim, log):
    stolen = victim.current_snapshot().manifest_list
    own = victim.location().replace("/victim", "/forged")
    keys = {METADATA_PATH: f"{victim.location()}/metadata"}
    log_creation(log, own, stolen, **keys)
    before = lake.files()
    assert [("shop", "forged")] == log.apply_le()
    assert not [path for path in lake.files() - before if "/victim/" in path]
    assert not lake.catalog.table_exists("shop.forged")


@pytest.mark.parametrize("by", ["option", "property"])
def test_a_creation_at_a_place_that_the_applier_allows_is_applied(lake, log, by, caplog):
    """Its error names the option, which stands in the handle or in the catalog."""
    snapshot = next(
        each.snapshot
        for each in log.parts.log.requests(last_applicable(log))[0].updates
        if isinstance(each, AddSnapshotUpdate)
    )
    elsewhere = f"file://{lake.folder}/elsewhere"
    with lake.catalog._load_file_io().new_input(snapshot.manifest_list).open() as old:
        moved = f"{elsewhere}/x/metadata/list.avro"
        with lake.catalog._load_file_io().new_output(moved).create() as new:
            new.write(old.read())
    log_creation(log, f"{elsewhere}/x", moved)
    assert [("shop", "forged")] == log.apply_le()
    assert "create_locations" in caplog.text
    assert "txns.create-locations" in caplog.text
    assert [1] == ids(log.snapshot().load_table("shop.forged"))
    if by == "option":
        handle = lake.open(create_locations=["s3://other", elsewhere])
    else:
        catalog = lake_catalog(lake.folder)
        catalog.properties["txns.create-locations"] = f"s3://other, {elsewhere}/"
        handle = lake.open(catalog)
    assert [] == handle.apply_le()
    assert f"{elsewhere}/x" == lake.catalog.load_table("shop.forged").location()


@pytest.mark.parametrize("what", ["location", "metadata"])
def test_no_record_moves_a_table_over_another_ones_files(lake, victim, log, what):
    """Nor is a branch of what is not applied put on the other one's manifests."""
    log.apply_le()
    table = lake.catalog.load_table("shop.a")
    stolen = victim.current_snapshot().manifest_list
    to = (
        SetLocationUpdate(location=victim.location())
        if what == "location"
        else SetPropertiesUpdate(updates={METADATA_PATH: f"{victim.location()}/metadata"})
    )
    before = lake.files()
    log_forged(log, table, [stolen, to])
    assert [("shop", "a")] == log.apply_le()
    stood = lake.catalog.load_table("shop.a")
    assert table.metadata_location == stood.metadata_location
    assert not [path for path in lake.files() - before if "/victim/" in path]


def refused(call) -> None:
    with pytest.raises(txns.errors.Unsupported, match=r"create_locations.*create-locations"):
        call()


@pytest.mark.parametrize("explicit", [True, False])
def test_a_table_at_a_place_of_its_own_needs_an_option(lake, explicit):
    place = f"file://{lake.folder}/elsewhere/x"

    def create(handle):
        if not explicit:
            handle.catalog().create_table("shop.x", SCHEMA, location=place).append(rows(1))
            return
        with handle.begin() as txn:
            txn.create_table("shop.x", SCHEMA, location=place).append(rows(1))

    refused(lambda: create(lake.open()))
    assert not lake.catalog.table_exists("shop.x")
    create(lake.open(create_locations=f"file://{lake.folder}/elsewhere"))
    assert place == lake.catalog.load_table("shop.x").location()
    assert [1] == lake.plain_ids("shop.x")


def test_a_table_at_its_own_place_needs_none(lake):
    """Whether it is asked for or not; nor does one whose namespace has a place of its own."""
    lake.catalog.create_namespace("other", {"location": f"file://{lake.folder}/mine"})
    catalog = lake.open().catalog()
    asked = f"file:{lake.folder}/warehouse/shop/x/"
    catalog.create_table("shop.x", SCHEMA, location=asked)
    catalog.create_table("other.y", SCHEMA)
    catalog.create_table("other.z", SCHEMA, location=f"{lake.folder}/mine/z")
    assert asked.rstrip("/") == lake.catalog.load_table("shop.x").location()
    assert lake.catalog.load_table("other.y").location().endswith("/mine/y")
    assert lake.catalog.table_exists("other.z")


def test_a_catalog_without_places_needs_the_option(lake):
    """Whoever may write the log alone could move all that is known of where tables are."""
    catalog = lake_catalog(lake.folder)
    del catalog.properties["warehouse"]
    lake.open()  # the log is there: a catalog without places could not make it
    place = f"file://{lake.folder}/warehouse/shop/x"
    handle = lake.open(catalog)
    refused(lambda: handle.catalog().create_table("shop.x", SCHEMA, location=place))
    handle = lake.open(catalog, create_locations=[f"file://{lake.folder}/warehouse/"])
    handle.catalog().create_table("shop.x", SCHEMA, location=place)
    assert place == lake.catalog.load_table("shop.x").location()


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("key", ["location", METADATA_PATH])
def test_a_table_that_moves_needs_the_option(lake, explicit, key):
    a = lake.table("a", [1])
    place = f"file://{lake.folder}/elsewhere/x"
    update = (
        SetLocationUpdate(location=place)
        if key == "location"
        else SetPropertiesUpdate(updates={key: place})
    )

    def move(handle):
        if not explicit:
            with handle.catalog().load_table(a).transaction() as change:
                change._apply((update,))
            return
        with handle.begin() as txn, txn.load_table(a).transaction() as change:
            change._apply((update,))

    refused(lambda: move(lake.open()))
    handle = lake.open(create_locations=[f"file://{lake.folder}/elsewhere"])
    move(handle)
    handle.catalog().load_table(a).append(rows(2))
    assert [1, 2] == lake.plain_ids(a)
    assert "/elsewhere/x/" in lake.catalog.load_table(a).current_snapshot().manifest_list


def test_a_dropped_name_that_is_created_again_elsewhere_needs_the_option(lake):
    handle = lake.open()
    lake.table("a", [1])
    handle.catalog().drop_table("shop.a")
    place = f"file://{lake.folder}/elsewhere/x"
    refused(lambda: handle.catalog().create_table("shop.a", SCHEMA, location=place))
    lake.open(create_locations=[place]).catalog().create_table("shop.a", SCHEMA, location=place)
    assert place == lake.catalog.load_table("shop.a").location()


@pytest.mark.parametrize(("victim", "forged"), [("x", f"x-{UUID_1}"), (f"x-{UUID_1}", "x")])
def test_no_record_takes_a_place_that_two_names_lead_to(lake, log, victim, forged):
    """Some libraries add an uuid to each table's place, and some names have one."""
    log.apply_le()
    place = f"file://{lake.folder}/warehouse/shop/x-{UUID_1}"
    stands = lake.catalog.create_table(("shop", victim), SCHEMA, location=place)
    stands.append(rows(66))
    before = lake.files()
    log_creation(log, place, stands.refresh().current_snapshot().manifest_list, name=forged)
    assert [("shop", forged)] == log.apply_le()
    assert not lake.catalog.table_exists(("shop", forged))
    assert not [path for path in lake.files() - before if "/x" in path]


def test_a_table_whose_name_ends_with_an_uuid_is_created(lake):
    """Tools name what is for a moment so."""
    lake.table("stage", [1])
    handle = lake.open()
    name = f"shop.stage_{UUID(int=9).hex}"
    handle.catalog().create_table(name, SCHEMA).append(rows(2))
    assert [2] == lake.plain_ids(name)
    with handle.begin() as txn:
        txn.create_table(f"shop.gone-{UUID(int=9)}", SCHEMA).append(rows(3))
    assert [] == handle.apply_le()
    assert [3] == lake.plain_ids(f"shop.gone-{UUID(int=9)}")
