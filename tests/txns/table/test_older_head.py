"""A table is loaded by a head that others have moved on from."""

from __future__ import annotations

import threading

import pytest
from pyiceberg.exceptions import NoSuchTableError

import txns
from tests.txns.lake import rows
from tests.txns.table.test_set_back import set_back
from txns._log.archive import Archive


@pytest.mark.parametrize(
    ("moved_on", "error"), [(False, txns.Quarantined), (True, NoSuchTableError)]
)
def test_a_created_table_that_is_gone(lake, moved_on, error):
    """It is missing only where the log, as it is now, says that it is there."""
    handle = lake.open(apply="atomic")
    with handle.begin() as txn:
        txn.create_table("shop.new", rows(1).schema).append(rows(1))
    head = handle.parts.log.load()
    if moved_on:
        handle.tidy()
    lake.catalog.drop_table("shop.new")
    with pytest.raises(error):
        handle.parts.tables.load(("shop", "new"), head, head.upper)


def test_a_registration_in_a_later_archive_makes_no_table_of_its_owner_set_back(lake):
    """
    Nor does what is no change of it.

    1. Its owner has set a forgotten table back; somebody loads the head, and the table.
    2. It is registered again, which leaves the head. 3. The archive is read.
    """
    a = lake.table("a", [1], register=False)
    location = lake.catalog.load_table(a).metadata_location
    writer = lake.open()
    writer.register(a)
    writer.catalog().load_table(a).append(rows(2))
    writer.forget(a)
    assert writer.tidy()
    set_back(lake, a, location)
    reader = lake.open(lake.another_catalog())
    head, table = reader.parts.log.load(), reader.parts.catalog.load_table(a)
    lake.open(lake.another_catalog()).register(a)
    assert writer.tidy()
    assert not reader.parts.tables.live(("shop", "a"), table, head).registered
    with pytest.raises(txns.Quarantined, match="set back"):
        reader.parts.tables.live(("shop", "a"), table, reader.parts.log.load())


def test_a_thread_goes_by_all_that_it_has_read(lake, monkeypatch):
    """
    Another one may have read less of the archive, and keep that in its place.

    1. Both begin to read it. 2. The first one keeps what it has read. 3. So does the other one.
    """
    a, b = lake.table("a", [1]), lake.table("b")
    location = lake.catalog.load_table(a).metadata_location
    for name in (a, b):
        lake.open().catalog().load_table(name).append(rows(2))
    assert lake.open().tidy()
    set_back(lake, a, location)
    handle = lake.open(lake.another_catalog())
    archive, head = handle.parts.timeline.archive, handle.parts.log.load()
    first, begun, may_end = threading.current_thread(), threading.Event(), threading.Event()
    read = Archive._read_newest
    table = handle.parts.catalog.load_table(a)

    def reading(self, known, of_head):
        found = read(self, known, of_head)
        if threading.current_thread() is not first:
            begun.set()
            assert may_end.wait(10)
        return found

    def keep(_self, value):
        kept.append(value)
        if threading.current_thread() is first:
            may_end.set()
            other.join()

    above = head.state.tidied_upto - 1
    other = threading.Thread(
        target=archive.newest_applied, args=(head, "b", above), kwargs={"marked": True}
    )
    kept = [archive._newest]
    monkeypatch.setattr(Archive, "_read_newest", reading)
    monkeypatch.setattr(Archive, "_newest", property(lambda _: kept[-1], keep))
    other.start()
    assert begun.wait(10)
    with pytest.raises(txns.Quarantined, match="set back"):
        handle.parts.tables.live(("shop", "a"), table, head)
    assert above - 1 == kept[-1].above > kept[-2].above
