"""
Metadata updates laid over table metadata, without copying what does not change.

Pure.
Imports: nothing of this package. Used by: _mark, _overlay, _staged, _tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate


def laid_over(base: TableMetadata, updates: Iterable[TableUpdate]) -> TableMetadata:
    """
    Give the metadata that updates make of a table's; `base` itself when they change nothing.

    pyiceberg's `update_table_metadata` does the same and then copies every snapshot deeply,
    which costs more than the update from some tens of snapshots on. Metadata is never changed
    in place here, so the copy is left out.

    Raises:
        ValueError: An update does not fit the table.
    """
    context = _TableMetadataUpdateContext()
    metadata = base
    for update in updates:
        metadata = _apply_table_update(update, metadata, context)
    if not context.has_changes():
        return base
    metadata.spec().check_compatible(metadata.schema())
    metadata.sort_order().check_compatible(metadata.schema())
    return metadata


def properties_changed(base: TableMetadata, updates: Iterable[TableUpdate]) -> Iterator[str]:
    """Give the keys of table properties that updates set to something else, or take away."""
    for update in updates:
        if isinstance(update, SetPropertiesUpdate):
            yield from (k for k, v in update.updates.items() if base.properties.get(k) != v)
        elif isinstance(update, RemovePropertiesUpdate):
            yield from (key for key in update.removals if key in base.properties)


def summary_keys(updates: Iterable[TableUpdate]) -> Iterator[str]:
    """Give the keys of the summaries of all snapshots that updates add."""
    for update in updates:
        if isinstance(update, AddSnapshotUpdate) and update.snapshot.summary is not None:
            yield from update.snapshot.summary.additional_properties
