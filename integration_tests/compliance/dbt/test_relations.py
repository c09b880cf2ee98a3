"""Names, seeds, caches, changes of kind, threads and stored failures: dbt's own classes."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.aliases import fixtures as aliases
from dbt.tests.adapter.aliases.test_aliases import (
    BaseAliasErrors,
    BaseAliases,
    BaseSameAliasDifferentSchemas,
)
from dbt.tests.adapter.caching.test_caching import (
    BaseCachingLowercaseModel,
    BaseCachingSelectedSchemaOnly,
    BaseCachingUppercaseModel,
    BaseNoPopulateCache,
)
from dbt.tests.adapter.concurrency.test_concurrency import BaseConcurrency
from dbt.tests.adapter.dbt_clone.test_dbt_clone import (
    BaseCloneSameSourceAndTarget,
    BaseCloneSameTargetAndState,
)
from dbt.tests.adapter.relations.test_changing_relation_type import (
    BaseChangeRelationTypeValidator,
)
from dbt.tests.adapter.relations.test_dropping_schema_named import BaseDropSchemaNamed
from dbt.tests.adapter.sample_mode.test_sample_mode import BaseSampleModeTest
from dbt.tests.adapter.simple_copy.test_simple_copy import (
    EmptyModelsArentRunBase,
    SimpleCopyBase,
)
from dbt.tests.adapter.simple_seed.test_seed import BaseSeedSpecificFormats
from dbt.tests.adapter.store_test_failures_tests.test_store_test_failures import (
    BaseStoreTestFailures,
    BaseStoreTestFailuresLimit,
)

pytestmark = pytest.mark.slow


class _Literals:
    """The suite dispatches how a text is written; Spark has no type TEXT."""

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {
            "cast.sql": aliases.MACROS__CAST_SQL
            + "{% macro txns__string_literal(s) %} '{{ s }}' {% endmacro %}",
            "expect_value.sql": aliases.MACROS__EXPECT_VALUE_SQL,
        }


class TestAliases(_Literals, BaseAliases):
    pass


class TestAliasErrors(BaseAliasErrors):
    pass


class TestSameAliasDifferentSchemas(_Literals, BaseSameAliasDifferentSchemas):
    pass


class TestCachingLowercaseModel(BaseCachingLowercaseModel):
    pass


class TestCachingUppercaseModel(BaseCachingUppercaseModel):
    pass


class TestCachingSelectedSchemaOnly(BaseCachingSelectedSchemaOnly):
    pass


class TestNoPopulateCache(BaseNoPopulateCache):
    pass


class TestConcurrency(BaseConcurrency):
    pass


class TestCloneSameTargetAndState(BaseCloneSameTargetAndState):
    pass


class TestCloneSameSourceAndTarget(BaseCloneSameSourceAndTarget):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        """The suite's own are no fixture, so that without this one there would be none."""
        return super().models()


class TestChangeRelationType(BaseChangeRelationTypeValidator):
    pass


class TestSeedSpecificFormats(BaseSeedSpecificFormats):
    pass


class TestDropSchemaNamed(BaseDropSchemaNamed):
    pass


class TestSampleMode(BaseSampleModeTest):
    pass


class TestSimpleCopy(SimpleCopyBase):
    @pytest.mark.skip(reason="Spark has no materialized views outside of its pipelines")
    def test_simple_copy_with_materialized_views(self, project: Any) -> None: ...


class TestEmptyModelsAreNotRun(EmptyModelsArentRunBase):
    @pytest.fixture(scope="class")
    def project(self, project: Any) -> Any:
        """The suite's project asks an information_schema, which Spark does not have."""

        def tables() -> dict[str, str]:
            with project.adapter.connection_named("_tables"):
                schema = project.adapter.Relation.create(project.database, project.test_schema)
                found = project.adapter.list_relations_without_caching(schema)
            return {relation.identifier: str(relation.type) for relation in found}

        project.get_tables_in_schema = tables
        return project


class TestStoreTestFailures(BaseStoreTestFailures):
    pass


class TestStoreTestFailuresLimit(BaseStoreTestFailuresLimit):
    pass
