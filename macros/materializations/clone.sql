{#- Iceberg shares no files between tables: a clone of a table is a copy, of a view a view. -#}

{% macro txns__can_clone_table() %}
  {% do return(true) %}
{% endmacro %}

{% materialization clone, adapter='txns' %}
  {% set existing = load_cached_relation(this) %}
  {% if not defer_relation %}
    {{ log('No relation found in state manifest for ' ~ model.unique_id, info=true) }}
    {{ return({'relations': []}) }}
  {% endif %}
  {% if existing is not none and not flags.FULL_REFRESH %}
    {{ log('Relation ' ~ existing ~ ' already exists', info=true) }}
    {{ return({'relations': []}) }}
  {% endif %}
  {% set original = load_cached_relation(defer_relation) %}
  {% set kind = 'table' if original is not none and original.is_table else 'view' %}
  {% do txns_make_way(this, kind) %}
  {% set relations = adapter.in_transaction(txns_build_clone if kind == 'table' else txns_build_view_clone, this) %}
  {{ return({'relations': relations}) }}
{% endmaterialization %}

{% macro txns_build_clone() %}
  {% set target_relation = this.incorporate(type='table') %}
  {% set existing = load_cached_relation(this) %}
  {% call statement('main') -%}
    {{ create_table_as(False, target_relation, 'select * from ' ~ defer_relation) }}
  {%- endcall %}
  {% do txns_finish(target_relation, existing, full_refresh=True) %}
  {% do return([target_relation]) %}
{% endmacro %}

{% macro txns_build_view_clone() %}
  {% set target_relation = this.incorporate(type='view') %}
  {% set existing = load_cached_relation(this) %}
  {% call statement('main') -%}
    {{ create_view_as(target_relation, 'select * from ' ~ defer_relation) }}
  {%- endcall %}
  {% do txns_finish(target_relation, existing, full_refresh=True) %}
  {% do return([target_relation]) %}
{% endmacro %}
