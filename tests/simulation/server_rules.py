"""
What Iceberg's own server makes of a commit, where pyiceberg, which plays it here, does otherwise.

Source: `TableMetadata.Builder` and the checks of `TableMetadata` of Iceberg 1.12.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import BadRequestError
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSortOrderUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
)

from tests.simulation import java_rules
from txns._iceberg.updates import with_known_references

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table.metadata import TableMetadata

_LAST_ADDED = -1


def fitted(base: TableMetadata | None, updates: Iterable[Any]) -> Iterator[Any]:
    """Give updates without what a table has already: a schema, a spec, an order that is equal."""
    specs = {each.spec_id: each for each in base.partition_specs} if base else {}
    orders = {each.order_id: each for each in base.sort_orders} if base else {}
    spec_id = order_id = _LAST_ADDED
    for update in with_known_references(base, updates):
        match update:
            case AddPartitionSpecUpdate(spec=spec) if specs.get(spec.spec_id) == spec:
                spec_id = spec.spec_id
            case AddSortOrderUpdate(sort_order=order) if orders.get(order.order_id) == order:
                order_id = order.order_id
            case SetDefaultSpecUpdate(spec_id=-1):
                yield SetDefaultSpecUpdate(spec_id=spec_id)
            case SetDefaultSortOrderUpdate(sort_order_id=-1):
                yield SetDefaultSortOrderUpdate(sort_order_id=order_id)
            case AddPartitionSpecUpdate(spec=spec):
                specs[spec.spec_id], spec_id = spec, _LAST_ADDED
                yield update
            case AddSortOrderUpdate(sort_order=order):
                orders[order.order_id], order_id = order, _LAST_ADDED
                yield update
            case _:
                yield update


def stamps_by_its_clock(seed: int) -> bool:
    """Whether a seed's server does as Iceberg's; else a new snapshot's time is the metadata's."""
    return random.Random(f"{seed}/stamps").random() < 0.5


def stamped(metadata: TableMetadata, now_ms: int) -> TableMetadata:
    """Give metadata with the time of the server's clock, whatever times its snapshots have."""
    return metadata.model_copy(update={"last_updated_ms": now_ms})


def check(old: TableMetadata | None, new: TableMetadata) -> None:
    """Refuse what no Iceberg on the JVM could load any more."""
    if why := java_rules.breaks(old, new):
        raise BadRequestError(f"simulated: the server cannot build it: {why}")
