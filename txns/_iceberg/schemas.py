"""
Schemas of a logged change, under ids that a table has free; and what its columns are read as.

A stranger may have taken an id in between. Java's metadata builder gives another one then,
pyiceberg's would have two schemas of one id.
Pure.
Imports: nothing of this package. Used by: _overlay, _repair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    RemoveSchemasUpdate,
    SetCurrentSchemaUpdate,
)
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate
    from pyiceberg.types import IcebergType

_LAST_ADDED = -1


def fitted(base: TableMetadata | None, updates: Iterable[TableUpdate]) -> Iterator[TableUpdate]:
    """Give the same updates; what names a schema whose id is taken names another one."""
    known = {schema.schema_id: schema for schema in base.schemas} if base else {}
    ids: dict[int, int] = {}
    last = _LAST_ADDED
    for update in updates:
        match update:
            case AddSchemaUpdate():
                schema = update.schema_
                here = ids[schema.schema_id] = _id_of(known, schema)
                last = here if here in known else _LAST_ADDED
                if here not in known:
                    known[here] = schema.model_copy(update={"schema_id": here})
                    yield AddSchemaUpdate(schema_=known[here])
            case SetCurrentSchemaUpdate():
                wanted = update.schema_id
                current = last if wanted == _LAST_ADDED else ids.get(wanted, wanted)
                yield SetCurrentSchemaUpdate(schema_id=current)
            case AddSnapshotUpdate():
                yield AddSnapshotUpdate(snapshot=_of_schema(update.snapshot, ids))
            case RemoveSchemasUpdate():
                gone = [ids.get(each, each) for each in update.schema_ids]
                there = [each for each in gone if known.pop(each, None)]
                if there:
                    yield RemoveSchemasUpdate(schema_ids=there)
            case _:
                yield update


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


def _id_of(known: dict[int, Schema], schema: Schema) -> int:
    """Give the id of an equal schema, or the next free one, as Java's builder does."""
    equal = (schema_id for schema_id, other in known.items() if other == schema)
    return next(equal, max(known) + 1 if known else schema.schema_id)


def _of_schema(snapshot: Snapshot, ids: dict[int, int]) -> Snapshot:
    if snapshot.schema_id is None or ids.get(snapshot.schema_id, snapshot.schema_id) == (
        snapshot.schema_id
    ):
        return snapshot
    return snapshot.model_copy(update={"schema_id": ids[snapshot.schema_id]})
