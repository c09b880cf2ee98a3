{#-
  Hooks that make a node of `type: spark` one transaction:

    models:
      +pre-hook: "{{ txns_for_spark.begin() }}"
      +post-hook: "{{ txns_for_spark.commit() }}"
-#}

{% macro begin(isolation='snapshot') -%}
  {#- A node that failed on this session left its transaction open: dbt-spark undoes nothing. -#}
  {%- if execute -%}
    {%- do run_query('rollback') -%}
  {%- endif -%}
  begin isolation level {{ isolation }}
{%- endmacro %}

{% macro commit() -%}
  commit
{%- endmacro %}
