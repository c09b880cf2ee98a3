"""
The state that a logged change was staged on, where strangers have altered the table since.

Readers lay such a change over that state (I10), while apply leaves it until it is repaired.
Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
)

from txns._iceberg.fitting_defaults import fitting, with_schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate


_OF_DEFAULTS = (AssertCurrentSchemaId, AssertDefaultSpecId, AssertDefaultSortOrderId)


def is_about_main(requirement: TableRequirement) -> bool:
    """Whether a requirement says where `main` stands."""
    return isinstance(requirement, AssertRefSnapshotId) and requirement.ref == MAIN_BRANCH


def unmet(
    base: TableMetadata, requirements: Iterable[TableRequirement]
) -> dict[TableRequirement, str]:
    """Give what a table does not meet, but for `main`'s place, each with the reason in words."""
    failing: dict[TableRequirement, str] = {}
    for requirement in requirements:
        if is_about_main(requirement):
            continue
        try:
            requirement.validate(base)
        except CommitFailedException as error:
            failing[requirement] = str(error)
    return failing


def rewound(
    base: TableMetadata, failing: Iterable[TableRequirement], updates: tuple[TableUpdate, ...]
) -> TableMetadata | None:
    """
    Give a table as requirements say that it was.

    Args:
        base: The table.
        failing: The requirements, by its ids.
        updates: Those of the change that asks it, by its ids: they have the schema that it asks
            for, where strangers have removed that.

    Returns:
        None where that cannot be told any more.
    """
    metadata: TableMetadata | None = base
    for requirement in failing:
        if metadata is None:
            break
        metadata = _as_required(metadata, requirement, updates)
    return metadata and fitting(metadata)


def restored(
    base: TableMetadata, failing: Iterable[TableRequirement], updates: tuple[TableUpdate, ...]
) -> TableMetadata:
    """
    Give a table with the schema, spec and order that requirements say were its own.

    What it does not have any more stays as it is; the arguments are those of `rewound`.
    """
    for requirement in failing:
        if isinstance(requirement, _OF_DEFAULTS):
            base = _as_required(base, requirement, updates) or base
    return base


def _as_required(
    base: TableMetadata, requirement: TableRequirement, updates: tuple[TableUpdate, ...]
) -> TableMetadata | None:
    known: bool = True
    match requirement:
        case AssertCurrentSchemaId(current_schema_id=schema_id):
            return with_schema_of(base, schema_id, updates)
        case AssertLastAssignedFieldId(last_assigned_field_id=field_id):
            said: dict[str, object] = {"last_column_id": field_id}
        case AssertDefaultSpecId(default_spec_id=spec_id):
            # One that strangers have removed had no files: another one is as good.
            there = any(spec.spec_id == spec_id for spec in base.partition_specs)
            said = {"default_spec_id": spec_id} if there else {}
        case AssertLastAssignedPartitionId(last_assigned_partition_id=field_id):
            specs = [
                spec
                for spec in base.partition_specs
                if spec.last_assigned_field_id <= (field_id or 0)
            ]
            said = {"last_partition_id": field_id, "partition_specs": specs}
        case AssertDefaultSortOrderId(default_sort_order_id=order_id):
            known = any(order.order_id == order_id for order in base.sort_orders)
            said = {"default_sort_order_id": order_id}
        case AssertRefSnapshotId(ref=name, snapshot_id=snapshot_id):
            return _with_ref(base, name, snapshot_id)
        case _:
            return None
    return base.model_copy(update=said) if known else None


def _with_ref(base: TableMetadata, name: str, snapshot_id: int | None) -> TableMetadata | None:
    refs = dict(base.refs)
    before = refs.pop(name, None)
    if snapshot_id is not None:
        if before is None or base.snapshot_by_id(snapshot_id) is None:
            return None
        refs[name] = before.model_copy(update={"snapshot_id": snapshot_id})
    return base.model_copy(update={"refs": refs})
