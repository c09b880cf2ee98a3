"""Contracts and NOT NULL: dbt's own classes, with Spark's types."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.constraints import fixtures
from dbt.tests.adapter.constraints.test_constraints import (
    BaseConstraintQuotedColumn,
    BaseConstraintsRollback,
    BaseConstraintsRuntimeDdlEnforcement,
    BaseIncrementalConstraintsColumnsEqual,
    BaseIncrementalConstraintsRollback,
    BaseIncrementalConstraintsRuntimeDdlEnforcement,
    BaseModelConstraintsRuntimeEnforcement,
    BaseTableConstraintsColumnsEqual,
    BaseViewConstraintsColumnsEqual,
)

pytestmark = pytest.mark.slow

SCHEMA = fixtures.model_schema_yml.replace("text", "string")
DATA_TYPES = [
    # the value in SQL, the type in the contract, the type in the message
    ["1", "int", "int"],
    ["'1'", "string", "string"],
    ["true", "boolean", "boolean"],
    ["date '2019-01-01'", "date", "date"],
    ["timestamp '2019-01-01'", "timestamp", "timestamp"],
    ["cast(1.0 as decimal(4,2))", "decimal(4,2)", "decimal(4,2)"],
    ["array('a')", "array<string>", "array<string>"],
]


class _Types:
    @pytest.fixture
    def string_type(self) -> str:
        return "string"

    @pytest.fixture
    def int_type(self) -> str:
        return "int"

    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        return DATA_TYPES


class TestColumnsOfTables(_Types, BaseTableConstraintsColumnsEqual):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "my_model_wrong_order.sql": fixtures.my_model_wrong_order_sql,
            "my_model_wrong_name.sql": fixtures.my_model_wrong_name_sql,
            "constraints_schema.yml": SCHEMA,
        }


class TestColumnsOfViews(_Types, BaseViewConstraintsColumnsEqual):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "my_model_wrong_order.sql": fixtures.my_model_view_wrong_order_sql,
            "my_model_wrong_name.sql": fixtures.my_model_view_wrong_name_sql,
            "constraints_schema.yml": SCHEMA,
        }


class TestColumnsOfIncrementals(_Types, BaseIncrementalConstraintsColumnsEqual):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "my_model_wrong_order.sql": fixtures.my_model_incremental_wrong_order_sql,
            "my_model_wrong_name.sql": fixtures.my_model_incremental_wrong_name_sql,
            "constraints_schema.yml": SCHEMA,
        }


class _Rollback:
    @pytest.fixture(scope="class")
    def expected_error_messages(self) -> list[str]:
        return ["NOT_NULL_ASSERT_VIOLATION"]


class TestNotNullOfTables(_Rollback, BaseConstraintsRollback):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"my_model.sql": fixtures.my_model_sql, "constraints_schema.yml": SCHEMA}


class TestNotNullOfIncrementals(_Rollback, BaseIncrementalConstraintsRollback):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"my_model.sql": fixtures.my_incremental_model_sql, "constraints_schema.yml": SCHEMA}


# CREATE ... AS SELECT takes no NOT NULL, so a model with a required column is filled by an INSERT
# of its own. What it creates before is what the tests above see.
INSERT = """
insert into <model_identifier>
select id, {column}, date_day from (
    {hint} select 'blue' as {column}, 1 as id, '2019-01-01' as date_day
) as model_subq
"""


class _Inserted:
    @pytest.fixture(scope="class")
    def expected_sql(self) -> str:
        hint = "-- depends_on: <foreign_key_model_identifier>\n"
        return INSERT.format(column="color", hint=hint)


class TestStatementsOfTables(_Inserted, BaseConstraintsRuntimeDdlEnforcement):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "my_model.sql": fixtures.my_model_wrong_order_depends_on_fk_sql,
            "foreign_key_model.sql": fixtures.foreign_key_model_sql,
            "constraints_schema.yml": fixtures.model_fk_constraint_schema_yml.replace(
                "text", "string"
            ),
        }


class TestStatementsOfIncrementals(_Inserted, BaseIncrementalConstraintsRuntimeDdlEnforcement):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "my_model.sql": fixtures.my_model_incremental_wrong_order_depends_on_fk_sql,
            "foreign_key_model.sql": fixtures.foreign_key_model_sql,
            "constraints_schema.yml": fixtures.model_fk_constraint_schema_yml.replace(
                "text", "string"
            ),
        }


class TestStatementsOfModels(_Inserted, BaseModelConstraintsRuntimeEnforcement):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "my_model.sql": fixtures.my_model_wrong_order_depends_on_fk_sql,
            "foreign_key_model.sql": fixtures.foreign_key_model_sql,
            "constraints_schema.yml": fixtures.constrained_model_schema_yml.replace(
                "text", "string"
            ),
        }


class TestQuotedColumn(BaseConstraintQuotedColumn):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        def in_spark(text: str) -> str:
            return text.replace('"from"', "`from`").replace("text", "string")

        return {
            "my_model.sql": in_spark(fixtures.my_model_with_quoted_column_name_sql),
            "constraints_schema.yml": in_spark(fixtures.model_quoted_column_schema_yml),
        }

    @pytest.fixture(scope="class")
    def expected_sql(self) -> str:
        return INSERT.format(column="`from`", hint="")
