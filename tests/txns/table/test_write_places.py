"""Nobody stages a file where a record alone has put a table (docs/spec.md 7)."""

from __future__ import annotations

import pytest
from pyiceberg.table.update import SetLocationUpdate, SetPropertiesUpdate
from pyiceberg.types import StringType

import txns
from tests.txns.forged import log_creation, log_forged
from tests.txns.lake import SCHEMA, ids, rows
from txns._log.change import Operation

KEYS = [
    "location",
    "write.metadata.path",
    "write.data.path",
    "write.object-storage.path",
    "write.folder-storage.path",
]


def moves(key: str, place: str) -> SetLocationUpdate | SetPropertiesUpdate:
    if key == "location":
        return SetLocationUpdate(location=place)
    return SetPropertiesUpdate(updates={key: place})


@pytest.fixture
def victim(lake):
    return lake.catalog.load_table(lake.table("victim", [66], register=False))


@pytest.fixture
def forge(lake, victim):
    """Give what logs that `shop.a` stands at the place of the victim, of which nobody applies."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next")
    handle.catalog().load_table(a).append(rows(2))
    handle.apply_le()

    def forge(key: str, **forged) -> int:
        to = moves(key, victim.location())
        return log_forged(handle, lake.catalog.load_table(a), [to], **forged)

    return forge


def beside(lake) -> set[str]:
    return {path for path in lake.files() if "/victim/" in path}


def one(write):
    def call(handle):
        write(handle.catalog().load_table("shop.a"))

    return call


def in_transaction(write):
    def call(handle):
        with handle.begin() as txn:
            write(txn.load_table("shop.a"))

    return call


def add_a_column(table):
    with table.update_schema() as change:
        change.add_column("more", StringType())


WRITES = {
    "append": lambda table: table.append(rows(3)),
    "overwrite": lambda table: table.overwrite(rows(3)),
    "delete": lambda table: table.delete("id = 1"),
    "upsert": lambda table: table.upsert(rows(1, 3), join_cols=["id"]),
    "transaction": lambda table: table.transaction(),
    "location_provider": lambda table: table.location_provider(),
    "alter": add_a_column,
}
WAYS = {
    **{name: one(write) for name, write in WRITES.items()},
    **{f"txn-{name}": in_transaction(write) for name, write in WRITES.items()},
    "drop": lambda handle: handle.catalog().drop_table("shop.a"),
    "txn-drop": lambda handle: handle.begin().drop_table("shop.a"),
}


@pytest.mark.parametrize(
    ("key", "way"),
    [*(("location", way) for way in WAYS), *((key, "append") for key in KEYS[1:])],
)
def test_a_write_of_a_table_that_a_record_has_put_elsewhere_is_refused_first(lake, forge, key, way):
    """Before its first file, with the option that allows the place."""
    forge(key)
    before = lake.files()
    with pytest.raises(txns.errors.Quarantined, match=r"create_locations.*--void"):
        WAYS[way](lake.open(apply="next"))
    assert before == lake.files()


@pytest.mark.parametrize("key", KEYS[:2])
def test_what_allows_the_place_writes_there(lake, forge, key):
    forge(key)
    handle = lake.open(apply="next", create_locations=f"file://{lake.folder}")
    before = beside(lake)
    handle.catalog().load_table("shop.a").append(rows(3))
    with handle.begin() as txn:
        txn.load_table("shop.a").append(rows(4))
    assert before < beside(lake)
    assert [1, 2, 3, 4] == ids(handle.snapshot().load_table("shop.a"))


@pytest.mark.parametrize("key", KEYS[:3])
def test_an_append_that_is_restaged_writes_nothing_there(lake, forge, key):
    """1. It appends. 2. A record moves the table. 3. It commits, and puts its append on that."""
    handle = lake.open(apply="next")
    txn = handle.begin()
    txn.load_table("shop.a").append(rows(3))
    forge(key)
    before = beside(lake)
    with pytest.raises(txns.errors.Quarantined):
        txn.commit()
    txn.rollback()
    assert before == beside(lake)


def test_a_table_that_a_record_alone_has_created_elsewhere_is_not_written(lake, victim):
    lake.table("a", [1])
    handle = lake.open(apply="next")
    with handle.begin() as txn:
        txn.create_table("shop.new", schema=SCHEMA).append(rows(1))
    log_creation(handle, victim.location(), victim.current_snapshot().manifest_list)
    before = lake.files()
    with pytest.raises(txns.errors.Quarantined):
        handle.catalog().load_table("shop.forged").append(rows(2))
    with handle.begin() as txn, pytest.raises(txns.errors.Quarantined):
        txn.load_table("shop.forged").append(rows(2))
    assert beside(lake) == {path for path in before if "/victim/" in path}
    handle.catalog().load_table("shop.new").append(rows(2))
    assert [1, 2] == ids(handle.snapshot().load_table("shop.new"))


@pytest.mark.parametrize("key", KEYS[1:])
def test_no_applier_carries_out_that_others_lay_their_data_elsewhere(lake, forge, victim, key):
    """Else whoever writes once it is applied would."""
    forge(key)
    assert [("shop", "a")] == lake.open().apply_le()
    assert key not in lake.catalog.load_table("shop.a").properties
    assert [] == lake.open(create_locations=victim.location()).apply_le()
    assert victim.location() == lake.catalog.load_table("shop.a").properties[key]


@pytest.mark.parametrize("key", KEYS[1:])
def test_a_user_who_lays_data_elsewhere_needs_the_option(lake, key):
    a, place = lake.table("a", [1]), f"file://{lake.folder}/elsewhere/x"
    with (
        pytest.raises(
            txns.errors.Unsupported, match=f"create_locations='file://{lake.folder}/else"
        ),
        lake.open().catalog().load_table(a).transaction() as change,
    ):
        change.set_properties({key: place})
    handle = lake.open(create_locations=f"file://{lake.folder}/elsewhere")
    with handle.catalog().load_table(a).transaction() as change:
        change.set_properties({key: place})
    assert place == lake.catalog.load_table(a).properties[key]
    lake.open().catalog().load_table(a).append(rows(2))
    assert [1, 2] == lake.plain_ids(a)


@pytest.mark.parametrize("key", KEYS[1:3])
@pytest.mark.parametrize("explicit", [True, False])
def test_a_new_table_that_writes_elsewhere_is_refused_before_its_first_row(lake, key, explicit):
    keys = {key: f"file://{lake.folder}/elsewhere/x"}
    handle = lake.open()
    catalog = handle.begin() if explicit else handle.catalog()
    before = lake.files()
    with pytest.raises(txns.errors.Unsupported):
        catalog.create_table_transaction("shop.x", SCHEMA, properties=keys)
    assert before == lake.files()
    assert not list(lake.folder.glob("elsewhere/**"))


def test_a_dropped_name_is_not_created_again_where_a_record_has_put_it(lake, forge):
    forge("location", operation=Operation.DROP, **{"txns.dropped": "true"})
    before = lake.files()
    handle = lake.open(apply="next")
    with pytest.raises(txns.errors.Quarantined):
        handle.catalog().create_table("shop.a", SCHEMA)
    with handle.begin() as txn, pytest.raises(txns.errors.Quarantined):
        txn.create_table("shop.a", SCHEMA)
    assert before == lake.files()


@pytest.mark.parametrize("way", ["append", "overwrite", "transaction", "location_provider"])
def test_a_snapshot_that_is_read_only_takes_no_file(lake, forge, way):
    """Neither where a record has put the table nor elsewhere."""
    plain = lake.open().snapshot().load_table("shop.a")
    forge("location")
    moved = lake.open().snapshot().load_table("shop.a")
    before = lake.files()
    for table in (plain, moved):
        with pytest.raises(txns.errors.InvalidUsage, match="read-only"):
            WRITES[way](table)
    assert before == lake.files()
    assert [1, 2] == ids(moved)


@pytest.mark.parametrize("deed", ["adopt", "reject"])
def test_a_repair_writes_nothing_where_a_record_has_put_a_table(lake, forge, deed):
    """1. A record moves the table, which no applier carries out. 2. A stranger appends to it."""
    forge("location")
    lake.catalog.load_table("shop.a").append(rows(3))
    before = lake.files()
    handle = lake.open()
    with pytest.raises(txns.errors.Quarantined, match=r"create_locations.*--void"):
        getattr(handle, f"repair_{deed}")("shop.a")
    assert before == lake.files()


def test_a_purge_writes_nothing_where_a_record_has_put_a_table(lake, forge):
    forge("location", operation=Operation.DROP, **{"txns.dropped": "true"})
    lake.clock.ahead_ms += 25 * 3600 * 1000
    before = beside(lake)
    with pytest.raises(txns.errors.Quarantined):
        lake.open().purge("shop.a")
    assert before == beside(lake)


def test_a_name_with_a_slash_needs_the_option_and_is_told_its_value(lake):
    with pytest.raises(
        txns.errors.Unsupported, match=r"slash.*create_locations='file:.*/shop'.*create-locations="
    ):
        lake.open().catalog().create_table(("shop", "x/y"), SCHEMA)
    handle = lake.open(create_locations=f"file:{lake.folder}/warehouse/shop")
    handle.catalog().create_table(("shop", "x/y"), SCHEMA).append(rows(1))
    assert [1] == lake.plain_ids(("shop", "x/y"))
