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

from txns._iceberg.fitting_defaults import fitting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement


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


def rewound(base: TableMetadata, failing: Iterable[TableRequirement]) -> TableMetadata | None:
    """
    Give a table as requirements say that it was.

    Returns:
        None where that cannot be told any more.
    """
    metadata: TableMetadata | None = base
    for requirement in failing:
        if metadata is None:
            break
        metadata = _as_required(metadata, requirement)
    return metadata and fitting(metadata)


def restored(base: TableMetadata, failing: Iterable[TableRequirement]) -> TableMetadata:
    """
    Give a table with the schema, spec and order that requirements say were its own.

    What it does not have any more stays as it is.
    """
    for requirement in failing:
        if isinstance(requirement, _OF_DEFAULTS):
            base = _as_required(base, requirement) or base
    return base


def _as_required(base: TableMetadata, requirement: TableRequirement) -> TableMetadata | None:
    known: bool = True
    match requirement:
        case AssertCurrentSchemaId(current_schema_id=schema_id):
            known = any(schema.schema_id == schema_id for schema in base.schemas)
            said: dict[str, object] = {"current_schema_id": schema_id}
        case AssertLastAssignedFieldId(last_assigned_field_id=field_id):
            said = {"last_column_id": field_id}
        case AssertDefaultSpecId(default_spec_id=spec_id):
            known = any(spec.spec_id == spec_id for spec in base.partition_specs)
            said = {"default_spec_id": spec_id}
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
