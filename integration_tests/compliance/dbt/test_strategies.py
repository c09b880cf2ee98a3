"""What strategies of incremental models do to the rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from dbt.tests.util import run_dbt

from integration_tests.compliance.dbt.reading import logged, rows

if TYPE_CHECKING:
    from txns_spark import dbapi


class TestStrategies:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        second = "{% if is_incremental() %} where id > 1 {% endif %}"
        run = '\'{{ var("run", "first") }}\' as run'
        return {
            "updated.sql": "{{ config(materialized='incremental', incremental_strategy='update',"
            f" unique_key='id') }}}} select id, {run} from range(4) {second}",
            "merged.sql": "{{ config(materialized='incremental', incremental_strategy='merge',"
            f" unique_key='id') }}}} select id, {run} from range(4) {second}",
            "overwritten.sql": "{{ config(materialized='incremental', partition_by='part',"
            " incremental_strategy='insert_overwrite') }}"
            f" select id, id div 2 as part, {run} from range(4) {second}",
            "grown.sql": "{{ config(materialized='incremental', incremental_strategy='append',"
            " on_schema_change='sync_all_columns') }} select id"
            "{% if is_incremental() %}, 'x' as added{% else %}, 1 as removed{% endif %}"
            " from range(1)",
        }

    def test_second_runs(self, project: Any) -> None:
        run_dbt(["run"])
        run_dbt(["run", "--vars", "run: second"])
        halves = [(0, "first"), (1, "first"), (2, "second"), (3, "second")]
        assert halves == rows(project, "updated")
        assert halves == rows(project, "merged")
        assert [(n, n // 2, run) for n, run in halves] == rows(project, "overwritten")
        grown = project.run_sql("select id, added from {database}.{schema}.grown", fetch="all")
        assert sorted(grown, key=str) == [(0, "x"), (0, None)]


COUNTED = """
{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='id') }}
{% if is_incremental() %} select id, n + 1 as n, null as note from {{ this }} where n < 9
{% else %} select id, 0 as n, 'new' as note from range(3) {% endif %}
"""


NEW_COLUMN = """
{{ config(materialized='incremental', unique_key='id') }}
select id, '{{ var("run", "first") }}' as run
{% if is_incremental() %}, 'x' as added from range(1, 3){% else %} from range(2){% endif %}
"""
OR = """
{{{{ config(materialized='incremental', incremental_strategy='{strategy}', unique_key='id',
           incremental_predicates=["DBT_INTERNAL_DEST.id < 2 or DBT_INTERNAL_DEST.id > 2"]) }}}}
select id, '{{{{ var("run", "first") }}}}' as run from range(4)
{{% if is_incremental() %}} where id = 1 {{% endif %}}
"""


class TestWhatStaysAsItIs:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "new_column.sql": NEW_COLUMN,
            "merged.sql": OR.format(strategy="merge"),
            "deleted.sql": OR.format(strategy="delete+insert"),
        }

    def test_second_runs(self, project: Any) -> None:
        """A new column waits for `on_schema_change`; keys count beside predicates with an OR."""
        run_dbt(["run"])
        run_dbt(["run", "--vars", "run: second"])
        assert [(0, "first"), (1, "second"), (2, "second")] == rows(project, "new_column")
        second = [(n, "second" if n == 1 else "first") for n in range(4)]
        assert second == rows(project, "merged")
        assert second == rows(project, "deleted")


NULL_KEYS = """
{{{{ config(materialized='incremental', incremental_strategy='{strategy}',
           unique_key=['part', 'id']) }}}}
select 1 as part, id, '{{{{ var("run", "first") }}}}' as run
from values (1), (cast(null as int)) as given (id)
"""


class TestKeysThatAreNull:
    """Whether NULL is the same key as NULL says dbt's own flag."""

    FLAG = True
    RUNS = ("second", "second")

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"flags": {"enable_truthy_nulls_equals_macro": self.FLAG}}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "merged.sql": NULL_KEYS.format(strategy="merge"),
            "deleted.sql": NULL_KEYS.format(strategy="delete+insert"),
        }

    def test_second_runs(self, project: Any) -> None:
        run_dbt(["run"])
        run_dbt(["run", "--vars", "run: second"])
        for model in ("merged", "deleted"):
            sql = f"select run from {{database}}.{{schema}}.{model} order by id nulls last, run"
            assert self.RUNS == tuple(row[0] for row in project.run_sql(sql, fetch="all"))


@pytest.mark.slow
class TestKeysThatAreNullWithoutTheFlag(TestKeysThatAreNull):
    FLAG = False
    RUNS = ("second", "first", "second")


@pytest.mark.slow
class TestBuckets:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "buckets.sql": "{{ config(materialized='table', clustered_by='id', buckets=4) }}"
            " select id from range(8)"
        }

    def test_are_partitions(self, project: Any) -> None:
        run_dbt(["run"])
        sql = "select distinct partition.id_bucket from {database}.{schema}.buckets.partitions"
        assert 1 < len(project.run_sql(sql, fetch="all")) <= 4


class TestModelsThatReadThemselves:
    """A model's query is asked once, before its DELETE, and what keeps its rows leaves no trace."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"counted.sql": COUNTED}

    def test_runs_count(self, project: Any) -> None:
        run_dbt(["run"])
        for run in (1, 2):
            run_dbt(["run"])
            assert [(n, run, None) for n in range(3)] == rows(project, "counted")
        tables = project.run_sql("show tables in {database}.{schema}", fetch="all")
        assert ["counted"] == [row[1] for row in tables]


BATCHED = """
{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='at',
          batch_size='day', begin='2026-01-01') }}
select id, at from {{ ref('source') }}
"""


class TestMicrobatch:
    DAYS = 5

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "source.sql": "{{ config(materialized='table', event_time='at') }}"
            " select id, timestamp '2026-01-01 12:00:00' + make_dt_interval(id) as at"
            f" from range({self.DAYS})",
            "batched.sql": BATCHED,
            "at_once.sql": BATCHED.replace("begin=", "concurrent_batches=true, begin="),
        }

    def test_batches_of_days(self, project: Any, other: dbapi.Connection) -> None:
        """Each batch is a transaction, also where four threads share the batches."""
        span = ["--event-time-start", "2026-01-01", "--event-time-end", "2026-01-06"]
        run_dbt(["run", "--threads", "4", *span])
        run_dbt(["run", "--threads", "4", "--select", "batched", "at_once", *span])
        for model in ("batched", "at_once"):
            assert list(range(self.DAYS)) == [row[0] for row in rows(project, model)]
            node = f"model.test.{model}"
            batches = [row for row in logged(other) if row["comment"].get("node_id") == node]
            assert 2 * self.DAYS == len({row["txn_id"] for row in batches})


DAYS_OF_TOKYO = """
{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='day',
          batch_size='day', begin='2026-01-01') }}
select id, day, '{{ var("run", "first") }}' as run from {{ ref('days') }}
"""


@pytest.mark.slow
class TestMicrobatchOfDates:
    """What a batch deletes is what it inserts, whatever the time zone of the session."""

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
        zone = {"spark.sql.session.timeZone": "Asia/Tokyo"}
        return dbt_profile_target | {"server_side_parameters": zone}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        days = "select id, date_add(date '2026-01-01', cast(id as int)) as day from range(4)"
        return {
            "days.sql": "{{ config(materialized='table', event_time='day') }} " + days,
            "by_day.sql": DAYS_OF_TOKYO,
        }

    def test_one_day_again(self, project: Any) -> None:
        span = ["--event-time-start", "2026-01-01", "--event-time-end", "2026-01-05"]
        run_dbt(["run", *span])
        second = ["--event-time-start", "2026-01-02", "--event-time-end", "2026-01-03"]
        run_dbt(["run", "--select", "by_day", "--vars", "run: second", *second])
        found = [(row[0], row[2]) for row in rows(project, "by_day")]
        assert [(0, "first"), (1, "second"), (2, "first"), (3, "first")] == found
