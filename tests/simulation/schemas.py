"""Changes of schemas and of partition specs, and what the model of history keeps of both."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyiceberg.table.update import RemovePartitionSpecsUpdate, RemoveSchemasUpdate
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IntegerType, LongType, NestedField

if TYPE_CHECKING:
    import random

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.update import TableUpdate

_OF_USERS = re.compile(r"c\d+")
"""What users call the columns that they add; strangers call theirs otherwise."""

_BUCKETS = 4
_PARTITION = "partition "

_KINDS = {
    "add": 4,
    "rename": 2,
    "drop": 2,
    "widen": 2,
    "describe": 1,
    "move": 1,
    "partition": 1,
    "clean": 1,
}


def columns(schema: Schema, spec: PartitionSpec) -> frozenset[str]:
    """Give the columns of users, and the fields of the partition spec, each as a text."""
    return frozenset(
        (
            *(_text(field) for field in schema.fields if _OF_USERS.fullmatch(field.name)),
            *(f"{_PARTITION}{field.name}" for field in spec.fields),
        )
    )


def is_of_spec(text: str) -> bool:
    """Whether a text is a field of a partition spec."""
    return text.startswith(_PARTITION)


def _text(field: NestedField) -> str:
    return f"{field.name} {field.field_type} {field.doc or ''}".strip()


def change(
    table: Any, rng: random.Random, name: str
) -> tuple[frozenset[str], frozenset[str], list[tuple[Any, ...]]]:
    """
    Draw a change of a table's schema or spec.

    Args:
        table: What is changed.
        rng: Draws.
        name: A name that nothing has.

    Returns:
        What it adds to the table's columns and takes from them, and the calls of `make`.
    """
    spec = table.spec()
    own = [field for field in table.schema().fields if _OF_USERS.fullmatch(field.name)]
    kind = rng.choices(list(_KINDS), list(_KINDS.values()))[0] if own else "add"
    if kind == "add":
        field_type = rng.choice((IntegerType(), LongType()))
        return frozenset({f"{name} {field_type}"}), frozenset(), [("add", name, field_type)]
    field = rng.choice(own)
    was, changed = _text(field), field
    calls: list[tuple[Any, ...]] = []
    if kind == "rename":
        changed, calls = field.model_copy(update={"name": name}), [("rename", field.name, name)]
    elif kind == "widen" and isinstance(field.field_type, IntegerType):
        changed = field.model_copy(update={"field_type": LongType()})
        calls = [("widen", field.name, LongType())]
    elif kind == "describe":
        changed, calls = field.model_copy(update={"doc": name}), [("describe", field.name, name)]
    elif kind == "move":
        calls = [("move", field.name, None)]
    elif kind == "clean":
        calls = [("clean", "", None)]
    elif kind == "partition":
        return _partition(spec, field, name)
    elif kind == "drop" and field.field_id not in _sources(table):
        return frozenset(), frozenset({was}), [("drop", field.name, None)]
    if changed is field:
        return frozenset(), frozenset(), calls
    return frozenset({_text(changed)}), frozenset({was}), calls


def _partition(
    spec: PartitionSpec, field: NestedField, name: str
) -> tuple[frozenset[str], frozenset[str], list[tuple[Any, ...]]]:
    """Partition by a column that is null in all files, or no more by anything."""
    if spec.fields:
        gone = [each.name for each in spec.fields]
        calls = [("unpartition", each, None) for each in gone]
        return frozenset(), frozenset(f"{_PARTITION}{each}" for each in gone), calls
    return frozenset({f"{_PARTITION}{name}"}), frozenset(), [("partition", field.name, name)]


def _sources(table: Any) -> set[int]:
    """Give the columns that something goes by: no library drops them."""
    orders = table.sort_orders().values()
    return {field.source_id for each in (*table.specs().values(), *orders) for field in each.fields}


def unused(table: Any) -> tuple[TableUpdate, ...]:
    """Give the updates of maintenance that removes schemas and specs that no snapshot has."""
    metadata = table.metadata
    schemas = {one.schema_id for one in metadata.snapshots} | {metadata.current_schema_id}
    gone = [one for one in table.schemas() if one not in schemas]
    updates: list[TableUpdate] = [RemoveSchemasUpdate(schema_ids=gone)] if gone else []
    if len(table.specs()) > 1:
        found = (each for one in metadata.snapshots for each in one.manifests(table.io))
        specs = {each.partition_spec_id for each in found} | {metadata.default_spec_id}
        if left := [one for one in table.specs() if one not in specs]:
            updates.append(RemovePartitionSpecsUpdate(spec_ids=left))
    return tuple(updates)


def make(table: Any, calls: list[tuple[Any, ...]]) -> None:
    """Carry out a change that was drawn, through pyiceberg's own operations."""
    if any(kind == "clean" for kind, _name, _value in calls):
        if hasattr(table, "clean"):  # of Java's, which has a call for it
            table.clean()
        elif gone := unused(table):
            table.catalog.commit_table(table, (), gone)
        return
    if any(kind.endswith("partition") for kind, _name, _value in calls):
        with table.update_spec() as spec:
            for kind, name, value in calls:
                if kind == "partition":
                    spec.add_field(name, BucketTransform(_BUCKETS), value)
                else:
                    spec.remove_field(name)
        return
    with table.update_schema() as update:
        for kind, name, value in calls:
            _MAKE[kind](update, name, value)


_MAKE: dict[str, Any] = {
    "add": lambda update, name, field_type: update.add_column(name, field_type),
    "rename": lambda update, name, to: update.rename_column(name, to),
    "drop": lambda update, name, _none: update.delete_column(name),
    "widen": lambda update, name, field_type: update.update_column(name, field_type=field_type),
    "describe": lambda update, name, doc: update.update_column(name, doc=doc),
    "move": lambda update, name, _none: update.move_first(name),
}
