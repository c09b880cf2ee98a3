"""Batches of one model, and two runs of one model, on different days: none waits for the other."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from dbt.adapters.txns.handle import Handle, HandleCursor
from dbt.tests.util import run_dbt, run_dbt_and_capture

from integration_tests.compliance.dbt.beside import run_beside
from integration_tests.compliance.dbt.reading import logged, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from txns_spark import dbapi

AGAIN = "is run again"
MEET_S = 600
BATCHED = """
{{{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='at',
           batch_size='day', begin='2026-01-01', {more}) }}}}
select id, at, '{{{{ var("run", "first") }}}}' as run from {{{{ ref('source') }}}}
"""


def _source(days: int) -> str:
    return (
        "{{ config(materialized='table', event_time='at') }}"
        " select id, timestamp '2026-01-01 12:00:00Z' + make_dt_interval(id) as at"
        f" from range({days})"
    )


def _span(days: int) -> list[str]:
    end = f"2026-01-{1 + days:02}"
    return ["--threads", "4", "--event-time-start", "2026-01-01", "--event-time-end", end]


class TestBatches:
    """dbt runs the first and the last batch alone, and those between in threads."""

    DAYS = 4

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "source.sql": _source(self.DAYS),
            "by_day.sql": BATCHED.format(more="partition_by='days(at)'"),
            "unpartitioned.sql": BATCHED.format(more=""),
            "compiled.sql": BATCHED.format(more="partition_by='days(at)'") + "{% if execute %}"
            " {% set seen = run_query('select count(*) from ' ~ ref('source')) %} {% endif %}",
        }

    @pytest.fixture(scope="class", autouse=True)
    def _built(self, project: Any) -> None:  # noqa: ARG002
        run_dbt(["run", *_span(self.DAYS)])

    @pytest.mark.sampled
    @pytest.mark.parametrize("model", ["by_day", "unpartitioned", "compiled"])
    def test_two_are_at_work_at_once(
        self, project: Any, monkeypatch: pytest.MonkeyPatch, model: str
    ) -> None:
        """Each has deleted and inserted before either commits; both do, at the first attempt."""
        both = threading.Barrier(2)
        real = Handle.commit
        commits: list[int] = []

        def commit(handle: Handle) -> dbapi.Status:
            commits.append(1)
            if 1 < len(commits) < self.DAYS:
                both.wait(MEET_S)
            return real(handle)

        monkeypatch.setattr(Handle, "commit", commit)
        arguments = ["--select", model, "--vars", "run: second"]
        _, log = run_dbt_and_capture(["run", *_span(self.DAYS), *arguments])
        assert AGAIN not in log
        assert self.DAYS == len(commits)
        found = [(row[0], row[2]) for row in rows(project, model)]
        assert [(n, "second") for n in range(self.DAYS)] == found


@pytest.mark.slow
class TestBatchesWithoutTransactions:
    """What keeps a batch's new rows is seen by all, and is no other batch's."""

    DAYS = 4

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        more = "partition_by='days(at)', transaction='none'"
        return {"source.sql": _source(self.DAYS), "by_day.sql": BATCHED.format(more=more)}

    def test_rows_are_of_their_batch(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two have asked for their rows before either inserts them."""
        run_dbt(["run", *_span(self.DAYS)])
        both = threading.Barrier(2)
        real = HandleCursor.execute
        inserts: list[int] = []
        words = f"insert into `lake`.`{project.test_schema}`.`by_day` ("

        def execute(cursor: HandleCursor, sql: str, bindings: Any = None) -> None:
            if words in sql:
                inserts.append(1)
                if 1 < len(inserts) < self.DAYS:
                    both.wait(MEET_S)
            real(cursor, sql, bindings)

        monkeypatch.setattr(HandleCursor, "execute", execute)
        run_dbt(["run", *_span(self.DAYS), "--select", "by_day", "--vars", "run: second"])
        found = [(row[0], row[2]) for row in rows(project, "by_day")]
        assert [(n, "second") for n in range(self.DAYS)] == found
        tables = project.run_sql("show tables in {database}.{schema}", fetch="all")
        assert ["by_day", "source"] == sorted(row[1] for row in tables)


class TestBatchesInOneFile:
    """A compaction has put all days into one file, which each batch has to write anew."""

    DAYS = 10

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"source.sql": _source(self.DAYS), "packed.sql": BATCHED.format(more="")}

    def test_all_commit(
        self,
        project: Any,
        other: dbapi.Connection,
        record_property: Callable[[str, str], None],
    ) -> None:
        run_dbt(["run", *_span(self.DAYS)])
        other.cursor().execute(
            f"call lake.system.rewrite_data_files(table => '{project.test_schema}.packed',"
            " options => map('rewrite-all', 'true'))"
        )
        second = ["--select", "packed", "--vars", "run: second"]
        _, log = run_dbt_and_capture(["run", *_span(self.DAYS), *second])
        again = log.count(AGAIN)
        record_property("counted", f"{self.DAYS} batches in one file, 4 threads: retries={again}")
        found = [(row[0], row[2]) for row in rows(project, "packed")]
        assert [(n, "second") for n in range(self.DAYS)] == found
        if again:
            assert "another batch of model.test.packed came first" in log
            assert "as in days(at)" in log


FROM_FOUR = """
select id, cast(id % 2 as int) + 1 as day, timestamp '2026-01-01 12:00:00Z'
  + make_dt_interval(cast(id % 2 as int)) as at, '{{ var("run", "first") }}' as run
from range(4) {% if is_incremental() %} where id % 2 + 1 = {{ var('day', 1) }} {% endif %}
"""


def _incremental(strategy: str, **config: str) -> str:
    given = "".join(f", {name}={value}" for name, value in config.items())
    start = f"config(materialized='incremental', incremental_strategy='{strategy}'{given})"
    return f"{{{{ {start} }}}}{FROM_FOUR}"


class TestTwoRuns:
    """Two processes of dbt build one model, each for another day of it."""

    MODELS = ("overwritten", "overwritten_days", "deleted", "merged")

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        predicate = "['DBT_INTERNAL_DEST.day = ' ~ var('day', 1)]"
        return {
            "overwritten.sql": _incremental("insert_overwrite", partition_by="'day'"),
            "overwritten_days.sql": _incremental("insert_overwrite", partition_by="'days(at)'"),
            "deleted.sql": _incremental(
                "delete+insert", partition_by="'day'", unique_key="['day', 'id']"
            ),
            "merged.sql": _incremental(
                "merge",
                partition_by="'day'",
                unique_key="['day', 'id']",
                incremental_predicates=predicate,
            ),
        }

    @pytest.fixture(autouse=True)
    def _built(self, project: Any) -> None:  # noqa: ARG002
        run_dbt(["run", "--full-refresh"])

    def test_different_days(
        self, project: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """
        At SNAPSHOT.

        1. a run has written day 1 of each model, and has committed none of them;
        2. another run, a process of its own, writes day 2 of each, and commits;
        3. the first one commits all of them, at the first attempt.
        """
        beside: list[str] = []
        all_wait = threading.Barrier(
            len(self.MODELS),
            lambda: beside.append(run_beside(project, "*", tmp_path, day=2, run="theirs")),
        )
        real = Handle.commit

        def commit(handle: Handle) -> dbapi.Status:
            if not beside:
                all_wait.wait(MEET_S)
            return real(handle)

        monkeypatch.setattr(Handle, "commit", commit)
        ours = json.dumps({"day": 1, "run": "ours"})
        _, log = run_dbt_and_capture(["run", "--threads", "4", "--vars", ours])
        assert AGAIN not in log
        assert AGAIN not in beside[0]
        for model in self.MODELS:
            found = [(row[0], row[1], row[3]) for row in rows(project, model)]
            expected = [(n, n % 2 + 1, "theirs" if n % 2 else "ours") for n in range(4)]
            assert expected == found, model

    def test_the_same_day(
        self, project: Any, other: dbapi.Connection, at_first_commit: Any, tmp_path: Path
    ) -> None:
        """The loser is told which node of which run has won, and what to change; and runs again."""
        beside: list[str] = []
        at_first_commit(
            lambda: beside.append(run_beside(project, "deleted", tmp_path, day=1, run="theirs"))
        )
        ours = json.dumps({"day": 1, "run": "ours"})
        _, log = run_dbt_and_capture(["run", "--select", "deleted", "--vars", ours])
        results = json.loads((tmp_path / "target" / "run_results.json").read_text("utf-8"))
        invocation = results["metadata"]["invocation_id"]
        assert f"model.test.deleted came first, in the run {invocation}" in log
        assert "both were in one file: `partition_by` what tells the two apart" in log
        assert "attempt 1 of 4 is run again" in log
        found = [(row[0], row[3]) for row in rows(project, "deleted")]
        assert [(0, "ours"), (1, "first"), (2, "ours"), (3, "first")] == found
        assert invocation in {row["comment"].get("invocation_id") for row in logged(other)}


KEYS = """
{{ config(materialized='incremental', incremental_strategy='delete+insert',
          unique_key=['id', 'name', '`The Day`', 'at', 'price', 'flag']) }}
select id, name, date_add(date '2026-01-01', cast(id as int)) as `The Day`,
  timestamp '2026-10-25 00:30:00Z' + make_dt_interval(0, cast(id as int)) as at,
  cast(id as decimal(6, 2)) / 4 as price, id > 1 as flag, '{{ var("run", "first") }}' as run
from values (0L, ''), (1L, "it's \\u0024{x} \\\\"), (2L, 'ü'), (3L, repeat('x', 2000))
  as given (id, name)
where id in ({{ var('ids', '0, 1, 2, 3') }})
"""


class TestKeysInLiterals:
    """A DELETE names between which values its keys are, whatever they are."""

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
        # There the hour from 02:00 comes twice on 2026-10-25.
        zone = {"spark.sql.session.timeZone": "Europe/Vienna"}
        return dbt_profile_target | {"server_side_parameters": zone}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"keyed.sql": KEYS}

    @pytest.mark.sampled
    @pytest.mark.parametrize("ids", ["0", "1", "0, 1, 2", "1, 3", "3", "-1"])
    def test_rows_of_some_keys(self, project: Any, ids: str) -> None:
        run_dbt(["run", "--full-refresh"])
        run_dbt(["run", "--vars", json.dumps({"run": "second", "ids": ids})])
        known = [int(each) for each in ids.split(", ")]
        expected = [(n, "second" if n in known else "first") for n in range(4)]
        assert expected == [(row[0], row[-1]) for row in rows(project, "keyed")]


STRANGE = """
{{ config(materialized='incremental', incremental_strategy='delete+insert',
          unique_key=['null', 'current_date', 'name', 'broken']) }}
select 1 as `null`, 2 as `current_date`, id,
  concat('it', chr(39), chr(92), 'n', chr(36), '{x}', chr(92)) as name,
  cast(unhex('ff41') as string) as broken, '{{ var("run", "first") }}' as run
from range(2)
"""


class TestStrangeKeys:
    """Columns named as literals and functions are, texts that are no UTF-8, and any literals."""

    ESCAPED = "false"

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"strange.sql": STRANGE}

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
        settings = {"spark.sql.parser.escapedStringLiterals": self.ESCAPED}
        return dbt_profile_target | {"server_side_parameters": settings}

    def test_rows_of_the_keys_are_replaced(self, project: Any) -> None:
        run_dbt(["run"])
        run_dbt(["run", "--vars", "run: second"])
        sql = "select id, run from {database}.{schema}.strange"
        found = project.run_sql(sql, fetch="all")
        assert [(0, "second"), (1, "second")] == sorted(tuple(row) for row in found)


@pytest.mark.slow
class TestStrangeKeysInLiteralsWithoutEscapes(TestStrangeKeys):
    ESCAPED = "true"
