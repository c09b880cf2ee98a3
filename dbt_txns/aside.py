"""
The relation that has a model's name and is of the other kind: it steps aside, and may come back.

A catalog has tables and views under one set of names and makes views at once, so no transaction
turns one into the other. What is there keeps its rows and its definition under another name until
the model has committed:

1. rename it to `<model>__dbt_old`;
2. build the model;
3. remove what stepped aside; or, when the model has failed, give it its name back, unless the new
   one is there all the same: a hook has committed it.

Who dies in between leaves it aside, and the next run gives it its name back before it builds.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.txns.connections import StatementError
from dbt_common.exceptions import DbtRuntimeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dbt.adapters.base.relation import BaseRelation

logger = AdapterLogger("txns")

_SUFFIX = "__dbt_old"


class Relations(Protocol):
    """What of the adapter is needed here."""

    def cached(self, relation: BaseRelation) -> BaseRelation | None:
        """Find what has a relation's name in dbt's cache."""

    def stands(self, relation: BaseRelation) -> bool:
        """Whether what a failed node builds is there all the same."""

    def remove(self, relation: BaseRelation) -> None:
        """Take a relation out of the catalog at once."""

    def rename_relation(self, from_relation: BaseRelation, to_relation: BaseRelation) -> None:
        """Give a relation another name, in the catalog and in dbt's cache."""

    def cache_dropped(self, relation: BaseRelation | None) -> str:
        """Let dbt's cache forget a relation."""

    @property
    def execute(self) -> Callable[..., Any]:
        """Run a statement."""


def put_back(adapter: Relations, relation: BaseRelation) -> bool:
    """Give what a run that died has left aside its name back; False if there is nothing."""
    if adapter.cached(relation) is not None:
        return False
    left = adapter.cached(_aside(relation))
    if left is None:
        return False
    logger.info(f"an earlier run has left {left} aside: it is {relation} again")
    _rename(adapter, left, relation)
    return True


@contextmanager
def making_way(adapter: Relations, relation: BaseRelation, kind: str | None) -> Iterator[None]:
    """
    Have a relation of another kind than `kind` step aside while the block builds the model.

    Raises:
        DbtRuntimeError: The catalog cannot rename it; nothing has changed then.
    """
    old = adapter.cached(relation)
    if old is None or kind is None or old.type == kind:
        yield
        return
    aside = _aside(old)
    left = adapter.cached(aside)
    if left is not None:
        adapter.remove(left)
    _rename(adapter, old, aside)
    try:
        yield
    except Exception as error:
        # After a COMMIT of which nobody knows what came, both are there to be looked at.
        if isinstance(error, StatementError) and error.may_have_committed:
            logger.warning(f"nobody knows whether {relation} has committed: {aside} is the old one")
        elif adapter.stands(relation):
            logger.warning(f"a part of {relation} has committed, and stays: {aside} is the old one")
        else:
            _come_back(adapter, aside, old)
        raise
    try:
        adapter.remove(aside)
    except DbtRuntimeError as error:
        logger.warning(
            f"{relation} is built, and what it replaced is not removed: {aside}; {error}"
        )


def _come_back(adapter: Relations, aside: BaseRelation, old: BaseRelation) -> None:
    """Give it its name back; a view that the failed model has made before goes."""
    try:
        if aside.type != RelationType.View:
            adapter.execute(f"drop view if exists {old}")
            adapter.cache_dropped(old)
        _rename(adapter, aside, old)
    except DbtRuntimeError as error:
        logger.warning(f"{aside} cannot be {old} again; the next run will try: {error}")


def _rename(adapter: Relations, source: BaseRelation, target: BaseRelation) -> None:
    adapter.rename_relation(source, target.incorporate(type=source.type))  # type: ignore[no-untyped-call]


def _aside(relation: BaseRelation) -> BaseRelation:
    path = {"identifier": f"{relation.identifier}{_SUFFIX}"}
    found: BaseRelation = relation.incorporate(path=path)  # type: ignore[no-untyped-call]
    return found
