"""
Go on with transactions of other processes, and make one of several.

Imports: _committed, _restage, _serialize, _transaction, errors. Used by: the package's users.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns import _restage, _serialize
from txns._committed import Committed
from txns._log import remove
from txns._transaction import Transaction
from txns.errors import InvalidUsage, text

if TYPE_CHECKING:
    from txns._handle import Handle
    from txns._parts import Parts
    from txns._staged import StagedTable


def deserialize(handle: Handle, data: bytes) -> Transaction:
    """
    Go on with a transaction that another process has given as bytes (`Transaction.serialize`).

    Whoever deserializes it commits it or rolls it back; of several who commit the same bytes
    one entry comes out, with which `Transaction.committed` answers whoever comes later.

    Raises:
        Unsupported: The bytes are of another format, catalog or commit table.
        Conflict: A table that it wrote cannot be read at its `read_ts` any more.
    """
    head = handle.parts.log.load()
    found = _serialize.load(handle.parts, head, data)
    transaction = Transaction(handle.parts, head, found.options, found.comment)
    transaction.reads.merge(found.reads)
    transaction.take_over(found.writes)
    if found.landed is not None:
        transaction.committed = Committed.of(found.landed, handle.parts)
    return transaction


def merge(first: Transaction, *others: Transaction) -> Transaction:
    """
    Make one transaction of several of one handle, at the least of their `read_ts`.

    Args:
        first: Goes on, with everything in it.
        others: Are over afterwards.

    Raises:
        InvalidUsage: 25000, a table is changed by several, and not by appends alone, or one of
            them has committed already.
    """
    for each in (first, *others):
        if each.committed is not None:
            raise InvalidUsage(
                "25000",
                "a transaction that has committed cannot be merged: run the others on their own;"
                f" txn=`{each.txn_id}`",
            )
    for other in others:
        _check_mergeable(first, other)
    for other in others:
        first.widen(other)
        for name, staged in other.hand_over().items():
            mine = first.staged(name)
            if mine is None:
                first.take_over([staged])
            else:
                _append_onto(mine, staged, first.parts)
                first.take_over([mine])
    return first


def _check_mergeable(first: Transaction, other: Transaction) -> None:
    for name in set(first.tables) & set(other.tables):
        mine, theirs = first.staged(name), other.staged(name)
        if not (mine and theirs and mine.append_only and theirs.append_only):
            raise InvalidUsage(
                "25000",
                "a table that several merged transactions change must be appended to by each;"
                f" table=`{text(name)}`",
            )


def _append_onto(mine: StagedTable, theirs: StagedTable, parts: Parts) -> None:
    """Put another transaction's appends on top of ours."""
    again = _restage.restage(
        theirs, mine.current, parts.clock, txn_id="", other_txn_id="", least_ts=0
    )
    for snapshot in theirs.snapshots():
        remove(theirs.io.inner, snapshot.manifest_list)
    mine.io.created += [*theirs.io.created, *again.io.created]
    mine.stage_as(again.updates, again.current)
