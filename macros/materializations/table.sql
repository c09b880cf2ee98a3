{#- CREATE OR REPLACE TABLE ... AS SELECT in one transaction: the old table is read until COMMIT. -#}

{% materialization table, adapter='txns', supported_languages=['sql'] %}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {% set relations = adapter.in_transaction(txns_build_table, this, kind='table') %}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': relations}) }}
{% endmaterialization %}

{% macro txns_build_table() %}
  {% set existing = load_cached_relation(this) %}
  {% set target_relation = this.incorporate(type='table') %}
  {{ run_hooks(pre_hooks) }}
  {% call statement('main') -%}
    {{ create_table_as(False, target_relation, compiled_code) }}
  {%- endcall %}
  {% do txns_finish(target_relation, existing, full_refresh=True) %}
  {% do return([target_relation]) %}
{% endmacro %}

{#- What every materialization does last, still in its transaction. -#}
{% macro txns_finish(target_relation, existing, full_refresh) %}
  {% set should_revoke = should_revoke(existing, full_refresh_mode=full_refresh) %}
  {% do apply_grants(target_relation, config.get('grants'), should_revoke) %}
  {% do persist_docs(target_relation, model) %}
  {{ run_hooks(post_hooks) }}
{% endmacro %}
