"""
Which updates a logged change may have: those that the protocol itself writes.

So a record changes of a table what a transaction may change, whoever has written it (docs/spec.md
7). Pure.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCreate,
    AssertTableUUID,
    AssignUUIDUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)

from txns._iceberg.snapshots import summary_value
from txns._identifier import dotted_name
from txns._log.change import Operation
from txns._log.commit_table import LOG_ID
from txns._log.entry import COMMIT_TS, TXN_ID, Kind
from txns._log.property_values import is_unreadable
from txns.errors import CorruptLog, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.table import CommitTableRequest
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

    from txns._identifier import Identifier
    from txns._log.entry import Entry, LoggedChange

PREFIX = "txns."
"""What keys of the protocol begin with, of properties and of summaries."""

CONFLICTS = "txns.conflicts"
"""In what two transactions have to meet on a table to clash: the one such property of a user."""

COMMIT_TABLE = "txns.commit-table"
TABLE_UUID = "txns.table-uuid"
CREATED = "txns.created"
PURGING = "txns.purging"
"""Which entry claimed a dropped table, to remove it for good."""
KEYS = (COMMIT_TABLE, LOG_ID, TABLE_UUID, CREATED)
"""What forget removes; `txns.applied` stays."""

REF_PREFIX = "txns-"
"""What the protocol's branches and tags begin with."""

FOREIGN_BRANCH = f"{REF_PREFIX}foreign-"
"""Branches that keep a stranger's snapshots are named this and the snapshot's id."""

HOLD_TAG = f"{REF_PREFIX}hold-"
"""Tags of a hold are named this and the hold's name."""

EXPIRE_KEEP = "history.expire.min-snapshots-to-keep"
EXPIRE_AGE_MS = "history.expire.max-snapshot-age-ms"
"""What counts where a stranger has set `main` without its retention, as pyiceberg does."""

_RETENTION = (EXPIRE_KEEP, EXPIRE_AGE_MS)

_REACHING = ("adls.", "client.", "gcs.", "hdfs.", "hf.", "oss.", "s3.")
"""What keys begin with by which libraries reach storage; pyiceberg takes a table's own first."""

_PLACING = frozenset({"DEFAULT_NETLOC", "DEFAULT_SCHEME", "uri"})
"""Keys that say where files are: pyiceberg's for places that are written without a scheme, too."""

_DELETES = "write.metadata.delete-after-commit.enabled"
"""Of the commit table: whoever commits removes what its metadata says went before."""

_TOTALS = (
    "total-data-files",
    "total-delete-files",
    "total-equality-deletes",
    "total-files-size",
    "total-position-deletes",
    "total-records",
)
"""What libraries add the counts of the next snapshot to."""

_TOTAL = re.compile(r"-?[0-9]{1,30}|", re.ASCII)

_NAMED = frozenset({"add-schema", "add-spec", "add-sort-order", "add-snapshot", "set-snapshot-ref"})
_ACTIONS = {
    Kind.COMMIT: _NAMED
    | {
        "assign-uuid",
        "upgrade-format-version",
        "set-current-schema",
        "set-default-spec",
        "set-default-sort-order",
        "set-location",
        "set-properties",
        "remove-properties",
        "remove-snapshots",
        "remove-snapshot-ref",
        "set-statistics",
        "remove-statistics",
        "set-partition-statistics",
        "remove-partition-statistics",
        "remove-partition-specs",
        "remove-schemas",
    },
    Kind.FORGET: _NAMED | {"remove-properties"},
    Kind.ADOPT: _NAMED | {"set-properties", "remove-snapshot-ref"},
    Kind.REPAIR: _NAMED | {"set-properties", "remove-snapshot-ref"},
}
"""The updates of a change, by the kind of its entry."""


def refuse_forbidden(logged: LoggedChange, request: CommitTableRequest, log: Identifier) -> None:
    """
    Refuse a change that no writer of the protocol logs.

    Args:
        logged: The change.
        request: Its payload.
        log: The commit table.

    Raises:
        CorruptLog: With the update, and the command that takes the entry away.
    """
    if why := forbidden(logged, request, log):
        raise CorruptLog(
            "a logged change has an update that no writer of the protocol logs, and is not carried"
            f" out; {way_out(logged.commit_ts)}; update=`{why}` txn=`{logged.entry.txn_id}`"
            f" table=`{dotted_name(logged.change.table)}`"
        )


def way_out(commit_ts: int) -> str:
    """Say how the log goes on without an entry that is not what the protocol logs."""
    return (
        f"`txns recover --void {commit_ts}` takes the entry out of the log, then `txns repair"
        " adopt` takes the table as it stands; look who has written the commit table: whoever may"
        " is trusted"
    )


def forbidden(logged: LoggedChange, request: CommitTableRequest, log: Identifier) -> str:
    """
    Say what of a change no writer of the protocol logs; "" for nothing.

    Args:
        logged: The change.
        request: Its payload.
        log: The commit table.
    """
    change = logged.change
    creates = change.operation is Operation.CREATE and change.from_snapshot_id is None
    asserted = any(isinstance(each, AssertCreate) for each in request.requirements)
    if asserted is not creates:
        return "assert-create"
    uuids = [each.uuid for each in request.updates if isinstance(each, AssignUUIDUpdate)]
    if [str(uuid) for uuid in uuids] != ([change.uuid] if creates else []):
        return "assign-uuid"
    refs = (each for each in request.updates if isinstance(each, SetSnapshotRefUpdate))
    moved = [(each.type, each.snapshot_id) for each in refs if each.ref_name == MAIN_BRANCH]
    if moved != [(SnapshotRefType.BRANCH, change.to_snapshot_id)]:
        return "set-snapshot-ref main"
    return next((why for each in request.updates if (why := _why(logged, each, log))), "")


def _why(logged: LoggedChange, update: TableUpdate, log: Identifier) -> str:
    kind = logged.entry.kind
    keys: Iterator[str]
    if update.action not in _ACTIONS.get(kind, ()):
        return update.action
    match update:
        case AddSnapshotUpdate():
            keys = chain(_misstamped(logged.entry, update.snapshot), _no_totals(update.snapshot))
        case SetPropertiesUpdate():
            keys = _not_set(logged, update.updates, log)
        case RemovePropertiesUpdate():
            keys = (key for key in update.removals if not _may_remove(kind, key))
        case SetSnapshotRefUpdate() if not _may_set(kind, update):
            return f"{update.action} {update.ref_name}"
        case RemoveSnapshotRefUpdate() if not _may_drop(kind, update.ref_name):
            return f"{update.action} {update.ref_name}"
        case _:
            return ""
    return next((f"{update.action} {key}" for key in keys), "")


def _misstamped(entry: Entry, snapshot: Snapshot) -> Iterator[str]:
    """Give the keys by which a snapshot says that it is of another entry: others go by them."""
    for key, value in ((COMMIT_TS, str(entry.commit_ts)), (TXN_ID, entry.txn_id)):
        if summary_value(snapshot, key) != value:
            yield key


def _no_totals(snapshot: Snapshot) -> Iterator[str]:
    """Give the totals that are no numbers: pyiceberg appends nothing to what has one."""
    for key in _TOTALS:
        if not _TOTAL.fullmatch(summary_value(snapshot, key) or ""):
            yield key


def _not_set(logged: LoggedChange, updates: Mapping[str, str], log: Identifier) -> Iterator[str]:
    """Give the keys that a change may not set, or not to that."""
    entry, change = logged.entry, logged.change
    creates = change.operation is Operation.CREATE
    fixed: dict[str, str] = {}
    if (creates and change.from_snapshot_id is None) or entry.kind is not Kind.COMMIT:
        fixed |= {COMMIT_TABLE: ".".join(log), TABLE_UUID: change.uuid}
        fixed |= {LOG_ID: updates.get(LOG_ID, "")}  # a recovery renews it
    if entry.kind is Kind.COMMIT and creates:
        fixed[CREATED] = str(entry.commit_ts)
    if entry.kind is Kind.COMMIT and change.operation is Operation.DROP:
        fixed[PURGING] = entry.txn_id
    for key, value in updates.items():
        if is_reserved(key):
            if fixed.get(key) != value:
                yield key
        elif (
            steers(key)
            or is_unreadable(key, value)
            or not (entry.kind is Kind.COMMIT or key in _RETENTION)
        ):
            yield key


def is_reserved(key: str) -> bool:
    """Whether a key is the protocol's own, of a property or of a summary."""
    return key.startswith(PREFIX) and key != CONFLICTS


def steers(key: str) -> bool:
    """
    Whether a property says which code a library loads, or where it takes a table's files from.

    Who may write the log only would run code of his own, or see the credentials, of all who open
    the table.
    """
    return key in _PLACING or key.endswith((".impl", "-impl")) or key.startswith(_REACHING)


def refuse_steered(properties: Mapping[str, str]) -> None:
    """
    Refuse to write by what a commit table's properties tell libraries to load, or to delete.

    Whoever may write the commit table alone would run code of his own, or delete any file, by the
    hands of all who commit.

    Raises:
        Unsupported: With the property, which is to be removed with the catalog itself.
    """
    deletes = properties.get(_DELETES, "false").lower() == "true"
    key = next(filter(steers, properties), _DELETES if deletes else None)
    if key is not None:
        raise Unsupported(
            "the commit table has a property that no commit table has, by which a library loads"
            " code, reaches storage or deletes files, so nothing is written: look who has set it,"
            f" and remove it with the catalog itself; property=`{key}`"  # its value may be a secret
        )


class AssertNotSteered(AssertTableUUID):
    """
    Requires of the commit table its uuid, and of what a catalog swaps that nothing steers it.

    Catalogs that pyiceberg plays load the table once more, and then the code that it names: it may
    name some since the head was loaded. They ask this before; a server is asked for the uuid.
    """

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        """Refuse another table, and what `refuse_steered` does."""
        super().validate(base_metadata)
        if base_metadata is not None:
            refuse_steered(base_metadata.properties)


def _may_remove(kind: Kind, key: str) -> bool:
    return key in KEYS if kind is Kind.FORGET else not is_reserved(key)


def _may_set(kind: Kind, update: SetSnapshotRefUpdate) -> bool:
    if kind is not Kind.COMMIT:
        return update.ref_name == MAIN_BRANCH
    held = update.ref_name.startswith(HOLD_TAG) and update.type == SnapshotRefType.TAG
    return held or not update.ref_name.startswith(REF_PREFIX)


def _may_drop(kind: Kind, name: str) -> bool:
    return name != MAIN_BRANCH and (kind is Kind.COMMIT or name.startswith(FOREIGN_BRANCH))
