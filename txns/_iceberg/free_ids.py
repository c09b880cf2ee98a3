"""
What a change adds to a table that strangers may have added something to: which id it has there.

Java's metadata builder gives a free one; pyiceberg's would have two of one id. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.sorting import UNSORTED_SORT_ORDER_ID
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    RemoveSchemasUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

_LAST_ADDED = -1


def with_free_ids(
    base: TableMetadata | None, updates: Iterable[TableUpdate]
) -> Iterator[TableUpdate]:
    """
    Give the same updates; what the table has already is not added again.

    A schema or sort order whose id is taken gets the next free one, and what names it names that.
    A partition spec keeps its id, which stands in manifests: a taken one fits no table.
    """
    return _with_specs(base, _with_orders(base, _with_schemas(base, updates)))


def _with_schemas(
    base: TableMetadata | None, updates: Iterable[TableUpdate]
) -> Iterator[TableUpdate]:
    schemas = _Ids({each.schema_id: each for each in base.schemas} if base else {})
    for update in updates:
        match update:
            case AddSchemaUpdate(schema_=schema):
                if (here := schemas.added(schema.schema_id, schema)) is not None:
                    yield AddSchemaUpdate(schema_=schema.model_copy(update={"schema_id": here}))
            case SetCurrentSchemaUpdate(schema_id=wanted):
                yield SetCurrentSchemaUpdate(schema_id=schemas.named(wanted))
            case AddSnapshotUpdate(snapshot=snapshot):
                yield AddSnapshotUpdate(snapshot=_of_schema(snapshot, schemas))
            case RemoveSchemasUpdate(schema_ids=gone):
                if there := [each for each in map(schemas.named, gone) if schemas.removed(each)]:
                    yield RemoveSchemasUpdate(schema_ids=there)
            case _:
                yield update


def _with_orders(
    base: TableMetadata | None, updates: Iterable[TableUpdate]
) -> Iterator[TableUpdate]:
    known = {each.order_id: each.fields for each in base.sort_orders} if base else {}
    orders = _Ids(known, frozenset({UNSORTED_SORT_ORDER_ID}))
    for update in updates:
        match update:
            case AddSortOrderUpdate(sort_order=order):
                if (here := orders.added(order.order_id, order.fields)) is not None:
                    yield AddSortOrderUpdate(sort_order=order.model_copy(update={"order_id": here}))
            case SetDefaultSortOrderUpdate(sort_order_id=wanted):
                yield SetDefaultSortOrderUpdate(sort_order_id=orders.named(wanted))
            case _:
                yield update


def _with_specs(
    base: TableMetadata | None, updates: Iterable[TableUpdate]
) -> Iterator[TableUpdate]:
    specs = _Ids({each.spec_id: each.fields for each in base.partition_specs} if base else {})
    for update in updates:
        match update:
            case AddPartitionSpecUpdate(spec=spec):
                if not specs.has(spec.spec_id, spec.fields):
                    yield update
            case SetDefaultSpecUpdate(spec_id=wanted):
                yield SetDefaultSpecUpdate(spec_id=specs.named(wanted))
            case _:
                yield update


class _Ids:
    """The ids of one kind, while updates are laid over a table."""

    def __init__(self, known: Mapping[int, object], fixed: frozenset[int] = frozenset()) -> None:
        self._known = dict(known)
        self._fixed = fixed
        self._here: dict[int, int] = {}
        self._last = _LAST_ADDED

    def has(self, logged: int, wanted: object) -> bool:
        """Whether the very same is there under its id, which it keeps; it is the last one then."""
        there = self._known.get(logged) == wanted
        self._known.setdefault(logged, wanted)
        self._last = logged if there else _LAST_ADDED
        return there

    def added(self, logged: int, wanted: object) -> int | None:
        """Give the id under which something is to be added; None where an equal one is there."""
        equal = next((here for here, each in self._known.items() if each == wanted), None)
        free = logged if logged in self._fixed or not self._known else max(self._known) + 1
        here = free if equal is None else equal
        self._here[logged] = here
        self._last = _LAST_ADDED if equal is None else here
        self._known[here] = wanted
        return here if equal is None else None

    def named(self, logged: int) -> int:
        """Give the id of what a change names by one, or as the last added."""
        return self._last if logged == _LAST_ADDED else self._here.get(logged, logged)

    def removed(self, here: int) -> bool:
        """Take something away; give whether it was there."""
        return self._known.pop(here, None) is not None


def _of_schema(snapshot: Snapshot, schemas: _Ids) -> Snapshot:
    if snapshot.schema_id is None or schemas.named(snapshot.schema_id) == snapshot.schema_id:
        return snapshot
    return snapshot.model_copy(update={"schema_id": schemas.named(snapshot.schema_id)})
