"""Random transactions: what a process of a user does to its tables."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import CommitStateUnknownException, NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import ALWAYS_TRUE
from pyiceberg.types import LongType, NestedField

from tests.simulation import by_file, coverage, deletes, keys, schemas, turns
from tests.simulation.attempts import Attempt, Identifier, Listing, Operation, folded
from tests.simulation.meaning import meaning, saw
from tests.simulation.rows import Rows, compact, data_files, held
from tests.simulation.scheduler import Violation
from tests.simulation.settings import Switch
from txns._catalog.outcome import State
from txns.errors import CommitStateUnknown, Conflict, InvalidUsage, TxnsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.worker import Worker

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
LEVELS = ("snapshot", "serializable", "strict-serializable")
_SKEWED = 0.25
"""How many transactions read one table and append to another: the shape of write skew."""

_THINKS = 0.3
"""How often a user thinks before a statement, while others go on."""

_MEETS = 0.8
"""How often one does where users are to meet, file by file."""

_COMMITS_MAX = 3
"""How often a user commits what failed without an outcome."""

_STATEMENTS = {
    "append": 8,
    "overwrite": 4,
    "delete": 2,
    "truncate": 0.5,
    "compact": 1,
    "read": 2,
    "alter": 1,
    "create": 2,
    "drop": 1,
    "branch": 1,
    "list": 1,
    "savepoint": 1,
}


_DELETE_ROW = "delete_row"
"""What pyiceberg does not write: a delete file."""


def transaction(worker: Worker) -> None:
    """Run a transaction of some statements, and commit or roll back."""
    transact(worker, statements)


def transact(
    worker: Worker, statements: Callable[[Worker, Any, Attempt], None], shared_id: str | None = None
) -> None:
    """
    Run a transaction of given statements, and commit or roll back.

    Args:
        worker: Who does.
        statements: What is done in it.
        shared_id: An id under which others may try at the same time.
    """
    rng = worker.rng
    history = worker.lake.observer.history
    before, worker.again = worker.again, None
    own_id = f"job-{worker.process.doing}" if rng.random() < 0.5 else None
    txn_id = before.txn_id if before else shared_id or own_id
    isolation = before.isolation if before else rng.choice(LEVELS)
    attempt = Attempt(
        worker.process.doing,
        isolation=isolation,
        began_above=history.upper,
        tell=worker.lake.world.tell,
        repeats=before is not None or shared_id is not None,
        by_table=by_file.goes_by_tables(worker),
    )
    if txn_id is not None:
        worker.again = attempt  # until its end is known: a process that dies tries again
        attempt.txn_id = txn_id
    history.attempts.append(attempt)
    worker.process.attempt = attempt
    as_of = _as_of(worker) if isolation != "strict-serializable" else None
    seen_ts = worker.process.seen.get(worker.handle, 0)
    options = {"txn_id": txn_id, "isolation": isolation, "as_of": as_of, "comment": attempt.key}
    txn = turns.begin(worker, options)
    if answered := committed_ts(txn):
        _acknowledge(worker, attempt, answered)
        worker.again = None
        return
    attempt.txn_id, attempt.read_ts = txn.txn_id, txn.read_ts
    attempt.tell(f"begins {txn.txn_id}, {isolation}, at {txn.read_ts}")
    judges = worker.lake.judges(worker.process)
    lags = attempt.read_ts < attempt.began_above and not worker.process.stale
    if as_of is None and lags and judges:
        raise Violation("strict", f"{attempt.key} reads below {attempt.began_above}")
    if as_of is None:
        if attempt.read_ts < seen_ts:
            raise Violation("strict", f"{attempt.key} goes back below {seen_ts}")
        worker.process.saw(worker.handle, attempt.read_ts)
    try:
        statements(worker, txn, attempt)
    except Conflict:
        _refused(worker, attempt, [attempt])
        txn.rollback()
        turns.lose(worker, txn)
        raise
    except Exception:
        worker.again = None
        txn.rollback()
        raise
    if rng.random() < 0.1:
        worker.again = None
        attempt.refused = True
        txn.rollback()
        return
    commit(worker, txn, attempt)


def _as_of(worker: Worker) -> int | None:
    """Give an older timestamp to read at, now and then."""
    known = sorted(worker.lake.observer.entries)
    return worker.rng.choice(known[-6:]) if known and worker.rng.random() < 0.2 else None


def committed_ts(txn: Any) -> int | None:
    """Give the `commit_ts` of a transaction whose id had committed before it began."""
    committed = txn.committed
    return committed.commit_ts if committed else None


def commit(worker: Worker, txn: Any, attempt: Attempt) -> None:
    """Commit, again where an error was no outcome, and judge what the process is told."""
    for left in reversed(range(_COMMITS_MAX)):
        try:
            _commit(worker, txn, attempt)
        except CommitStateUnknown:
            if worker.again is None and worker.rng.random() < 0.7:
                worker.again = attempt
            raise
        except Conflict:
            _refused(worker, attempt, worker.lake.observer.history.barred_with(attempt))
            turns.lose(worker, txn)
            raise
        except TxnsError:
            _refused(worker, attempt, [attempt])
            raise
        except Exception:  # the catalog's or the storage's: no outcome, what was staged stays
            if left and worker.rng.random() < 0.7:
                continue
            _give_up(worker, txn, attempt)
            raise
        return


def _commit(worker: Worker, txn: Any, attempt: Attempt) -> None:
    """Commit, in one of the ways there are."""
    separately = worker.rng.random() < 0.3
    with turns.bounded(worker):
        committed = _commit_at(worker, txn) if separately else txn.commit()
    worker.again = None
    _acknowledge(worker, attempt, committed.commit_ts)
    if separately and worker.rng.random() < 0.5:
        committed.apply()


def _give_up(worker: Worker, txn: Any, attempt: Attempt) -> None:
    """Roll back what had no outcome: it has committed, or never will, or nobody knows."""
    worker.again = None
    landed = attempt.logged_ts is not None
    try:
        txn.rollback()
    except InvalidUsage as error:
        if worker.lake.observer.history.settled_ts(attempt.txn_id) is None:
            raise Violation("refused", f"{attempt.key} has not committed: {error}") from error
        return
    except CommitStateUnknown:
        return
    attempt.refused = txn.state is State.ROLLED_BACK
    if attempt.refused and landed:
        raise Violation("refused", f"{attempt.key} has committed, and was rolled back")


def _commit_at(worker: Worker, txn: Any) -> Any:
    """Commit at a timestamp of the caller's choice, or at the next one."""
    if worker.rng.random() < 0.7:
        return txn.commit_at()
    wanted = worker.lake.observer.history.upper + worker.rng.randint(-1, 3)
    try:
        return txn.commit_at(max(0, wanted))
    except InvalidUsage as error:
        if error.least_ts is None:
            raise
        return txn.commit_at()  # what was staged stays


def _refused(worker: Worker, attempt: Attempt, barred: list[Attempt]) -> None:
    """
    Judge that a process was told of an error which says that it has not committed.

    Args:
        worker: Whose process.
        attempt: Its try.
        barred: Those that must not commit any more: under an id of the user's own the conflict of
            a commit speaks of earlier tries, too, and any other error of this one alone.
    """
    worker.again = attempt if attempt.repeats else None
    if any(one.logged_ts is not None for one in barred):
        raise Violation("refused", f"{attempt.key} has committed, and was told that it had not")
    for one in barred:
        one.refused = True


def _acknowledge(worker: Worker, attempt: Attempt, commit_ts: int | None) -> None:
    history = worker.lake.observer.history
    if not worker.lake.judges(worker.process):  # what it is told of may be gone since
        return
    attempt.acknowledged = commit_ts
    attempt.tell(f"is told that it stands at {commit_ts}")
    worker.lake.world.occurred[coverage.COMMITTED] += 1
    worker.process.saw(worker.handle, commit_ts or 0)
    settled = history.settled_ts(attempt.txn_id)
    # Without an entry of its own, what it meant must come to nothing on what it read.
    registered = {name for name in attempt.tables if name not in worker.lake.creatable}
    known = all(history.at(name, attempt.read_ts) for name in registered)
    meant = (
        bool(attempt.changed(history, attempt.read_ts))
        if known
        else any(not one.is_idle for one in attempt.operations)
    )
    changes = attempt.logged_ts is not None or meant
    if changes and commit_ts != settled:
        raise Violation(
            "durability", f"{attempt.key} was told {commit_ts}, and the log has {settled}"
        )


# ------------------------------------------------------------ statements


def statements(worker: Worker, txn: Any, attempt: Attempt) -> None:
    """Run a few random statements."""
    rng = worker.rng
    saved: tuple[str, int] | None = None
    known = _STATEMENTS | (keys.VERBS if worker.has(Switch.KEYS) else {})
    if worker.java and deletes.are_written(worker.lake.world.faults.settings):
        known |= {_DELETE_ROW: 4}
    if worker.has(Switch.DESCRIBED_ANEW):
        known |= {"alter": 8}
    by_files = by_file.verbs(worker) if worker.has(Switch.BY_FILE) else []
    verbs = by_files or rng.choices(list(known), list(known.values()), k=rng.randint(1, 4))
    if not by_files and rng.random() < _SKEWED:
        verbs = ["read", "append"]
    for number, verb in enumerate(verbs):
        if rng.random() < (_MEETS if by_files else _THINKS):
            worker.lake.world.sleep(rng.randint(1, 60))
        if verb == "savepoint":
            saved = _savepoint(worker, txn, attempt, saved, f"s{number}")
        else:
            statement(worker, txn, attempt, verb, by_file.tables(worker) if by_files else ())


def _savepoint(
    worker: Worker, txn: Any, attempt: Attempt, saved: tuple[str, int] | None, name: str
) -> tuple[str, int] | None:
    if saved is None:
        txn.savepoint(name)
        return name, len(attempt.operations)
    if worker.rng.random() < 0.3:
        txn.release(saved[0])
        return None
    txn.rollback_to(saved[0])
    del attempt.operations[saved[1] :]  # what it has read stays read
    return saved


def statement(
    worker: Worker,
    catalog: Any,
    attempt: Attempt,
    verb: str,
    tables: tuple[Identifier, ...] = (),
) -> None:
    """Do one thing to a random table, in a transaction's catalog or an autocommit one."""
    lake, rng = worker.lake, worker.rng
    tables = tables or (lake.tables + lake.creatable) * 3 + lake.spare
    name = worker.spelled(rng.choice(tables))
    if verb == "list":
        _list(worker, catalog, attempt)
    elif verb == "create":
        create(worker, catalog, attempt, rng.choice(lake.creatable))
    elif verb == "read":
        read(worker, catalog, attempt, name)
    else:
        attempt.touched.add(folded(name))
        try:
            table = catalog.load_table(name)
        except NoSuchTableError:
            return
        if by_file.is_own(worker, verb):
            by_file.run(worker, table, attempt, verb)
        else:
            _change(worker, catalog, table, attempt, verb)


def _change(worker: Worker, catalog: Any, table: Any, attempt: Attempt, verb: str) -> None:
    name = table.name()
    if verb == "drop":
        if worker.rng.random() < 0.5 or name in worker.lake.creatable:
            with meaning(attempt, Operation(name, "drop")):
                catalog.drop_table(name)
    elif verb == "alter":
        _alter(worker, table, attempt, name)
    elif verb == "branch":
        _branch(worker, table, attempt, name)
    elif verb == "append":
        append(worker, table, attempt, name)
    elif verb == "truncate":
        _truncate(worker, catalog, attempt, name)
    elif verb == "compact":
        _compact(worker, catalog, attempt, name)
    elif verb == _DELETE_ROW:
        _delete_row(worker, catalog, attempt, name)
    elif verb in keys.VERBS:
        _write_key(worker, catalog, attempt, name, verb)
    else:
        _overwrite(worker, catalog, attempt, name, adds=verb == "overwrite")


def _write_key(worker: Worker, catalog: Any, attempt: Attempt, name: Identifier, verb: str) -> None:
    looks = worker.java or worker.rng.random() < 0.5  # whose first look would clash by itself
    found = (read(worker, catalog, attempt, name) or frozenset()) if looks else None
    table = catalog.load_table(name)
    if found is None:
        found = worker.lake.observer.contents.rows(table.metadata.current_snapshot())
    if worker.writes(table):
        keys.change(table, verb, worker.rng.choice(keys.KEYS), found, partial(meaning, attempt))


def _list(worker: Worker, catalog: Any, attempt: Attempt) -> None:
    lake = worker.lake
    names = frozenset(folded(tuple(name)) for name in catalog.list_tables(lake.namespace))
    if attempt.isolation != "autocommit" and lake.judges(worker.process):
        seen = Listing((lake.namespace,), names, tuple(attempt.operations))
        lake.observer.history.judge_listing(attempt, seen, attempt.read_ts, "snapshot read")
        attempt.listed.append(seen)
        attempt.touched.update(folded(each) for each in lake.tables + lake.creatable + lake.spare)


def create(worker: Worker, catalog: Any, attempt: Attempt, name: Identifier) -> None:
    """Create a table where there is none."""
    if read(worker, catalog, attempt, name) is not None:
        return
    with meaning(attempt, Operation(name, "create")):
        catalog.create_table(name, SCHEMA)


def read(worker: Worker, catalog: Any, attempt: Attempt, name: Identifier) -> Rows | None:
    """Read a table, and keep what was seen for the judges."""
    attempt.touched.add(folded(name))
    try:
        table = catalog.load_table(name)
        rows = worker.lake.rows(table)
    except NoSuchTableError:
        return saw(worker, attempt, name, None)
    return saw(worker, attempt, name, rows, schemas.columns(table.schema(), table.spec()))


def append_to(worker: Worker, txn: Any, attempt: Attempt, name: Identifier) -> None:
    """Append to a table that is there."""
    attempt.touched.add(name)
    append(worker, txn.load_table(name), attempt, name)


def append(
    worker: Worker, table: Any, attempt: Attempt, name: Identifier, branch: str = "main"
) -> None:
    """Append one or two rows."""
    if not worker.writes(table):
        return
    rows = frozenset(worker.lake.new_row() for _ in range(worker.rng.randint(1, 2)))
    with (
        meaning(attempt, Operation(name, "append", rows, branch=branch)),
        table.transaction() as changes,
        changes.update_snapshot(branch=branch).fast_append() as producer,
    ):
        for each in data_files(table.metadata, rows, 0):
            producer.append_data_file(each)


def _overwrite(
    worker: Worker, catalog: Any, attempt: Attempt, name: Identifier, *, adds: bool
) -> None:
    """Rewrite one data file without one of its rows, or with another in its place."""
    table = catalog.load_table(name)
    tasks = _tasks_with_rows(worker, attempt, table, name)
    if not tasks:
        return
    task = worker.rng.choice(tasks)
    kept = held([task])
    removed = frozenset({worker.rng.choice(sorted(kept))})
    added = frozenset({worker.lake.new_row()}) if adds else frozenset()
    with (
        meaning(attempt, Operation(name, "overwrite", added, removed)),
        table.transaction() as changes,
        changes.update_snapshot().overwrite() as producer,
    ):
        producer.delete_data_file(task.file)
        if left := kept - removed | added:
            for each in data_files(table.metadata, left, worker.lake.new_row()):
                producer.append_data_file(each)


def _tasks_with_rows(worker: Worker, attempt: Attempt, table: Any, name: Identifier) -> list[Any]:
    """Scan a table, and note what is seen; give the files of which something is left, by path."""
    if not worker.writes(table):
        saw(worker, attempt, name, worker.lake.rows(table))
        return []
    tasks = list(table.scan().plan_files())
    saw(worker, attempt, name, held(tasks))
    return sorted((one for one in tasks if held([one])), key=lambda one: one.file.file_path)


def _delete_row(worker: Worker, catalog: Any, attempt: Attempt, name: Identifier) -> None:
    """Take one row away by a delete file, as merge-on-read does."""
    table = catalog.load_table(name)
    tasks = _tasks_with_rows(worker, attempt, table, name)
    found = deletes.choice(worker.lake.world.faults.settings, worker.rng, table, tasks)
    if found:
        kind, task, row = found
        with meaning(attempt, Operation(name, "overwrite", removed=frozenset({row}))):
            table.delete_rows(task, kind, frozenset({row}))


def _truncate(worker: Worker, catalog: Any, attempt: Attempt, name: Identifier) -> None:
    """Remove all rows, with their files."""
    seen = read(worker, catalog, attempt, name)
    if not seen:
        return
    table = catalog.load_table(name)
    if worker.writes(table):
        with meaning(attempt, Operation(name, "overwrite", removed=seen)):
            table.delete(ALWAYS_TRUE)


def _compact(worker: Worker, catalog: Any, attempt: Attempt, name: Identifier) -> None:
    """Rewrite all files into one with the same rows."""
    table = catalog.load_table(name)
    tasks = _tasks_with_rows(worker, attempt, table, name)
    if len(tasks) > 1:
        with meaning(attempt, Operation(name, "overwrite")):
            compact(table, tasks, worker.lake.new_row())


def _alter(worker: Worker, table: Any, attempt: Attempt, name: Identifier) -> None:
    added, gone, calls = schemas.change(table, worker.rng, f"c{worker.lake.new_row()}")
    with meaning(attempt, Operation(name, "alter", columns=added, gone=gone)):
        schemas.make(table, calls)


def _branch(worker: Worker, table: Any, attempt: Attempt, name: Identifier) -> None:
    """Create a branch at `main`, or append to the one that is there."""
    main = table.current_snapshot()
    if "side" in table.metadata.refs:
        append(worker, table, attempt, name, branch="side")
    elif main is not None:
        with meaning(attempt, Operation(name, "branch", branch="side")):
            table.manage_snapshots().create_branch(main.snapshot_id, "side").commit()


# ------------------------------------------------------------ autocommit


def autocommit(worker: Worker) -> None:
    """Run one statement outside a transaction."""
    history = worker.lake.observer.history
    attempt = Attempt(
        worker.process.doing,
        isolation="autocommit",
        began_above=history.upper,
        tell=worker.lake.world.tell,
    )
    history.attempts.append(attempt)
    worker.process.attempt = attempt
    verbs = ("append", "append", "overwrite", "delete", "read", "alter")
    verb = worker.rng.choice(verbs + (keys.VALIDATED if worker.has(Switch.KEYS) else ()))
    try:
        statement(worker, worker.handle.catalog(), attempt, verb)
    except (CommitStateUnknown, CommitStateUnknownException):
        raise
    except Exception as error:
        if attempt.logged_ts is not None and worker.lake.judges(worker.process):
            raise Violation("unknown", f"{attempt.key} committed, and said {error!r}") from error
        raise
    # What a table held that came under care in between may have the change already.
    cared = all(history.cared_since(name, attempt.began_above) for name in attempt.tables)
    in_the_log = attempt.logged_ts is not None or attempt.passes_the_log
    if not worker.lake.judges(worker.process):
        return
    if cared and not in_the_log and attempt.changed(history):
        raise Violation("durability", f"{attempt.key} returned, and is not in the log")
