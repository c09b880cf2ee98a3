-- An UPDATE model: the rows of the days that are delivered again get new figures.
-- depends_on: {{ ref('stg_flights') }}
{{ config(unique_key=['flight_date', 'carrier'],
          incremental_strategy='update' if target.type == 'txns' else 'merge') }}
select flight_date, carrier, count(*) as flights, avg(arr_delay) as mean_delay
from {{ ref('fct_flights') }}
{% if is_incremental() %}
where flight_date in (select flight_date from {{ ref('stg_flights') }})
{% endif %}
group by flight_date, carrier
