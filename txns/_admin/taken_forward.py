"""
Takes tables to where a log has them that is taken forward, by their own metadata files.

Docs/spec.md 9.6. What moved a table with the log's own swap, or has left the head, is in no
payload: only a version of the table has it.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.serializers import Compressor, FromInputFile
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
)

from txns._admin.listing import listed
from txns._iceberg import manifests
from txns._iceberg.later_version import is_of_one_line, updates_to
from txns._iceberg.metadata_text import stored_uuid
from txns._iceberg.snapshots import History, main_of
from txns._log import commit_table
from txns._log.archive_scan import ArchiveScan
from txns._log.entry import APPLIED_KINDS
from txns._log.head import head_of
from txns._logger import fields, logger
from txns._table import mark as _marks
from txns._table.logged_state import logged_state
from txns._table.swap import swap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from txns._admin.shown import ShownTable
    from txns._clock import Clock

_LOG = logger(__name__)

_KINDS = {kind.value for kind in APPLIED_KINDS}
_COLUMNS = ("commit_ts", "kind", "table_uuid")

_NO_METADATA = (ValueError, FileNotFoundError, EOFError, gzip.BadGzipFile, zlib.error)
"""What a file says that somebody has begun to write, or removed; or that is something else."""


@dataclass(frozen=True)
class LaterVersion:
    """
    A version of a table that has what the log has carried out on it.

    Attributes:
        table: As the catalog has it, which is behind that.
        metadata: The version.
    """

    table: Table
    metadata: TableMetadata


def later_versions(
    catalog: Catalog, log: Table, tables: Iterable[ShownTable]
) -> list[LaterVersion]:
    """
    Find the versions of tables at which a log has them, of those that are behind it.

    Args:
        catalog: Of the tables.
        log: The commit table, in the version that is to stand.
        tables: As the catalog has them.

    Returns:
        Of what is in no file, or cannot be read or written, nothing: it is behind as before.
    """
    tables = list(tables)
    log_id = commit_table.log_id(str(log.metadata.table_uuid), log.metadata.properties)
    carried_out = _carried_out(log, least_ts=min((each.mark.applied for each in tables), default=0))
    found = []
    for shown in tables:
        ts = carried_out.get(shown.line.uuid, 0)
        if ts <= shown.mark.applied:
            continue
        try:
            table = catalog.load_table(shown.identifier)
            later = _version_at(table, {shown.mark.log_id, log_id}, ts)
            if later is not None:
                manifests.check_writable(later, shown.name)
        except Exception:  # noqa: BLE001 -- of one that is broken its recovery tells
            _LOG.debug(
                "no later version is found", exc_info=True, extra=fields(table=shown.identifier)
            )
            continue
        if later is not None:
            found.append(LaterVersion(table, later))
    return found


def take_forward(catalog: Catalog, version: LaterVersion, clock: Clock) -> None:
    """
    Let the catalog have a table as a later version of it is, in one swap.

    Raises:
        CommitFailedException: Somebody has written the table meanwhile.
    """
    table, later = version.table, version.metadata
    base = table.metadata
    here = (
        AssertTableUUID(uuid=base.table_uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=base.current_snapshot_id),
        AssertLastAssignedFieldId(last_assigned_field_id=base.last_column_id),
        AssertLastAssignedPartitionId(last_assigned_partition_id=base.last_partition_id),
    )
    swap(catalog, table, here, updates_to(base, later), clock)


def _carried_out(log: Table, *, least_ts: int) -> dict[str, int]:
    """Give by table uuid the `commit_ts` in ms of the newest change that is in no payload."""
    found: dict[str, int] = {}
    for entry in head_of(log).state.entries:
        for change in entry.moved:
            if change.born_applied:
                found[change.uuid] = max(entry.commit_ts, found.get(change.uuid, 0))
    try:
        for window in ArchiveScan(log, least_ts=least_ts + 1).oldest_first(_COLUMNS):
            for ts, kind, uuid in zip(*window.to_pydict().values(), strict=True):
                if kind in _KINDS and uuid is not None:
                    found[uuid] = max(ts, found.get(uuid, 0))
    except FileNotFoundError:  # the version that is to stand names files that are gone
        return {}
    return found


def _version_at(table: Table, log_ids: set[str], applied_ts: int) -> TableMetadata | None:
    """Give the newest version of a table that stands where an entry of a log has left it."""
    folder = table.metadata_location.rpartition("/")[0]
    uuid = str(table.metadata.table_uuid)
    names = (each.path for each in listed(table.io, folder))
    fitting: list[tuple[int, str]] = []
    for path in names:
        if not path.endswith(".metadata.json"):
            continue
        stored = _stored(table.io, path)
        keys = stored.get("properties") or {}
        same = stored_uuid(stored) == uuid and keys.get(_marks.LOG_ID) in log_ids
        if same and keys.get(_marks.APPLIED) == str(applied_ts):
            fitting.append((int(stored["last-updated-ms"]), path))
    for _updated_ms, path in sorted(fitting, reverse=True):
        later = FromInputFile.table_metadata(table.io.new_input(path))
        if _goes_on(table, later):
            return later
    return None


def _stored(io: FileIO, path: str) -> dict[str, Any]:
    """Read a metadata file; of what is none, nothing."""
    unpacked = Compressor.get_compressor(path).stream_decompressor
    try:
        with io.new_input(path).open() as file, unpacked(file) as text:
            stored = json.loads(text.read())
    except _NO_METADATA:
        return {}
    return stored if isinstance(stored, dict) else {}


def _goes_on(table: Table, later: TableMetadata) -> bool:
    """Whether a version stands on what a table is now, as the log left it, and has its files."""
    mark, main = _marks.mark_of(later), main_of(later)
    if mark is None or main is None or logged_state(later, mark).stranger:
        return False
    if not (_is_made_of(later, table) or _has_all_of(later, table.metadata, main)):
        return False
    manifests_of = main.manifests(table.io)  # which fails where the list is gone
    return all(table.io.new_input(each.manifest_path).exists() for each in manifests_of)


def _is_made_of(later: TableMetadata, table: Table) -> bool:
    """Whether a version stands on the very file that the catalog names: nobody wrote since."""
    return table.metadata_location in {each.metadata_file for each in later.metadata_log}


def _has_all_of(later: TableMetadata, base: TableMetadata, main: Snapshot) -> bool:
    """Whether a version has what the table is now, though not from the file that it is now in."""
    below = {each.snapshot_id for each in History(later).ancestors(main)}
    return base.current_snapshot_id in below and is_of_one_line(base, later)
