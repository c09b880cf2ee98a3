"""
Metadata updates laid over table metadata: over any state of it, without needless copies.

Pure.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, UNSORTED_SORT_ORDER_ID
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    RemovePartitionSpecsUpdate,
    RemovePartitionStatisticsUpdate,
    RemovePropertiesUpdate,
    RemoveSchemasUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
    SetPartitionStatisticsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    SetStatisticsUpdate,
    UpgradeFormatVersionUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
)
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
)

from txns._iceberg.fitting_defaults import LAST_ADDED
from txns._iceberg.free_ids import with_free_ids
from txns._iceberg.snapshot_index import index_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate


_READ_ONLY_FORMAT = 3
"""pyiceberg reads tables of this format, and does not upgrade to it."""


def laid_over(base: TableMetadata, updates: Iterable[TableUpdate]) -> TableMetadata:
    """
    Give the metadata that updates make of a table's; `base` itself when they change nothing.

    pyiceberg's `update_table_metadata` does the same and then copies every snapshot deeply,
    which costs more than the update from some tens of snapshots on. Metadata is never changed
    in place here, so the copy is left out.

    Raises:
        ValueError: An update does not fit the table.
    """
    try:
        return _laid_over(base, updates)
    except _OF_PYICEBERG as error:
        raise ValueError(f"pyiceberg cannot make of it: {type(error).__name__} {error}") from error


def staged_over(base: TableMetadata, updates: Iterable[TableUpdate]) -> TableMetadata:
    """
    Give what pyiceberg's own transactions show of a table while updates are staged.

    It is pyiceberg's `update_table_metadata` without the deep copy at its end, and the time of it.

    Raises:
        Exception: As there, where an update does not fit the table.
    """
    context = _TableMetadataUpdateContext()
    metadata = base
    for update in updates:
        metadata = _apply_table_update(update, metadata, context)
    metadata.spec().check_compatible(metadata.schema())
    metadata.sort_order().check_compatible(metadata.schema())
    return metadata


_OF_PYICEBERG = (StopIteration, TypeError, AttributeError, LookupError, NotImplementedError)
"""What it says of updates that nobody meant, besides errors of values."""


def _laid_over(base: TableMetadata, updates: Iterable[TableUpdate]) -> TableMetadata:
    updates = tuple(updates)
    context = _TableMetadataUpdateContext()
    if all(isinstance(each, _LEAVES_SNAPSHOTS) for each in updates):
        few = _with_those_named(base, updates)
        laid = _each_laid_over(few, updates, context)
        added = laid.snapshots[len(few.snapshots) :]
        metadata = laid.model_copy(update={"snapshots": [*base.snapshots, *added]})
    else:
        metadata = _each_laid_over(base, updates, context)
    if not context.has_changes():
        return base
    _check_goes_by_what_is_there(base, metadata)
    _check_partition_names(base, metadata)
    metadata.spec().check_compatible(metadata.schema())
    metadata.sort_order().check_compatible(metadata.schema())
    return metadata


_LEAVES_SNAPSHOTS = (
    AddSnapshotUpdate,
    SetSnapshotRefUpdate,
    SetPropertiesUpdate,
    RemovePropertiesUpdate,
)
"""What looks for no snapshots but those that it names, and takes none away."""


def _with_those_named(base: TableMetadata, updates: Sequence[TableUpdate]) -> TableMetadata:
    """Give a table with no snapshots but those that updates name: pyiceberg walks all for each."""
    there = index_of(base)
    named = (each.snapshot.snapshot_id for each in updates if isinstance(each, AddSnapshotUpdate))
    led_to = (each.snapshot_id for each in updates if isinstance(each, SetSnapshotRefUpdate))
    found = filter(None, map(there.get, dict.fromkeys(chain(named, led_to))))
    return base.model_copy(update={"snapshots": [*found]})


def _each_laid_over(
    base: TableMetadata, updates: Iterable[TableUpdate], context: _TableMetadataUpdateContext
) -> TableMetadata:
    metadata = base
    for update in updates:
        if _is_of_read_only(update):
            if metadata.format_version < _READ_ONLY_FORMAT:
                metadata = _read_only(metadata)
                context.add_update(update)
        else:
            metadata = _apply_table_update(update, metadata, context)
    return metadata


def unlisted_order(metadata: TableMetadata) -> tuple[TableUpdate, ...]:
    """
    Give what lists the order of a table without one, where that is missing.

    Tables come from others so: Iceberg's Java builds nothing on them, and pyiceberg adds no
    snapshot where none is listed.
    """
    listed = {each.order_id for each in metadata.sort_orders}
    missing = {metadata.default_sort_order_id} - listed == {UNSORTED_SORT_ORDER_ID}
    return (AddSortOrderUpdate(sort_order=UNSORTED_SORT_ORDER),) if missing else ()


def _check_goes_by_what_is_there(base: TableMetadata, metadata: TableMetadata) -> None:
    """Refuse ids of nothing, which pyiceberg sets and Java does not load; see `unlisted_order`."""
    there = (
        ("schema", metadata.current_schema_id, (each.schema_id for each in metadata.schemas)),
        ("spec", metadata.default_spec_id, (each.spec_id for each in metadata.partition_specs)),
        ("order", metadata.default_sort_order_id, (each.order_id for each in metadata.sort_orders)),
    )
    for what, wanted, known in there:
        of_others = what == "order" and base.schemas and unlisted_order(base)
        if wanted not in known and not (of_others and wanted == UNSORTED_SORT_ORDER_ID):
            raise ValueError(f"the table has no {what} {wanted}")


def _check_partition_names(base: TableMetadata, metadata: TableMetadata) -> None:
    """
    Refuse names of partition fields with which Java does not load a table, but those it has.

    Docs/spec.md 8.1.
    """
    same = base.schemas == metadata.schemas and base.current_schema_id == metadata.current_schema_id
    if not base.schemas or (same and base.partition_specs == metadata.partition_specs):
        return  # a new one is nobody's yet
    there = set(_clashing(base))
    for spec_id, name in _clashing(metadata):
        if (spec_id, name) not in there:
            raise ValueError(
                f"partition spec {spec_id} has a field that is called as another, or as a column"
                f" that it is not of, or nothing: `{name}`"
            )


def _clashing(metadata: TableMetadata) -> Iterator[tuple[int, str]]:
    columns = metadata.schema()._name_to_id  # noqa: SLF001
    ids = set(columns.values())
    for spec in metadata.partition_specs:
        names: set[str] = set()
        for field in spec.fields:
            column = columns.get(field.name, field.source_id)
            if (
                not field.name
                or field.name in names
                or (column != field.source_id and field.source_id in ids)
            ):
                yield spec.spec_id, field.name
            names.add(field.name)


def _is_of_read_only(update: TableUpdate) -> bool:
    return (
        isinstance(update, UpgradeFormatVersionUpdate)
        and update.format_version == _READ_ONLY_FORMAT
    )


def _read_only(metadata: TableMetadata) -> TableMetadata:
    """Give a table as it is after an upgrade to format 3: no row has an id yet."""
    fields = {**dict(metadata), "format_version": _READ_ONLY_FORMAT, "next_row_id": 0}
    return TableMetadataV3.model_construct(**fields)


def with_known_references(
    base: TableMetadata | None, updates: Iterable[TableUpdate]
) -> Iterator[TableUpdate]:
    """
    Give the same updates, fitted to a table that may not be the one they were made for.

    Removals are cut down to what can go, and what is added has ids that are free.

    Args:
        base: What they are to be laid over; None for a new table.
        updates: By the ids of that table.
    """
    return with_removals_that_can_be(base, with_free_ids(base, updates))


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


_REMOVALS = (
    RemovePropertiesUpdate,
    RemoveSnapshotsUpdate,
    RemovePartitionSpecsUpdate,
    RemoveSchemasUpdate,
    RemoveStatisticsUpdate,
    RemovePartitionStatisticsUpdate,
)


class _There:
    """What a table has, while updates are laid over it."""

    def __init__(self, base: TableMetadata | None) -> None:
        self.properties = set(base.properties) if base else set()
        self.snapshots = {each.snapshot_id for each in base.snapshots} if base else set()
        self.statistics = {each.snapshot_id for each in base.statistics} if base else set()
        self.schemas = {each.schema_id for each in base.schemas} if base else set()
        self.specs = {each.spec_id for each in base.partition_specs} if base else set()
        self._schema = base.current_schema_id if base else None
        self._spec = base.default_spec_id if base else None
        self._last_schema: int | None = None
        self._last_spec: int | None = None
        self.partitions = (
            {each.snapshot_id for each in base.partition_statistics} if base else set()
        )

    def add(self, update: TableUpdate) -> None:
        match update:
            case SetPropertiesUpdate():
                self.properties.update(update.updates)
            case AddSnapshotUpdate():
                self.snapshots.add(update.snapshot.snapshot_id)
            case AddSchemaUpdate(schema_=schema):
                self._last_schema = schema.schema_id
                self.schemas.add(schema.schema_id)
            case SetCurrentSchemaUpdate(schema_id=named):
                self._schema = self._last_schema if named == LAST_ADDED else named
            case AddPartitionSpecUpdate(spec=spec):
                self._last_spec = spec.spec_id
                self.specs.add(spec.spec_id)
            case SetDefaultSpecUpdate(spec_id=named):
                self._spec = self._last_spec if named == LAST_ADDED else named
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
                ids = [each for each in update.spec_ids if each in self.specs - {self._spec}]
                self.specs.difference_update(ids)
                return RemovePartitionSpecsUpdate(spec_ids=ids) if ids else None
            case RemoveSchemasUpdate():
                ids = [each for each in update.schema_ids if each in self.schemas - {self._schema}]
                self.schemas.difference_update(ids)
                return RemoveSchemasUpdate(schema_ids=ids) if ids else None
            case RemoveStatisticsUpdate() | RemovePartitionStatisticsUpdate():
                plain = isinstance(update, RemoveStatisticsUpdate)
                known = self.statistics if plain else self.partitions
                if update.snapshot_id not in known:
                    return None
                known.remove(update.snapshot_id)
        return update


def with_removals_that_can_be(
    base: TableMetadata | None, updates: Iterable[TableUpdate]
) -> Iterator[TableUpdate]:
    """
    Give the same updates, without the removal of what is not there, or what a table goes by.

    pyiceberg refuses the former, and Java the latter. A stranger's expiry may have been faster, or
    they have made the schema current, or the spec the default, that a change takes away.
    """
    changes = tuple(updates)
    if not any(isinstance(update, _REMOVALS) for update in changes):
        yield from changes  # what a table has, with all its snapshots, matters to removals alone
        return
    there = _There(base)
    for update in changes:
        there.add(update)
        kept = there.removed(update)
        if kept is not None:
            yield kept


def reads_as(written: IcebergType, wanted: IcebergType) -> bool:
    """
    Whether every library reads a column of one type as another; the columns in it aside.

    pyiceberg's own `promote` has more, and says nothing of a decimal's scale.
    """
    if not isinstance(wanted, PrimitiveType):
        return type(written) is type(wanted)
    if isinstance(written, DecimalType) and isinstance(wanted, DecimalType):
        return written.scale == wanted.scale and written.precision <= wanted.precision
    widened = isinstance(written, IntegerType) and isinstance(wanted, LongType)
    doubled = isinstance(written, FloatType) and isinstance(wanted, DoubleType)
    return written == wanted or widened or doubled
