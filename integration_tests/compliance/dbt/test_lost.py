"""What a model that has lost a race is told to change."""

from __future__ import annotations

import pytest
from dbt.adapters.txns.lost import explanation

from txns_spark import dbapi

OURS = '{"app": "dbt", "invocation_id": "ours", "node_id": "model.shop.orders"}'
THEIRS = OURS.replace("ours", "theirs")


@pytest.mark.parametrize(
    ("reason", "other", "told", "not_told"),
    [
        ("a table that it wrote over was written (filter true, file a)", THEIRS, "whole", ""),
        ("a table that it wrote over was written (filter d = 1, file a)", THEIRS, "one file", ""),
        ("a table that it read was written (filter d = 1, file a)", THEIRS, "SNAPSHOT", "one file"),
        ("a table that it read was written (filter true, file a)", OURS, "SNAPSHOT", "whole"),
        (
            "a table that it wrote over was written (filter d = 1, file a)",
            OURS,
            "days(at)",
            "whole",
        ),
        ("a table that it wrote over was written (filter true, file a)", OURS, "whole", ""),
    ],
)
def test_what_to_change(reason: str, other: str, told: str, not_told: str) -> None:
    conflict = dbapi.TransactionConflict(reason, other_comment=other)
    text = explanation(conflict, OURS)
    assert told in text
    assert not not_told or not_told not in text
    assert "model.shop.orders came first" in text
