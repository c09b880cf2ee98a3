"""
Whether an error has a reason: one that comes for nothing costs a user's work.

A core that refused everything would break no other promise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitStateUnknownException, ServiceUnavailableError

from tests.simulation.attempts import folded
from tests.simulation.observer import COMMIT_TABLE
from tests.simulation.scheduler import HOUR_MS, START_MS, Violation
from tests.simulation.settings import Switch
from txns._iceberg.manifests import WRITABLE_FORMAT
from txns.errors import CommitStateUnknown, Conflict, Quarantined, Unsupported

if TYPE_CHECKING:
    from tests.simulation.attempts import Attempt, Identifier
    from tests.simulation.history import History
    from tests.simulation.scheduler import World
    from tests.simulation.worker import Lake, Worker

_OF_FAULTS = (CommitStateUnknown, CommitStateUnknownException, ServiceUnavailableError)
"""What nobody is told while all calls are answered."""


def judge(worker: Worker, error: Exception) -> None:
    """Judge what a user's action has ended with; raises `Violation` where nothing led to it."""
    if worker.stranger:
        return
    reason = _missing(worker, error)
    if reason:
        raise Violation("refused without reason", f"{worker.process.doing}: {reason}: {error}")


def _missing(worker: Worker, error: Exception) -> str:
    """Give which reason an error would have, and has not; empty where it has one."""
    history, attempt = worker.lake.observer.history, worker.process.attempt
    failed = _is_disturbed(worker.lake.world)
    if isinstance(error, _OF_FAULTS) and not failed:
        return "no call has failed"
    in_transaction = attempt is not None and attempt.isolation != "autocommit"
    # What a table lacks that an older load has given looks as if somebody had set it back; and who
    # takes a table from care has to apply what others have logged, which a server whose clock is
    # behind theirs does not let him.
    kept_from_it = failed or bool(worker.lake.observer.registry.refused)
    excused = worker.has(Switch.STALE_TABLES) or (kept_from_it and not in_transaction)
    if isinstance(error, Quarantined) and not (history.strange or history.renamed or excused):
        return "no stranger has written"
    if attempt is None or not in_transaction:
        return ""
    if isinstance(error, Conflict):
        return _no_race(worker.lake, attempt, error)
    if isinstance(error, Unsupported) and not _is_out_of_care(worker, attempt):
        return "all that it touched is under care"
    return ""


def _is_disturbed(world: World) -> bool:
    """Whether a call has failed, or days have passed while others were at something."""
    return bool(world.faults.happened) or world.now_ms - START_MS > HOUR_MS


def _no_race(lake: Lake, attempt: Attempt, error: Conflict) -> str:
    """Say what a conflict lacks: a table that somebody changed, or another try under its id."""
    if not error.table:
        return "" if attempt.repeats else "nobody else has its id"
    table = folded(tuple(error.table.split(".")))
    if table == COMMIT_TABLE:  # too many others, or another try under its id
        return "" if attempt.repeats or _is_disturbed(lake.world) else "no call has failed"
    if table not in attempt.touched and table not in lake.observer.history.renamed:
        return "it has not touched the table"
    history = lake.observer.history
    strange = table in history.strange or table in history.upset
    # Its rows had other ids where it was laid over an older table than the one it is applied to.
    stale = lake.world.faults.settings.has(Switch.STALE_TABLES)
    strange = strange or (stale and not _is_pythons(lake, table))
    strange = strange or not history.cared_since(table, attempt.read_ts)  # while it is registered
    if strange or _is_purged(history, table) or history.may_be_unreadable(table, attempt.read_ts):
        return ""
    newer = [one for one in lake.observer.entries.values() if one.commit_ts > attempt.read_ts]
    named = (each for entry in newer for each in entry.names)
    return "" if table in named else f"nobody has changed it since {attempt.read_ts}"


def _is_purged(history: History, table: Identifier) -> bool:
    """Whether somebody has begun to remove the dropped table of a name."""
    return any(one.purges and table in one.tables for one in history.attempts)


def _is_out_of_care(worker: Worker, attempt: Attempt) -> bool:
    """Whether transactions were off since it began, or a table is one that they cannot write."""
    observer = worker.lake.observer
    stale = worker.has(Switch.STALE_HEADS) and observer.on_ts
    if observer.off or observer.on_ts > attempt.began_above or stale:
        return True
    newer = [one for one in observer.entries.values() if one.commit_ts > attempt.read_ts]
    # A mark makes the version, and is there before the entry, of a table that was plain as well,
    # or had been forgotten.
    registered = {name for one in newer if one.kind == "register" for name in one.names}
    registered.update(worker.lake.spare)
    for one in observer.entries.values():
        registered.update(one.names if one.kind == "forget" else ())
    return any(
        name in registered
        or _was_without_care(observer.history, attempt, name)
        or not (worker.java or _is_pythons(worker.lake, name))
        for name in attempt.touched
    )


def _is_pythons(lake: Lake, table: Identifier) -> bool:
    registry = lake.observer.registry
    there = table in registry.pointers
    return not there or registry.metadata(table).format_version <= WRITABLE_FORMAT


def _was_without_care(history: History, attempt: Attempt, table: Identifier) -> bool:
    then = history.at(table, attempt.read_ts)
    later = [one for one in history.versions(table) if one.ts > attempt.read_ts]
    return then is None or table in history.strange or not all(one.cared for one in (then, *later))
