"""Past transactions for a log, made faster than by living through them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from txns._admin.invariants import check_all
from txns._commit import tidy
from txns._log import archive
from txns._log.change import Change, Operation
from txns._log.entry import Entry, Isolation, Kind
from txns._log.swap import Outcome

if TYPE_CHECKING:
    import txns
    from txns._services import Parts

ARCHIVE_FILE_ROWS = 2500


def add_history(handle: txns.Handle, count: int) -> None:
    """
    Add past transactions to a log, in the bytes that a tidy writes.

    They lie before the oldest real one, and are of a table that the last of them dropped and
    that has been purged since. All that `txns check` looks at is checked.
    """
    parts = handle.parts
    first_ts = min(row["commit_ts"] for row in handle.transactions()) - count - 1
    table_uuid = str(uuid.uuid4())
    for start in range(0, count, ARCHIVE_FILE_ROWS):
        rows = []
        for number in range(start, min(start + ARCHIVE_FILE_ROWS, count)):
            change = Change(
                ("shop", "gone"),
                table_uuid,
                Operation.APPEND if number < count - 1 else Operation.DROP,
                parts.clock.new_snapshot_id(),
                parts.clock.new_snapshot_id(),
                added_records=1,
            )
            rows += archive.rows_of(_past_entry(parts, change, first_ts + number))
        head = parts.log.load()
        record = Entry(
            Kind.TIDY,
            parts.clock.new_txn_id(),
            upper=head.upper,
            tidied_upto=head.state.tidied_upto,
        )
        _, updates = tidy._rewritten(head.table, rows, [], record)
        assert parts.log.replace(head, updates).outcome is Outcome.WON
    assert not check_all(parts).violations


def _past_entry(parts: Parts, change: Change, commit_ts: int) -> Entry:
    return Entry(
        Kind.COMMIT,
        parts.clock.new_txn_id(),
        upper=commit_ts,
        tidied_upto=0,
        commit_ts=commit_ts,
        read_ts=commit_ts - 1,
        isolation=Isolation.STRICT_SERIALIZABLE,
        engine="history",
        changes=(change,),
    )
