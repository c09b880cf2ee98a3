"""
Holds files that a program adds to a table against those that others have added since.

Who adds files (`add_files`) has looked whether the table has them; it reads nothing else of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._iceberg import file_changes
from txns._iceberg.snapshots import summary_value
from txns._stage.restage_as_one import some_of
from txns._table import mark
from txns._table.logged_state import last_on_main
from txns.errors import NOBODY, Conflict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table.metadata import TableMetadata

    from txns._stage.staged_table import StagedTable
    from txns.errors import Winner


def refuse_again(
    staged: StagedTable,
    newer: TableMetadata,
    paths: set[str],
    *,
    txn_id: str,
    winner: Winner,
    winners: Mapping[str, Winner],
    least_ts: int,
) -> None:
    """
    Refuse to add files that a newer state of their table has.

    Args:
        staged: What was staged.
        newer: The table as it is now.
        paths: Of the files that the table did not have when it was looked at.
        txn_id: The transaction, for messages.
        winner: Whose they are where that cannot be told, for messages.
        winners: All that have written the table, by their ids.
        least_ts: The least `read_ts` in ms at which it would be told that they are there.

    Raises:
        Conflict: Somebody else has added one of them.
    """
    if not paths:
        return
    found: set[str] = set()
    reason = "what it has looked through for files to add has been expired"
    before = last_on_main(staged.base, newer)
    try:
        since = file_changes.since(staged.io, newer, before.snapshot_id if before else None)
        for snapshot, changes in since:  # one that was replaced since was there all the same
            if again := paths & {file.file_path for file in changes().added}:
                found |= again
                author = summary_value(snapshot, mark.SNAPSHOT_TXN_ID) or ""
                winner = winners.get(author, NOBODY)
        if not found:
            return
    except file_changes.HistoryGap:
        pass  # who knows
    if found:
        reason = f"files that it adds were added by others ({some_of(found)})"
    raise Conflict(reason, table=staged.identifier, txn_id=txn_id, winner=winner, least_ts=least_ts)
