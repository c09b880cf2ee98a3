"""The head that a swap has made is known to who made it, and says what is stored."""

from __future__ import annotations

import pytest

from tests.txns.lake import rows
from txns._log.head import head_of


@pytest.mark.parametrize("apply", ["next", "inline", "atomic"])
def test_what_was_written_is_what_everybody_reads(lake, apply):
    """No record is read again by its writer, whose own words of it have to be those of the log."""
    tables = [lake.table(name) for name in "ab"]
    handle = lake.open(apply=apply, tidy_after=4)
    for number in range(6):
        with handle.begin(comment=f"the {number}th, with an umlaut: ä") as txn:
            for table in tables[: 1 + number % 2]:
                txn.load_table(table).append(rows(number))
        if number == 3:
            with handle.begin() as txn:
                txn.load_table(tables[0]).delete("id = 0")
                txn.create_table(tables[0].replace(".a", ".c"), txn.load_table(tables[1]).schema())
        known = handle.parts.log.newest
        stored = head_of(lake.another_catalog().load_table("txns.commits"))
        assert (known.state, known.sizes) == (stored.state, stored.sizes)
        assert known.snapshot_ids == stored.snapshot_ids
