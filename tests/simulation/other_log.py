"""
Another commit table in the same catalog: a lake of its own, whose users meet ours.

Each of its transactions appends one row to both of its tables. So whatever becomes of it, both hold
the same rows: what was acknowledged, and nothing that nobody meant.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchTableError

from tests.simulation.actions import SCHEMA
from tests.simulation.observer import OTHER_NAMESPACE as NAMESPACE
from tests.simulation.rows import data_file, held
from tests.simulation.scheduler import Violation
from txns._admin import orphans
from txns.errors import CommitStateUnknown, TxnsError

if TYPE_CHECKING:
    from tests.simulation.worker import Lake, Worker

OPTIONS = {"commit_table": f"{NAMESPACE}.commits"}
_TABLES = ((NAMESPACE, "o0"), (NAMESPACE, "o1"))


def prepare(lake: Lake) -> None:
    """Make the tables, and put them under the care of the other commit table."""
    catalog = lake.connect()
    catalog.create_namespace(NAMESPACE)
    for name in _TABLES:
        catalog.create_table(name, SCHEMA)
    handle = lake.open(**OPTIONS)
    for name in _TABLES:
        handle.register(name)
    lake.has_other_log = True


def transaction(worker: Worker) -> None:
    """Append one row to both tables."""
    lake, row = worker.lake, worker.lake.new_row()
    txn = worker.handle.begin()
    try:
        for name in _TABLES:
            _append(txn, name, row)
        lake.others_meant.add(row)
        txn.commit()
    except CommitStateUnknown:
        raise
    except Exception:
        with suppress(TxnsError):
            txn.rollback()
        raise
    lake.others_acknowledged.add(row)


def trespass(worker: Worker) -> None:
    """Write a table of another's care: it is refused, where strangers have left it its mark."""
    lake, name = worker.lake, worker.rng.choice(worker.lake.tables)
    if not lake.is_pythons(lake.connect().load_table(name)):
        return
    txn = worker.handle.begin()
    try:
        with suppress(NoSuchTableError):
            _append(txn, name, lake.new_row())
            txn.commit()
            newest = lake.observer.history.newest(name)
            forgotten = newest is not None and not newest.cared  # anybody may take such a table
            if not forgotten and name not in lake.observer.history.unmarked:
                raise Violation("trust", f"{worker.process.doing} wrote a table of another log's")
    finally:
        with suppress(TxnsError):
            txn.rollback()


def upkeep(worker: Worker) -> None:
    """Apply, tidy, and remove what nothing refers to."""
    worker.handle.apply_le()
    worker.handle.tidy()
    orphans.remove(worker.handle.parts)


def audit(lake: Lake) -> None:
    """Hold the tables against what was meant and what was acknowledged."""
    handle = lake.open(**OPTIONS)
    upset = lake.observer.history.upset
    if left := [name for name in handle.apply_le() if name not in upset]:
        raise Violation("other log", f"entries stay unapplied on {left}")
    catalog = handle.catalog()
    first, second = (held(catalog.load_table(name).scan().plan_files()) for name in _TABLES)
    if first != second:
        raise Violation("other log", f"half of a transaction: {sorted(first ^ second)}")
    if lost := lake.others_acknowledged - first:
        raise Violation("other log", f"acknowledged, and not there: {sorted(lost)}")
    if more := first - lake.others_meant:
        raise Violation("other log", f"nobody meant {sorted(more)}")


def _append(catalog: Any, name: tuple[str, ...], row: int) -> None:
    table = catalog.load_table(name)
    with table.transaction() as changes, changes.update_snapshot().fast_append() as producer:
        producer.append_data_file(data_file(table.metadata, [row], 0))
