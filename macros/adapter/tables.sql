{#- Clauses of CREATE, and ALTER: every table is an Iceberg table. -#}

{% macro txns__file_format_clause() %}
  {%- set file_format = config.get('file_format', 'iceberg') -%}
  {%- if file_format != 'iceberg' -%}
    {% do exceptions.raise_compiler_error(
      "file_format is '" ~ file_format ~ "': tables of a transactional catalog are Iceberg tables; remove the setting"
    ) %}
  {%- endif -%}
  using iceberg
{%- endmacro %}

{% macro txns__create_table_as(temporary, relation, compiled_code, language='sql') -%}
  {%- if temporary -%}
    create or replace temporary view {{ relation.include(database=false, schema=false) }} as
    {{ compiled_code }}
  {%- else -%}
    {%- set contract = config.get('contract') -%}
    {%- if contract and contract.enforced -%}
      {{ get_assert_columns_equivalent(compiled_code) }}
      {%- set compiled_code = get_select_subquery(compiled_code) -%}
    {%- endif -%}
    {{ config.get('sql_header') or '' }}
    {%- if contract and contract.enforced and txns_has_required_columns() -%}
      {{ txns_create_and_insert(relation, compiled_code) }}
    {%- else %}
      create or replace table {{ relation }} {{ txns_table_clauses() }}
      as
      {{ compiled_code }}
    {%- endif -%}
  {%- endif -%}
{%- endmacro %}

{% macro txns_table_clauses() %}
  {{ file_format_clause() }}
  {{ options_clause() }}
  {{ tblproperties_clause() }}
  {{ partition_cols(label="partitioned by") }}
  {{ clustered_cols(label="clustered by") }}
  {{ location_clause() }}
  {{ comment_clause() }}
{% endmacro %}

{#- dbt-spark's leaves backslashes of a description as they are, which Spark takes for escapes. -#}
{% macro txns__comment_clause() %}
  {%- if config.persist_relation_docs() -%}
    comment {{ txns_text(model.description) }}
  {%- endif -%}
{% endmacro %}

{% macro txns_has_required_columns() %}
  {% for column in model.columns.values() %}
    {% if 'not_null' in column.constraints | map(attribute='type') %}
      {% do return(true) %}
    {% endif %}
  {% endfor %}
  {% do return(false) %}
{% endmacro %}

{#-
  CREATE ... AS SELECT takes no NOT NULL: create the table with the contract's columns, and give the
  statement that fills it. Both are in one transaction, so no one sees the empty table.
-#}
{% macro txns_create_and_insert(relation, compiled_code) -%}
  {%- set columns = adapter.render_raw_columns_constraints(raw_columns=model['columns']) -%}
  {%- call statement('create') -%}
    create or replace table {{ relation }} ({{ columns | join(', ') }}) {{ txns_table_clauses() }}
  {%- endcall -%}
  insert into {{ relation }}
  {{ compiled_code }}
{%- endmacro %}

{% macro txns__create_view_as(relation, sql) -%}
  create or replace view {{ relation }}
  {% if config.persist_column_docs() -%}
    ({% for name in get_columns_in_query(sql) -%}
      {%- set description = (model.columns.get(name) or {}).get('description') -%}
      {{ adapter.quote(name) }}{% if description %} comment {{ txns_text(description) }}{% endif %}
      {{- ', ' if not loop.last }}
    {%- endfor %})
  {%- endif %}
  {{ comment_clause() }}
  {%- set contract = config.get('contract') -%}
  {%- if contract and contract.enforced %}
    {{ get_assert_columns_equivalent(sql) }}
  {%- endif %}
  as
  {{ sql }}
{%- endmacro %}

{% macro txns__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
  {% if add_columns %}
    {% call statement('add_columns') -%}
      alter table {{ relation }} add columns (
        {%- for column in add_columns %}
        {{ column.quoted }} {{ column.data_type }}{{ ',' if not loop.last }}
        {%- endfor %}
      )
    {%- endcall %}
  {% endif %}
  {% if remove_columns %}
    {% call statement('drop_columns') -%}
      alter table {{ relation }} drop columns (
        {%- for column in remove_columns %}{{ column.quoted }}{{ ', ' if not loop.last }}{% endfor -%}
      )
    {%- endcall %}
  {% endif %}
{% endmacro %}

{% macro txns__alter_column_type(relation, column_name, new_column_type) %}
  {% call statement('alter_column_type') -%}
    alter table {{ relation }} alter column {{ adapter.quote(column_name) }} type {{ new_column_type }}
  {%- endcall %}
{% endmacro %}

{% macro txns__alter_column_comment(relation, column_dict) %}
  {% for name in column_dict %}
    {% call statement('alter_column_comment') -%}
      alter table {{ relation }} alter column {{ adapter.quote(name) }} comment {{ txns_text(column_dict[name]['description']) }}
    {%- endcall %}
  {% endfor %}
{% endmacro %}

{% macro txns__persist_docs(relation, model, for_relation, for_columns) %}
  {% if relation.type == 'view' %}
    {% do return(none) %}
  {% endif %}
  {% if for_relation and config.persist_relation_docs() and model.description %}
    {% call statement('persist_docs') -%}
      comment on table {{ relation }} is {{ txns_text(model.description) }}
    {%- endcall %}
  {% endif %}
  {% if for_columns and config.persist_column_docs() and model.columns %}
    {% set existing = adapter.get_columns_in_relation(relation) | map(attribute='name') | list %}
    {% do alter_column_comment(relation, validate_doc_columns(relation, model.columns, existing)) %}
  {% endif %}
{% endmacro %}

{#- Columns are created as the contract says; dbt itself warns of what Iceberg does not have. -#}
{% macro txns__persist_constraints(relation, model) %}
{% endmacro %}

{#- A string literal of Spark SQL, in which `${x}` is no variable: Spark puts those in before it looks for quotes. -#}
{% macro txns_text(value) -%}
  '{{ value | replace('\\', '\\\\') | replace("'", "\\'") | replace('$', '\\u0024') }}'
{%- endmacro %}
