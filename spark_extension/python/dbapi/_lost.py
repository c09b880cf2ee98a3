"""What is said of a transaction whose session was lost."""

from __future__ import annotations

from txns_spark.dbapi import errors

_CONDITION = "TXNS_COMMIT_STATE_UNKNOWN"
_SQLSTATE = "08007"


def unknown(
    txn_id: str | None,
    error: errors.Error,
    what: str = "the session was lost while it committed, so nobody knows whether it has",
) -> errors.CommitStateUnknown:
    """Return what is said of a transaction that may have committed."""
    return errors.CommitStateUnknown(
        f"{what}; ask outcome(txn_id), on a connection that works: txn_id={txn_id}; {error}",
        condition=_CONDITION,
        sqlstate=_SQLSTATE,
        txn_id=txn_id,
    )


def unknown_statement(lost: errors.ConnectionLost) -> errors.CommitStateUnknown:
    """Return what is said of a statement outside of a transaction: it has no id to ask by."""
    return errors.CommitStateUnknown(
        "the session was lost in a statement that commits by itself, so nobody knows whether it "
        f"has; look at what it was to write before it is run again: {lost}",
        condition=_CONDITION,
        sqlstate=_SQLSTATE,
    )


def uncommitted(txn_id: str | None, lost: errors.ConnectionLost) -> errors.ConnectionLost:
    """Return what is said of a transaction that was not at its COMMIT."""
    return errors.ConnectionLost(
        "the session was lost, and with it the transaction that was open: nothing of it is "
        f"committed; roll back, connect again and run it from its beginning: {txn_id=}; {lost}"
    )
