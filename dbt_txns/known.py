"""
What dbt knows of relations: its cache, which is to say what the lake does.

dbt changes its cache at once, in the middle of a transaction. What a node has touched there is
noted until it has committed; where it has not, the lake is asked what became of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dbt.adapters.base.impl import available
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.spark.impl import SCHEMA_NOT_FOUND_MESSAGES, SparkAdapter
from dbt.adapters.txns.connections import StatementError, TxnsConnectionManager
from dbt_common.exceptions import DbtRuntimeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dbt.adapters.base.relation import BaseRelation
    from dbt.adapters.txns.scope import Scope

logger = AdapterLogger("txns")


class KnowingAdapter(SparkAdapter):
    """dbt-spark's adapter, which knows the relations of transactional catalogs."""

    connections: TxnsConnectionManager

    def _make_match(
        self, relations_list: list[BaseRelation], database: str, schema: str, identifier: str
    ) -> list[BaseRelation]:
        """Find a relation: catalogs may keep the case of names that dbt was told not to quote."""
        wanted = (database, schema, identifier)
        exact = [
            found
            for found in relations_list
            if (found.database, found.schema, found.identifier) == wanted
        ]
        return exact or super()._make_match(relations_list, database, schema, identifier)

    def cached(self, relation: BaseRelation) -> BaseRelation | None:
        """Find what has a relation's name in dbt's cache; None if nothing has."""
        names = (relation.database or "", relation.schema or "", relation.identifier or "")
        return self.get_relation(*names)

    @available
    def cache_added(self, relation: BaseRelation | None) -> str:
        """Let dbt's cache know a relation."""
        self._touch(relation)
        return str(super().cache_added(relation))

    @available
    def cache_dropped(self, relation: BaseRelation | None) -> str:
        """Let dbt's cache forget a relation."""
        self._touch(relation)
        return str(super().cache_dropped(relation))

    @available
    def cache_renamed(
        self, from_relation: BaseRelation | None, to_relation: BaseRelation | None
    ) -> str:
        """Give a relation another name in dbt's cache."""
        self._touch(from_relation, to_relation)
        return str(super().cache_renamed(from_relation, to_relation))

    def rename_relation(self, from_relation: BaseRelation, to_relation: BaseRelation) -> None:
        """Give a relation another name: outside of any transaction, so noted after what was one."""
        self.connections.step_outside()
        super().rename_relation(from_relation, to_relation)  # type: ignore[no-untyped-call]

    def _touch(self, *relations: BaseRelation | None) -> None:
        scope = self.connections.scope
        if scope is not None:
            scope.touched += [relation for relation in relations if relation is not None]

    def leave_scope(self) -> None:
        """End a node's scope; what is still open is rolled back, and dbt's cache put right."""
        scope = self.connections.scope
        try:
            self.connections.leave_scope()
        finally:
            if scope is not None:
                self.know_again(scope)

    def know_again(self, scope: Scope) -> None:
        """Ask the lake for what a node has touched in dbt's cache since it committed last."""
        touched, scope.touched = scope.touched, []
        places = {relation.without_identifier().render(): relation for relation in touched}
        for place, relation in places.items():
            try:
                there = self._listed_again(relation.without_identifier())
            except DbtRuntimeError as error:
                logger.warning(f"dbt may take {place} for what it is not: {error}")
                continue
            for each in touched:
                if each.without_identifier().render() == place:
                    self._know_as(each, there)

    def stands(self, relation: BaseRelation) -> bool:
        """Whether what a failed node builds is there all the same: it has committed by itself."""
        scope = self.connections.scope
        if scope is None or (scope.transaction and not scope.has_committed):
            return False
        try:
            there = self._listed_again(relation.without_identifier())
        except DbtRuntimeError as error:
            logger.warning(f"nobody knows whether {relation} is there: {error}")
            return True
        self._know_as(relation, there)
        return self.cached(relation) is not None

    def _know_as(self, relation: BaseRelation, there: list[BaseRelation]) -> None:
        names = (relation.database or "", relation.schema or "", relation.identifier or "")
        found = next(iter(self._make_match(there, *names)), None)
        known = self.cached(relation)
        if known is not None and (found is None or found.type != known.type):
            self.cache.drop(known)  # type: ignore[no-untyped-call]
            known = None
        if known is None and found is not None:
            self.cache.add(found)  # type: ignore[no-untyped-call]

    def _listed_again(self, place: BaseRelation) -> list[BaseRelation]:
        """List a schema, once more where the session is found to be lost: in a new one then."""
        try:
            return self.list_relations_without_caching(place)
        except StatementError as error:
            if not error.is_lost:
                raise
        return self.list_relations_without_caching(place)

    # What there is

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """List tables and views of a schema, in two statements; nothing where it is missing."""
        try:
            rows: Iterable[Any] = self.execute_macro(
                "txns_list_relations", kwargs={"schema_relation": schema_relation}
            )
        except StatementError as error:
            if any(words in str(error) for words in SCHEMA_NOT_FOUND_MESSAGES):
                return []
            raise
        return [
            self.Relation.create(
                database=schema_relation.database,
                schema=schema_relation.schema,
                identifier=name,
                type=RelationType(kind),
            )
            for name, kind in rows
        ]

    @available.parse_list
    def relations_in(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """List tables and views of a schema, past dbt's cache."""
        return self.list_relations_without_caching(schema_relation)

    @available.parse_list
    def views_in(self, schema_relation: BaseRelation) -> list[str]:
        """List the views of a schema; none where the catalog has no views."""
        try:
            _, rows = self.execute(
                f"show views in {schema_relation.without_identifier()}", fetch=True
            )
        except StatementError as error:
            if error.sqlstate != "0A000":
                raise
            return []
        return [row[1] for row in rows]
