"""
Spares a run what pyiceberg computes again and again of things that never change.

A table's metadata is updated by copies, so versions may share what is in them; and the schemas of
manifests and of their lists are few. The steps of a run, and what comes of them, stay the same.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pyiceberg.avro.file
from pyiceberg.avro.file import AvroFileHeader
from pyiceberg.table.metadata import TableMetadataV1, TableMetadataV2, TableMetadataV3

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.avro.reader import Reader
    from pyiceberg.schema import Schema

_SCHEMA = "avro.schema"

_schemas: dict[str, Schema] = {}
_readers: dict[tuple[Any, ...], tuple[Any, Reader]] = {}
"""By the identity of schemas, which are kept with the reader, so that nothing else gets it."""

_read_schema = AvroFileHeader.get_schema
_resolve = pyiceberg.avro.file.resolve_reader
_construct = pyiceberg.avro.file.construct_reader


def replaced() -> list[tuple[Any, str, Any]]:
    """Give what a run replaces, as (owner, name, with what)."""
    metadata = (TableMetadataV1, TableMetadataV2, TableMetadataV3)
    return [
        (AvroFileHeader, "get_schema", _schema_of),
        (pyiceberg.avro.file, "resolve_reader", _kept(_resolve)),
        (pyiceberg.avro.file, "construct_reader", _kept(_construct)),
        *((kind, "__deepcopy__", _without_sharing_containers) for kind in metadata),
    ]


def _schema_of(header: AvroFileHeader) -> Schema:
    """Give a file's schema: one object for each text."""
    text = header.meta[_SCHEMA]
    if text not in _schemas:
        _schemas[text] = _read_schema(header)
    return _schemas[text]


def _kept(make: Callable[..., Reader]) -> Callable[..., Reader]:
    """Make one reader for each pair of schemas and choice of classes; readers have no state."""

    def reader(*given: Any) -> Reader:
        # What is no schema is a dict of classes.
        keys = [tuple(each.items()) if isinstance(each, dict) else id(each) for each in given]
        key = (make, *keys)
        if key not in _readers:
            _readers[key] = (given, make(*given))
        return _readers[key][1]

    return reader


def _without_sharing_containers(metadata: Any, _memo: object = None) -> Any:
    """Copy metadata and its lists and dicts; what is in them nobody changes."""
    made = copy.copy(metadata)
    for name, value in vars(made).items():
        if isinstance(value, (list, dict)):
            vars(made)[name] = copy.copy(value)
    return made
