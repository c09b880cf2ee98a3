"""Scene: two sessions change the same table; one of them loses and runs again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from show import run, say

from txns_spark.errors import TransactionConflict, translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_ATTEMPTS_MAX = 5
_UPDATE = (
    "UPDATE lake.nyc.carrier_daily SET mean_delay = mean_delay + {minutes} "
    "WHERE carrier = '{carrier}'"
)
_AUDIT = (
    "INSERT INTO lake.nyc.load_audit VALUES (DATE '2013-01-06', current_timestamp(), 0, '{what}')"
)


def play(spark: SparkSession) -> int:
    """Lose a race on purpose, run again until it is committed; return how often it lost."""
    winner, loser = spark.newSession(), spark.newSession()

    def overtake() -> None:
        run(winner, "BEGIN", who="A")
        run(winner, _UPDATE.format(minutes=1, carrier="UA"), who="A")
        run(winner, "COMMIT", who="A")

    lost = 0
    for _ in range(_ATTEMPTS_MAX):
        try:
            with translated():
                _adjust(loser, overtake if lost == 0 else lambda: None)
        except TransactionConflict as conflict:
            lost += 1
            _explain(conflict)
            # Harmless where COMMIT has ended the transaction already.
            loser.sql("ROLLBACK")
        else:
            return lost
    raise AssertionError("the race was lost five times over")


def _adjust(session: SparkSession, before_commit: Callable[[], None]) -> None:
    run(session, "BEGIN", who="B")
    run(session, _UPDATE.format(minutes=2, carrier="AA"), who="B")
    run(session, _AUDIT.format(what="adjusted by B"), who="B")
    before_commit()
    run(session, "COMMIT", who="B")


def _explain(conflict: TransactionConflict) -> None:
    print()
    say(f"B's COMMIT is refused: SQLSTATE {conflict.sqlstate}")
    say(conflict.message)
    say(
        f"In Python: {type(conflict).__name__}(table={conflict.table!r}, "
        f"txn_id={conflict.txn_id!r}, other_txn_id={conflict.other_txn_id!r}, "
        f"least_ts={conflict.least_ts})"
    )
    print("\nNothing of it is committed, so B runs again from BEGIN:", flush=True)
