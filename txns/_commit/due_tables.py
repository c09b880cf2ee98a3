"""The data tables that changes are due on, as an applier loads them (docs/spec.md 8.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

from txns._identifier import dotted_name
from txns._log.entry import LoggedChange
from txns._log.state import without_ended
from txns._table import mark as _mark

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from txns._identifier import Identifier
    from txns._log.commit_log import CommitLog
    from txns._log.head import Head
    from txns._table.data_tables import DataTables


class DueTables:
    """Loads tables to apply to."""

    def __init__(self, catalog: Catalog, log: CommitLog, tables: DataTables) -> None:
        self._catalog = catalog
        self._log = log
        self._tables = tables

    def load(self, table: Identifier) -> Table | None:
        """Load a table past every cache; None where the catalog does not have it."""
        try:
            return self._catalog.load_table(table)
        except NoSuchTableError:
            return None

    def load_for(self, head: Head, table: Identifier) -> Table | None:
        """
        Load a table to carry out what a head holds for it; None where the catalog does not have it.

        Where a forget is outstanding on a table that has been registered since, as a reader does.

        Raises:
            Quarantined: It was set back.
        """
        real = self.load(table)
        if real and head.state.after_forget_ts(self.changes(head, table, real)) is not None:
            return self._tables.whole(table, head)
        return real

    @staticmethod
    def changes(head: Head, table: Identifier, real: Table | None) -> list[LoggedChange]:
        """
        Give the changes of a table, by its newest name or its uuid, that may have to be applied.

        A table that was taken from care had everything before applied: whether it is there
        still, or another one under its name, is the catalog's word.
        """
        uuid = str(real.metadata.table_uuid) if real else None
        applied = _mark.applied_ts(real.metadata) if real else 0
        return without_ended(
            [
                LoggedChange(entry, change)
                for entry in head.state.entries
                for change in entry.carried
                if (change.uuid == uuid and entry.commit_ts > applied)
                or (
                    head.state.name_of(change) == table
                    and change.uuid != uuid
                    and entry.commit_ts > head.state.forgotten_ts(change.uuid)
                )
            ]
        )

    def whole(self, table: Identifier, forget: LoggedChange, head: Head) -> Table:
        """
        Load a table that is to leave care as a reader does.

        A forget asks nothing of what it stands on, so nothing else tells of a replica that lags, or
        of a table that was set back.

        Raises:
            CommitFailedException: What comes before the forget is not applied any more.
            Quarantined: It was set back.
        """
        real = self._tables.whole(table, head)
        self.check_mark(table, head, real)
        uuid, applied = str(real.metadata.table_uuid), _mark.applied_ts(real.metadata)
        if head.state.changes(uuid, after=applied, upto=forget.commit_ts - 1):
            raise CommitFailedException(f"the table was set back: {dotted_name(table)}")
        return real

    def check_mark(self, table: Identifier, head: Head, real: Table | None) -> None:
        """Refuse a table that is marked by this log, and does not belong to it (spec 8.1, 2)."""
        mark = _mark.mark_of(real.metadata) if real else None
        if real and mark and mark.commit_table == ".".join(self._log.identifier):
            self._tables.check_mark(table, real.metadata, mark, head)
