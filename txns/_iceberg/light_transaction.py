"""pyiceberg's transaction over one table, which does not copy that each time it looks at it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import UpdateSnapshot

from txns._iceberg.deletes import Deletes, Overwrites
from txns._iceberg.updates import staged_over

if TYPE_CHECKING:
    import uuid

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata


class LightTransaction(Transaction):
    """
    Stages several operations of one table.

    A producer of snapshots asks for the table about a dozen times, and pyiceberg lays what is
    staged over it each time, and copies all of its snapshots deeply, and so what they say.
    """

    def __init__(self, table: Table) -> None:
        """Begin with the table as it was loaded."""
        super().__init__(table)
        self._so_far = table.metadata, self._updates, table.metadata

    @property
    def table_metadata(self) -> TableMetadata:
        """The table with what is staged; it belongs to all who ask."""
        base, updates, metadata = self._so_far
        if base is not self._table.metadata or updates is not self._updates:
            base, updates = self._table.metadata, self._updates
            metadata = staged_over(base, updates) if updates else base
            self._so_far = base, updates, metadata
        return metadata

    def update_snapshot(self, *args: Any, **kwargs: Any) -> UpdateSnapshot:
        """Choose how a snapshot is made; see pyiceberg's own."""
        return LightUpdates(super().update_snapshot(*args, **kwargs))


class LightUpdates(UpdateSnapshot):
    """pyiceberg's choice of snapshot producers, with those of ours that remove files."""

    def __init__(self, plain: UpdateSnapshot) -> None:
        """Make the snapshots that another one would."""
        self.__dict__.update(plain.__dict__)

    def overwrite(self, commit_uuid: uuid.UUID | None = None) -> Overwrites:
        """Replace files."""
        plain = super().overwrite(commit_uuid)
        return Overwrites(
            plain._operation,  # noqa: SLF001 -- an append, where there is nothing yet
            self._transaction,
            self._io,
            plain.commit_uuid,
            self._snapshot_properties,
            self._branch,
        )

    def delete(self) -> Deletes:
        """Drop files by a filter."""
        return Deletes(
            Operation.DELETE,
            self._transaction,
            self._io,
            branch=self._branch,
            snapshot_properties=self._snapshot_properties,
        )
