"""pyiceberg's transaction over one table, which does not copy that each time it looks at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table import Transaction

from txns._iceberg.updates import staged_over

if TYPE_CHECKING:
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
