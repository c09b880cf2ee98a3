"""The JSON of schemas and partition specs, which nobody changes: made once for each object."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from cachetools import LRUCache

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema

_KNOWN: LRUCache[int, tuple[Schema | PartitionSpec, str]] = LRUCache(64)
"""By where they are in memory, which they keep as long as they stand here."""
_LOCK = Lock()


def as_json(model: Schema | PartitionSpec) -> str:
    """Give a schema or a partition spec as JSON; versions of a table share the object."""
    with _LOCK:
        known = _KNOWN.get(id(model))
        if known is None:
            known = _KNOWN[id(model)] = model, model.model_dump_json()
    return known[1]
