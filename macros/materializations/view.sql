{#- A view is replaced at once, whatever becomes of the transaction: catalogs offer no more. -#}

{% materialization view, adapter='txns' %}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {% set relations = adapter.in_transaction(txns_build_view, this, kind='view') %}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': relations}) }}
{% endmaterialization %}

{% macro txns_build_view() %}
  {% set existing = load_cached_relation(this) %}
  {% set target_relation = this.incorporate(type='view') %}
  {{ run_hooks(pre_hooks) }}
  {% call statement('main') -%}
    {{ create_view_as(target_relation, sql) }}
  {%- endcall %}
  {% do txns_finish(target_relation, existing, full_refresh=True) %}
  {% do return([target_relation]) %}
{% endmacro %}
