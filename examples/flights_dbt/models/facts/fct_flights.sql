-- Days that are delivered again replace what there is of them.
{% if target.type == 'txns' %}
  {{ config(incremental_strategy='delete+insert', unique_key='flight_date', partition_by='month') }}
{% else %}
  {#- dbt-spark has no delete+insert: its users delete in a hook. -#}
  {{ config(incremental_strategy='append', partition_by='month', pre_hook="
    {% if is_incremental() %}
      delete from {{ this }} where flight_date in (select flight_date from {{ ref('stg_flights') }})
    {% endif %}") }}
{% endif %}
select * from {{ ref('stg_flights') }}
