{#- dbt's snapshot in one transaction: new columns and the MERGE are committed together. -#}

{% materialization snapshot, adapter='txns' %}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {% set target = this.incorporate(type='table') %}
  {% set existing = load_cached_relation(target) %}
  {% if existing is not none and not existing.is_table %}
    {% do exceptions.relation_wrong_type(existing, 'table') %}
  {% endif %}
  {% set relations = adapter.in_transaction(txns_build_snapshot, this) %}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': relations}) }}
{% endmaterialization %}

{% macro txns_build_snapshot() %}
  {% set target = this.incorporate(type='table') %}
  {% set existing = load_cached_relation(target) %}
  {{ run_hooks(pre_hooks) }}
  {% set strategy = strategy_dispatch(config.get('strategy'))(
    model, 'snapshotted_data', 'source_data', model['config'], existing is not none
  ) %}
  {% if existing is none %}
    {% set sql_to_run = create_table_as(False, target, build_snapshot_table(strategy, model['compiled_code'])) %}
  {% else %}
    {% set sql_to_run = txns_snapshot_increment(strategy, target) %}
  {% endif %}
  {% call statement('main') -%}
    {{ sql_to_run }}
  {%- endcall %}
  {% do txns_finish(target, existing, full_refresh=False) %}
  {% do return([target]) %}
{% endmacro %}

{% macro txns_snapshot_increment(strategy, target) %}
  {% set names = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() %}
  {% do adapter.assert_valid_snapshot_target_given_strategy(target, names, strategy) %}
  {% set staging = make_temp_relation(target) %}
  {% call statement('staging') -%}
    create or replace temporary view {{ staging }} as
    {{ snapshot_staging_table(strategy, sql, target) }}
  {%- endcall %}
  {% set internal = ['dbt_change_type', 'dbt_unique_key'] %}
  {% if strategy.unique_key is not string %}
    {% for key in strategy.unique_key %}
      {% do internal.append('dbt_unique_key_' ~ loop.index) %}
    {% endfor %}
  {% endif %}
  {% set there = adapter.get_columns_in_relation(target) | map(attribute='name') | map('lower') | list %}
  {% set columns = [] %}
  {% set missing = [] %}
  {% for column in adapter.get_columns_in_relation(staging) if column.name | lower not in internal %}
    {% do columns.append(adapter.quote(column.name)) %}
    {% if column.name | lower not in there %}
      {% do missing.append(column) %}
    {% endif %}
  {% endfor %}
  {% do alter_relation_add_remove_columns(target, missing, none) %}
  {% do return(snapshot_merge_sql(target=target, source=staging, insert_cols=columns)) %}
{% endmacro %}

{% macro txns__snapshot_merge_sql(target, source, insert_cols) %}
  {%- set names = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() -%}
  {%- set current = config.get('dbt_valid_to_current') -%}
  merge into {{ target }} as DBT_INTERNAL_DEST
  using {{ source }} as DBT_INTERNAL_SOURCE
  on DBT_INTERNAL_SOURCE.{{ names.dbt_scd_id }} = DBT_INTERNAL_DEST.{{ names.dbt_scd_id }}
  when matched and DBT_INTERNAL_SOURCE.dbt_change_type in ('update', 'delete')
    and ({% if current %}DBT_INTERNAL_DEST.{{ names.dbt_valid_to }} = {{ current }} or {% endif %}DBT_INTERNAL_DEST.{{ names.dbt_valid_to }} is null)
    then update set {{ names.dbt_valid_to }} = DBT_INTERNAL_SOURCE.{{ names.dbt_valid_to }}
  when not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert'
    then insert ({{ insert_cols | join(', ') }})
    values ({% for column in insert_cols %}DBT_INTERNAL_SOURCE.{{ column }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}
