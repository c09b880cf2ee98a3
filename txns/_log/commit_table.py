"""
What the commit table is made of: its columns, its properties, its first record.

Docs/spec.md 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSnapshotUpdate, AssertCreate, SetPropertiesUpdate
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from txns._iceberg import snapshots
from txns._iceberg.manifests import Listing
from txns._iceberg.new_table import creating_updates, plan
from txns._log import entry
from txns._log.entry import THIS_ENGINE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.table.update import SetSnapshotRefUpdate, TableUpdate

    from txns._clock import Clock
    from txns._identifier import Identifier

SCHEMA = Schema(
    NestedField(1, "commit_ts", LongType(), required=True),
    NestedField(2, "committed_at", TimestamptzType(), required=True),
    NestedField(3, "txn_id", StringType(), required=True),
    NestedField(4, "kind", StringType(), required=True),
    NestedField(5, "table_name", StringType(), required=False),
    NestedField(6, "table_uuid", StringType(), required=False),
    NestedField(7, "operation", StringType(), required=False),
    NestedField(8, "parent_snapshot_id", LongType(), required=False),
    NestedField(9, "snapshot_id", LongType(), required=False),
    NestedField(10, "added_records", LongType(), required=False),
    NestedField(11, "deleted_records", LongType(), required=False),
    NestedField(12, "read_ts", LongType(), required=True),
    NestedField(13, "isolation", StringType(), required=True),
    NestedField(14, "engine", StringType(), required=False),
    NestedField(15, "comment", StringType(), required=False),
)
"""The archive: one row per entry and change."""

PROPERTIES = {
    "write.metadata.compression-codec": "none",
    "write.metadata.previous-versions-max": "1",
    "write.metadata.delete-after-commit.enabled": "false",
    "gc.enabled": "false",
}

LOG_ID = "txns.log-id"
"""On the commit table: which epoch of the log it is in, since a recovery; see `log_id`."""

MIN_SNAPSHOTS_TO_KEEP = 2147483647
MAX_SNAPSHOT_AGE_MS = 100 * 365 * 24 * 3600 * 1000
"""A hundred years: with the count above, what keeps other engines' expiry away."""


def main_at(snapshot_id: int) -> SetSnapshotRefUpdate:
    """Give the update that moves the commit table's `main`, its retention repeated."""
    return snapshots.branch_at(
        MAIN_BRANCH,
        snapshot_id,
        min_snapshots_to_keep=MIN_SNAPSHOTS_TO_KEEP,
        max_snapshot_age_ms=MAX_SNAPSHOT_AGE_MS,
    )


def log_id(uuid: str, properties: Mapping[str, str]) -> str:
    """
    Give what marks name a log by: its commit table's uuid, and what a recovery has added to it.

    Two tables never have one: properties that a copy has brought along begin with another uuid.
    """
    renewed = properties.get(LOG_ID, "")
    return renewed if renewed.startswith(f"{uuid}-") else uuid


def in_epoch(update: TableUpdate, log_id: Callable[[], str]) -> TableUpdate:
    """Give an update of a data table whose mark, if it sets one, names the log as it is now."""
    if not isinstance(update, SetPropertiesUpdate) or LOG_ID not in update.updates:
        return update
    return SetPropertiesUpdate(updates={**update.updates, LOG_ID: log_id()})


def _create_namespace(catalog: Catalog, namespace: Identifier) -> None:
    try:
        catalog.create_namespace_if_not_exists(namespace)
    except Exception:
        # Two creators: SqlCatalog tells the second one of its database's key.
        if not catalog.namespace_exists(namespace):
            raise


def create(catalog: Catalog, identifier: Identifier, clock: Clock) -> None:
    """Create the commit table with its first record, in one step; two creators make one."""
    if identifier[:-1]:
        _create_namespace(catalog, identifier[:-1])
    planned = plan(
        catalog,
        identifier,
        SCHEMA,
        None,
        UNPARTITIONED_PARTITION_SPEC,
        UNSORTED_SORT_ORDER,
        {"format-version": "2", **PROPERTIES},
    )
    metadata, io = planned.metadata, planned.io
    first = entry.Entry(
        entry.Kind.TIDY, clock.new_txn_id(), upper=0, tidied_upto=0, engine=THIS_ENGINE
    )
    snapshot_id = clock.new_snapshot_id()
    path = f"{metadata.location}/metadata/snap-{snapshot_id}-0-{clock.new_uuid()}.avro"
    snapshot = snapshots.new_snapshot(
        io,
        metadata,
        path,
        snapshot_id=snapshot_id,
        parent=None,
        operation=snapshots.APPEND,
        summary=entry.to_summary(first),
        listing=Listing(),
        now_ms=clock.now_ms(),
    )
    updates = (
        *creating_updates(metadata),
        AddSnapshotUpdate(snapshot=snapshot),
        main_at(snapshot_id),
    )
    try:
        catalog.commit_table(planned, (AssertCreate(),), updates)
    except (TableAlreadyExistsError, CommitFailedException):
        return  # somebody else has created it: theirs is as good


def is_its_own(path: str, location: str) -> bool:
    """Whether a file lies below a commit table's location, as its metadata writes paths."""
    return path.startswith(f"{location.rstrip('/')}/") and ".." not in path.split("/")
