"""Tables that leave care."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table import CommitTableRequest, TableIdentifier
from pyiceberg.table.update import RemovePropertiesUpdate

from tests.txns.lake import ids
from txns import _mark, _overlay
from txns._entry import Change, Entry, Kind, LoggedChange, Operation

if TYPE_CHECKING:
    from tests.txns.lake import Lake


def test_a_registered_table_is_forgotten_and_registered_again(lake: Lake):
    """A registered table has no `txns.created` to remove."""
    name = lake.table("a", [1])
    handle = lake.open()
    handle.forget(name)
    assert _mark.mark_of(lake.catalog.load_table(name).metadata) is None
    assert [1] == lake.plain_ids(name)
    handle.register(name)
    assert _mark.mark_of(lake.catalog.load_table(name).metadata) is not None


def test_a_payload_may_remove_properties_that_a_table_does_not_have(lake: Lake):
    """Java's writer removes all of the mark, `txns.created` of a registered table as well."""
    name = lake.table("a", [1])
    base = lake.catalog.load_table(name).metadata
    identifier = ("shop", "a")
    change = Change(identifier, str(base.table_uuid), Operation.ALTER, base.current_snapshot_id, 7)
    entry = Entry(Kind.FORGET, "f", upper=9, tidied_upto=0, commit_ts=9, changes=(change,))
    request = CommitTableRequest(
        identifier=TableIdentifier(namespace=["shop"], name="a"),
        requirements=(),
        updates=(RemovePropertiesUpdate(removals=list(_mark.KEYS)),),
    )
    logged = LoggedChange(entry, change)
    left = _overlay.replay(base, logged, request, 0, _overlay.renumber_in_memory)
    assert _mark.mark_of(left) is None
    assert _mark.CREATED not in left.properties


def test_a_forgotten_table_is_dropped_and_another_takes_its_name(lake: Lake):
    """
    What stands under a name that has left care is the catalog's word.

    1. `a` is forgotten; its entries still stand in the head.
    2. It is dropped, and another table is created under its name, both past the protocol.
    3. Nothing is left to apply, the head can be tidied, and the new table can be registered.
    """
    name = lake.table("a", [1])
    handle = lake.open()
    handle.forget(name)
    lake.catalog.drop_table(name)
    lake.table("a", [2], register=False)
    assert [] == handle.apply_le()
    handle.register(name)
    assert [("shop", "a")] == handle.registered()
    assert [2] == ids(handle.snapshot().load_table(name))
    assert handle.tidy() == 3
