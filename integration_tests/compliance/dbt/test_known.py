"""What dbt knows of relations after a node that has not committed: what the lake has."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.adapters.txns.handle import Handle, HandleCursor
from dbt.tests.util import run_dbt_and_capture

from txns_spark import dbapi

# Materializations that know nothing of this adapter, as dbt's own for other databases.
DROPS = """
{% materialization drops, adapter='txns' %}
  {% do adapter.drop_relation(load_cached_relation(this)) %}
  {% call statement('main', auto_begin=True) -%} create table {{ this }} as {{ sql }} {%- endcall %}
  {{ adapter.commit() }}
  {{ return({'relations': [this.incorporate(type='table')]}) }}
{% endmaterialization %}
{% materialization renames, adapter='txns' %}
  {% set new = this.incorporate(path={'identifier': 'model__new'}, type='table') %}
  {% set old = this.incorporate(path={'identifier': 'model__old'}, type='table') %}
  {% call statement('main', auto_begin=True) -%} create table {{ new }} as {{ sql }} {%- endcall %}
  {% do adapter.rename_relation(load_cached_relation(this), old) %}
  {% do adapter.rename_relation(new, this) %}
  {{ return({'relations': [this.incorporate(type='table')]}) }}
{% endmaterialization %}
{% materialization renames_late, adapter='txns' %}
  {% set old = this.incorporate(path={'identifier': 'model__old'}, type='table') %}
  {% call statement('main', auto_begin=True) -%}
    insert into {{ this }} select 2 as id
  {%- endcall %}
  {% do adapter.rename_relation(load_cached_relation(this), old) %}
  {{ return({'relations': [this]}) }}
{% endmaterialization %}
{% macro known() %}
  {% for name in ['model', 'model__new', 'model__old'] if execute %}
    {% if adapter.get_relation(target.database, target.schema, name) %}
      {% do log('known: ' ~ name ~ ';', info=true) %}
    {% endif %}
  {% endfor %}
{% endmacro %}
"""


class TestWhatDbtKnows:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        config = "materialized=var('kind'), transaction=var('transaction', 'model')"
        return {"model.sql": f"{{{{ config({config}) }}}} select 1 as id"}

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {"drops.sql": DROPS}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"on-run-end": "{{ known() }}"}

    @pytest.mark.parametrize("kind", ["drops", "renames"])
    def test_after_a_refused_commit(
        self, project: Any, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        """
        Later nodes of the run go by it.

        1. the node has dropped its table, or given it another name, in dbt's cache;
        2. its COMMIT is refused: all of that is undone;
        3. the rest of the run finds the table where it is.
        """
        run_dbt_and_capture(["run", "--vars", "kind: table"])

        def commit(handle: Handle) -> dbapi.Status:
            handle.connection.rollback()
            raise dbapi.OperationalError("an executor")

        monkeypatch.setattr(Handle, "commit", commit)
        _, log = run_dbt_and_capture(["run", "--vars", f"kind: {kind}"], expect_pass=False)
        assert "an executor" in log
        tables = project.run_sql("show tables in {database}.{schema}", fetch="all")
        assert ["model"] == [row[1] for row in tables]
        known = [line.split("known: ")[1] for line in log.splitlines() if "known: " in line]
        assert ["model;"] == [each.split()[0] for each in known]

    @pytest.mark.usefixtures("project")
    def test_after_a_rename_that_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A rename belongs to no transaction: what is open is committed before it.

        1. the node writes; 2. it gives its table another name in dbt's cache, and commits;
        3. the catalog refuses the rename.
        """
        run_dbt_and_capture(["run", "--full-refresh", "--vars", "kind: table"])
        real = HandleCursor.execute

        def execute(cursor: HandleCursor, sql: str, bindings: Any = None) -> None:
            if "rename to" in sql:
                raise dbapi.OperationalError("no rename")
            real(cursor, sql, bindings)

        monkeypatch.setattr(HandleCursor, "execute", execute)
        _, log = run_dbt_and_capture(["run", "--vars", "kind: renames_late"], expect_pass=False)
        assert "no rename" in log
        known = [line.split("known: ")[1] for line in log.splitlines() if "known: " in line]
        assert ["model;"] == [each.split()[0] for each in known]

    @pytest.mark.usefixtures("project")
    def test_is_not_asked_for_what_cannot_be_undone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where each statement commits by itself, dbt's cache is right once all have succeeded."""
        run_dbt_and_capture(["run", "--full-refresh", "--vars", "kind: table"])
        real = HandleCursor.execute
        sent: list[str] = []

        def execute(cursor: HandleCursor, sql: str, bindings: Any = None) -> None:
            sent.append(sql)
            real(cursor, sql, bindings)

        monkeypatch.setattr(HandleCursor, "execute", execute)
        run_dbt_and_capture(["run", "--vars", "{kind: drops, transaction: none}"])
        created = next(at for at, sql in enumerate(sent) if "create table" in sql)
        assert [] == [sql for sql in sent[created:] if "show tables" in sql]
