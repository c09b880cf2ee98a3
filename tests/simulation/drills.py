"""
The administrator of a lake that was damaged: takes backups, stops users, recovers, lets them go on.

What he does is docs/operations.md's "Recovery", by `recover`, `void` and `repair adopt` of Python's
core; his processes fail and die as others do, and begin again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.simulation import coverage, disaster, recovered
from tests.simulation.backup import Backup, set_back
from tests.simulation.determinism import SimulatedClock
from tests.simulation.disaster import Disaster, Drill
from tests.simulation.observer import COMMIT_TABLE
from tests.simulation.scheduler import Violation
from tests.simulation.table_checks import applied_of
from tests.simulation.worker import EXPECTED
from txns._admin.inventory import survey
from txns._admin.recover import Recovered, recover, recoverable
from txns._admin.void import void
from txns._admin.void_told import stranded
from txns._config import Config
from txns._services import Parts
from txns.errors import CorruptLog, InvalidUsage, TxnsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.attempts import Identifier
    from tests.simulation.worker import Lake, Worker

NAME = "r"
"""The worker."""

_BACKUP_STEPS, _STRIKE_STEPS = (20, 150), (10, 250)
"""After how many steps of all he takes a backup, and after how many more something happens."""
_UNSEEN_STEPS = 120
"""How many steps users go on at most until somebody stops them."""
_KILLED = 0.6
"""How many processes are ended; the others stand still meanwhile, and wake up afterwards."""
_TRIES = 4
"""After how many nothing goes wrong any more."""


def take_backup(worker: Worker) -> None:
    """Keep catalog and storage of one moment."""
    _wait(worker, *_BACKUP_STEPS)
    worker.lake.backup = Backup.of(worker.lake.observer)


def strike(drill: Drill) -> Callable[[Worker], None]:
    """Give the action that lets something happen, before or after users were stopped."""
    return partial(_strike, drill=drill)


def _strike(worker: Worker, drill: Drill) -> None:
    lake, rng = worker.lake, worker.rng
    _wait(worker, *_STRIKE_STEPS)
    # Who restores a catalog stops what writes it before; what is lost by accident is noticed later.
    restored = drill in {Drill.CATALOG_SET_BACK, Drill.CATALOG_TAKEN_FORWARD}
    stops_first = restored or rng.random() < 0.3
    if stops_first:
        _stop(worker)
    found = disaster.strike(drill, lake.observer, rng, lake.backup)
    lake.observer.disaster = found
    if found is None:
        lake.world.note(f"{drill.value}: there is nothing that it could happen to")
        _let_go_on(worker, recovered_=False)
        return
    lake.world.note(f"struck: {drill.value}")
    lake.world.occurred[coverage.drill(drill)] += 1
    if not stops_first:
        until = lake.world.steps + _UNSEEN_STEPS
        lake.world.wait_for(
            lambda: found.told > 0 or lake.world.steps > until or not _others(worker)
        )
        _stop(worker)


def recovery(worker: Worker) -> None:
    """Make log and tables belong together again, judge what is there, and let users go on."""
    lake, found = worker.lake, worker.lake.observer.disaster
    if found is None:
        return
    process = worker.process
    process.stranger, process.epoch = False, lake.world.epoch + 1
    _until_done(worker, found, partial(_RECOVERIES.get(found.drill, _recover), worker, found))
    _until_done(worker, found, partial(_take_as_they_are, worker, found))
    with lake.world.still():
        recovered.resume(lake, found)
    if found.drill is Drill.VOID:
        lake.voided[found.void_ids[0]] = lake.world.now_ms
    _let_go_on(worker, recovered_=found.begins_epoch)


def recover_late(lake: Lake) -> None:
    """Recover a lake once more, in the end, where a registration of before has arrived after it."""
    observer, world = lake.observer, lake.world
    if not disaster.marked_late(observer):
        return
    log_id = disaster.log_id_of(observer.registry.metadata(COMMIT_TABLE))
    found = Disaster(Drill.ENTRY_LOST, COMMIT_TABLE, log_id, dict(observer.registry.pointers))
    observer.disaster, world.auditor.epoch = found, world.epoch + 1
    _hear(found, recover(lake.connect(), Config.of(), SimulatedClock(world)))
    recovered.resume(lake, found)
    world.epoch += 1


# ---------------------------------------------------------------- users


def _wait(worker: Worker, least: int, most: int) -> None:
    """Wait until others have taken some steps, or have ended."""
    world = worker.lake.world
    until = world.steps + worker.rng.randint(least, most)
    world.wait_for(lambda: world.steps >= until or not _others(worker))


def _others(worker: Worker) -> bool:
    return any(not one.process.dead for one in worker.lake.workers if not one.stranger)


def _stop(worker: Worker) -> None:
    """Stop what writes the lake: end its processes, or have them stand still."""
    lake = worker.lake
    lake.halted = True
    for each in lake.workers:
        if each.stranger or each.process.dead:
            continue
        if worker.rng.random() < _KILLED:
            lake.world.note(f"ends {each.process.name}")
            each.end()
        else:
            lake.world.note(f"stops {each.process.name}")
            for process in each.all_of_it():
                process.stands = True


def _let_go_on(worker: Worker, *, recovered_: bool) -> None:
    lake = worker.lake
    lake.world.epoch += recovered_
    lake.halted = False
    for process in lake.world.processes:
        process.stands = False


# ---------------------------------------------------------------- recovery


def _until_done(worker: Worker, found: Disaster, does: Callable[[], bool]) -> None:
    """Do something until it says that it is done; in the end nothing goes wrong any more."""
    world = worker.lake.world
    for _ in range(3 * _TRIES):
        found.tries += 1
        worker.process.spared = found.tries > _TRIES
        try:
            if does():
                return
        except CorruptLog as error:
            raise Violation("recovery", f"a recovery ends with {error}") from error
        except EXPECTED as error:
            if worker.process.spared and isinstance(error, TxnsError):
                raise Violation("recovery", f"a recovery ends with {error!r}") from error
            world.note(f"ended {type(error).__name__} {error}")
            world.sleep(max(0, worker.process.cut_off_until - world.now_ms))
    raise Violation("recovery", "it comes to no end")


def _parts(worker: Worker) -> Parts:
    lake = worker.lake
    return Parts.of(lake.connect(), Config.of(), SimulatedClock(lake.world))


def _recover(worker: Worker, found: Disaster, *, forward: bool = False) -> bool:
    """Run `txns recover`, now and then after a dry run; say whether all tables belong to it."""
    parts = _parts(worker)
    given = (parts.catalog, parts.config, parts.clock)
    if worker.rng.random() < 0.5:
        try:
            _hear(found, recoverable(*given, forward=forward))
        except CorruptLog as error:
            if "would be" not in str(error):
                raise
    earlier, found.unseen = found.unseen, True  # until it has said what it found
    done = recover(*given, forward=forward)
    _hear(found, done)
    found.unseen = earlier
    if not done.left:
        found.forward |= forward
    return not done.left


def _hear(found: Disaster, done: Recovered) -> None:
    found.went_forward.update(done.forward if done.log_id else ())
    said = (*done.found.gone, *done.found.unknown, *done.found.passed_over)
    found.named.update((each.commit_ts, each.txn_id) for each in said)
    found.told_by_tables.update((one.commit_ts, one.txn_id) for one in done.found.told_by_tables)


def _recover_forward(worker: Worker, found: Disaster) -> bool:
    """Take the log forward; put back the newest metadata of what stays behind, and recover that."""
    if not found.forward and not _recover(worker, found, forward=True):
        return False
    observer = worker.lake.observer
    for name in sorted({*found.before, *observer.registry.pointers} - {found.log}):
        if observer.registry.pointers.get(name) != found.before.get(name) and (
            name not in found.put_back | found.went_forward
        ):
            set_back(observer, name, found.before.get(name))
        found.put_back.add(name)
    return _recover(worker, found)


def _recover_table(worker: Worker, found: Disaster) -> bool:
    """Put the newest metadata of a table back, or leave it to be taken as it is; and recover."""
    assert found.table is not None
    name, observer = found.table, worker.lake.observer
    if found.registers is None:
        found.registers = worker.rng.random() < 0.5
    stands = name in observer.registry.pointers  # else somebody has renamed it since
    if found.registers and stands and name not in found.put_back:
        set_back(observer, name, found.before[name])
        found.put_back.add(name)
    return _recover(worker, found)


def _make_void(worker: Worker, found: Disaster) -> bool:
    """Take the record out that nobody can read; a recovery names it, and does nothing."""
    parts, (snapshot_id, _commit_ts) = _parts(worker), found.void_ids
    log = worker.lake.observer.registry.metadata(found.log)
    if log.snapshot_by_id(snapshot_id) is None and not found.voided:
        found.void = None  # who had read it before has archived it meanwhile
        return True
    if worker.rng.random() < 0.3 and not found.voided:
        try:
            recover(parts.catalog, parts.config, parts.clock)
        except CorruptLog as error:
            if str(snapshot_id) not in str(error):
                raise Violation("recovery", f"does not name the record: {error}") from error
        else:
            raise Violation("recovery", "a log was recovered that nobody can read")
    found.voided = True
    _end_who_may_create(worker, found)
    try:
        void(parts, worker.rng.choice(found.void_ids))
    except InvalidUsage as error:
        if error.sqlstate != "42704":
            raise
    for one in stranded(parts, parts.log.load().state):
        void(parts, one.commit_ts)
    return True


def _end_who_may_create(worker: Worker, found: Disaster) -> None:
    """
    End what stands still, where the record creates a table that is not there yet.

    Whoever has looked before would create it afterwards: nothing bars that, as a table's `main`
    bars what is late on it.
    """
    assert found.void is not None
    there = {
        str(one.table_uuid)
        for one in map(
            worker.lake.observer.registry.metadata, worker.lake.observer.registry.pointers
        )
    }
    if all(table["operation"] != "create" or table["uuid"] in there for table in found.void.tables):
        return
    for each in worker.lake.workers:
        if not (each.stranger or each.process.dead):
            each.end()


_RECOVERIES: dict[Drill, Callable[[Worker, Disaster], bool]] = {
    Drill.CATALOG_TAKEN_FORWARD: _recover_forward,
    Drill.TABLE_SET_BACK: _recover_table,
    Drill.VOID: _make_void,
}


def _take_as_they_are(worker: Worker, found: Disaster) -> bool:
    """Adopt the tables that lack what the log has: `txns status` names them."""
    lake = worker.lake
    with lake.world.still():
        broken = _broken(worker)
    if not broken:
        return True
    name = broken[0]
    if name in disaster.marked_late(lake.observer):  # who registered it was still on his way
        _recover(worker, found)
        return False
    users = {each for logged in found.written_by_users() for each in logged.names}
    may_lack = found.drill in {Drill.VOID, Drill.TABLE_SET_BACK} or found.brought_forward
    if not may_lack and name not in users:
        raise Violation("recovery", f"{name} lacks something after {found.drill}")
    handle = lake.open(apply="inline")
    handle.apply_le()  # an adoption does that first, and what it has taken would be less than that
    repaired = {each for key in found.by_admin for each in found.written[key].names}
    if name in lake.observer.registry.pointers and name not in repaired:
        found.taken[name] = applied_of(lake.observer.registry.metadata(name))
    worker.process.repairing = "adopt"
    handle.repair_adopt(name)
    worker.process.repairing = ""
    return False


def _broken(worker: Worker) -> list[Identifier]:
    parts = _parts(worker)
    head = parts.log.load()
    return [each.identifier for each in survey(parts, head) if each.foreign]
