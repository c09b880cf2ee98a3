"""What a model that has lost a race is told to change."""

from __future__ import annotations

import pytest
from dbt.adapters.txns.lost import explanation, without_advice

from txns_spark import dbapi

OURS = '{"app": "dbt", "invocation_id": "ours", "node_id": "model.shop.orders"}'
APPENDED = "a table that it read and appended to was written"
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
        (f"{APPENDED} (filter day is not null, file a)", THEIRS, "whole", "one file"),
        (f"{APPENDED} (filter (d is not null and `a b` is not null))", OURS, "whole", "one file"),
        (f"{APPENDED} (filter (d is not null and d = 1), file a)", THEIRS, "one file", "whole"),
        ("files that it replaced were changed by others (a)", THEIRS, "one file", "compaction"),
        ("files that it replaced were compacted by others (a)", THEIRS, "compaction", "one file"),
        ("the table that it appends to has another schema now", THEIRS, "altered", "one file"),
        (
            "a table that it wrote over was written (the table has another schema now)",
            THEIRS,
            "altered",
            "one file",
        ),
    ],
)
def test_what_to_change(reason: str, other: str, told: str, not_told: str) -> None:
    conflict = dbapi.TransactionConflict(reason, other_comment=other)
    text = explanation(conflict, OURS, "shop.orders")
    assert told in text
    assert not not_told or not_told not in text
    assert "model.shop.orders came first" in text


@pytest.mark.parametrize(
    ("reason", "advice", "told"),
    [
        (f"{APPENDED} (filter id = 5, file a)", "filters that compare `day`, by", "a column of"),
        (f"{APPENDED} (filter true, file a)", "filters that compare `day`, by", "a column of"),
        (
            f"{APPENDED} (filter true, file a)",
            "partitioning the table by a column that the filters compare with literals",
            "what tells the two apart",
        ),
        ("tables that it listed have changed", "level SNAPSHOT, where", "help: level SNAPSHOT"),
        (
            "a table whose metadata it read was written",
            "a transaction in which files decide (`txns.conflicts=file`); or level SNAPSHOT, where",
            "help: a transaction in which files decide",
        ),
    ],
)
def test_advice_is_given_once(reason: str, advice: str, told: str) -> None:
    """What the protocol says of SQL is said of the configuration, where that has words for it."""
    message = f"{reason}; what would help: {advice}; table=`shop.orders` txn=`1`"
    conflict = dbapi.TransactionConflict(message, other_comment=THEIRS)
    text = without_advice(message) + explanation(conflict, OURS, "shop.orders")
    assert text.startswith(f"{reason}; table=`shop.orders` txn=`1`\n")
    assert told in text
    assert text.count("let `incr") + text.count("what would help: ") == 1


@pytest.mark.parametrize(("table", "told"), [("shop.audit", "hook"), ("Shop.Orders", "one file")])
def test_a_table_that_a_hook_writes(table: str, told: str) -> None:
    """The model's own configuration says nothing of it."""
    reason = "a table that it wrote over was written (filter d = 1, file a)"
    conflict = dbapi.TransactionConflict(reason, other_comment=THEIRS, table=table)
    text = explanation(conflict, OURS, "shop.orders")
    assert told in text
    assert ("incremental_predicates" in text) == (table != "shop.audit")
    read = dbapi.TransactionConflict(
        "a table whose metadata it read was written", other_comment=THEIRS, table="shop.other"
    )
    assert "hook" not in explanation(read, OURS, "shop.orders")
