{#- What there is in a catalog: names have three parts, `database` is the catalog. -#}

{% macro txns_list_relations(schema_relation) %}
  {% call statement('txns_list_relations', fetch_result=True, auto_begin=False) -%}
    show tables in {{ schema_relation.without_identifier() }}
  {%- endcall %}
  {% set views = adapter.views_in(schema_relation) %}
  {% set found = [] %}
  {% for row in load_result('txns_list_relations').table %}
    {% if row[1] not in views and not row[2] %}
      {% do found.append((row[1], 'table')) %}
    {% endif %}
  {% endfor %}
  {% for view in views %}
    {% do found.append((view, 'view')) %}
  {% endfor %}
  {% do return(found) %}
{% endmacro %}

{#- dbt-spark's gives the rows of DESCRIBE, which have no name: a snapshot's deletion records
    (hard_deletes: new_record) lost their values with it. #}
{% macro txns__get_columns_in_relation(relation) %}
  {% do return(adapter.get_columns_in_relation(relation)) %}
{% endmacro %}

{% macro txns__list_schemas(database) %}
  {% call statement('list_schemas', fetch_result=True, auto_begin=False) -%}
    {#- dbt passes it quoted from some places, and bare from others. #}
    show namespaces in {{ adapter.quote(database | replace('`', '')) }}
  {%- endcall %}
  {% do return(load_result('list_schemas').table) %}
{% endmacro %}

{% macro txns__create_schema(relation) %}
  {% call statement('create_schema', auto_begin=False) -%}
    create namespace if not exists {{ relation.without_identifier() }}
  {%- endcall %}
{% endmacro %}

{#- Iceberg's catalogs drop empty namespaces only, and DROP TABLE leaves a marker under the name. -#}
{% macro txns__drop_schema(relation) %}
  {% for found in adapter.relations_in(relation.without_identifier()) %}
    {% do txns_remove(found) %}
  {% endfor %}
  {% call statement('drop_schema', auto_begin=False) -%}
    drop namespace if exists {{ relation.without_identifier() }} cascade
  {%- endcall %}
{% endmacro %}

{#- Remove a relation from the catalog at once, outside of any transaction. -#}
{% macro txns_remove(relation) %}
  {% do adapter.step_outside() %}
  {% if relation.is_table %}
    {% do run_query("call " ~ adapter.quote(relation.database) ~ ".system.forget("
         ~ txns_text(adapter.quote(relation.schema) ~ '.' ~ adapter.quote(relation.identifier)) ~ ")") %}
  {% endif %}
  {% do run_query("drop " ~ relation.type ~ " if exists " ~ relation) %}
  {% do adapter.cache_dropped(relation) %}
{% endmacro %}

{% macro txns__drop_relation(relation) %}
  {% call statement('drop_relation') -%}
    drop {{ relation.type }} if exists {{ relation }}
  {%- endcall %}
{% endmacro %}

{% macro txns__generate_database_name(custom_database_name=none, node=none) %}
  {% do return(custom_database_name | trim if custom_database_name else target.database) %}
{% endmacro %}

{% macro txns__make_temp_relation(base_relation, suffix) %}
  {% do return(
    base_relation.incorporate(path={'identifier': base_relation.identifier ~ suffix}, type='view')
      .include(database=false, schema=false)
  ) %}
{% endmacro %}

{% macro txns__rename_relation(from_relation, to_relation) %}
  {#- Iceberg's catalogs rename by name only, so this is never part of a transaction. -#}
  {% do adapter.step_outside() %}
  {% call statement('rename_relation', auto_begin=False) -%}
    alter {{ from_relation.type }} {{ from_relation }} rename to {{ to_relation.include(database=false) if from_relation.type == 'table' else to_relation }}
  {%- endcall %}
{% endmacro %}
