"""
What others have built since dbt asked what there is.

dbt asks once, at its start. An incremental model or a snapshot that was not there then would be
built from nothing, over a table that somebody has built meanwhile, and the rows of that would be
gone: two runs of a new model, each for a day of its own, would leave one day.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbt.adapters.events.logging import AdapterLogger

if TYPE_CHECKING:
    from dbt.adapters.base.relation import BaseRelation
    from dbt.adapters.spark.impl import SparkAdapter

logger = AdapterLogger("txns")

_LOOKING = "dbt_looking"


def built_by_others(adapter: SparkAdapter, relation: BaseRelation) -> bool:
    """
    Look whether a relation is there of which dbt knows nothing; it knows of it then.

    Where a transaction is open it is looked for in that: who makes it later clashes.
    """
    if _known(adapter, relation) is not None or not _is_there(adapter, relation):
        return False
    for found in adapter.list_relations_without_caching(relation.without_identifier()):
        if _known(adapter, found) is None:
            adapter.cache_added(found)
    logger.info(f"{relation} has been built by somebody else meanwhile")
    return _known(adapter, relation) is not None


def _known(adapter: SparkAdapter, relation: BaseRelation) -> BaseRelation | None:
    names = (relation.database or "", relation.schema or "", relation.identifier or "")
    return adapter.get_relation(*names)


def _is_there(adapter: SparkAdapter, relation: BaseRelation) -> bool:
    transaction = adapter.connections.get_thread_connection().handle.connection
    with adapter.connections.exception_handler(f"look for {relation}"):
        found: bool | None = transaction.has_table(str(relation))
        if found is not None:
            return found
        is_open = transaction.in_transaction
        if is_open:
            transaction.savepoint(_LOOKING)
        there = bool(adapter.get_columns_in_relation(relation))
        if is_open and not there:  # the failure has aborted it
            transaction.rollback_to_savepoint(_LOOKING)
    return there
