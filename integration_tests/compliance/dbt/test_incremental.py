"""Incremental models: dbt's own classes, with the strategies that real transactions open."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.basic.test_incremental import (
    BaseIncrementalBadStrategy,
    BaseIncrementalNotSchemaChange,
)
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import (
    BaseMergeExcludeColumns,
)
from dbt.tests.adapter.incremental.test_incremental_microbatch import BaseMicrobatch
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey

pytestmark = pytest.mark.slow


class TestBadStrategy(BaseIncrementalBadStrategy):
    pass


class TestNotSchemaChange(BaseIncrementalNotSchemaChange):
    pass


class TestMergeExcludeColumns(BaseMergeExcludeColumns):
    pass


class TestMicrobatch(BaseMicrobatch):
    pass


class TestPredicatesOfDeleteInsert(BaseIncrementalPredicates):
    pass


class TestUniqueKeyOfDeleteInsert(BaseIncrementalUniqueKey):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        # The tests insert dates as text, which Spark puts into no column of dates.
        types = {"last_visit_date": "string"}
        return {
            "models": {"+incremental_strategy": "delete+insert"},
            "seeds": {"+column_types": types},
        }
