"""
Iceberg's Avro files, written by a compiled library from what pyiceberg's models hold.

pyiceberg encodes record by record in Python, and makes its encoder anew for each file.

Source: the Avro specification, "Object Container Files".
"""

from __future__ import annotations

import json
import os
from enum import Enum
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any
from uuid import UUID

import fastavro
from pyiceberg.avro.codecs import CODEC_MAPPING_ICEBERG_TO_AVRO
from pyiceberg.table import TableProperties
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Record

_HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "org.apache.avro.file.Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": 16}},
        ],
    }
)
_CODECS = {**CODEC_MAPPING_ICEBERG_TO_AVRO, "uncompressed": "null"}
"""Avro's name of what Iceberg calls otherwise."""


def codec_of(metadata: TableMetadata) -> str:
    """Give the Avro codec by which a table's metadata is to be compressed."""
    named = metadata.properties.get(
        TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
    )
    return _CODECS.get(named.lower(), named.lower())


class AvroFile:
    """How records of one schema are written."""

    def __init__(self, schema: Schema, name: str, held: Schema | None = None) -> None:
        """
        Say what is written.

        Args:
            schema: Of the file.
            name: Of its records, in Avro.
            held: Of the records as they are given, where that has more, or another order.
        """
        avro: Any = AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name)
        given = [each.field_id for each in (held or schema).fields]
        self._fields = avro["fields"]
        self._places = [given.index(each["field-id"]) for each in self._fields]
        self._parsed = fastavro.parse_schema(avro)

    def encoded(
        self,
        records: Iterable[Record],
        codec: str,
        header: Mapping[str, str],
        before: bytes | None = None,
    ) -> bytes | None:
        """
        Give the bytes of a file.

        Args:
            records: To encode.
            codec: Avro's name of it.
            header: What its header says besides.
            before: A file of which all records come after these, as they are.

        Returns:
            None where the file before is of another schema, or codec.
        """
        old = _Encoded.of(before) if before is not None else None
        out = BytesIO()
        plain = [
            {
                field["name"]: _plain(field["type"], record[place])
                for field, place in zip(self._fields, self._places, strict=True)
            }
            for record in records
        ]
        sync = old.sync if old else os.urandom(16)  # noqa: TID251 -- Avro's, and no value of ours
        fastavro.writer(out, self._parsed, plain, codec, metadata=dict(header), sync_marker=sync)
        new = out.getvalue()
        if old is None:
            return new
        return new + old.blocks if _Encoded.of(new).shape == old.shape else None


class _Encoded:
    """A file as its bytes are: what of its header its blocks depend on, and those."""

    def __init__(self, shape: list[bytes | None], sync: bytes, blocks: bytes) -> None:
        self.shape = shape
        self.sync = sync
        self.blocks = blocks

    @staticmethod
    def of(data: bytes) -> _Encoded:
        stream = BytesIO(data)
        header: Any = fastavro.schemaless_reader(stream, _HEADER, None)
        meta = header["meta"]
        shape = [_without_words(meta.get("avro.schema", b"")), meta.get("avro.codec")]
        return _Encoded(shape, header["sync"], data[stream.tell() :])


@lru_cache(maxsize=64)
def _without_words(schema: bytes) -> bytes:
    """
    Give an Avro schema in one of the ways to write it, without what only people read.

    Libraries write the same one with other blanks, in another order, and with other words.
    """
    try:
        return json.dumps(_plainly(json.loads(schema)), sort_keys=True).encode()
    except (ValueError, RecursionError):  # whoever reads the file says what is wrong with it
        return schema


def _plainly(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plainly(each) for each in schema]
    if isinstance(schema, dict):
        return {key: _plainly(each) for key, each in schema.items() if key != "doc"}
    return schema


def write(io: FileIO, path: str, data: bytes) -> None:
    """Write a file."""
    with io.new_output(path).create(overwrite=True) as stream:
        stream.write(data)


def read(io: FileIO, path: str) -> bytes:
    """Read a file."""
    with io.new_input(path).open() as stream:
        return stream.read()


def _record(fields: list[dict[str, Any]], record: Record) -> dict[str, Any]:
    return {each["name"]: _plain(each["type"], record[place]) for place, each in enumerate(fields)}


def _plain(avro: Any, value: Any) -> Any:
    """Give a value as the library takes it: of dictionaries, lists, and what Avro knows."""
    if isinstance(avro, list):
        avro = next(each for each in avro if each != "null")
    if value is None or not isinstance(avro, dict):
        return value.value if isinstance(value, Enum) else value
    if avro["type"] == "record":
        return _record(avro["fields"], value)
    if avro["type"] != "array":
        return value.bytes if isinstance(value, UUID) else value
    items = avro["items"]
    if avro.get("logicalType") != "map":
        return [_plain(items, each) for each in value]
    key, mapped = items["fields"]
    return [{key["name"]: one, mapped["name"]: _plain(mapped["type"], value[one])} for one in value]
