{#-
  Strategies of incremental models. Each gives the last statement, and runs those before it: Spark
  takes one statement per call, and all of them are in the model's transaction.
-#}

{% macro txns__get_incremental_default_sql(arg_dict) %}
  {% do return(get_incremental_append_sql(arg_dict)) %}
{% endmacro %}

{% macro txns__get_incremental_append_sql(arg_dict) %}
  {% do return(txns_insert(arg_dict)) %}
{% endmacro %}

{% macro txns__get_incremental_delete_insert_sql(arg_dict) %}
  {% set keys = txns_keys(arg_dict) %}
  {% set predicates = arg_dict['incremental_predicates'] or [] %}
  {#- As dbt has it for every database: without a key nothing is deleted. -#}
  {% if not keys and not predicates %}
    {% do return(txns_insert(arg_dict)) %}
  {% endif %}
  {% do txns_ask_once(arg_dict) %}
  {% if keys %}
    {% set bounds = adapter.key_bounds(
      arg_dict['temp_relation'], keys, 'DBT_INTERNAL_DEST.',
      nulls_match=adapter.behavior.enable_truthy_nulls_equals_macro.no_warn
    ) %}
    {#- There is no new row, or none whose key another one can have. -#}
    {% if bounds is none %}
      {% do return(txns_insert(arg_dict)) %}
    {% endif %}
    {% set predicates = predicates + bounds %}
  {% endif %}
  {% call statement('delete') -%}
    delete from {{ arg_dict['target_relation'] }} as DBT_INTERNAL_DEST
    where {{ txns_all(predicates) }}
    {%- if keys %}{{ ' and ' if predicates }} exists (
      select 1 from {{ arg_dict['temp_relation'] }} as DBT_INTERNAL_SOURCE
      where {{ txns_same_keys(keys) }}
    ){%- endif %}
  {%- endcall %}
  {% do return(txns_insert(arg_dict)) %}
{% endmacro %}

{#-
  Before a DELETE, the model's query gives way to a table of its rows: asked again, it would see
  what the DELETE did, or draw lots anew. The table is created and dropped in the transaction, so
  nobody else sees it, and COMMIT leaves nothing of it; without transactions it has a name that no
  other batch and no other run has. Its columns have the target's types.
-#}
{% macro txns_ask_once(arg_dict) %}
  {% set target = arg_dict['target_relation'] %}
  {% set rows = adapter.new_rows(target) %}
  {% call statement('rows') -%}
    create or replace table {{ rows }} using iceberg as
    select {{ txns_columns(arg_dict) }} from {{ target }} where false
  {%- endcall %}
  {% call statement('ask') -%}
    {{ txns_insert(arg_dict, into=rows) }}
  {%- endcall %}
  {% do arg_dict.update({'temp_relation': rows, 'asked': rows}) %}
{% endmacro %}

{% macro txns__get_incremental_insert_overwrite_sql(arg_dict) %}
  {% if config.get('partition_by') %}
    {#- The session is the model's own. -#}
    {% call statement('mode') -%}
      set spark.sql.sources.partitionOverwriteMode = dynamic
    {%- endcall %}
  {% endif %}
  {% do return(txns_insert(arg_dict, 'insert overwrite')) %}
{% endmacro %}

{% macro txns__get_incremental_microbatch_sql(arg_dict) %}
  {% do txns_ask_once(arg_dict) %}
  {% set batch = model.batch %}
  {% set event_time = config.get('event_time') %}
  {#- In the words of dbt's filter of the source: both mean the same, whatever the column's type. -#}
  {% set predicates = [] %}
  {% if batch and batch.event_time_start %}
    {% do predicates.append(event_time ~ " >= '" ~ batch.event_time_start ~ "'") %}
  {% endif %}
  {% if batch and batch.event_time_end %}
    {% do predicates.append(event_time ~ " < '" ~ batch.event_time_end ~ "'") %}
  {% endif %}
  {% call statement('delete') -%}
    delete from {{ arg_dict['target_relation'] }} where {{ txns_all(predicates) or 'true' }}
  {%- endcall %}
  {% do return(txns_insert(arg_dict)) %}
{% endmacro %}

{% macro txns__get_incremental_merge_sql(arg_dict) %}
  {% do return(txns_merge(arg_dict, inserts=true)) %}
{% endmacro %}

{#- UPDATE models: rows whose key matches get the model's values; no row is added or removed. -#}
{% macro get_incremental_update_sql(arg_dict) %}
  {% if not txns_keys(arg_dict) %}
    {% do exceptions.raise_compiler_error("incremental_strategy update needs a unique_key") %}
  {% endif %}
  {% do return(txns_merge(arg_dict, inserts=false)) %}
{% endmacro %}

{% macro txns_merge(arg_dict, inserts) %}
  {% set keys = txns_keys(arg_dict) %}
  {% set names = txns_shared_columns(arg_dict) %}
  {% set updated = txns_updated_columns(names) %}
  {% set conditions = (arg_dict['incremental_predicates'] or []) + [txns_same_keys(keys) if keys else 'false'] %}
  {% set sql %}
    merge into {{ arg_dict['target_relation'] }} as DBT_INTERNAL_DEST
    using {{ arg_dict['temp_relation'] }} as DBT_INTERNAL_SOURCE
    on {{ txns_all(conditions) }}
    {% if keys and updated %}
    when matched then update set
      {%- for name in updated %}
      {{ adapter.quote(name) }} = DBT_INTERNAL_SOURCE.{{ adapter.quote(name) }}{{ ',' if not loop.last }}
      {%- endfor %}
    {% endif %}
    {% if inserts %}
    when not matched then insert ({% for name in names %}{{ adapter.quote(name) }}{{ ', ' if not loop.last }}{% endfor %})
      values ({% for name in names %}DBT_INTERNAL_SOURCE.{{ adapter.quote(name) }}{{ ', ' if not loop.last }}{% endfor %})
    {% endif %}
  {% endset %}
  {% do return(sql) %}
{% endmacro %}

{#- A column that only the model has waits for `on_schema_change`, one that only the table has stays. -#}
{% macro txns_shared_columns(arg_dict) %}
  {% set there = arg_dict['dest_columns'] | map(attribute='name') | map('lower') | list %}
  {% set shared = [] %}
  {% for column in adapter.get_columns_in_relation(arg_dict['temp_relation']) if column.name | lower in there %}
    {% do shared.append(column.name) %}
  {% endfor %}
  {% do return(shared) %}
{% endmacro %}

{% macro txns_updated_columns(names) %}
  {% set only = config.get('merge_update_columns') %}
  {% set without = config.get('merge_exclude_columns') %}
  {% if only and without %}
    {% do exceptions.raise_compiler_error('set merge_update_columns or merge_exclude_columns, not both') %}
  {% endif %}
  {% if only %}
    {% do return(only) %}
  {% endif %}
  {% set without = (without or []) | map('lower') | list %}
  {% set updated = [] %}
  {% for name in names if name | lower not in without %}
    {% do updated.append(name) %}
  {% endfor %}
  {% do return(updated) %}
{% endmacro %}

{% macro txns_insert(arg_dict, verb='insert into', into=none) %}
  {% set columns = txns_columns(arg_dict) %}
  {% do return(verb ~ ' ' ~ (into or arg_dict['target_relation']) ~ ' (' ~ columns ~ ') select ' ~ columns
       ~ ' from ' ~ arg_dict['temp_relation']) %}
{% endmacro %}

{% macro txns_columns(arg_dict) %}
  {% set names = [] %}
  {% for column in arg_dict['dest_columns'] %}
    {% do names.append(column.quoted) %}
  {% endfor %}
  {% do return(names | join(', ')) %}
{% endmacro %}

{% macro txns_keys(arg_dict) %}
  {% set key = arg_dict['unique_key'] %}
  {% do return([] if not key else [key] if key is string else key | list) %}
{% endmacro %}

{% macro txns_same_keys(keys) -%}
  {%- for key in keys -%}
    {{ equals('DBT_INTERNAL_SOURCE.' ~ key, 'DBT_INTERNAL_DEST.' ~ key) }}{{ ' and ' if not loop.last }}
  {%- endfor -%}
{%- endmacro %}

{#-
  Whether NULL equals NULL says dbt's flag enable_truthy_nulls_equals_macro, here as everywhere. By an
  operator of its own Spark joins by hash, which it does not by dbt's CASE.
-#}
{% macro txns__equals(expr1, expr2) -%}
  ({{ expr1 }} {{ '<=>' if adapter.behavior.enable_truthy_nulls_equals_macro.no_warn else '=' }} {{ expr2 }})
{%- endmacro %}

{#- Each condition by itself: one may hold an OR. -#}
{% macro txns_all(conditions) -%}
  {%- for condition in conditions -%}
    ({{ condition }}){{ ' and ' if not loop.last }}
  {%- endfor -%}
{%- endmacro %}
