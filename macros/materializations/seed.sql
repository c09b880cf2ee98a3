{#- A seed replaces its table and inserts its rows in one transaction. -#}

{% materialization seed, adapter='txns' %}
  {% set rows = load_agate_table() %}
  {% do store_result('agate_table', response='OK', agate_table=rows) %}
  {% set existing = load_cached_relation(this) %}
  {% if existing is not none and existing.is_view %}
    {% do exceptions.raise_compiler_error("Cannot seed to '" ~ existing ~ "', it is a view") %}
  {% endif %}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {% set relations = adapter.in_transaction(txns_build_seed, this) %}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': relations}) }}
{% endmaterialization %}

{% macro txns_build_seed() %}
  {% set existing = load_cached_relation(this) %}
  {% set target_relation = this.incorporate(type='table') %}
  {% set rows = load_agate_table() %}
  {% set types = model['config'].get('column_types', {}) %}
  {% set quote = model['config'].get('quote_columns', none) %}
  {% set columns = [] %}
  {% for name in rows.column_names %}
    {% set type = types.get(name, adapter.convert_type(rows, loop.index0)) %}
    {% do columns.append((adapter.quote_seed_column(name, quote), type)) %}
  {% endfor %}
  {{ run_hooks(pre_hooks) }}
  {% set create %}
    create or replace table {{ target_relation }} (
      {%- for name, type in columns %}{{ name }} {{ type }}{{ ', ' if not loop.last }}{% endfor -%}
    )
    {{ file_format_clause() }}
    {{ tblproperties_clause() }}
    {{ partition_cols(label="partitioned by") }}
    {{ location_clause() }}
    {{ comment_clause() }}
  {% endset %}
  {% call statement('create') -%}
    {{ create }}
  {%- endcall %}
  {% set insert, response = adapter.load_seed(target_relation, rows, columns) %}
  {% do write(create ~ ';\n' ~ insert) %}
  {% do store_result('main', response=response) %}
  {% do txns_finish(target_relation, existing, full_refresh=True) %}
  {% do return([target_relation]) %}
{% endmacro %}
