"""
Tags on the snapshots whose files a change makes live again.

Iceberg's expiry deletes what an expired ancestor of `main` marked as deleted, and does not ask
whether a later snapshot has it again, unless it keeps a snapshot beside main's history: what is
left of it behind an expired ancestor, when it is tagged (docs/spec.md 6.9).
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
)
from pyiceberg.utils.concurrent import ExecutorFactory

from txns._iceberg import manifests as _manifests
from txns._iceberg import snapshots, timestamps
from txns._iceberg.manifest_entries import live_entries
from txns._iceberg.snapshots import APPEND, History
from txns._identifier import dotted_name
from txns._table import mark
from txns._table.swap import swap
from txns.errors import Conflict, InvalidUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

    from txns._clock import Clock
    from txns._stage.staged_table import StagedTable

_NAME = re.compile(re.escape(mark.KEPT_TAG) + r"\d{1,19}-(\d{1,18})", re.ASCII)
_REMOVED_COUNTS = ("deleted-data-files", "removed-delete-files")
_TRIES = 2


def protect(
    catalog: Catalog, clock: Clock, staged: StagedTable, *, read_ts: int, txn_id: str
) -> None:
    """
    Tag the snapshot whose removed files a staged change brings back, if it does.

    Then look again that they are there. Outside the log: a tag changes no rows, and has to stand
    before the entry.

    Args:
        catalog: The table's.
        clock: Which may be behind the table's times.
        staged: The change, before it is completed.
        read_ts: What it is staged on, in ms.
        txn_id: For errors.

    Raises:
        InvalidUsage: 42704: a file is gone.
        Conflict: The table has lost the snapshot, or others are writing it.
    """
    restored = staged.restored
    source = None if restored is None else History(staged.base).get(restored)
    if source is None or not any(map(_removes, _above(staged.base, source))):
        return
    files = _coming_back(staged, source)
    if files:
        _tag(catalog, clock, staged, source.snapshot_id, read_ts=read_ts, txn_id=txn_id)
        _refuse_gone(staged, source, files)


def done(base: TableMetadata, updates: Iterable[TableUpdate]) -> tuple[TableUpdate, ...]:
    """Give the removal of the tags that nothing needs any more, but for what is removed already."""
    removed = {each.ref_name for each in updates if isinstance(each, RemoveSnapshotRefUpdate)}
    return tuple(
        RemoveSnapshotRefUpdate(ref_name=name)
        for name, ref in base.refs.items()
        if name not in removed and _is_done(base, name, ref)
    )


def _is_done(metadata: TableMetadata, name: str, ref: SnapshotRef) -> bool:
    """
    Whether nothing can take a tag's files any more.

    All that stood on `main` at or below its timestamp and may have removed them has left the
    history, and an entry above that timestamp stands there: whoever set the tag has committed
    then, or cannot any more.
    """
    parts = _NAME.fullmatch(name)
    source = History(metadata).get(ref.snapshot_id)
    if parts is None or source is None or ref.snapshot_ref_type is not SnapshotRefType.TAG:
        return False
    decided = removed = False
    for at in _above(metadata, source):
        if mark.is_ours(at) and mark.commit_ts_of(at) > int(parts[1]):
            # What was seen stands above it, and so above the tag's timestamp.
            decided, removed = True, False
        else:
            removed = removed or _removes(at)
    return decided and not removed


def _above(metadata: TableMetadata, source: Snapshot) -> Iterator[Snapshot]:
    """Give what `main` stands on and a snapshot does not, newest first."""
    history = History(metadata)
    held = {at.snapshot_id for at in history.ancestors(source)}
    main = history.ancestors(metadata.current_snapshot())
    return takewhile(lambda at: at.snapshot_id not in held, main)


def _removes(snapshot: Snapshot) -> bool:
    """Whether a snapshot may mark files as deleted: a copy has no manifest of its own."""
    if snapshots.summary_value(snapshot, mark.SNAPSHOT_RESTORED) is not None:
        return False
    counts = (snapshots.summary_value(snapshot, key) for key in _REMOVED_COUNTS)
    return snapshots.operation_of(snapshot) != APPEND or any(count is not None for count in counts)


def _coming_back(staged: StagedTable, source: Snapshot) -> set[str]:
    """Give the manifests and files that a snapshot has and `main` has not."""
    main = staged.base.current_snapshot()
    assert main is not None
    try:
        back = _listed(staged, source)
        here = _listed(staged, main)
        files = _live(staged, (back[path] for path in back.keys() - here.keys()))
        files -= _live(staged, (here[path] for path in here.keys() - back.keys()))
    except FileNotFoundError as error:
        raise _gone(staged, source, error) from error
    return files | (back.keys() - here.keys()) if files else set()


def _listed(staged: StagedTable, snapshot: Snapshot) -> dict[str, ManifestFile]:
    listed = _manifests.manifests_of(staged.io, snapshot.manifest_list)
    return {each.manifest_path: each for each in listed}


def _live(staged: StagedTable, manifests: Iterable[ManifestFile]) -> set[str]:
    return {
        entry.data_file.file_path
        for manifest in manifests
        for entry in live_entries(staged.io, manifest)
    }


def _tag(
    catalog: Catalog,
    clock: Clock,
    staged: StagedTable,
    snapshot_id: int,
    *,
    read_ts: int,
    txn_id: str,
) -> None:
    name = f"{mark.KEPT_TAG}{snapshot_id}-{read_ts}"
    tag = SetSnapshotRefUpdate(
        ref_name=name,
        type=SnapshotRefType.TAG,
        snapshot_id=snapshot_id,
        min_snapshots_to_keep=None,
        max_snapshot_age_ms=None,
        # An age, or the table's own default, would let one expiry take the tag and what it is for.
        max_ref_age_ms=mark.FOR_EVER_MS,
    )
    lost: Exception | None = None
    for tries in range(_TRIES + 1):
        table = catalog.load_table(staged.identifier)
        if name in table.metadata.refs:
            return
        if table.metadata.snapshot_by_id(snapshot_id) is None or tries == _TRIES:
            break
        uuid = AssertTableUUID(uuid=staged.base.table_uuid)
        untagged = AssertRefSnapshotId(ref=name, snapshot_id=None)
        try:
            following = timestamps.following(table.metadata, (tag,), clock)
            swap(catalog, table, (uuid, untagged), following, clock)
        except (CommitFailedException, CommitStateUnknownException) as error:
            lost = error  # whether it stands shows the next look
    raise Conflict(
        f"the snapshot {snapshot_id}, whose rows are to come back, could not be tagged: others are"
        " writing the table, or have expired it",
        table=staged.identifier,
        txn_id=txn_id,
        least_ts=read_ts,
    ) from lost


def _refuse_gone(staged: StagedTable, source: Snapshot, files: set[str]) -> None:
    ordered = sorted(files)

    def exists(path: str) -> bool:
        return staged.io.new_input(path).exists()

    found = ExecutorFactory.get_or_create().map(exists, ordered)
    for path, there in zip(ordered, found, strict=True):
        if not there:
            raise _gone(staged, source, path)


def _gone(staged: StagedTable, source: Snapshot, what: object) -> InvalidUsage:
    return InvalidUsage(
        "42704",
        "files of the snapshot are gone, so its rows cannot come back and nothing was committed:"
        " take another snapshot, or bring the file back from a backup;"
        f" table=`{dotted_name(staged.identifier)}` snapshot=`{source.snapshot_id}` file=`{what}`",
    )
