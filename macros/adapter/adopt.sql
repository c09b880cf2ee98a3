{#-
  dbt run-operation txns_adopt_project [--args '{dry_run: true}']

  Put every table that the project builds, and that is there already, under the care of the
  commit table: once, for a project that comes from another adapter. Lists those without the mark
  of a commit table.
-#}
{% macro txns_adopt_project(dry_run=false) %}
  {% set built = ['table', 'incremental', 'snapshot', 'seed'] %}
  {% set adopted = [] %}
  {% for node in graph.nodes.values()
     if node.resource_type in ['model', 'seed', 'snapshot'] and node.config.materialized in built %}
    {% set relation = adapter.get_relation(node.database, node.schema, node.alias) %}
    {% if relation is not none and relation.is_table %}
      {% if not txns_is_marked(relation) %}
        {% do adopted.append(relation) %}
        {{ log(('would register ' if dry_run else 'registering ') ~ relation, info=true) }}
      {% endif %}
      {#- Also one with a mark: it may be a copy of another table's, and else this does nothing. -#}
      {% if not dry_run %}
        {% do run_query("call " ~ adapter.quote(relation.database) ~ ".system.register("
             ~ txns_text(adapter.quote(relation.schema) ~ '.' ~ adapter.quote(relation.identifier)) ~ ")") %}
      {% endif %}
    {% endif %}
  {% endfor %}
  {% if not adopted %}
    {{ log('no table of the project is left to register', info=true) }}
  {% endif %}
{% endmacro %}

{% macro txns_is_marked(relation) %}
  {% set properties = run_query("show tblproperties " ~ relation) %}
  {% do return('txns.commit-table' in properties.columns[0].values()) %}
{% endmacro %}
