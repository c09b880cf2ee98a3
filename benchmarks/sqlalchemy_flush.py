"""
Measure a flush of the ORM, and what each driver takes to connect, SELECT and commit.

A flush of 1,000 changed objects, and one of 1,000 deleted ones, stand beside the same changes
sent row by row: over 100 rows, times ten. Both run in a transaction that is rolled back, in
turns, by the driver `session`. The statements that reach Spark are counted.

Then 100 times on each driver: a new connection, a SELECT of one row by its id (in a
transaction that is open already), and the COMMIT of a transaction that has inserted one row
(the INSERT is not part of it). The servers of `connect` and `thrift` run on this machine.

    make bench NAME=sqlalchemy_flush
"""

from __future__ import annotations

import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from _measure import Metric, Times, milliseconds, ratio, single, take_turns, write
from sqlalchemy import orm

from integration_tests import servers, sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from txns_spark import dbapi

OBJECTS = 1000
ROWS = 100
WARM_UP = 1
TURNS = 5
REPEATS = 100
WARM_UP_REPEATS = 10
# At least fifty times faster than row by row.
SHARE_TARGET = 0.02
SCHEMA = "db"


class Base(orm.DeclarativeBase):
    """The classes of the benchmark."""


class Item(Base):
    """An object with an id and two numbers."""

    __tablename__ = "item"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    amount: orm.Mapped[int]
    price: orm.Mapped[int]


def main() -> None:
    """Run all and write results/sqlalchemy_flush.json."""
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as name:
        folder = Path(name)
        spark = sessions.start(folder / "lake")
        spark.sql(f"CREATE NAMESPACE lake.{SCHEMA}")
        engine = sa.create_engine(f"txns:///lake/{SCHEMA}")
        Base.metadata.create_all(engine)
        with orm.Session(engine) as session, session.begin():
            session.add_all(Item(amount=0, price=0) for _ in range(OBJECTS))
        metrics = _flushes(engine)
        metrics += _latencies("session", engine.url)
        for driver, server in (
            ("connect", servers.ConnectServer),
            ("thrift", servers.ThriftServer),
        ):
            with server(folder / "lake", folder / f"{driver}.log") as running:
                host, port = running.address
                url = f"txns+{driver}://{host}:{port}/lake/{SCHEMA}"
                metrics += _latencies(driver, sa.make_url(url))
        spark.stop()
    write("sqlalchemy_flush", metrics)


def _flushes(engine: sa.Engine) -> list[Metric]:
    """Compare flushes with row by row."""
    statements: dict[str, list[int]] = {}

    def flush(times: Times, what: str, change: Callable[[orm.Session, Item], None]) -> None:
        with orm.Session(engine) as session:
            for item in session.scalars(sa.select(Item)).all():
                change(session, item)
            with _counted(session) as seen, times.part(what):
                session.flush()
            statements.setdefault(what, []).append(len(seen))
            session.rollback()

    def by_row(times: Times, what: str, sql: str) -> None:
        with engine.connect() as connection:
            connection.execute(sa.select(Item.id)).all()
            with times.part(what):
                for number in range(1, ROWS + 1):
                    connection.exec_driver_sql(sql, (number,))
            connection.rollback()

    def flushed(times: Times, _turn: int) -> None:
        flush(times, "changed", lambda _, item: setattr(item, "amount", item.amount + item.id))
        flush(times, "deleted", lambda session, item: session.delete(item))

    def one_by_one(times: Times, _turn: int) -> None:
        by_row(times, "changed", "UPDATE item SET amount = 1 WHERE id = ?")
        by_row(times, "deleted", "DELETE FROM item WHERE id = ?")

    kept = take_turns({"flush": flushed, "rows": one_by_one}, warm_up=WARM_UP, turns=TURNS)
    metrics = []
    for what in ("changed", "deleted"):
        ours = kept["flush"].parts[what]
        theirs = [seconds * OBJECTS / ROWS for seconds in kept["rows"].parts[what]]
        name, against = f"flush of {OBJECTS} {what} objects", "row by row, 100 rows extrapolated"
        metrics += [
            single(f"{name}: statements", max(statements[what]), "count", "lower", "1"),
            ratio(name, ours, theirs, against=against, target=SHARE_TARGET, unit="share"),
            milliseconds(f"{name}: time", ours, against="-"),
            milliseconds(f"{OBJECTS} {what} row by row, extrapolated", theirs, against="-"),
        ]
    return metrics


@contextmanager
def _counted(session: orm.Session) -> Iterator[list[str]]:
    """Note the statements that reach Spark."""
    connection: Any = session.connection().connection.dbapi_connection
    seen: list[str] = []
    original = connection._run

    def noting(sql: str, *rest: Any) -> Any:
        seen.append(sql)
        return original(sql, *rest)

    connection._run = noting
    yield seen
    connection._run = original


def _latencies(driver: str, url: sa.URL) -> list[Metric]:
    """Return p50 and p99 of connect, SELECT and commit."""
    engine = sa.create_engine(url)
    parts: dict[str, list[float]] = {"connect": [], "SELECT": [], "commit": []}
    arguments, options = engine.dialect.create_connect_args(url)
    for repeat in range(WARM_UP_REPEATS + REPEATS):
        with _timed(parts["connect"]):
            made: dbapi.Connection = engine.dialect.connect(*arguments, **options)
        cursor = made.cursor()
        made.begin()
        cursor.execute("SELECT count(*) FROM item").fetchall()
        with _timed(parts["SELECT"]):
            cursor.execute("SELECT * FROM item WHERE id = ?", (repeat + 1,)).fetchall()
        cursor.execute("INSERT INTO item VALUES (?, 0, 0)", (10 * OBJECTS + repeat,))
        with _timed(parts["commit"]):
            made.commit()
        made.close()
    engine.dispose()
    print(f"  {driver}: done", flush=True)
    metrics = []
    for name, seconds in parts.items():
        ordered = sorted(seconds[WARM_UP_REPEATS:])
        for percentile in (50, 99):
            at = ordered[min(len(ordered) - 1, len(ordered) * percentile // 100)]
            text = f"{driver}: {name}, p{percentile}"
            metrics.append(single(text, 1000 * at, "ms", "lower", f"{REPEATS} times"))
    return metrics


@contextmanager
def _timed(into: list[float]) -> Iterator[None]:
    started = time.perf_counter()
    yield
    into.append(time.perf_counter() - started)


if __name__ == "__main__":
    main()
