"""The daily correction: one day's flights are replaced, and what depends on them follows."""

from __future__ import annotations

MONTH, DAY = 1, 5


def statements(catalog: str, *, rows: int, day: int = DAY) -> list[str]:
    """
    Return the statements between BEGIN and COMMIT.

    Args:
        catalog: Where the tables are.
        rows: How many rows the temporary view `corrected` has: the day's new flights.
        day: The day of January.
    """
    nyc = f"{catalog}.nyc"
    where = f"month = {MONTH} AND day = {day}"
    date = f"DATE '2013-{MONTH:02}-{day:02}'"
    return [
        f"DELETE FROM {nyc}.flights WHERE {where}",
        f"INSERT INTO {nyc}.flights SELECT * FROM corrected",
        f"""UPDATE {nyc}.carrier_daily AS d SET
            flights = (SELECT count(*) FROM corrected c WHERE c.carrier = d.carrier),
            mean_delay = (SELECT avg(arr_delay) FROM corrected c WHERE c.carrier = d.carrier)
            WHERE {where}""",
        f"INSERT INTO {nyc}.load_audit VALUES ({date}, current_timestamp(), {rows}, 'correction')",
    ]


def day_by_both_tables(catalog: str, *, day: int = DAY) -> str:
    """
    Return a join of the two tables that the correction changes, of one row.

    It has the day's flights, counted and as carrier_daily has them, and for how many
    carriers the two differ: in every consistent state for none.
    """
    return f"""
        SELECT sum(counted) AS counted, sum(reported) AS reported,
               count_if(counted <> reported) AS differing, round(avg(mean_delay), 2) AS mean_delay
        FROM (SELECT d.carrier, d.flights AS reported, d.mean_delay, count(f.carrier) AS counted
              FROM {catalog}.nyc.carrier_daily d LEFT JOIN {catalog}.nyc.flights f
                ON f.month = d.month AND f.day = d.day AND f.carrier = d.carrier
              WHERE d.month = {MONTH} AND d.day = {day}
              GROUP BY d.carrier, d.flights, d.mean_delay)"""
