"""
What a transaction has read: tables with their filters, names found absent, namespaces listed.

Pure.
Imports: errors. Used by: _conflict, _transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txns.errors import Identifier


@dataclass
class ReadSet:
    """
    What was seen. It only grows, also when the transaction goes back to a savepoint.

    Attributes:
        tables: The filters under which a table was read, for messages.
        present: Names that were looked for and found.
        absent: Names that were looked for and not found.
        listed: Namespaces whose tables were listed.
        overwritten: Tables that were written over, if only where nothing matched.
        unprotected: What the protocol does not protect, by the name people know it by.
    """

    tables: dict[Identifier, list[str]] = field(default_factory=dict)
    present: set[Identifier] = field(default_factory=set)
    absent: set[Identifier] = field(default_factory=set)
    listed: set[Identifier] = field(default_factory=set)
    overwritten: set[Identifier] = field(default_factory=set)
    unprotected: set[str] = field(default_factory=set)

    def read(self, table: Identifier, row_filter: str = "true") -> None:
        """Note that rows of a table were read."""
        filters = self.tables.setdefault(table, [])
        if row_filter not in filters:
            filters.append(row_filter)

    def overwrite(self, table: Identifier, row_filter: str = "true") -> None:
        """Note that rows of a table were replaced: a filter that matches nothing still says so."""
        self.read(table, row_filter)
        self.overwritten.add(table)

    def filter_of(self, table: Identifier) -> str:
        """Give the filters under which a table was read, in words."""
        filters = self.tables.get(table, [])
        return "true" if "true" in filters else " or ".join(filters)
