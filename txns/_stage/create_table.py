"""
New tables inside the protocol: staged in memory, created by apply.

Docs/spec.md 6.4 and 6.5: a name that was dropped is created again on its physical table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.table import CreateTableTransaction
from pyiceberg.table import StagedTable as PlannedTable
from pyiceberg.table.update import (
    AssignUUIDUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    update_table_metadata,
)

from txns._iceberg import manifests
from txns._iceberg.new_table import has_view, plan
from txns._identifier import dotted_name
from txns._stage.recreate_table import is_base, recreation
from txns._stage.staged_table import Point, StagedTable
from txns._table import mark as _mark
from txns._table.purge_claim import refuse_claimed
from txns.errors import Conflict, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.table.update import TableUpdate
    from pyiceberg.typedef import Properties

    from txns._clock import Clock
    from txns._config import Config
    from txns._identifier import Identifier
    from txns._log.commit_log import CommitLog
    from txns._table.allowed_places import AllowedPlaces
    from txns._table.loaded import Loaded


class _Recreation(CreateTableTransaction):
    """A new table on the physical one of the dropped table that had its name."""

    def __init__(self, dropped: PlannedTable, updates: tuple[TableUpdate, ...]) -> None:
        self._recreation = updates
        super().__init__(dropped)

    def _initial_changes(self, table_metadata: TableMetadata) -> None:
        del table_metadata
        self._updates += self._recreation


@dataclass(frozen=True, slots=True)
class NewTables:
    """Plans tables that come under care with their first rows."""

    catalog: Catalog
    config: Config
    log: CommitLog
    places: AllowedPlaces
    clock: Clock

    def plan(
        self,
        catalog: Catalog,
        identifier: Identifier,
        schema: Schema | pa.Schema,
        location: str | None,
        spec: PartitionSpec,
        sort_order: SortOrder,
        properties: Properties,
        *,
        dropped: StagedTable | None,
        files: Callable[[Identifier, FileIO], FileIO],
    ) -> CreateTableTransaction:
        """
        Begin a new table that comes under care, on the physical one of a dropped table of its name.

        `files` gives the FileIO through which the new table's files are written.

        Raises:
            TableAlreadyExistsError: A view has the name: the catalog would never create the table.
            Unsupported: New tables do not come under care here, or not where it is asked for, or
                format 3 is asked for.
        """
        if self.config.register == "none":
            raise Unsupported(
                "a table created inside a transaction comes under care: open the catalog with"
                f" register='created', or create it outside; table=`{dotted_name(identifier)}`"
            )
        users = _mark.without_reserved(properties)
        keys = SetPropertiesUpdate(updates=users)
        asked = (SetLocationUpdate(location=location), keys) if location else (keys,)
        base = dropped.current if dropped else None
        self.places.refuse_to_stage(identifier, base, asked)
        # A server plans no table of a name that it has.
        unused = (*identifier[:-1], f"{identifier[-1]}-{self.clock.new_uuid()}")
        name = identifier if dropped is None else unused
        planned = plan(self.catalog, name, schema, location, spec, sort_order, users)
        if dropped is None and has_view(self.catalog, identifier):
            raise TableAlreadyExistsError(
                f"View with same name already exists: {dotted_name(identifier)}"
            )
        manifests.check_writable(planned.metadata, dotted_name(identifier))
        head = self.log.load_or_create()
        mark = _mark.mark_properties(
            self.log.identifier, head.log_id, str(planned.metadata.table_uuid)
        )
        own = planned.metadata.properties
        properties = {**own, **_mark.retention_properties(own), **mark}
        new = planned.metadata.model_copy(update={"properties": properties})
        io = files(identifier, dropped.io.inner if dropped else planned.io)
        if dropped is None:
            table = PlannedTable(identifier, new, planned.metadata_location, io, catalog)
            return CreateTableTransaction(table)
        old = dropped.current
        path = dropped.metadata_path("txns-staged.metadata.json")
        table = PlannedTable(identifier, old, path, io, catalog)
        return _Recreation(table, recreation(old, new, location))


def staged_creation(
    planned: Table, updates: tuple[TableUpdate, ...], dropped: StagedTable | None
) -> StagedTable:
    """
    Stage the updates that make a new table, of its name or of a dropped table.

    Raises:
        Conflict: A table of the name was dropped, or created again, since it was planned.
    """
    is_new = any(isinstance(update, AssignUUIDUpdate) for update in updates)
    fits = dropped is None if is_new else dropped and is_base(planned.metadata, dropped.current)
    if not fits:
        raise Conflict(
            "a table of the name was dropped, or created again, since this one was planned",
            table=planned.name(),
        )
    if dropped is not None:
        dropped.stage(updates)
        return dropped
    empty = manifests.empty_metadata()
    first = update_table_metadata(empty, updates, enforce_validation=True)
    staged = StagedTable(planned.name(), planned.io, first, create=True)
    staged.point = Point(first, updates, appended=False)
    return staged


def dropped_table(loaded: Loaded, places: AllowedPlaces) -> StagedTable:
    """
    Give a dropped table's physical one, to be created again.

    Raises:
        TableAlreadyExistsError: It is not dropped.
        Conflict: It is being purged.
        Quarantined: Strangers have written it since the drop, or it stands where this process
            writes nothing; the message has the cure.
    """
    if not loaded.dropped:
        raise TableAlreadyExistsError(f"Table {dotted_name(loaded.identifier)} already exists")
    refuse_claimed(loaded.identifier, loaded.metadata)
    places.refuse_to_write(loaded)
    return StagedTable.of(loaded.writable())
