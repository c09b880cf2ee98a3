"""
What a lake does not survive by itself: a backup that was restored, a log that somebody has expired.

No promise holds after it. What is counted is whether somebody is told, with *CorruptLog*, or goes
on with what is wrong: `python -m tests.simulation --damage`. Not part of other runs.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING

from pyiceberg.table.update import RemoveSnapshotsUpdate

from tests.simulation.observer import COMMIT_TABLE
from tests.simulation.scheduler import START_MS
from txns.errors import TxnsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.simulation.catalogs import Identifier, Registry
    from tests.simulation.run import Outcome
    from tests.simulation.worker import Worker

_SHOWN = 4
_TOLD, _ERROR, _NO_HARM = "told", "an error", "no harm"


class Damage(Enum):
    """What happens, in the middle of a run."""

    LOG_SET_BACK = "log-set-back"
    """The commit table's pointer in the catalog is an older one again."""
    TABLE_SET_BACK = "table-set-back"
    """The same of a table under care."""
    TABLES_SET_BACK = "tables-set-back"
    """The same of all tables under care, to one moment, and not of the log."""
    CATALOG_SET_BACK = "catalog-set-back"
    """The same of all tables and of the log."""
    LOG_EXPIRED = "log-expired"
    """Somebody removes all snapshots of the commit table but the newest."""


def strike(kind: Damage) -> Callable[[Worker], None]:
    """Give the action that does a damage."""
    return _STRIKES[kind]


def _set_back(worker: Worker, names: Iterable[Identifier]) -> None:
    """Let some tables stand where all of them stood at one moment of before."""
    registry = worker.lake.observer.registry
    names = [name for name in names if name in registry.pointers]
    past = (registry.past.get(name, ()) for name in names)
    moved = sorted(ms for each in past for ms, _location in each if ms > START_MS)
    if not moved:
        return
    at_ms = worker.rng.choice(moved)
    for name in names:
        if (location := _stood(registry, name, at_ms)) in registry.storage.files:
            registry.pointers[name] = location
    worker.lake.world.note(f"set back by {worker.lake.world.now_ms - at_ms} ms: {sorted(names)}")


def _stood(registry: Registry, name: Identifier, at_ms: int) -> str:
    later = (location for ms, location in registry.past.get(name, ()) if ms >= at_ms)
    return next(later, registry.pointers[name])


def _set_table_back(worker: Worker) -> None:
    _set_back(worker, [worker.rng.choice(worker.lake.tables)])


def _expire_log(worker: Worker) -> None:
    """Expire the log as a library does that has no regard for `gc.enabled` and retention."""
    table = worker.lake.connect().load_table(COMMIT_TABLE)
    kept = {ref.snapshot_id for ref in table.metadata.refs.values()}
    gone = [one.snapshot_id for one in table.metadata.snapshots if one.snapshot_id not in kept]
    if gone:
        update = RemoveSnapshotsUpdate(snapshot_ids=gone)
        worker.lake.connect().commit_table(table, (), (update,))


_STRIKES: dict[Damage, Callable[[Worker], None]] = {
    Damage.LOG_SET_BACK: lambda worker: _set_back(worker, [COMMIT_TABLE]),
    Damage.TABLE_SET_BACK: _set_table_back,
    Damage.TABLES_SET_BACK: lambda worker: _set_back(worker, worker.lake.tables),
    Damage.CATALOG_SET_BACK: lambda worker: _set_back(
        worker, list(worker.lake.observer.registry.pointers)
    ),
    Damage.LOG_EXPIRED: _expire_log,
}


def verdict(outcome: Outcome) -> str:
    """
    Say how a damage was taken.

    Returns:
        `told`, by an error of ours; `an error` of another kind; `no harm`; or else the promise that
        was broken, and nobody was told.
    """
    violation = outcome.violation
    if violation is None:
        return _NO_HARM
    if isinstance(violation.__cause__, TxnsError):
        return _TOLD
    return violation.promise if violation.__cause__ is None else _ERROR


def report(found: dict[Damage, list[tuple[int, str]]]) -> str:
    """Give the table for docs/simulation.md: of each kind how it was taken, and the first seeds."""
    heads = ("damage", "seeds", _TOLD, _ERROR, _NO_HARM, "unnoticed", "the first seeds of these")
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for kind, ended in found.items():
        counts = Counter(said for _seed, said in ended)
        known = {said: counts[said] for said in (_TOLD, _ERROR, _NO_HARM)}
        unnoticed = [f"{seed} ({said})" for seed, said in sorted(ended) if said not in known]
        cells = (len(ended), *known.values(), len(unnoticed), ", ".join(unnoticed[:_SHOWN]))
        lines.append(f"| `{kind.value}` | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)
