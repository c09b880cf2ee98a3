"""The end of a run: everything is settled without faults, then all of history is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.metadata import TableMetadataUtil

from tests.simulation import drills, other_log
from tests.simulation.attempts import folded
from tests.simulation.java_handle import JavaHandle
from tests.simulation.observer import COMMIT_TABLE
from tests.simulation.scheduler import Violation
from tests.simulation.table_checks import is_marked
from tests.simulation.upkeep import check_hold, check_read
from txns._admin import switch
from txns._iceberg.manifests import WRITABLE_FORMAT
from txns._log.entry import Kind
from txns.errors import Conflict, InvalidUsage, Quarantined, Unsupported

if TYPE_CHECKING:
    from tests.simulation.attempts import Identifier
    from tests.simulation.observer import Logged
    from tests.simulation.worker import Lake

_ROUNDS_MAX = 12


def audit(lake: Lake, *, reject: bool) -> None:
    """
    Settle what is outstanding, then compare every read at every timestamp with the model.

    Args:
        lake: The world after its processes have ended.
        reject: Whether what strangers did is set aside; adopted otherwise.
    """
    lake.world.auditor.begin_action(lake.world.seed, "audit", lake.world.now_ms)
    lake.world.auditor.epoch = lake.world.epoch
    drills.recover_late(lake)
    handle = lake.open()
    switch._append(handle.parts, Kind.ON)  # without adoption: what strangers did is still there
    _read_everything(lake, handle)  # before: strangers and entries that are not applied
    if lake.is_javas or _written_by_java(lake):
        _settle_by_java(lake, reject=reject)
    _settle(lake, handle, reject=reject)
    left = [name for name in handle.apply_le() if folded(name) not in lake.observer.history.upset]
    if left:
        raise Violation("liveness", f"entries stay unapplied on {left}")
    for name in sorted(lake.observer.history.holds):
        check_hold(lake, handle, name)
    _read_everything(lake, handle)
    _everything_is_applied(lake)
    _registrations_are_logged(lake, handle)
    handle.tidy()
    _read_everything(lake, handle)
    if lake.has_other_log:
        other_log.audit(lake)
    _promises_were_kept(lake)
    _metadata_survives_json(lake)


def _settle_by_java(lake: Lake, *, reject: bool) -> None:
    """Let the core read and apply that all users have, or that alone can: Python's would not."""
    java = lake.open_java()
    _read_everything(lake, java)
    _settle(lake, java, reject=reject)
    _everything_is_applied(lake)
    _registrations_are_logged(lake, java)
    _read_everything(lake, java)


def _settle(lake: Lake, handle: Any, *, reject: bool) -> None:
    for _ in range(_ROUNDS_MAX):
        handle.apply_le()
        stuck = _unapplied(lake)
        names = _repairable(lake, handle)
        repaired = [
            _repair(lake, handle, name, reject=reject, stuck=name in stuck) for name in names
        ]
        if not any(repaired):
            return
    raise Violation("repair", f"strangers are left after {_ROUNDS_MAX} rounds of repair")


def _cared(lake: Lake) -> list[Identifier]:
    history = lake.observer.history
    newest = {name: history.newest(name) for name in history.tables()}
    return [name for name, version in newest.items() if version and version.cared]


def _written_by_java(lake: Lake) -> set[Identifier]:
    """Give the tables that Python's core only reads."""
    registry = lake.observer.registry
    formats = {name: registry.metadata(name).format_version for name in registry.pointers}
    return {name for name, each in formats.items() if each > WRITABLE_FORMAT}


def _repairable(lake: Lake, handle: Any) -> list[Identifier]:
    """Give the tables that a repair can end the trouble of: one that was replaced has none."""
    others = set() if isinstance(handle, JavaHandle) else _written_by_java(lake)
    return [name for name in _cared(lake) if name not in {*lake.observer.history.upset, *others}]


def _repair(lake: Lake, handle: Any, name: Identifier, *, reject: bool, stuck: bool) -> bool:
    """Repair a table if a writer of it is refused, or nothing is applied; say whether it was."""
    txn = handle.begin()
    try:
        with txn.load_table(name).transaction() as changes:
            changes.set_properties({"probe": "1"})
    except NoSuchTableError:
        return _repair_dropped(lake, handle, name)
    except Quarantined:
        pass
    else:
        if not stuck:
            return False
    finally:
        txn.rollback()
    if not reject:
        lake.world.auditor.repairing = "adopt"
        try:
            handle.repair_adopt(name)
        except Unsupported:  # the log has changes that the stranger's state does not have
            pass
        else:
            return True
    lake.world.auditor.repairing = "reject"
    handle.repair_reject(name)
    return True


def _repair_dropped(lake: Lake, handle: Any, name: Identifier) -> bool:
    """Reject what strangers did to a table that the log has dropped."""
    lake.world.auditor.repairing = "reject"
    try:
        handle.repair_reject(name)
    except (Unsupported, NoSuchTableError):  # nobody did anything
        return False
    return True


def _read_everything(lake: Lake, handle: Any) -> None:
    history = lake.observer.history
    timestamps = {version.ts for name in history.tables() for version in history.versions(name)}
    for read_ts in sorted({*timestamps, history.upper} - {0}):
        try:
            catalog = handle.snapshot(read_ts)
        except (Conflict, InvalidUsage) as error:
            raise Violation("read at ts", f"no snapshot at {read_ts}: {error}") from error
        for name in history.tables():
            if history.at(name, read_ts) is not None:
                check_read(lake, catalog, name, read_ts)


def _everything_is_applied(lake: Lake) -> None:
    for name, logged in _unapplied(lake).items():
        raise Violation("liveness", f"{logged.commit_ts} is not applied to {name}")


def _unapplied(lake: Lake) -> dict[Identifier, Logged]:
    """Give the oldest entry of each table that is not applied to it, and should be."""
    observer = lake.observer
    found: dict[Identifier, Logged] = {}
    for logged in observer.entries.values():
        for table in logged.tables if logged.changes else ():
            identifier = table["identifier"]
            name = folded((*identifier["namespace"], identifier["name"]))
            newest = observer.history.newest(name)
            cared = newest is not None and newest.cared
            upset = name in observer.history.upset
            if cared and not upset and not observer.checks.is_applied(logged, table):
                found.setdefault(name, logged)
    return found


def _registrations_are_logged(lake: Lake, handle: Any) -> None:
    """A registrar may have died after its mark; the next one writes the entry (spec 6.2)."""
    registry = lake.observer.registry
    for name in _repairable(lake, handle):
        if name not in registry.pointers or not is_marked(registry.metadata(name)):
            continue
        if (
            name in lake.observer.history.since
        ):  # the mark's snapshot may be gone, and with it the id
            continue
        handle.register(name)
        uuid = str(registry.metadata(name).table_uuid)
        care = [
            logged.kind
            for _ts, logged in sorted(lake.observer.entries.items())
            if logged.kind in {"register", "forget"}
            if any(table["uuid"] == uuid for table in logged.tables)
        ]
        if care and care[-1] != "register":
            raise Violation("register", f"{name} is under care, and the log forgot it")


def _promises_were_kept(lake: Lake) -> None:
    history = lake.observer.history
    for attempt in history.attempts:
        if attempt.refused and attempt.logged_ts is not None:
            raise Violation("refused", f"{attempt.key} was refused, and has committed")
        told = attempt.acknowledged
        settled = history.settled_ts(attempt.txn_id) if attempt.txn_id else None
        # What came to nothing has no entry under the id, nor what only read under one of before.
        if told and settled and told != settled and attempt.changed(history, attempt.read_ts or 0):
            raise Violation("durability", f"{attempt.key} was told {told}: {settled}")


def _metadata_survives_json(lake: Lake) -> None:
    registry = lake.observer.registry
    for name in (*_cared(lake), COMMIT_TABLE):
        if name in registry.pointers:
            metadata = registry.metadata(name)
            if TableMetadataUtil.parse_raw(metadata.model_dump_json()) != metadata:
                raise Violation("json", f"the metadata of {name} does not survive a round trip")
