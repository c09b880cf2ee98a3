-- carrier_daily counts the flights that there are.
select flight_date, carrier, d.flights, f.flights as counted
from {{ ref('carrier_daily') }} d
full join (
    select flight_date, carrier, count(*) as flights
    from {{ ref('fct_flights') }} group by flight_date, carrier
) f using (flight_date, carrier)
where d.flights is distinct from f.flights
