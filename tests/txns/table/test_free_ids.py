"""What is added to a table that has it already, or had something else under its id."""

from __future__ import annotations

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSortOrderUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
)
from pyiceberg.transforms import IdentityTransform

from txns._iceberg.free_ids import with_free_ids

SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"), spec_id=1)
ORDER = SortOrder(SortField(source_id=1, transform=IdentityTransform()), order_id=1)


def test_a_creation_that_says_it_twice_adds_it_once():
    """A server's client repeats what a table is created with, and what it became since."""
    twice = (
        AddPartitionSpecUpdate(spec=SPEC),
        AddSortOrderUpdate(sort_order=SortOrder(order_id=0)),
        AddPartitionSpecUpdate(spec=SPEC),
        SetDefaultSpecUpdate(spec_id=-1),
        AddSortOrderUpdate(sort_order=SortOrder(order_id=0)),
        SetDefaultSortOrderUpdate(sort_order_id=-1),
    )
    assert [
        AddPartitionSpecUpdate(spec=SPEC),
        AddSortOrderUpdate(sort_order=SortOrder(order_id=0)),
        SetDefaultSpecUpdate(spec_id=1),
        SetDefaultSortOrderUpdate(sort_order_id=0),
    ] == [*with_free_ids(None, twice)]


def test_the_last_added_stays_the_last_added():
    updates = (AddSortOrderUpdate(sort_order=ORDER), SetDefaultSortOrderUpdate(sort_order_id=-1))
    assert [*updates] == [*with_free_ids(None, updates)]
