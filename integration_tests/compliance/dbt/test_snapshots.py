"""Snapshots: dbt's own classes beyond the basic ones."""

from __future__ import annotations

import re

import pytest
from dbt.tests.adapter.simple_snapshot import new_record_timestamp_mode as suite
from dbt.tests.adapter.simple_snapshot.new_record_check_mode import BaseSnapshotNewRecordCheckMode
from dbt.tests.adapter.simple_snapshot.new_record_dbt_valid_to_current import (
    BaseSnapshotNewRecordDbtValidToCurrent,
)
from dbt.tests.adapter.simple_snapshot.new_record_timestamp_mode import (
    BaseSnapshotNewRecordTimestampMode,
)
from dbt.tests.adapter.simple_snapshot.test_snapshot import BaseSimpleSnapshot, BaseSnapshotCheck

pytestmark = pytest.mark.slow


class TestSimpleSnapshot(BaseSimpleSnapshot):
    def add_fact_column(self, column=None, definition=None):  # noqa: ARG002 -- the suite's
        """Spark takes no default of a VARCHAR, not even NULL: 42623."""
        return super().add_fact_column(column, "string")


class TestSnapshotCheck(BaseSnapshotCheck):
    pass


class InSpark:
    """The suite's statements are PostgreSQL's: the same types by Spark's names, and literals."""

    @pytest.fixture(scope="class")
    def seed_new_record_mode_statements(self):
        return [_in_spark(one) for one in suite._seed_new_record_mode_statements]

    @pytest.fixture(scope="class")
    def update_sql(self):
        return _in_spark(suite._update_sql)

    @pytest.fixture(scope="class")
    def reinsert_sql(self):
        return _in_spark(suite._reinsert_sql)


class TestNewRecordTimestampMode(InSpark, BaseSnapshotNewRecordTimestampMode):
    pass


class TestNewRecordCheckMode(InSpark, BaseSnapshotNewRecordCheckMode):
    pass


class TestNewRecordDbtValidToCurrent(BaseSnapshotNewRecordDbtValidToCurrent):
    pass


def _in_spark(statement: str) -> str:
    statement = statement.replace("TIMESTAMP WITHOUT TIME ZONE", "TIMESTAMP")
    statement = re.sub(r"\bTEXT\b|(?<=::)text\b", "STRING", statement)
    return re.sub(r"('\d{4}-\d\d-\d\d \d\d:\d\d:\d\d')", r"TIMESTAMP \1", statement)
