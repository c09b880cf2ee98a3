"""The protocol's swap of a data table (docs/spec.md 8.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, ValidationError
from pyiceberg.table import Table

from txns._iceberg import timestamps
from txns._iceberg.old_metadata import remove_old
from txns._identifier import dotted_name

if TYPE_CHECKING:
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from txns._clock import Clock
    from txns._iceberg.locked_rows import LockedRows


def swap(
    catalog: Catalog | LockedRows,
    table: Table,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
    clock: Clock,
) -> Table:
    """
    Swap a data table for what updates make of it, whose times follow those it was loaded with.

    The answer is the table as the catalog itself has it then; who loads it may get a replica's.

    pyiceberg's catalogs load it once more, and lay the updates over whatever it is by then: one of
    the requirements has to assert the uuid.

    Raises:
        CommitFailedException: The table has moved. pyiceberg says so of a requirement; numbers that
            somebody has taken since, properties that are gone, and what somebody has it go by, are
            other errors of its own.
    """
    required = timestamps.required(table.metadata, requirements, updates, clock)
    try:
        response = catalog.commit_table(table, required, updates)
    except (KeyError, ValueError, ValidationError) as error:
        raise CommitFailedException(
            f"the table has moved; table={dotted_name(table.name())}"
        ) from error
    if isinstance(catalog, Catalog):  # locked rows do so themselves, once it is committed
        remove_old(table.io, table.metadata, response.metadata)
    made = (table.name(), response.metadata, response.metadata_location, table.io)
    return Table(*made, catalog if isinstance(catalog, Catalog) else catalog.catalog)
