"""Another table under the name of one that the log has created (docs/spec.md 9.4)."""

from __future__ import annotations

import pytest

import txns
from tests.txns.lake import SCHEMA, ids, rows
from txns._admin.health import health
from txns._admin.invariants import check_all


@pytest.fixture
def behind(lake) -> txns.Handle:
    """`shop.a` with a row, logged and not applied; somebody has created another one meanwhile."""
    handle = lake.open(apply="next")
    with handle.begin() as txn:
        txn.create_table("shop.a", SCHEMA)
        txn.load_table("shop.a").append(rows(1))
    lake.table("a", [7], register=False)
    return handle


def test_a_repair_ends_nothing_where_another_table_has_the_name(behind):
    """Writers and who asks for a repair are told what does; nothing is logged."""
    before = behind.upper
    for refused in (
        lambda: behind.catalog().load_table("shop.a").append(rows(2)),
        lambda: behind.repair_adopt("shop.a"),
        lambda: behind.repair_reject("shop.a"),
        lambda: behind.register("shop.a"),
    ):
        with pytest.raises(txns.Quarantined, match=r"rename .* away .* `txns apply`") as raised:
            refused()
        assert "repair reject" not in str(raised.value)
    assert (before, [1]) == (behind.upper, ids(behind.snapshot().load_table("shop.a")))


def test_the_logged_table_is_there_when_the_other_one_has_another_name(lake, behind):
    """Which is what the message says; nothing of either is lost."""
    lake.catalog.rename_table("shop.a", "shop.theirs")
    assert [] == behind.apply_le()
    behind.catalog().load_table("shop.a").append(rows(2))
    behind.apply_le()
    assert ([1, 2], [7]) == (lake.plain_ids("shop.a"), lake.plain_ids("shop.theirs"))


def test_status_and_check_name_the_same_cure(behind):
    """A person reads them first."""
    healthy = [each.words for each in health(behind.parts).tables]
    checked = [each.words for each in check_all(behind.parts).violations]
    for words in (healthy, checked):
        assert [True] == ["rename that one away" in each for each in words]
