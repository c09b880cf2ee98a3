{#- Iceberg shares no files between tables: a clone of a table is a copy, of a view a view. -#}

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
  {% if existing is not none and this.render() == defer_relation.render() %}
    {{ log('Target relation and defer relation are the same, skipping clone for relation: ' ~ this, info=true) }}
    {{ return({'relations': [existing]}) }}
  {% endif %}
  {% set relations = adapter.in_transaction(txns_build_clone, this, kind=txns_clone_type()) %}
  {{ return({'relations': relations}) }}
{% endmaterialization %}

{% macro txns_clone_type() %}
  {% set original = load_cached_relation(defer_relation) %}
  {% do return('table' if original is not none and original.is_table else 'view') %}
{% endmacro %}

{% macro txns_build_clone() %}
  {% set target_relation = this.incorporate(type=txns_clone_type()) %}
  {% set existing = load_cached_relation(this) %}
  {% set rows = 'select * from ' ~ defer_relation %}
  {% call statement('main') -%}
    {{ create_table_as(False, target_relation, rows) if target_relation.is_table else create_view_as(target_relation, rows) }}
  {%- endcall %}
  {% do txns_finish(target_relation, existing, full_refresh=True) %}
  {% do return([target_relation]) %}
{% endmacro %}
