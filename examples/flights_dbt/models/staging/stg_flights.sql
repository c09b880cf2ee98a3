-- A delivery of flights: the whole year, or days that are delivered again.
select
    make_date(year, month, day) as flight_date, month, carrier, flight, tailnum, origin, dest,
    sched_dep_time, dep_delay, arr_delay, distance
from parquet.`{{ var('delivery') }}`
