"""
What strangers do to a table as a whole: rename it, put an older one in its place, take its mark.

Or to the commit table: move it away. They have access to the catalog and know nothing of the
protocol, or restore what they had saved.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.table.update import RemovePropertiesUpdate, SetPropertiesUpdate

from tests.simulation.observer import COMMIT_TABLE
from tests.simulation.scheduler import Violation
from tests.simulation.table_checks import is_marked

if TYPE_CHECKING:
    from tests.simulation.catalogs import Identifier
    from tests.simulation.worker import Lake, Worker

_ELSEWHERE = ("lake", "x0")
_MARK = ("txns.commit-table", "txns.log-id", "txns.table-uuid", "txns.created")


def rename(worker: Worker) -> None:
    """Rename a table, and back after a while."""
    catalog, name = worker.lake.connect(), _table(worker)
    history = worker.lake.observer.history
    # What is staged under one name may stand under the other when it is judged.
    history.upset[name] = history.upset[_ELSEWHERE] = history.upper
    catalog.rename_table(name, _ELSEWHERE)
    _wait(worker)
    if worker.rng.random() < 0.5:
        catalog.rename_table(_ELSEWHERE, name)


def set_back(worker: Worker) -> None:
    """Drop a table, and register an older metadata file of it."""
    lake, name = worker.lake, _table(worker)
    catalog = lake.connect()
    registry = lake.observer.registry
    kept = registry.lagging(name, since_ms=0) if name in registry.pointers else []
    kept = [
        each for each in kept if is_marked(registry.metadata_at(each)) and _is_whole(lake, each)
    ]
    if not kept:
        return
    catalog.drop_table(name)
    lake.observer.history.upset[name] = lake.observer.history.upper
    _cared(lake, name, cared=False)
    _wait(worker)
    catalog.register_table(name, worker.rng.choice(kept[-4:]))
    _cared(lake, name, cared=not _is_leaving(lake, name))


def _is_whole(lake: Lake, location: str) -> bool:
    """Whether all lists of an older version are there: an expiry since has removed some."""
    registry = lake.observer.registry
    lists = {each.manifest_list for each in registry.metadata_at(location).snapshots}
    return lists <= registry.storage.files.keys()


def take_mark(worker: Worker) -> None:
    """Take the mark's properties from a table, and put them back after a while."""
    lake, name = worker.lake, _table(worker)
    table = lake.connect().load_table(name)
    if not is_marked(table.metadata):
        return
    mark = {key: value for key, value in table.properties.items() if key in _MARK}
    taken = mark if worker.rng.random() < 0.7 else {_MARK[0]: mark[_MARK[0]]}
    try:
        lake.connect().commit_table(table, (), (RemovePropertiesUpdate(removals=list(taken)),))
    except KeyError:  # pyiceberg's answer where a forget has taken the mark meanwhile
        return
    lake.observer.history.upset[name] = lake.observer.history.upper
    lake.observer.history.unmarked.add(name)
    _cared(lake, name, cared=False)
    _wait(worker)
    table = lake.connect().load_table(name)
    if worker.rng.random() < 0.8 and not is_marked(table.metadata):
        lake.connect().commit_table(table, (), (SetPropertiesUpdate(updates=taken),))
        _cared(lake, name, cared=not _is_leaving(lake, name))


def hide_log(worker: Worker) -> None:
    """
    Move the commit table away, and back: nobody who has seen it may put another in its place.

    Not while somebody opens a catalog, who has not seen it and may.
    """
    lake, pointers = worker.lake, worker.lake.observer.registry.pointers
    lake.world.wait_for(lambda: not lake.opening)
    location = pointers.pop(COMMIT_TABLE)
    lake.world.note("the commit table is gone")
    _wait(worker)
    if COMMIT_TABLE in pointers:
        raise Violation("log", "another commit table stands in the place of one that was seen")
    pointers[COMMIT_TABLE] = location
    lake.world.note("the commit table is back")


def _table(worker: Worker) -> Identifier:
    return worker.rng.choice(worker.lake.tables)


def _wait(worker: Worker) -> None:
    worker.lake.world.sleep(worker.rng.choice((1, 20, 200, 2000)))


def _is_leaving(lake: Lake, name: Identifier) -> bool:
    """Whether the last that the head says of a table's care is that it has left it."""
    observer = lake.observer
    uuid = str(observer.registry.metadata(name).table_uuid)
    said = [
        observer.entries[ts].kind
        for ts in sorted(observer.standing)
        if observer.entries[ts].kind in {"register", "forget"}
        if any(table["uuid"] == uuid for table in observer.entries[ts].tables)
    ]
    return bool(said) and said[-1] == "forget"


def _cared(lake: Lake, name: Identifier, *, cared: bool) -> None:
    """Note that a table is under care no more, or again, as the log has left it."""
    history = lake.observer.history
    newest = history.newest(name)
    if newest is not None:
        history.add(name, replace(newest, ts=history.upper, cared=cared))
