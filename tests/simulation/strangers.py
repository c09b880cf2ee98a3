"""Writers that know nothing of the protocol: engines, services and people."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
)
from pyiceberg.types import LongType

from tests.simulation import deletes
from tests.simulation.java_handle import JavaTable
from tests.simulation.observer import COMMIT_TABLE
from tests.simulation.rows import compact, data_files, held, real_file, replace_files
from tests.simulation.scheduler import DAY_MS, Violation
from tests.simulation.settings import Switch
from tests.simulation.storage import ERRORS
from tests.simulation.table_checks import is_anothers, is_marked
from tests.simulation.where import PARTS, Where

if TYPE_CHECKING:
    from tests.simulation.attempts import Identifier
    from tests.simulation.worker import Lake, Worker

_REF_AGE_MS = 5 * DAY_MS
"""Iceberg's default of `history.expire.max-snapshot-age-ms`."""

_KEEP = "history.expire.min-snapshots-to-keep"
_AGE_MS = "history.expire.max-snapshot-age-ms"

_ORPHANED_MS = 3 * DAY_MS
"""Iceberg's default of how old a file is that an orphan removal takes."""

_PATIENCE = 30

_STAGING = {"forget", "register", "repair"}
"""What stages a snapshot without being a transaction."""


def _table(worker: Worker) -> Any:
    return worker.lake.connect().load_table(worker.rng.choice(worker.lake.tables))


def _table_outstanding(worker: Worker) -> Any:
    """Load a table, one with entries that are not applied if there is one: half of the time."""
    lake = worker.lake
    late = [name for name in lake.tables if lake.observer.checks.outstanding(name)]
    if not late or worker.rng.random() < 0.5:
        return _table(worker)
    return lake.connect().load_table(worker.rng.choice(late))


def _writable(lake: Lake, table: Any) -> Any:
    """Give a raw table as an engine has it that can write it."""
    is_fine = isinstance(table, JavaTable) or lake.is_pythons(table)
    return table if is_fine else lake.open_engine().load_table(table.name())


def append(worker: Worker) -> None:
    """Append rows."""
    append_rows(_writable(worker.lake, _table(worker)), [worker.lake.new_row()])


def append_rows(table: Any, rows: list[int]) -> None:
    """Append given rows to a raw table."""
    with table.transaction() as changes, changes.update_snapshot().fast_append() as producer:
        for each in data_files(table.metadata, rows, 0):
            producer.append_data_file(each)


def compaction(worker: Worker) -> None:
    """Rewrite all data files into one."""
    compact_table(worker.lake, _table(worker))


def compact_table(lake: Lake, table: Any) -> None:
    """Rewrite all data files of a raw table into one."""
    table = _writable(lake, table)
    tasks = list(table.scan().plan_files())
    if held(tasks):
        compact(table, tasks, lake.new_row())


def compaction_of_part(worker: Worker) -> None:
    """Rewrite the data files of one part, as a service does that goes by partitions."""
    lake, rng = worker.lake, worker.rng
    table = _writable(lake, lake.connect().load_table(rng.choice((lake.tables[0], *lake.tables))))
    part = Where(rng.randrange(PARTS))
    tasks = [task for task in table.scan().plan_files() if part.of(held([task]))]
    if tasks:
        compact(table, tasks, lake.new_row())


def compact_log(worker: Worker) -> None:
    """Rewrite the archive's files into one, as a compaction service that nobody has told of it."""
    table = worker.lake.connect().load_table(COMMIT_TABLE)
    files = [task.file for task in table.scan().plan_files()]
    if len(files) < 2:
        return
    storage = worker.lake.observer.registry.storage
    found = [pq.read_table(io.BytesIO(storage.bytes_of(file.file_path))) for file in files]
    sink = io.BytesIO()
    pq.write_table(pa.concat_tables(found, promote_options="permissive"), sink)
    path = f"{table.location()}/data/compacted-{worker.lake.new_row()}.parquet"
    storage.files[path] = sink.getvalue()
    count, size = sum(file.record_count for file in files), len(sink.getvalue())
    rewritten = real_file(path, table.metadata, count, size, **_bounds(worker, table, files))
    replace_files(table, files, [rewritten])


def _bounds(worker: Worker, table: Any, files: list[Any]) -> dict[str, dict[int, bytes]]:
    """Give what an engine keeps of the bounds of files that it rewrites: all, or nothing."""
    at = table.schema().find_field("commit_ts").field_id
    bounded = all(at in (file.lower_bounds or {}) for file in files)
    if not bounded or worker.rng.random() < 0.3:
        return {}
    least = min(_long(file.lower_bounds[at]) for file in files)
    most = max(_long(file.upper_bounds[at]) for file in files)
    return {
        "lower_bounds": {at: to_bytes(LongType(), least)},
        "upper_bounds": {at: to_bytes(LongType(), most)},
    }


def _long(bound: bytes) -> int:
    return int(from_bytes(LongType(), bound))


def overwrite(worker: Worker) -> None:
    """Remove a data file, or write what takes rows of it away."""
    table = _table_outstanding(worker)
    if worker.has(Switch.EQUALITY_DELETES) and worker.lake.has_java and worker.rng.random() < 0.5:
        table = worker.lake.open_engine().load_table(table.name())
    table = _writable(worker.lake, table)
    tasks = sorted(table.scan().plan_files(), key=lambda task: task.file.file_path)
    settings = worker.lake.world.faults.settings
    found = (
        deletes.choice(settings, worker.rng, table, tasks) if isinstance(table, JavaTable) else None
    )
    if found:
        kind, task, row = found
        table.delete_rows(task, kind, frozenset({row}))
    elif tasks:
        remove_file(table, worker.rng.choice(tasks).file)


def remove_file(table: Any, file: Any) -> None:
    """Remove one data file from a raw table."""
    with table.transaction() as changes, changes.update_snapshot().overwrite() as producer:
        producer.delete_data_file(file)


def rollback(worker: Worker) -> None:
    """Put `main` back to its parent."""
    roll_back(worker.lake, _table_outstanding(worker))


def roll_back(lake: Lake, table: Any) -> None:
    """Put `main` of a raw table back to its parent."""
    main = table.current_snapshot()
    if main is None or table.metadata.snapshot_by_id(main.parent_snapshot_id or -1) is None:
        return
    lake.observer.history.put_back.add(table.name())
    lake.connect().commit_table(
        table,
        (AssertRefSnapshotId(ref="main", snapshot_id=main.snapshot_id),),
        (
            SetSnapshotRefUpdate(
                ref_name="main", type="branch", snapshot_id=main.parent_snapshot_id
            ),
        ),
    )


def replacement(worker: Worker) -> None:
    """
    Replace a table by an empty one: Iceberg takes `main` away, and leaves the rest.

    Not where an expiry has left a compaction alone: its rows cannot be told any more then.
    """
    table = _table_outstanding(worker)
    main = table.current_snapshot()
    applied = table.properties.get("txns.applied")
    told = any(str(_commit_ts(one)) == applied for one in table.metadata.snapshots)
    if main is not None and (told or not is_marked(table.metadata)):
        worker.lake.connect().commit_table(
            table,
            (AssertRefSnapshotId(ref="main", snapshot_id=main.snapshot_id),),
            (RemoveSnapshotRefUpdate(ref_name="main"),),
        )


def expire(worker: Worker) -> None:
    """
    Let days pass, compact, and expire old snapshots as Iceberg does, with their files.

    What retention cannot protect with two snapshots instead of ten is left alone: tables
    with entries that are not applied or that strangers wrote, and what others stand on.
    """
    lake = worker.lake
    lake.world.sleep(worker.rng.randint(0, 500))
    for _ in range(_PATIENCE):  # what somebody has staged on has to stay
        if _least_ts_in_use(lake) is not None:
            lake.world.sleep(20)
    lake.world.now_ms += worker.rng.randint(6, 9) * DAY_MS
    lake.world.note("days pass")
    table = max((_table(worker) for _ in range(2)), key=lambda one: len(one.metadata.snapshots))
    for _ in range(worker.rng.randint(1, 3)):
        compact_table(lake, table)
        table = lake.connect().load_table(table.name())
    checks = lake.observer.checks
    if checks.is_as_logged(table.metadata) and not checks.outstanding(table.name()):
        needed = _needed_since(table.metadata, _least_ts_in_use(lake))
        expire_but(lake, table, _kept(table.metadata, lake.world.now_ms) | needed)


def orphans(worker: Worker) -> None:
    """
    Remove files of a table that are days old and that its metadata does not lead to, as Iceberg.

    Not where the log alone knows some of them: entries that nobody has tried to apply (spec 8.5);
    nor while somebody else has stood still for as long, whom plain Iceberg would not spare either.

    Raises:
        Violation: A branch that is said to reach what is not applied does not.
    """
    lake, world = worker.lake, worker.lake.world
    world.sleep(worker.rng.randint(1, 5) * DAY_MS)
    table, before_ms = _table(worker), world.now_ms - _ORPHANED_MS
    others = (one for one in world.processes if not one.dead and one is not worker.process)
    began_ms = min((one.began_ms - one.skew_ms for one in others), default=before_ms)
    storage, reachable = lake.observer.registry.storage, _reachable(lake, table)
    old = storage.below(table.metadata.location).items()
    found = [path for path, at in old if at < before_ms and path not in reachable]
    if began_ms < before_ms or is_anothers(table.metadata):
        return
    if needed := lake.observer.needed().intersection(found):
        if lake.observer.checks.is_kept_by_a_branch(table.name(), table.metadata):
            raise Violation("files", f"no branch of {table.name()} leads to {sorted(needed)}")
        return
    for path in found:
        world.io("delete", path, partial(storage.delete, path), ERRORS)


def _reachable(lake: Lake, table: Any) -> set[str]:
    """Give the files that a raw table's metadata leads to, its own with them."""
    metadata, contents = table.metadata, lake.observer.contents
    lists = [one.manifest_list for one in metadata.snapshots]
    return {
        table.metadata_location,
        *(one.metadata_file for one in metadata.metadata_log),
        *lists,
        *(path for each in lists for path in contents.manifest_paths(each)),
    }


def _least_ts_in_use(lake: Lake) -> int | None:
    """Give the least timestamp at which somebody may have staged something; None: nobody."""
    least: list[int] = []
    for process in lake.world.processes:
        staging = process.doing.rpartition(".")[2].partition("#")[0] in _STAGING
        if process.attempt and not process.dead:
            least.append(process.attempt.read_ts or process.attempt.began_above)
        elif staging and not process.dead:
            least.append(process.began_above)
    return min(least, default=None)


def _needed_since(metadata: Any, ts: int | None) -> set[int]:
    """Give the snapshots of `main` that were current at a timestamp, or later; None: now."""
    needed: set[int] = set()
    for at in ancestors_of(metadata.current_snapshot(), metadata):
        commit_ts = _commit_ts(at)
        needed.add(at.snapshot_id)
        if ts is None or (commit_ts is not None and commit_ts <= ts):
            break
    return needed


def _kept(metadata: Any, now_ms: int) -> set[int]:
    kept: set[int] = set()
    for ref in metadata.refs.values():
        head = metadata.snapshot_by_id(ref.snapshot_id)
        least = ref.min_snapshots_to_keep or int(metadata.properties.get(_KEEP, 1))
        age_ms = ref.max_snapshot_age_ms or int(metadata.properties.get(_AGE_MS, _REF_AGE_MS))
        for number, snapshot in enumerate(ancestors_of(head, metadata)):
            if number == 0 or number < least or now_ms - snapshot.timestamp_ms < age_ms:
                kept.add(snapshot.snapshot_id)
    young = (one for one in metadata.snapshots if now_ms - one.timestamp_ms < _REF_AGE_MS)
    return kept | {snapshot.snapshot_id for snapshot in young}


def expire_but(lake: Lake, table: Any, kept: set[int]) -> None:
    """Remove all snapshots of a raw table but some, and the files that only those need."""
    metadata, name = table.metadata, table.name()
    gone = [one for one in metadata.snapshots if one.snapshot_id not in kept]
    if not gone:
        return
    ids = [one.snapshot_id for one in gone]
    lake.connect().commit_table(
        table,
        tuple(
            AssertRefSnapshotId(ref=ref, snapshot_id=at.snapshot_id)
            for ref, at in metadata.refs.items()
        ),
        (RemoveSnapshotsUpdate(snapshot_ids=ids),),
    )
    _remove_files(lake, name, gone, metadata)


def _remove_files(lake: Lake, name: Identifier, gone: list[Any], before: Any) -> None:
    contents, storage = lake.observer.contents, lake.observer.registry.storage
    left = lake.observer.registry.metadata(name).snapshots
    used = {path for one in left for path in contents.manifest_paths(one.manifest_list)}
    used_data = {file for one in left for file in contents.files(one)}
    data = {file for one in gone for file in contents.files(one)}
    manifests = {path for one in gone for path in contents.manifest_paths(one.manifest_list)}
    storage.expired_data.update(data - used_data)
    if _is_incremental(before, lake.observer.registry.metadata(name), gone):
        storage.expired_data.update(file for one in gone for file in contents.removed(one))
    # An expiry does not look whether a list is used elsewhere: each snapshot has its own.
    for path in (manifests - used) | {one.manifest_list for one in gone}:
        storage.files.pop(path, None)


def _is_incremental(before: Any, after: Any, gone: list[Any]) -> bool:
    """
    Whether Iceberg deletes what the expired snapshots marked as deleted, without looking further.

    Source: `RemoveSnapshots.cleanExpiredSnapshots` of Iceberg 1.11: nothing beside main's history
    has been removed, and nothing beside it is left.
    """
    held = {one.snapshot_id for one in ancestors_of(before.current_snapshot(), before)}
    left = {one.snapshot_id for one in ancestors_of(after.current_snapshot(), after)}
    return held.issuperset(one.snapshot_id for one in gone) and left.issuperset(
        one.snapshot_id for one in after.snapshots
    )


def _commit_ts(snapshot: Any) -> int | None:
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    value = summary.get("txns.commit-ts")
    return None if value is None else int(value)


def held_rows(table: Any) -> set[int]:
    """Give the rows of a raw table."""
    return set(held(table.scan().plan_files()))
