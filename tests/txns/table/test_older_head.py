"""A table is loaded by a head that others have moved on from."""

from __future__ import annotations

import pytest
from pyiceberg.exceptions import NoSuchTableError

import txns
from tests.txns.lake import rows


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
