"""A creation that stands in the head, of a table whose later entries have left it."""

from __future__ import annotations

import pytest
from pyiceberg.exceptions import NoSuchTableError

import txns
from tests.txns.lake import SCHEMA, ids, rows

A, B = "shop.a", "shop.b"


@pytest.fixture
def created(lake):
    """
    Let the creation of a wait for b in the head, while what stands on it has left.

    1. One transaction creates a and writes b. 2. It dies before it applies them. 3. Somebody
    appends to a, and tidies.
    """
    lake.table("b", [1])
    with lake.open(apply="next").begin() as txn:
        txn.create_table(A, SCHEMA).append(rows(1))
        txn.load_table(B).append(rows(2))
    handle = lake.open()
    handle.catalog().load_table(A).append(rows(2))
    assert handle.tidy() == 2  # the registration of b, and that append
    [creation] = lake.standing()
    assert [("shop", "a"), ("shop", "b")] == [change.table for change in creation.changes]
    return lake


def lagging(lake, monkeypatch, times: int):
    """Give a catalog whose replica has not heard of a yet, for some loads."""
    catalog = lake.another_catalog()
    load, left = catalog.load_table, [times]

    def lags(name):
        if tuple(name) == ("shop", "a") and left[0]:
            left[0] -= 1
            raise NoSuchTableError("not here yet")
        return load(name)

    monkeypatch.setattr(catalog, "load_table", lags)
    return catalog


def test_a_replica_that_lags_is_asked_again(created, monkeypatch):
    handle = created.open(lagging(created, monkeypatch, 3))
    table = handle.catalog().load_table(("shop", "a"))
    assert [1, 2] == ids(table)
    table.append(rows(3))
    assert [1, 2, 3] == ids(created.open().snapshot().load_table(A)) == created.plain_ids(A)


def test_it_is_not_made_of_the_creation_alone(created, monkeypatch):
    handle = created.open(lagging(created, monkeypatch, 1000))
    for look in (handle.snapshot, handle.begin, handle.catalog):
        with pytest.raises(txns.Quarantined, match=r"somebody dropped it.*bring it back"):
            look().load_table(("shop", "a"))
    assert [1, 2] == ids(created.open().snapshot().load_table(A))


def test_it_is_not_made_again_where_somebody_dropped_it(created):
    location = created.catalog.load_table(A).metadata_location
    created.catalog.drop_table(A)
    handle = created.open(created.another_catalog())
    handle.apply_le()
    assert not created.catalog.table_exists(A)
    assert [1, 2] == ids(handle.snapshot().load_table(B))
    with pytest.raises(txns.Quarantined, match="bring it back"):
        handle.snapshot().load_table(A)
    created.catalog.register_table(A, location)
    handle.catalog().load_table(A).append(rows(3))
    assert [1, 2, 3] == created.plain_ids(A)


def test_another_table_under_its_name_is_no_base_for_it(created):
    created.catalog.drop_table(A)
    created.catalog.create_table(A, SCHEMA).append(rows(9))
    with pytest.raises(txns.Quarantined, match="bring it back"):
        created.open().catalog().load_table(A)
    assert [9] == created.plain_ids(A)


def test_before_its_creation_it_is_absent(created):
    handle = created.open()
    [creation] = created.standing()
    created.catalog.drop_table(A)
    with pytest.raises(NoSuchTableError):
        handle.snapshot(creation.commit_ts - 1).load_table(A)


def test_created_twice_it_is_asked_for_again_too(created, monkeypatch):
    """Both creations stand in the head, and the drop between them has left it."""
    handle = created.open()
    handle.catalog().drop_table(A)
    assert handle.tidy() == 1
    with created.open(apply="next").begin() as txn:
        txn.create_table(A, SCHEMA).append(rows(3))
        txn.load_table(B).append(rows(4))
    with pytest.raises(txns.Quarantined, match="bring it back"):
        created.open(lagging(created, monkeypatch, 1000)).snapshot().load_table(("shop", "a"))
    reader = created.open(lagging(created, monkeypatch, 3))
    assert [3] == ids(reader.snapshot().load_table(("shop", "a")))
