{% snapshot airlines_history %}
{{ config(unique_key='carrier', strategy='check', check_cols=['name']) }}
select * from {{ ref('airlines') }}
{% endsnapshot %}
