"""
Removals of a logged change, cut down to what a table has.

pyiceberg refuses to remove what is not there, Java does not; and the log is laid over any
state: a stranger's expiry may have been faster.
Pure.
Imports: nothing of this package. Used by: _overlay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSnapshotUpdate,
    RemovePartitionSpecsUpdate,
    RemovePartitionStatisticsUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    SetPartitionStatisticsUpdate,
    SetPropertiesUpdate,
    SetStatisticsUpdate,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate


class _There:
    """What a table has, while updates are laid over it."""

    def __init__(self, base: TableMetadata | None) -> None:
        self.properties = set(base.properties) if base else set()
        self.snapshots = {each.snapshot_id for each in base.snapshots} if base else set()
        self.statistics = {each.snapshot_id for each in base.statistics} if base else set()
        self.specs = {each.spec_id for each in base.partition_specs} if base else set()
        self.partitions = (
            {each.snapshot_id for each in base.partition_statistics} if base else set()
        )

    def add(self, update: TableUpdate) -> None:
        match update:
            case SetPropertiesUpdate():
                self.properties.update(update.updates)
            case AddSnapshotUpdate():
                self.snapshots.add(update.snapshot.snapshot_id)
            case AddPartitionSpecUpdate():
                self.specs.add(update.spec.spec_id)
            case SetStatisticsUpdate():
                self.statistics.add(update.statistics.snapshot_id)
            case SetPartitionStatisticsUpdate():
                self.partitions.add(update.partition_statistics.snapshot_id)

    def removed(self, update: TableUpdate) -> TableUpdate | None:
        match update:
            case RemovePropertiesUpdate():
                keys = [key for key in update.removals if key in self.properties]
                self.properties.difference_update(keys)
                return RemovePropertiesUpdate(removals=keys)
            case RemoveSnapshotsUpdate():
                ids = [each for each in update.snapshot_ids if each in self.snapshots]
                self.snapshots.difference_update(ids)
                self.statistics.difference_update(ids)
                return RemoveSnapshotsUpdate(snapshot_ids=ids) if ids else None
            case RemovePartitionSpecsUpdate():
                ids = [each for each in update.spec_ids if each in self.specs]
                self.specs.difference_update(ids)
                return RemovePartitionSpecsUpdate(spec_ids=ids) if ids else None
            case RemoveStatisticsUpdate() | RemovePartitionStatisticsUpdate():
                plain = isinstance(update, RemoveStatisticsUpdate)
                known = self.statistics if plain else self.partitions
                if update.snapshot_id not in known:
                    return None
                known.remove(update.snapshot_id)
        return update


def fitted(base: TableMetadata | None, updates: Iterable[TableUpdate]) -> Iterator[TableUpdate]:
    """Give the same updates, without the removal of what is not there."""
    there = _There(base)
    for update in updates:
        there.add(update)
        kept = there.removed(update)
        if kept is not None:
            yield kept
