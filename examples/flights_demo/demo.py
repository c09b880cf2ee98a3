"""
Correct a day of the flights of New York 2013, in one transaction over three tables.

`make demo` runs it; README.md says what it shows. It stops with an error where something
is not as it says.
"""

from __future__ import annotations

import sys

import crash
import data
import history
import lake
import race
import tears
from correction import DAY, MONTH
from show import elapsed_s, heading, say, step


def main() -> None:
    """Play all scenes."""
    heading("1. Set up")
    lake.reset_folder()
    with step("Spark with txns_spark.configure(SparkSession.builder, ...)"):
        spark = lake.start()
    flights = data.load(spark)
    with step("copies in a catalog of plain Iceberg, to compare with"):
        data.copy_to_plain(spark)
    new_rows = data.corrected(flights, month=MONTH, day=DAY)

    heading("2. The daily correction, with a reader beside it")
    say(
        "The flights of 5 January were delivered again: without those that were cancelled, and "
        "with other delays. A second session joins flights and carrier_daily all the time; the "
        f"writer pauses after each statement until it has read {tears.READS_PER_PAUSE} times."
    )
    writer = spark.newSession()
    writer.createDataFrame(new_rows).createOrReplaceTempView("corrected")
    by_transaction = tears.watch_transaction(spark, writer, new_rows.num_rows)

    heading("3. The same statements with plain Iceberg")
    by_plain = tears.watch_plain(spark, writer, new_rows.num_rows)
    if tears.report(by_transaction, by_plain) != 0:
        sys.exit("error: a reader saw a part of a transaction")

    heading("4. A lost race")
    say("B reads and changes carrier_daily; A changes it as well, and commits before B does.")
    race.play(spark)

    heading("5. A crash after COMMIT")
    crash.play(spark)

    heading("6. What has committed")
    history.show_archive(spark)

    heading("7. Two tables at one moment of the past: 5 January before and after the correction")
    history.travel(spark)
    spark.stop()
    print(f"\nDone in {elapsed_s():.0f} s. Tables and Spark's log: {lake.FOLDER}")


if __name__ == "__main__":
    main()
