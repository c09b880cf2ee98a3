"""What else processes of users do: register, apply, tidy, repair, hold, read the past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchTableError

from tests.simulation import schemas
from tests.simulation.attempts import Attempt, Identifier, Operation, folded, show
from tests.simulation.scheduler import DAY_MS, Violation
from txns._admin import orphans
from txns._admin.purge import Purger
from txns.errors import Conflict, TxnsError, Unsupported

if TYPE_CHECKING:
    from tests.simulation.history import History
    from tests.simulation.rows import Rows
    from tests.simulation.worker import Lake, Worker


def is_cared(lake: Lake, name: Identifier) -> bool:
    """Whether the log has a table under care now."""
    newest = lake.observer.history.newest(name)
    return newest is not None and newest.cared


def rename(worker: Worker) -> None:
    """Rename a table to the spare name, or back."""
    lake, rng = worker.lake, worker.rng
    spare = lake.spare[0]
    if spare in lake.observer.registry.pointers:
        gone = [name for name in lake.tables if name not in lake.observer.registry.pointers]
        name = worker.spelled(rng.choice(gone or [spare]))
        worker.handle.catalog().rename_table(worker.spelled(spare), name)
    else:
        name = worker.spelled(rng.choice(lake.tables))
        worker.handle.catalog().rename_table(name, worker.spelled(spare))


def register(worker: Worker) -> None:
    """Put a table under care, or again."""
    lake = worker.lake
    worker.handle.register(worker.spelled(worker.rng.choice(lake.tables + lake.spare)))


def forget(worker: Worker) -> None:
    """Take a table from care."""
    worker.handle.forget(worker.spelled(worker.rng.choice(worker.lake.tables)))


def apply(worker: Worker) -> None:
    """Apply what is outstanding, everywhere or up to a timestamp."""
    known = sorted(worker.lake.observer.entries)
    if known and worker.rng.random() < 0.5:
        worker.handle.apply_le(worker.rng.choice(known))
    else:
        worker.handle.apply_le()


def tidy(worker: Worker) -> None:
    """Move applied entries to the archive."""
    worker.handle.tidy()


def tidy_files(worker: Worker) -> None:
    """Remove files of the commit table that nothing refers to, as `txns tidy --files`."""
    orphans.remove(worker.command_line().parts)


def let_days_pass(worker: Worker) -> None:
    """Do nothing for hours or days."""
    worker.lake.world.sleep(worker.rng.randint(1, 4 * DAY_MS))


def repair(worker: Worker) -> None:
    """End what strangers did to a table."""
    observer = worker.lake.observer
    names = [
        name
        for name in worker.lake.tables
        if name in observer.registry.pointers and is_cared(worker.lake, name)
        if not observer.checks.is_as_logged(observer.registry.metadata(name))
    ]
    name = worker.spelled(worker.rng.choice(names or worker.lake.tables))
    worker.process.repairing = worker.rng.choice(("adopt", "reject"))
    if worker.process.repairing == "adopt":
        worker.handle.repair_adopt(name)
    else:
        worker.handle.repair_reject(name)


def purge(worker: Worker) -> None:
    """Remove a dropped table for good; its drop is old when everybody else has gone on a bit."""
    lake = worker.lake
    history = lake.observer.history
    lake.world.sleep(worker.rng.choice((10, 50, 200, 2000)))
    newest = {name: history.newest(name) for name in history.tables()}
    dropped = [name for name, one in newest.items() if one and one.cared and not one.exists]
    name = worker.rng.choice(dropped or lake.creatable)
    attempt = Attempt(worker.process.doing, isolation="autocommit", purges=True)
    attempt.operations = [Operation(name, "drop")]
    history.attempts.append(attempt)
    worker.process.attempt = attempt
    if worker.java:
        worker.handle.purge(name, max_age_ms=1)
    else:
        Purger(worker.handle.parts, max_age_ms=1).purge(name)


def advance(worker: Worker) -> None:
    """Move the upper."""
    handle = worker.command_line()
    handle.advance(handle.upper + worker.rng.randint(1, 50))


def change_settings(worker: Worker) -> None:
    """Set the log to something else: who applies, and how old a transaction may get."""
    worker.command_line().change_settings(
        apply=worker.rng.choice(("inline", "next")),
        max_age_ms=worker.rng.choice((DAY_MS // 2, DAY_MS, 2 * DAY_MS)),
    )


def hold(worker: Worker) -> None:
    """Hold two tables at one timestamp, or look at a hold, or release it."""
    lake, rng, handle = worker.lake, worker.rng, worker.command_line()
    history = lake.observer.history
    if history.holds and rng.random() < 0.6:
        name = rng.choice(sorted(history.holds))
        if rng.random() < 0.5:
            check_hold(lake, handle, name)
            return
        tables, _read_ts = history.holds.pop(name)
        _means_tags(worker, (*tables, *history.renamed))  # tags go with a table to its new name
        handle.release(name)
        return
    name = f"h{lake.new_row()}"
    tables = tuple(sorted(rng.sample(lake.tables, 2)))
    known = [ts for ts in lake.observer.entries if rng.random() < 0.5]
    read_ts = rng.choice(known) if known else handle.upper
    _means_tags(worker, tables)
    handle.hold(name, tables, read_ts=read_ts, ttl_ms=36_500 * DAY_MS)
    if lake.judges(worker.process):  # else it may have been lost since
        history.holds[name] = (tables, read_ts)


def _means_tags(worker: Worker, tables: tuple[Identifier, ...]) -> None:
    attempt = Attempt(worker.process.doing, isolation="autocommit")
    attempt.operations = [Operation(name, "tag") for name in tables]
    worker.lake.observer.history.attempts.append(attempt)
    worker.process.attempt = attempt


def check_hold(lake: Lake, handle: Any, name: str) -> None:
    """Read a hold, which no expiry can have taken, and compare it with the model."""
    history = lake.observer.history
    tables, read_ts = history.holds[name]
    newest = {table: history.newest(table) for table in tables}
    kept = [table for table, one in newest.items() if one and one.cared and one.exists]
    if not kept or len(kept) < len(tables) or not history.upset.keys().isdisjoint(tables):
        return  # a table was dropped, taken from care or set back: its tags are no promise any more
    catalog = handle.held(name)
    for table in kept:
        rows = lake.rows(catalog.load_table(table))
        version = history.at(table, read_ts)
        if not lake.judges(lake.world.actor):
            return
        if version is not None and version.cared and rows != version.rows:
            raise Violation("hold", f"{name}: {table} at {read_ts} shows {show(rows)}")


def off_and_on(worker: Worker) -> None:
    """Turn the protocol's writers away for a while, and adopt what strangers did."""
    worker.handle.off()
    worker.lake.world.sleep(worker.rng.randint(1, 100))
    worker.process.repairing = "adopt"
    worker.handle.on()


def pause(worker: Worker) -> None:
    """Do nothing for a while."""
    worker.lake.world.sleep(worker.rng.randint(10, 5000))


def read_past(worker: Worker) -> None:
    """Read some tables as of one timestamp: now, or one of the log's."""
    history = worker.lake.observer.history
    known = sorted(worker.lake.observer.entries)
    upper = history.upper
    if known and worker.rng.random() < 0.7:
        read_ts: int | None = worker.rng.choice(known)
        catalog = worker.handle.snapshot(read_ts)
    else:
        read_ts = None
        catalog = worker.handle.snapshot()
        lags = catalog.read_ts < upper and not worker.process.stale
        if lags and worker.lake.judges(worker.process):
            raise Violation("strict", f"snapshot() reads at {catalog.read_ts}, upper is {upper}")
    for name in worker.rng.sample(worker.lake.tables, min(2, len(worker.lake.tables))):
        check_read(worker.lake, catalog, worker.spelled(name), read_ts or catalog.read_ts)


def check_read(lake: Lake, catalog: Any, name: Identifier, read_ts: int) -> None:
    """Read a table at a timestamp and compare it with the model of history."""
    history = lake.observer.history
    name, spelled = folded(name), name
    try:
        rows = _rows(lake, catalog, spelled)
    except (TxnsError, FileNotFoundError) as error:
        if _may_fail(history, name, read_ts, error):
            return
        raise
    version = history.at(name, read_ts)
    if version is None or not version.cared or name in history.unmarked:
        return
    if history.is_lost(name, read_ts) or not lake.judges(lake.world.actor):
        return
    if rows is None and (name in history.upset or history.may_be_unreadable(name, read_ts)):
        return
    expected = version.rows if version.exists else None
    if rows != expected:
        raise Violation(
            "read at ts", f"{name} at {read_ts} shows {show(rows)}, expected {show(expected)}"
        )
    if rows is not None:
        table = catalog.load_table(spelled)
        columns = schemas.columns(table.schema(), table.spec())
        history.judge_columns("read at ts", f"{name} at {read_ts}", columns, version, name)


def _may_fail(history: History, name: Identifier, read_ts: int, error: Exception) -> bool:
    """
    Whether a read may end with an error: too old, being purged, or upset by strangers.

    Or a table that was forgotten, and that another log has taken since.
    """
    if isinstance(error, FileNotFoundError):  # a purger has begun, or died in the middle
        return read_ts < history.purged.get(name, 0)
    too_old = isinstance(error, Conflict) and history.may_be_unreadable(name, read_ts)
    newest = history.newest(name)
    taken = isinstance(error, Unsupported) and newest is not None and not newest.cared
    return too_old or taken or name in history.upset


def _rows(lake: Lake, catalog: Any, name: Identifier) -> Rows | None:
    try:
        return lake.rows(catalog.load_table(name))
    except NoSuchTableError:
        return None
