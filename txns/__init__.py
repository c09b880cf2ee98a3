"""
Atomic transactions over many Apache Iceberg tables, in Python on pyiceberg.

A transaction is a pyiceberg catalog: whoever loads a table through it gets an ordinary
table whose commits are kept in memory until one compare-and-swap on one more Iceberg
table, the commit table, makes all of them durable and visible at once::

    handle = txns.open(load_catalog("lake"))
    handle.register("shop.orders")
    with handle.begin() as txn:
        txn.load_table("shop.orders").delete("id = 7")
        txn.load_table("shop.orders").append(rows)
        txn.load_table("shop.items").upsert(items)

The phases, which `Transaction.commit` takes in one go: stage (files are written, their
pointers are in memory), `commit_at` (the swap: durable, visible), `Committed.apply`
(each table gets its change; anybody may do it, at any time), `Handle.tidy` (applied
entries become rows of the commit table). Spark sessions take part in the same
transactions through the same log: docs/spec.md is all that the two share.

A lost race raises `Conflict` (SQLSTATE 40001): `txns.run_transaction` runs the callback again.
What each isolation level allows is in docs/isolation.md, the guide in docs/python.md.
Not offered: writing tables of format version 3 (pyiceberg cannot), a transaction over two
catalogs.
"""

from txns._admin.purge import Purgeable, Purged
from txns._catalog.changefeed import Delivery, TableRows
from txns._catalog.outcome import Applied, Committed, State
from txns._catalog.transaction import Transaction
from txns._clock import Clock, SystemClock
from txns._handle import Handle
from txns._log.entry import Isolation
from txns._open import open  # noqa: A004 -- txns.open() is how a user says it
from txns._retry import run_transaction, transactional
from txns.errors import (
    CommitStateUnknown,
    Conflict,
    CorruptLog,
    ForeignWrite,
    InvalidUsage,
    Quarantined,
    TxnsError,
    Unsupported,
)

__all__ = [
    "Applied",
    "Clock",
    "CommitStateUnknown",
    "Committed",
    "Conflict",
    "CorruptLog",
    "Delivery",
    "ForeignWrite",
    "Handle",
    "InvalidUsage",
    "Isolation",
    "Purgeable",
    "Purged",
    "Quarantined",
    "State",
    "SystemClock",
    "TableRows",
    "Transaction",
    "TxnsError",
    "Unsupported",
    "__version__",
    "open",
    "run_transaction",
    "transactional",
]

__version__ = "0.1.0"
