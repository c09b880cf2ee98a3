"""Scene: a second session reads all the time while the correction runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from correction import day_by_both_tables, statements
from show import elapsed_s, run, say, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READS_PER_PAUSE = 5


class Watcher:
    """
    A thread with a session of its own that repeats one query until it is told to stop.

    Attributes:
        reads: What each read has seen: (flights counted, flights reported, carriers for
            which they differ).
    """

    def __init__(self, spark: SparkSession, query: str) -> None:
        self.reads: list[tuple[int, int, int]] = []
        self._session = spark.newSession()
        self._query = query
        self._changed = threading.Condition()
        self._stopping = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._stopping = True
        self._thread.join()

    def wait_for_reads(self, count: int) -> None:
        """Wait until so many reads have both begun and ended."""
        with self._changed:
            # One read may be under way: it does not count.
            goal = len(self.reads) + 1 + count
            self._changed.wait_for(lambda: len(self.reads) >= goal or self._error is not None)
        if self._error is not None:
            raise self._error

    def _repeat(self) -> None:
        try:
            while not self._stopping:
                row = self._session.sql(self._query).first()
                assert row is not None
                with self._changed:
                    self.reads.append((row.counted, row.reported, row.differing))
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001  (raised again in the waiting thread)
            with self._changed:
                self._error = error
                self._changed.notify_all()


def watch_transaction(spark: SparkSession, session: SparkSession, rows: int) -> Watcher:
    """Run the correction as a transaction, beside a reader; return what that has seen."""
    with Watcher(spark, day_by_both_tables("lake")) as watcher:
        watcher.wait_for_reads(READS_PER_PAUSE)
        run(session, "BEGIN")
        run(session, "SET TRANSACTION COMMENT 'correction of 5 January'")
        for statement in statements("lake", rows=rows):
            run(session, statement)
            _pause(watcher)
        run(session, "COMMIT")
        _pause(watcher)
    return watcher


def watch_plain(spark: SparkSession, session: SparkSession, rows: int) -> Watcher:
    """Run the same statements on plain Iceberg, with the same pauses, beside a reader."""
    with Watcher(spark, day_by_both_tables("plain")) as watcher:
        watcher.wait_for_reads(READS_PER_PAUSE)
        for statement in statements("plain", rows=rows):
            run(session, statement)
            _pause(watcher)
    return watcher


def _pause(watcher: Watcher) -> None:
    watcher.wait_for_reads(READS_PER_PAUSE)
    counted, reported, _ = watcher.reads[-1]
    print(
        f"        the reader, {len(watcher.reads)} reads so far: {counted} flights, "
        f"{reported} in carrier_daily ({elapsed_s():.0f} s)",
        flush=True,
    )


def report(by_transaction: Watcher, by_plain: Watcher) -> int:
    """Print what both readers saw; return how many reads of the transaction were torn."""
    lines = []
    for name, watcher in (("transaction", by_transaction), ("plain Iceberg", by_plain)):
        before, after = watcher.reads[0], watcher.reads[-1]
        torn = sum(differing > 0 for _, _, differing in watcher.reads)
        is_before, is_after = watcher.reads.count(before), watcher.reads.count(after)
        lines.append([name, len(watcher.reads), is_before, is_after, torn])
    table(["", "reads", "as before", "as after", "torn"], lines)
    torn_by_transaction, torn_by_plain = int(lines[0][4]), int(lines[1][4])
    say(
        f"Torn reads, flights of one state joined with carrier_daily of another: "
        f"{torn_by_transaction} of {lines[0][1]} with the transaction, "
        f"{torn_by_plain} of {lines[1][1]} with plain Iceberg."
    )
    return torn_by_transaction
