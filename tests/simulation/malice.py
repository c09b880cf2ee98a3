"""A lake of whose log somebody forges records: its making, and its end, when all is set right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.table.update import RemovePropertiesUpdate, SetLocationUpdate

from tests.simulation import other_log, strangers
from tests.simulation.actions import SCHEMA
from tests.simulation.determinism import SimulatedClock
from tests.simulation.forger import Forger
from tests.simulation.guard import Guard
from tests.simulation.observer import COMMIT_TABLE
from tests.simulation.scheduler import Violation
from txns._admin.inventory import survey
from txns._admin.recover import recover
from txns._admin.void import void, void_sound
from txns._config import Config
from txns._log.limits import is_late
from txns._services import Parts
from txns.errors import CorruptLog, InvalidUsage, Quarantined, TxnsError, Unsupported

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from tests.simulation.attempts import Identifier
    from tests.simulation.worker import Lake

_OTHERS = (("lake", "u0"), ("other", "o0"), ("other", "o1"), ("other", "commits"))
_PLAIN, _INSIDE = ("secret", "p0"), ("secret", "p1")
_NOT_OURS = (
    "write.metadata.path",
    "write.data.path",
    "write.py-location-provider.impl",
    "write.location-provider.impl",
    "write.metadata.delete-after-commit.enabled",
)
_ROUNDS_MAX = 30
_LEFT_TO_OPERATORS = {"archive-rows", "archive-of-others"}
"""What no command takes out again: rows of the archive, which has them for good."""


def prepare(lake: Lake) -> None:
    """Make tables that are none of the log's, one of them inside another's place; and a guard."""
    catalog = lake.connect()
    catalog.create_namespace("secret")
    outer = lake.observer.registry.metadata(lake.tables[2]).location
    for name, location in ((_PLAIN, None), (_INSIDE, f"{outer}/inside")):
        table = catalog.create_table(name, SCHEMA, location)
        strangers.append_rows(table, [lake.new_row()])
    lake.guard = Guard(lake.observer.registry)
    lake.guard.keep(*_OTHERS, _PLAIN, _INSIDE)
    lake.observer.stand_back_for(lake.guard)


def audit(lake: Lake) -> None:
    """
    Take out what was forged, adopt what stands, and see that users can go on.

    And that another log's tables hold what its own users meant.
    """
    lake.world.auditor.begin_action(lake.world.seed, "audit", lake.world.now_ms)
    assert lake.guard is not None
    with lake.guard.aside():
        other_log.audit(lake)
        _set_right(lake)
    if not _LEFT_TO_OPERATORS & _forged(lake):
        _take_out(lake)
        _take_time_back(lake)
        _adopt(lake)
        _go_on(lake)


def _log(lake: Lake) -> TableMetadata:
    return lake.observer.registry.metadata(COMMIT_TABLE)


def _forged(lake: Lake) -> set[str]:
    """Give the kinds of what was forged."""
    done = (name for name in lake.world.occurred if name.startswith("action forge-"))
    return {name.removeprefix("action forge-") for name in done}


def _parts(lake: Lake) -> Parts:
    return Parts.of(lake.connect(), Config.of(), SimulatedClock(lake.world))


def _set_right(lake: Lake) -> None:
    """Put the commit table back where it stood, past the protocol."""
    assert lake.guard is not None
    registry = lake.observer.registry
    log_id = str(registry.metadata(COMMIT_TABLE).table_uuid)
    if log_id != lake.guard.log_uuid:  # its name points to another table
        past = registry.past[COMMIT_TABLE]
        registry.pointers[COMMIT_TABLE] = next(
            location
            for _ms, location in reversed(past)
            if location in registry.storage.files
            if str(registry.metadata_at(location).table_uuid) == lake.guard.log_uuid
        )
    table = lake.connect().load_table(COMMIT_TABLE)
    names = [key for key in (*_NOT_OURS, "txns.log-id") if key in table.properties]
    updates: list[Any] = [RemovePropertiesUpdate(removals=names)] if names else []
    if table.location() != lake.guard.log_folder:
        updates.append(SetLocationUpdate(location=lake.guard.log_folder))
    if updates:
        Forger(lake, lake.world.auditor).change(*updates)


def _take_out(lake: Lake) -> None:
    """Make void what was forged and stands in the log, and what lies where a forger put the log."""
    for _ in range(_ROUNDS_MAX):
        metadata = _log(lake)
        astray = [each.snapshot_id for each in metadata.snapshots if _is_astray(lake, each)]
        standing = {each.snapshot_id for each in metadata.snapshots}
        left = [each for each in reversed([*astray, *lake.forged]) if each in standing]
        told: Exception | None = None
        for each in left:
            try:
                void_sound(_parts(lake), each)
            except TxnsError as error:
                told = error
        if not left:
            return
    raise Violation("void", f"forged records stay: {told!r}")


def _take_time_back(lake: Lake) -> None:
    """Recover a log whose time has come to its end, without what users have put there since."""
    parts = _parts(lake)
    for _ in range(_ROUNDS_MAX):
        head = parts.log.load()
        if not is_late(head.upper):
            return
        lake.world.note("takes the time of the log back")
        late = [one.commit_ts for one in head.state.entries if is_late(one.commit_ts)]
        if late:
            void_sound(_parts(lake), late[-1])
        else:
            recover(parts.catalog, parts.config, parts.clock)
            parts = _parts(lake)
    raise Violation("void", "the log's time stays at its end")


def _is_astray(lake: Lake, record: Snapshot) -> bool:
    """Whether a record's payload lies where the commit table stood when a forger had moved it."""
    assert lake.guard is not None
    said = record.summary.additional_properties if record.summary else {}
    location = said.get("txns.payload-location", lake.guard.log_folder)
    return not f"{location}/".startswith(f"{lake.guard.log_folder}/")


def _adopt(lake: Lake) -> None:
    """Take the tables as they stand that lack something."""
    told: object = None
    for _ in range(_ROUNDS_MAX):
        try:
            if _is_done(lake):
                return
        except CorruptLog as error:  # which says so where a table shows what the log lacks
            told = error
            parts = _parts(lake)
            try:
                recover(parts.catalog, parts.config, parts.clock)
            except CorruptLog as unread:
                _void_one(lake, unread)
    raise Violation("void", f"tables stay in quarantine: {told!r}")


def _void_one(lake: Lake, told: CorruptLog) -> None:
    """Make the one record void without which a log is read that a forger took another one of."""
    for each in reversed(_log(lake).snapshots):
        try:
            void(_parts(lake), each.snapshot_id)
        except (CorruptLog, InvalidUsage):
            continue
        return
    raise Violation("void", f"no record is to blame: {told!r}") from told


def _is_done(lake: Lake) -> bool:
    handle = lake.open(apply="inline")
    if handle.parts.log.load().state.off:
        handle.on()
    surveyed = survey(handle.parts, handle.parts.log.load())
    broken = [one for one in surveyed if one.foreign]
    for one in broken:
        _repair(lake, handle, one.identifier)
    return not broken


def _repair(lake: Lake, handle: Any, name: Identifier) -> None:
    """
    End what is wrong with a table: one of the two commands does.

    Where a change was applied whose snapshot has another stamp, nothing is left of the logged
    state, and what the error says ends that.
    """
    told: list[Exception] = []
    for repair in (handle.repair_adopt, handle.repair_reject):
        try:
            repair(name)
        except (Quarantined, Unsupported) as error:
            told.append(error)
        else:
            return
    if not all("unset the table's property txns.commit-table" in str(error) for error in told):
        raise Violation("void", f"no repair ends what is wrong with {name}: {told!r}")
    table = lake.connect().load_table(name)
    table.transaction().remove_properties("txns.commit-table").commit_transaction()
    handle.register(name)


def _go_on(lake: Lake) -> None:
    """Write each table that is still under care."""
    handle = lake.open(apply="inline")
    for name in lake.tables:
        parts = handle.parts
        surveyed = {one.identifier: one for one in survey(parts, parts.log.load())}
        one = surveyed.get(name)
        if one is None or one.dropped or one.foreign:
            continue
        _write(lake, handle, name)


def _write(lake: Lake, handle: Any, name: Identifier) -> None:
    row = lake.new_row()
    try:
        with handle.begin() as txn:
            strangers.append_rows(txn.load_table(name), [row])
    except (TxnsError, InvalidUsage) as error:
        raise Violation("void", f"{name} cannot be written afterwards: {error!r}") from error
