{#- Hooks with `transaction: true` run in the model's transaction, the others before and after it. -#}

{% macro run_hooks(hooks, inside_transaction=True) %}
  {% for hook in hooks | selectattr('transaction', 'equalto', inside_transaction) %}
    {% if not inside_transaction and loop.first %}
      {% do adapter.step_outside() %}
    {% endif %}
    {% set rendered = render(hook.get('sql')) | trim %}
    {% if rendered | length > 0 %}
      {% call statement(auto_begin=inside_transaction) %}
        {{ rendered }}
      {% endcall %}
    {% endif %}
  {% endfor %}
{% endmacro %}
