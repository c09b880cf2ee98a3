"""
The mark in a data table's properties that puts it under a commit table's care.

Docs/spec.md 6.1. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from pyiceberg.table.update import RemovePropertiesUpdate, SetPropertiesUpdate

from txns._iceberg.snapshots import History, main_of, summary_value
from txns._iceberg.updates import properties_changed, summary_keys
from txns._identifier import dotted_name
from txns._log import commit_table, entry, permitted, stored
from txns.errors import CorruptLog, InvalidUsage, Unsupported

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

    from txns._identifier import Identifier


LOG_COLUMNS = {1: "commit_ts", 2: "committed_at", 3: "txn_id", 4: "kind"}
"""The first columns of every commit table, by id (docs/spec.md 3.1)."""

COMMIT_TABLE = permitted.COMMIT_TABLE
LOG_ID = commit_table.LOG_ID
"""Of the log that cares for the table; see `commit_table.log_id`."""
TABLE_UUID = permitted.TABLE_UUID
CREATED = permitted.CREATED
APPLIED = "txns.applied"
PURGING = permitted.PURGING
KEYS = permitted.KEYS

SNAPSHOT_COMMIT_TS = "txns.commit-ts"
SNAPSHOT_TXN_ID = "txns.txn-id"
SNAPSHOT_PASSING = "txns.passing"
"""On a snapshot of a change that it does not leave `main` on."""

SNAPSHOT_DROPPED = "txns.dropped"
SNAPSHOT_ADOPTED = "txns.adopted"
SNAPSHOT_RESTORED = "txns.restored"
"""On a copy of another snapshot: which one it is a copy of."""
NO_SNAPSHOT = -1
"""What a footing is a copy of where the table had no `main`."""

SNAPSHOT_LOST_ABOVE = "txns.lost-above"
"""On what adopts a table that was set back: the `commit_ts` above which its states are gone."""

REF_PREFIX = permitted.REF_PREFIX

FOREIGN_BRANCH = permitted.FOREIGN_BRANCH

FOR_EVER_MS = 2**63 - 1
"""The age of refs that no expiry may take, whatever the table's own default is."""

KEPT_TAG = f"{REF_PREFIX}kept-"
"""Tags on snapshots whose files came back are named this; see `_kept`."""

MIN_SNAPSHOTS_TO_KEEP = 10
MAX_SNAPSHOT_AGE_MS = 24 * 3600 * 1000
EXPIRE_KEEP = permitted.EXPIRE_KEEP
EXPIRE_AGE_MS = permitted.EXPIRE_AGE_MS


@dataclass(frozen=True, slots=True)
class TableMark:
    """
    A table's mark.

    Attributes:
        commit_table: The commit table that cares for it, its parts joined by dots.
        log_id: Of its log: the commit table's uuid, and what a recovery has added to it.
        created: `commit_ts` of the table's incarnation in ms; 0 for a registered table.
        applied: The greatest `commit_ts` that has been applied, in ms (I4).
    """

    commit_table: str
    log_id: str
    created: int
    applied: int


def mark_of(metadata: TableMetadata) -> TableMark | None:
    """
    Give the mark of a table, if it has one of its own.

    A mark that a copy of the properties brought along names another uuid: it does not count.
    """
    properties = metadata.properties
    commit_table = properties.get(COMMIT_TABLE)
    if commit_table is None or properties.get(TABLE_UUID) != str(metadata.table_uuid):
        return None
    if not commit_table or commit_table.endswith(".") or "\0" in commit_table:
        raise CorruptLog(f"the mark names no commit table; {COMMIT_TABLE}=`{commit_table}`")
    return TableMark(
        commit_table,
        properties.get(LOG_ID, ""),
        _number(properties, CREATED),
        _number(properties, APPLIED),
    )


def is_commit_table(metadata: TableMetadata) -> bool:
    """
    Whether a table is a log, this one or another.

    It has the archive's columns, and has had a record since its creation: one alone tells
    nothing, since anybody can make a table of the archive's rows, or name a summary's key.
    """
    names = {field.field_id: field.name for field in metadata.schema().fields}
    return LOG_COLUMNS.items() <= names.items() and any(
        summary_value(at, entry.KIND) is not None for at in metadata.snapshots
    )


def refuse_reserved(table: Identifier, keys: Iterable[str]) -> None:
    """
    Refuse keys that a user must not set, of a snapshot's summary or of a table under care.

    Raises:
        InvalidUsage: 42602, one begins with `txns.`.
    """
    for key in keys:
        if permitted.is_reserved(key):
            raise InvalidUsage(
                "42602",
                "properties that begin with txns. are the protocol's own, of snapshots and of"
                " tables under care: leave it out, or give it another name; forget takes a table"
                " from care;"
                f" key=`{key}` table=`{dotted_name(table)}`",
            )


def refuse_reserved_in(
    table: Identifier, metadata: TableMetadata, updates: Collection[TableUpdate]
) -> None:
    """
    Refuse what sets reserved keys, or takes them from a table under care.

    Raises:
        InvalidUsage: 42602.
    """
    refuse_reserved(table, summary_keys(updates))
    if mark_of(metadata) is not None:
        refuse_reserved(table, properties_changed(metadata, updates))


def without_unchanged(base: TableMetadata, update: TableUpdate) -> TableUpdate:
    """Leave out properties that nobody logs, and that a table under care has so already."""
    if not isinstance(update, SetPropertiesUpdate) or mark_of(base) is None:
        return update
    changed = {
        key: value
        for key, value in update.updates.items()
        if not (permitted.is_reserved(key) or permitted.steers(key))
        or base.properties.get(key) != value
    }
    return SetPropertiesUpdate(updates=changed)


def copied_keys(metadata: TableMetadata) -> list[str]:
    """Give the keys that a registration removes: what a copy of another table's properties has."""
    own = metadata.properties.get(TABLE_UUID) == str(metadata.table_uuid)
    gone = (CREATED,) if own else (CREATED, PURGING)
    return [key for key in gone if key in metadata.properties]


def without_reserved(properties: Mapping[str, str]) -> dict[str, str]:
    """Give a user's own properties, without those that a copy of another table's has brought."""
    return {key: value for key, value in properties.items() if not permitted.is_reserved(key)}


def refuse_commit_table(table: Identifier, metadata: TableMetadata) -> None:
    """
    Refuse to mark or to write a commit table: a snapshot that is no record would end its log.

    Raises:
        Unsupported: It is one.
    """
    if is_commit_table(metadata):
        raise written_by_protocol_only(table)


def written_by_protocol_only(table: Identifier) -> Unsupported:
    """Give the error for a write to a commit table."""
    return Unsupported(
        "this is a commit table, which is written by the protocol only and never comes under care:"
        f" read it, and write other tables; table=`{dotted_name(table)}`"
    )


def marked_above(metadata: TableMetadata, ts: int) -> bool:
    """Whether a registration has marked a table above a timestamp in ms."""
    return any(
        is_ours(at) and commit_ts_of(at) > ts and marks(metadata, at) for at in metadata.snapshots
    )


def care_ts(metadata: TableMetadata) -> int | None:
    """
    Give the `commit_ts` in ms at which a table came under care for the first time.

    None where its oldest snapshot of ours is not a registration's: the protocol created it, or has
    expired that one.
    """
    ours = [at for at in metadata.snapshots if is_ours(at)]
    first = min(ours, key=commit_ts_of, default=None)
    return commit_ts_of(first) if first and marks(metadata, first) else None


def marks(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Whether a snapshot is that of a registration's swap."""
    txn_id = summary_value(snapshot, SNAPSHOT_TXN_ID)
    return is_ours(snapshot) and txn_id == registration_id(metadata, snapshot)


def since_registration(metadata: TableMetadata) -> list[Snapshot]:
    """Give the snapshots of ours since a table was registered last: those of its own log."""
    ours = [at for at in metadata.snapshots if is_ours(at)]
    numbers = [at.sequence_number or 0 for at in ours if marks(metadata, at)]
    since = max(numbers, default=0)
    return [at for at in ours if (at.sequence_number or 0) >= since]


def registration_id(metadata: TableMetadata, snapshot: Snapshot) -> str:
    """Give the transaction id of the registration whose swap put a snapshot there."""
    return entry.derived_id("register", str(metadata.table_uuid), snapshot.snapshot_id)


def leaving(metadata: TableMetadata, commit_ts: int) -> tuple[TableUpdate, ...]:
    """Give what a forget does to the properties of a table; its `commit_ts` is in ms."""
    marked = [key for key in KEYS if key in metadata.properties]
    return (
        RemovePropertiesUpdate(removals=marked),
        SetPropertiesUpdate(updates={APPLIED: str(commit_ts)}),
    )


def applied_ts(metadata: TableMetadata) -> int:
    """Give `txns.applied` in ms of a table with or without a mark; 0 where there is none."""
    return _number(metadata.properties, APPLIED)


def created_ts(metadata: TableMetadata) -> int:
    """Give the `commit_ts` in ms that made a table what it is since; 0 for a registered table."""
    return _number(metadata.properties, CREATED)


def mark_properties(commit_table: Identifier, log_id: str, table_uuid: str) -> dict[str, str]:
    """Give the properties that mark a table, but for `txns.applied` and `txns.created`."""
    return {
        COMMIT_TABLE: ".".join(commit_table),
        LOG_ID: log_id,
        TABLE_UUID: table_uuid,
    }


def registration_properties(
    commit_table: Identifier,
    log_id: str,
    table_uuid: str,
    upper: int,
    properties: Mapping[str, str],
) -> dict[str, str]:
    """Give the properties that the swap of a registration sets (docs/spec.md, 6.1 and 6.2)."""
    mark = mark_properties(commit_table, log_id, table_uuid)
    return {**mark, APPLIED: str(upper), **retention_properties(properties)}


def retention_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Give the table properties that must change for expiry to leave what an overwrite needs."""
    raised: dict[str, str] = {}
    if _least(properties, EXPIRE_KEEP, 0) < MIN_SNAPSHOTS_TO_KEEP:
        raised[EXPIRE_KEEP] = str(MIN_SNAPSHOTS_TO_KEEP)
    if _least(properties, EXPIRE_AGE_MS, MAX_SNAPSHOT_AGE_MS) < MAX_SNAPSHOT_AGE_MS:
        raised[EXPIRE_AGE_MS] = str(MAX_SNAPSHOT_AGE_MS)
    return raised


def _least(properties: Mapping[str, str], key: str, default: int) -> int:
    try:
        return int(properties.get(key, default))
    except ValueError:  # somebody's slip: no expiry can read it either
        return 0


def is_ours(snapshot: Snapshot) -> bool:
    """Whether the protocol put a snapshot where it is (I7)."""
    return summary_value(snapshot, SNAPSHOT_COMMIT_TS) is not None


def above(metadata: TableMetadata, ts: int) -> frozenset[int]:
    """Give the `commit_ts` in ms of those at the top of `main` that lie above one in ms."""
    ours = takewhile(is_ours, History(metadata).ancestors(main_of(metadata)))
    return frozenset(takewhile(lambda at: at > ts, map(commit_ts_of, ours)))


def was_under_care(metadata: TableMetadata) -> bool:
    """
    Whether a table shows that it was under care, if without a mark: by snapshots of ours.

    Or by a footing: who adopts a table that was set back to before its registration puts one there.
    """
    return any(
        is_ours(each) or summary_value(each, SNAPSHOT_RESTORED) is not None
        for each in metadata.snapshots
    )


def commit_ts_of(snapshot: Snapshot) -> int:
    """Give the `commit_ts` in ms that a snapshot of ours carries."""
    return stored.number(summary_value(snapshot, SNAPSHOT_COMMIT_TS) or "", SNAPSHOT_COMMIT_TS)


def is_passing(snapshot: Snapshot) -> bool:
    """Whether a snapshot is inside a change, or of another branch: no state of `main`."""
    return summary_value(snapshot, SNAPSHOT_PASSING) is not None


def is_dropped(main: Snapshot | None) -> bool:
    """Whether a snapshot is the marker of a dropped table."""
    return summary_value(main, SNAPSHOT_DROPPED) is not None


def adopted_by(snapshot: Snapshot) -> set[int]:
    """Give the strangers' snapshots that one of ours has taken in."""
    return stored.snapshot_ids(summary_value(snapshot, SNAPSHOT_ADOPTED) or "", SNAPSHOT_ADOPTED)


def lost_above(snapshot: Snapshot) -> int | None:
    """Give the `commit_ts` in ms above which, and below its own, states are gone; None for none."""
    value = summary_value(snapshot, SNAPSHOT_LOST_ABOVE)
    return None if value is None else stored.number(value, SNAPSHOT_LOST_ABOVE)


def _number(properties: Mapping[str, str], key: str) -> int:
    value = properties.get(key)
    return 0 if value is None else stored.number(value, key)
