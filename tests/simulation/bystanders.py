"""
What users do on a lake of whose log somebody forges records: all that the protocol has to offer.

Nobody says what tables hold there. Each call ends in a value or in an error that is declared
(`Worker.perform`), and touches nothing that is not in the log's care (`guard`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchTableError

from tests.simulation import upkeep
from tests.simulation.actions import LEVELS, SCHEMA
from tests.simulation.rows import data_file
from txns._admin import orphans
from txns._admin.health import health
from txns._admin.invariants import check_all
from txns._admin.purge import Purger
from txns.errors import TxnsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.attempts import Identifier
    from tests.simulation.worker import Worker

    Action = Callable[[Worker], None]

_VERBS = {"read": 4, "append": 6, "overwrite": 3, "alter": 1, "create": 1, "drop": 2, "list": 1}
_ID_OF_ONES_OWN = 0.2


def transaction(worker: Worker) -> None:
    """Do some things in a transaction, and commit."""
    rng = worker.rng
    own_id = f"job-{worker.process.doing}" if rng.random() < _ID_OF_ONES_OWN else None
    txn = worker.handle.begin(txn_id=own_id, isolation=rng.choice(LEVELS), comment="meant well")
    if txn.committed:
        return
    try:
        for _ in range(rng.randint(1, 4)):
            _statement(worker, txn)
        committed = txn.commit_at() if rng.random() < 0.3 else txn.commit()
    except Exception:
        with suppress(TxnsError):
            txn.rollback()
        raise
    if rng.random() < 0.3 and hasattr(committed, "apply"):
        committed.apply()


def autocommit(worker: Worker) -> None:
    """Do one thing, as a statement outside of a transaction."""
    _statement(worker, worker.handle.catalog())


def read(worker: Worker) -> None:
    """Read all tables that there are, as of now or of before: those of others as well."""
    lake = worker.lake
    records = lake.observer.registry.metadata(("txns", "commits")).snapshots
    known = [_commit_ts(each) for each in records]
    read_ts = worker.rng.choice([None, None, *filter(None, known)])
    catalog = worker.handle.snapshot(read_ts)
    for name in _names(worker):
        with suppress(NoSuchTableError):
            lake.rows(catalog.load_table(name))


def look(worker: Worker) -> None:
    """Look at the log as an operator does: what it says, its health, its invariants."""
    handle = worker.command_line()
    handle.transactions()
    handle.registered()
    health(handle.parts)
    check_all(handle.parts)


def tidy_files(worker: Worker) -> None:
    """List the files of the log that nothing refers to, and remove them."""
    orphans.remove(worker.command_line().parts)


def purge(worker: Worker) -> None:
    """Remove a table that the log calls dropped for good."""
    names = worker.lake.tables + worker.lake.creatable
    dropped = worker.command_line().dropped()
    name = worker.rng.choice([*dropped, *dropped, worker.rng.choice(names)])
    if worker.java:
        worker.handle.purge(name, max_age_ms=1)
    else:
        Purger(worker.handle.parts, max_age_ms=1).purge(name)


def repair(worker: Worker) -> None:
    """Repair a table."""
    name = worker.rng.choice(worker.lake.tables)
    does = worker.rng.choice((worker.handle.repair_adopt, worker.handle.repair_reject))
    does(name)


def register(worker: Worker) -> None:
    """Put a table of ours under care, or again."""
    worker.handle.register(worker.rng.choice(worker.lake.tables))


def off_and_on(worker: Worker) -> None:
    """Turn the protocol's writers away for a while."""
    worker.handle.off()
    worker.lake.world.sleep(worker.rng.randint(1, 100))
    worker.handle.on()


def _statement(worker: Worker, catalog: Any) -> None:
    verb = worker.rng.choices(list(_VERBS), list(_VERBS.values()))[0]
    if verb == "list":
        catalog.list_tables(worker.lake.namespace)
        return
    if verb == "create":
        name = worker.rng.choice(worker.lake.creatable)
        with suppress(NoSuchTableError):
            catalog.load_table(name)
            return
        catalog.create_table(name, SCHEMA)
        return
    name = worker.rng.choice(worker.lake.tables * 2 + worker.lake.creatable)
    try:
        table = catalog.load_table(name)
    except NoSuchTableError:
        return
    _CHANGES[verb](worker, catalog, name, table)


def _append(worker: Worker, _catalog: Any, _name: Identifier, table: Any) -> None:
    if worker.writes(table):
        _write(worker, table, ())


def _overwrite(worker: Worker, _catalog: Any, _name: Identifier, table: Any) -> None:
    if worker.writes(table):
        _write(worker, table, [task.file for task in table.scan().plan_files()])


def _write(worker: Worker, table: Any, removed: Any) -> None:
    metadata = getattr(table, "metadata", None) or table
    with table.transaction() as changes:
        snapshots = changes.update_snapshot()
        with snapshots.overwrite() if removed else snapshots.fast_append() as producer:
            for file in removed:
                producer.delete_data_file(file)
            producer.append_data_file(data_file(metadata, [worker.lake.new_row()], 0))


def _alter(worker: Worker, _catalog: Any, _name: Identifier, table: Any) -> None:
    with table.transaction() as changes:
        changes.set_properties({"owner": f"user-{worker.lake.new_row()}"})


def _read(worker: Worker, _catalog: Any, _name: Identifier, table: Any) -> None:
    worker.lake.rows(table)


def _drop(_worker: Worker, catalog: Any, name: Identifier, _table: Any) -> None:
    catalog.drop_table(name)


_CHANGES: dict[str, Callable[[Worker, Any, Identifier, Any], None]] = {
    "read": _read,
    "append": _append,
    "overwrite": _overwrite,
    "alter": _alter,
    "drop": _drop,
}


def _names(worker: Worker) -> list[Identifier]:
    lake = worker.lake
    return [name for name in lake.observer.registry.pointers if name != ("txns", "commits")]


def _commit_ts(snapshot: Any) -> int | None:
    stored = snapshot.summary.additional_properties.get("txns.commit-ts", "")
    return int(stored) if stored.isascii() and stored.isdecimal() and len(stored) < 18 else None


ACTIONS: dict[str, tuple[Action, float]] = {
    "transaction": (transaction, 10),
    "autocommit": (autocommit, 2),
    "read": (read, 3),
    "look": (look, 1),
    "apply": (lambda worker: worker.handle.apply_le(), 4),
    "tidy": (upkeep.tidy, 3),
    "tidy-files": (tidy_files, 1.5),
    "purge": (purge, 2),
    "repair": (repair, 2),
    "register": (register, 1),
    "forget": (upkeep.forget, 0.5),
    "off_and_on": (off_and_on, 0.2),
    "days": (upkeep.let_days_pass, 1.5),
    "pause": (upkeep.pause, 2),
}
