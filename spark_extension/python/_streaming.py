"""Make each batch of a streaming query one transaction, committed once."""

from __future__ import annotations

import json
import logging
import re
from functools import wraps
from typing import TYPE_CHECKING

from txns_spark.errors import (
    CommitStateUnknown,
    ConfigurationError,
    TransactionConflict,
    translated,
)
from txns_spark.retries import (
    between_begin_and_commit,
    check_has_run,
    check_runs,
    run_again,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, Row, SparkSession

_LOG = logging.getLogger(__name__)  # noqa: TID251 -- of names and numbers alone
_SKIPPED = (
    "batch %d has committed before, and is skipped; if the query has a new checkpoint, give "
    "foreach_batch a new query_id txn=%s"
)
# Spark sets it in the thread that runs a query's batches.
_QUERY_ID = "sql.streaming.queryId"


def foreach_batch(
    callback: Callable[[DataFrame, int], object],
    *,
    query_id: str | None = None,
    attempts: int = 10,
) -> Callable[[DataFrame, int], None]:
    """
    Return a function for `DataStreamWriter.foreachBatch` that commits each batch once.

    The callback runs between BEGIN and COMMIT of `batch.sparkSession`, over as many tables
    of one catalog as it likes. The query's id and the batch's number are the transaction's
    id: a batch that Spark delivers again, after a crash between COMMIT and its own
    checkpoint, is found to have committed, and its writes are skipped.

    A batch that lost a race is run again from BEGIN, so the callback may run more than once
    and should have no effects besides what it writes through `batch.sparkSession`.

    Over Spark Connect this runs in a Python process of the server, which needs this package,
    and `batch.sparkSession` is the session that started the query: nothing else may use it.

    Args:
        callback: Takes the batch and its number, as foreachBatch's own does.
        query_id: A name that no other query has and that stays over restarts. Spark knows
            one itself, from the checkpoint, but does not tell it to a Spark Connect client.
            A new checkpoint needs a new name: Spark numbers its batches from 0 again, and
            those that have committed under the old name are skipped, with a warning in the log.
        attempts: How often a batch is run while it loses races, at least 1.

    Raises:
        ConfigurationError: attempts is below 1, or a call of the callback runs nothing yet, as
            that of a coroutine or a generator does. From the batch: over Spark Connect, without
            a query_id, or in a session that something else has a transaction in.
        TransactionConflict: From the batch, after the last attempt.
    """
    if attempts < 1:
        raise ConfigurationError(f"foreach_batch needs an attempt at least: attempts={attempts}")
    check_runs(callback)

    @wraps(callback)
    def write(batch: DataFrame, batch_id: int) -> None:
        session = batch.sparkSession
        query = f"stream/{query_id or _query_id(session)}/"
        run_again(
            lambda: _run_once(session, query, callback, batch, batch_id),
            attempts=attempts,
            # BEGIN with the same id tells what became of an unknown outcome.
            lost=(TransactionConflict, CommitStateUnknown),
        )

    return write


def _run_once(
    session: SparkSession,
    query: str,
    callback: Callable[[DataFrame, int], object],
    batch: DataFrame,
    batch_id: int,
) -> None:
    with translated():
        _end_what_was_left(session, query)
        begin = f"BEGIN ID {_literal(f'{query}{batch_id}')}"
        with between_begin_and_commit(session, begin) as begun:
            if begun is None or begun.state != "committed":
                check_has_run(callback(batch, batch_id))
            else:
                txn_id = f"{query}{batch_id}"
                _LOG.warning(_SKIPPED, batch_id, _field(txn_id), extra={"txn": txn_id})


def _field(txn_id: str) -> str:
    """Return an id, which is printable, as a line of the log has it: docs/operations.md."""
    plain = not re.search(r"[\s\"'`=\\]", txn_id)
    return txn_id if plain else json.dumps(txn_id, ensure_ascii=False)


def _end_what_was_left(session: SparkSession, query: str) -> None:
    """Roll back what a batch of this query has left that died with its Python process."""
    left: Row | None = session.sql("SHOW TRANSACTION").first()
    if left is None or left.state == "none":
        return
    if not (left.txn_id or "").startswith(query):
        raise ConfigurationError(
            "a streaming query with foreach_batch needs a session of its own, and this one is in "
            "another transaction: over Spark Connect start the query from a session that nothing "
            f"else uses; transaction={left.txn_id}"
        )
    session.sql("ROLLBACK")


def _literal(text: str) -> str:
    """Return an id as the one literal that no setting and no variable of the session changes."""
    return f"CAST(X'{text.encode('utf-8').hex()}' AS STRING)"


def _query_id(session: SparkSession) -> str:
    context = getattr(session, "sparkContext", None) if _is_classic(session) else None
    found = context.getLocalProperty(_QUERY_ID) if context is not None else None
    if not found:
        raise ConfigurationError(
            "the id of the streaming query is not known here: give "
            "foreach_batch(callback, query_id=...) a name that stays over restarts"
        )
    return str(found)


def _is_classic(session: SparkSession) -> bool:
    return hasattr(session, "_jsparkSession")
