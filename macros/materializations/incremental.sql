{#- All statements of a strategy are one transaction, run again when it lost a race. -#}

{% materialization incremental, adapter='txns', supported_languages=['sql'] %}
  {% set strategy = txns_strategy() %}
  {#- One that there is not fails before the first run, which does not need it, has made the table. -#}
  {% do adapter.get_incremental_strategy_macro(context, strategy) %}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {% set relations = adapter.in_transaction(txns_build_incremental, this, kind='table') %}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': relations}) }}
{% endmaterialization %}

{% macro txns_strategy() %}
  {% do return(config.get('incremental_strategy') or ('merge' if config.get('unique_key') else 'append')) %}
{% endmacro %}

{% macro txns_build_incremental() %}
  {% set existing = load_cached_relation(this) %}
  {% set target_relation = this.incorporate(type='table') %}
  {{ run_hooks(pre_hooks) }}
  {% if existing is none or should_full_refresh() %}
    {% call statement('main') -%}
      {{ create_table_as(False, target_relation, compiled_code) }}
    {%- endcall %}
  {% else %}
    {% do txns_increment(target_relation) %}
  {% endif %}
  {% do txns_finish(target_relation, existing, full_refresh=should_full_refresh()) %}
  {% do return([target_relation]) %}
{% endmacro %}

{#- The model's new rows as a temporary view of the session, then the strategy's statements. -#}
{% macro txns_increment(target_relation) %}
  {% set source = make_temp_relation(target_relation) %}
  {% call statement('source') -%}
    {{ create_table_as(True, source, compiled_code) }}
  {%- endcall %}
  {% set on_schema_change = incremental_validate_on_schema_change(config.get('on_schema_change'), default='ignore') %}
  {% set columns = process_schema_changes(on_schema_change, source, target_relation) %}
  {% set strategy = adapter.get_incremental_strategy_macro(context, txns_strategy()) %}
  {% set arguments = {
    'target_relation': target_relation,
    'temp_relation': source,
    'unique_key': config.get('unique_key'),
    'dest_columns': columns or adapter.get_columns_in_relation(target_relation),
    'incremental_predicates': config.get('predicates') or config.get('incremental_predicates'),
  } %}
  {% set last = strategy(arguments) %}
  {% call statement('main') -%}
    {{ last }}
  {%- endcall %}
  {% if arguments.asked %}
    {% call statement('drop') -%}
      drop table {{ arguments.asked }}
    {%- endcall %}
  {% endif %}
{% endmacro %}
