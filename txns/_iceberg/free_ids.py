"""
The ids of schemas and sort orders: by those of what a change was staged on, and by the table's.

Strangers may have taken an id that a change gives, or what came before it was given another one. So
a change says what each id that it names was: it adds that, be it there already (`naming_all`), and
an applier finds the equal one, or the next free id. So it is with partition specs, but that they
keep their ids. Docs/spec.md 7. Java's metadata builder does half of this; pyiceberg would have two
of one id. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.sorting import UNSORTED_SORT_ORDER_ID
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    RemoveSchemasUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
)

from txns._iceberg.fitting_defaults import LAST_ADDED
from txns._iceberg.snapshots import adds_files, main_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyiceberg.table import CommitTableRequest
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate


def naming_all(
    base: TableMetadata,
    requirements: Iterable[TableRequirement],
    updates: Sequence[TableUpdate],
) -> tuple[TableUpdate, ...]:
    """
    Give a change's updates, before them those that add what it names of what is there already.

    But for the schema of the snapshot that `main` is on, which most changes name.

    Args:
        base: What the change was staged on.
        requirements: Those of the change.
        updates: Those of the change.
    """
    told = {UNSORTED_SORT_ORDER_ID, LAST_ADDED}
    orders = {each for one in (*requirements, *updates) for each in _orders_in(one)} - told
    schemas = {each for one in (*requirements, *updates) for each in _schemas_in(one)}
    schemas.discard(_of_source(main_of(base)))
    specs = {each for one in updates for each in _specs_in(one, base)}
    return (
        *(AddPartitionSpecUpdate(spec=one) for one in base.partition_specs if one.spec_id in specs),
        *(AddSchemaUpdate(schema_=one) for one in base.schemas if one.schema_id in schemas),
        *(AddSortOrderUpdate(sort_order=one) for one in base.sort_orders if one.order_id in orders),
        *updates,
    )


def _schemas_in(each: TableRequirement | TableUpdate) -> list[int | None]:
    """Give the ids of schemas that something names."""
    match each:
        case AssertCurrentSchemaId():
            return [each.current_schema_id]
        case SetCurrentSchemaUpdate():
            return [each.schema_id]
        case AddSnapshotUpdate():
            return [each.snapshot.schema_id]
        case RemoveSchemasUpdate():
            return [*each.schema_ids]
    return []


def _specs_in(each: TableUpdate, base: TableMetadata) -> list[int | None]:
    """Give the ids of specs that something names: of new files that is the table's own."""
    match each:
        case SetDefaultSpecUpdate():
            return [each.spec_id]
        case AddSnapshotUpdate():
            return [base.default_spec_id] if adds_files(each.snapshot) else []
    return []


def _orders_in(each: TableRequirement | TableUpdate) -> list[int | None]:
    match each:
        case AssertDefaultSortOrderId():
            return [each.default_sort_order_id]
        case SetDefaultSortOrderUpdate():
            return [each.sort_order_id]
    return []


def by_ids_of(
    base: TableMetadata, request: CommitTableRequest, source: Snapshot | None
) -> CommitTableRequest:
    """
    Give a change's request by a table's ids, as `with_free_ids` does.

    Args:
        base: The table.
        request: As it was staged.
        source: The snapshot that it was staged on, as the table has it: a schema that the request
            does not add is that one's.
    """
    schemas, orders = _schemas(base, source), _orders(base)
    for update in request.updates:
        match update:
            case AddSchemaUpdate(schema_=schema):
                schemas.added(schema.schema_id, schema)
            case AddSortOrderUpdate(sort_order=order):
                orders.added(order.order_id, order.fields)
            case AddPartitionSpecUpdate():
                pass
            case _:
                break  # an id that was given away above may be given again below
    required = tuple(_required(each, schemas, orders) for each in request.requirements)
    updates = tuple(_here(base, request.updates, source))
    return request.model_copy(update={"requirements": required, "updates": updates})


def with_free_ids(
    base: TableMetadata | None, updates: Iterable[TableUpdate]
) -> Iterator[TableUpdate]:
    """
    Give updates that name what is there by a table's ids; what it has is not added again.

    A schema or sort order whose id is taken gets the next free one, and what names it names that.
    A partition spec keeps its id, which stands in manifests: a taken one fits no table.

    Args:
        base: The table; None for one that they create.
        updates: In their order.
    """
    return _here(base, updates, None)


def _here(
    base: TableMetadata | None, updates: Iterable[TableUpdate], source: Snapshot | None
) -> Iterator[TableUpdate]:
    return _with_specs(base, _with_orders(base, _with_schemas(base, updates, source)))


def _required(requirement: TableRequirement, schemas: _Ids, orders: _Ids) -> TableRequirement:
    match requirement:
        case AssertCurrentSchemaId(current_schema_id=named):
            return AssertCurrentSchemaId(current_schema_id=schemas.named(named))
        case AssertDefaultSortOrderId(default_sort_order_id=named):
            return AssertDefaultSortOrderId(default_sort_order_id=orders.named(named))
        case _:
            return requirement


def _with_schemas(
    base: TableMetadata | None, updates: Iterable[TableUpdate], source: Snapshot | None
) -> Iterator[TableUpdate]:
    schemas = _schemas(base, source)
    gone: set[int] = set()
    for update in updates:
        match update:
            case AddSchemaUpdate(schema_=schema):
                if (here := schemas.added(schema.schema_id, schema)) is not None:
                    yield AddSchemaUpdate(schema_=schema.model_copy(update={"schema_id": here}))
                gone.discard(schemas.named(schema.schema_id))
            case SetCurrentSchemaUpdate(schema_id=wanted):
                yield SetCurrentSchemaUpdate(schema_id=schemas.named(wanted))
            case AddSnapshotUpdate(snapshot=snapshot):
                yield AddSnapshotUpdate(snapshot=_of_schema(snapshot, schemas))
            case RemoveSchemasUpdate(schema_ids=ids):
                gone.update(map(schemas.named, ids))
            case _:
                yield update
    if gone:  # last: Iceberg's builder does not give an id again that it has taken away
        yield RemoveSchemasUpdate(schema_ids=sorted(gone))


def _with_orders(
    base: TableMetadata | None, updates: Iterable[TableUpdate]
) -> Iterator[TableUpdate]:
    orders = _orders(base)
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
                if not specs.kept(spec.spec_id, spec.fields):
                    yield update
            case SetDefaultSpecUpdate(spec_id=wanted):
                yield SetDefaultSpecUpdate(spec_id=specs.named(wanted))
            case _:
                yield update


def _schemas(base: TableMetadata | None, source: Snapshot | None) -> _Ids:
    known = {each.schema_id: each for each in base.schemas} if base else {}
    return _Ids(known, default=_of_source(source))


def _orders(base: TableMetadata | None) -> _Ids:
    known = {each.order_id: each.fields for each in base.sort_orders} if base else {}
    return _Ids(known, fixed=frozenset({UNSORTED_SORT_ORDER_ID}))


def _of_source(source: Snapshot | None) -> int | None:
    return None if source is None else source.schema_id


class _Ids:
    """The ids of one kind, while updates are laid over a table."""

    def __init__(
        self,
        known: Mapping[int, object],
        *,
        fixed: frozenset[int] = frozenset(),
        default: int | None = None,
    ) -> None:
        self._known = dict(known)
        self._fixed = fixed
        self._default = default
        self._here: dict[int, int] = {}
        self._last = LAST_ADDED

    def kept(self, logged: int, wanted: object) -> bool:
        """Take what keeps its id for the last one added; give whether it is there already."""
        there = self._known.get(logged) == wanted
        self._known.setdefault(logged, wanted)
        self._last = logged
        return there

    def added(self, logged: int, wanted: object) -> int | None:
        """Give the id under which something is to be added; None where an equal one is there."""
        equal = next((here for here, each in self._known.items() if each == wanted), None)
        free = logged if logged in self._fixed or not self._known else max(self._known) + 1
        here = free if equal is None else equal
        self._here[logged] = here
        self._last = LAST_ADDED if equal is None else here
        self._known[here] = wanted
        return here if equal is None else None

    def named(self, logged: int | None) -> int:
        """Give the id of what a change names by one, or as the last added."""
        if logged == LAST_ADDED:
            return self._last
        assert logged is not None
        return self._here.get(logged, logged if self._default is None else self._default)


def _of_schema(snapshot: Snapshot, schemas: _Ids) -> Snapshot:
    if snapshot.schema_id is None or schemas.named(snapshot.schema_id) == snapshot.schema_id:
        return snapshot
    return snapshot.model_copy(update={"schema_id": schemas.named(snapshot.schema_id)})
