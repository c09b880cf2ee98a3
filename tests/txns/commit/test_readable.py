"""What no other reader would take is refused before it is in the log (docs/spec.md 7.1)."""

from __future__ import annotations

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import FixedType, LongType, NestedField

import txns

NUMBER = NestedField(1, "number", LongType())
UNREADABLE = {
    "no buckets": (
        Schema(NUMBER),
        PartitionSpec(PartitionField(1, 1000, BucketTransform(0), "bucket")),
    ),
    "a type of ten digits": (Schema(NUMBER, NestedField(2, "blob", FixedType(10**9))), None),
}


@pytest.mark.parametrize("apply", ["next", "inline", "atomic"])
@pytest.mark.parametrize("what", UNREADABLE)
def test_what_pyiceberg_takes_and_readers_do_not(lake, what, apply):
    """Its creation would stop the table for good, or the log would have what Java cannot read."""
    schema, spec = UNREADABLE[what]
    before = lake.table("before", [1])
    handle = lake.open(apply=apply)
    txn = handle.begin()
    given = {} if spec is None else {"partition_spec": spec}
    txn.create_table("shop.new", schema, **given)
    with pytest.raises(txns.Unsupported, match="nothing was committed"):
        txn.commit()
    assert not lake.catalog.table_exists("shop.new")
    assert not lake.open().snapshot().table_exists("shop.new")
    assert [1] == lake.plain_ids(before)
