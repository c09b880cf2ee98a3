"""
Ingest the flights of New York 2013 day by day, each day in one transaction over three tables.

`python examples/python_ingest/ingest.py` runs it; README.md says what it shows. It stops
with an error where something is not as it says.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import data
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog

import txns

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

FLIGHTS, CARRIER_DAILY, LOAD_AUDIT = "nyc.flights", "nyc.carrier_daily", "nyc.load_audit"
MONTH, DAYS = 1, range(1, 8)


def main() -> None:
    """Play all scenes in a folder that is removed at the end."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="txns-ingest-") as folder:
        catalog = _catalog(Path(folder))
        handle = txns.open(catalog)
        flights = data.read_flights()
        say(f"{flights.num_rows:,} flights read")
        create(handle)
        ingest_week(handle, flights)
        week_ts = handle.upper
        run_again(handle, flights)
        lose_a_race(folder, handle, flights)
        read_one_moment(handle, week_ts)
        recover(handle, catalog, flights)
        catalog.close()
    say(f"\nDone in {time.monotonic() - started:.1f} s")


def _catalog(folder: Path) -> Catalog:
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")


def say(words: str) -> None:
    """Print a line at once."""
    print(words, flush=True)


def check(name: str, expected: object, found: object) -> None:
    """Stop where something is not as it should be."""
    if expected != found:
        sys.exit(f"error: {name}: expected {expected}, found {found}")


def create(handle: txns.Handle) -> None:
    """Create the tables, all or none."""
    handle.catalog().create_namespace("nyc")
    with handle.begin(comment="create") as txn:
        txn.create_table(FLIGHTS, data.FLIGHTS)
        txn.create_table(CARRIER_DAILY, data.CARRIER_DAILY)
        txn.create_table(LOAD_AUDIT, data.LOAD_AUDIT)


def load_day(txn: txns.Transaction, flights: pa.Table, day: int) -> int:
    """Stage one day: its flights, what each carrier did, and a row that says so."""
    rows = data.of_day(flights, MONTH, day)
    txn.load_table(FLIGHTS).append(rows)
    txn.load_table(CARRIER_DAILY).append(data.by_carrier(rows))
    txn.load_table(LOAD_AUDIT).append(data.audit(MONTH, day, rows.num_rows, "load"))
    return rows.num_rows


def ingest_week(handle: txns.Handle, flights: pa.Table) -> None:
    """Load a week, one transaction a day, each under an idempotence key."""
    say("\n1. A week, one transaction a day")
    for day in DAYS:
        began = time.monotonic()
        with handle.begin(txn_id=f"load/{MONTH:02d}-{day:02d}", comment="load") as txn:
            num_rows = load_day(txn, flights, day)
        took_ms = 1000 * (time.monotonic() - began)
        say(f"   {MONTH:02d}-{day:02d}  {num_rows} flights  {took_ms:.0f} ms")
    check("flights of the week", *_counts(handle.snapshot()))


def _counts(catalog: Catalog) -> tuple[int, int]:
    """Return how many flights there are, by the two tables that say it."""
    daily = catalog.load_table(CARRIER_DAILY).scan().to_arrow()["flights"]
    return pc.sum(daily).as_py() or 0, len(catalog.load_table(FLIGHTS).scan().to_arrow())


def run_again(handle: txns.Handle, flights: pa.Table) -> None:
    """Run a load again that does not know that it has committed: nothing is there twice."""
    say("\n2. The job runs again with the key of a day that has committed")
    before = _counts(handle.snapshot())
    with handle.begin(txn_id="load/01-03") as txn:
        committed = txn.committed
        load_day(txn, flights, 3)
    check("flights after the second run", before, _counts(handle.snapshot()))
    if committed is None:
        sys.exit("error: the key was not found")
    say(f"   it has committed at {committed.commit_ts}; the second run changed nothing")


def lose_a_race(folder: str, handle: txns.Handle, flights: pa.Table) -> None:
    """Correct a day while another process corrects the same day: one has to run again."""
    say("\n3. Two corrections of 5 January at once")
    rival = txns.open(_catalog(Path(folder)))
    attempts = []

    def correct(txn: txns.Transaction) -> None:
        attempts.append(txn.txn_id)
        _cancel(txn, 5, flights)
        if len(attempts) == 1:
            with rival.begin(comment="rival") as other:
                _cancel(other, 5, flights)

    try:
        txns.run_transaction(handle, correct, max_attempts=1, comment="correct")
    except txns.Conflict as error:
        say(f"   {error}")
    txns.run_transaction(handle, correct, comment="correct")
    check("attempts", 2, len(attempts))
    check("flights of the corrected day", *_counts(handle.snapshot()))
    say(f"   run again, and committed: {_counts(handle.snapshot())[1]} flights")


def _cancel(txn: txns.Transaction, day: int, flights: pa.Table) -> None:
    """Replace a day by its flights that departed, in all three tables."""
    rows = data.of_day(flights, MONTH, day)
    departed = rows.filter(pc.is_valid(rows["dep_time"]))
    of_day = f"month == {MONTH} and day == {day}"
    txn.load_table(FLIGHTS).overwrite(departed, of_day)
    txn.load_table(CARRIER_DAILY).overwrite(data.by_carrier(departed), of_day)
    txn.load_table(LOAD_AUDIT).append(data.audit(MONTH, day, departed.num_rows, "correct"))


def read_one_moment(handle: txns.Handle, week_ts: int) -> None:
    """Read all tables as of one timestamp, before and after the corrections."""
    say("\n4. All tables at one moment")
    for name, read_ts in (("before the corrections", week_ts), ("now", handle.upper)):
        expected, found = _counts(handle.snapshot(read_ts))
        check(f"flights {name}", expected, found)
        audits = len(handle.snapshot(read_ts).load_table(LOAD_AUDIT).scan().to_arrow())
        say(f"   {name:<24} {found} flights in both tables, {audits} rows of load_audit")


def recover(handle: txns.Handle, catalog: Catalog, flights: pa.Table) -> None:
    """
    Die after the swap: the day is there for every reader of the protocol.

    With a catalog that cannot move several tables at once; the swap itself moves those of SQLite.
    """
    say("\n5. A process dies after the swap, before anything is applied")
    txn = txns.open(catalog, apply="inline").begin(comment="its process died")
    load_day(txn, flights, 8)
    txn.commit_at()
    plain, ours = _counts(catalog)[1], _counts(handle.snapshot())[1]
    say(f"   the tables themselves {plain} flights, a reader of the protocol {ours}")
    if plain >= ours:
        sys.exit("error: the entry was not expected in the tables yet")
    check("tables with entries left", [], handle.apply_le())
    check("flights after apply", ours, _counts(catalog)[1])
    say(f"   applied by the next one to come: {_counts(catalog)[1]}")


if __name__ == "__main__":
    main()
