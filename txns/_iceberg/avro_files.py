"""
Iceberg's Avro files, written by a compiled library from what pyiceberg's models hold.

pyiceberg encodes record by record in Python, and makes its encoder anew for each file; the
library's own writer of files writes the schema as JSON anew for each.

Source: the Avro specification, "Object Container Files".
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any
from uuid import UUID

import fastavro
from pyiceberg.avro.codecs import CODEC_MAPPING_ICEBERG_TO_AVRO, KNOWN_CODECS
from pyiceberg.table import TableProperties
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.avro.codecs.codec import Codec
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
_MAGIC = b"Obj\x01"
_encode: Callable[[BytesIO, Any, Any], None] = fastavro.schemaless_writer
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
        avro = _named_apart(avro, set())
        given = [each.field_id for each in (held or schema).fields]
        places = [given.index(each["field-id"]) for each in avro["fields"]]
        self._plain = _plain_record(avro["fields"], places)
        self._parsed = fastavro.parse_schema(avro)
        self._schema = json.dumps(avro).encode()

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
        if old and old.shape != [_without_words(self._schema), codec.encode()]:
            return None
        sync = old.sync if old else os.urandom(16)  # noqa: TID251 -- Avro's, and no value of ours
        meta = {
            **{key: value.encode() for key, value in header.items()},
            "avro.codec": codec.encode(),
            "avro.schema": self._schema,
        }
        out = BytesIO()
        _encode(out, _HEADER, {"magic": _MAGIC, "meta": meta, "sync": sync})
        self._write_block(out, list(records), codec, sync)
        return out.getvalue() + (old.blocks if old else b"")

    def _write_block(self, out: BytesIO, records: list[Record], codec: str, sync: bytes) -> None:
        """Write the one block that a file of ours has; none for no records."""
        if not records:
            return
        block = BytesIO()
        for record in records:
            _encode(block, self._parsed, self._plain(record))
        compression, whole = _compression(codec), block.getvalue()
        _encode(out, "long", len(records))
        _encode(out, "bytes", compression.compress(whole)[0] if compression else whole)
        out.write(sync)


def _named_apart(schema: Any, names: set[str]) -> Any:
    """
    Give an Avro schema in which no two types have one name; Iceberg reads by ids alone.

    pyiceberg names fixed types by what they are, and two columns of one kind have the same. To name
    the first one's would not do for the second: pyiceberg reads no type by its name.
    """
    if isinstance(schema, list):
        return [_named_apart(each, names) for each in schema]
    if not isinstance(schema, dict):
        return schema
    apart = {key: _named_apart(each, names) for key, each in schema.items()}
    if schema.get("type") == "fixed":
        if schema["name"] in names:
            apart["name"] = f"{schema['name']}_{len(names)}"
        names.add(apart["name"])
    return apart


def _compression(codec: str) -> type[Codec] | None:
    known: Mapping[Any, type[Codec] | None] = KNOWN_CODECS
    if codec not in known:
        raise ValueError(f"Unsupported codec: {codec}")  # as pyiceberg says
    return known[codec]


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


_Plain = Callable[[Any], Any]
"""Gives a value as the library takes it: of dictionaries, lists, and what Avro knows."""


def _plain(avro: Any) -> _Plain:
    """Give what makes values of an Avro type plain."""
    if isinstance(avro, list):
        avro = next(each for each in avro if each != "null")
    if not isinstance(avro, dict):
        return _plain_scalar
    if avro["type"] == "record":
        return _plain_record(avro["fields"], range(len(avro["fields"])))
    if avro["type"] != "array":
        return _plain_fixed
    items = avro["items"]
    return _plain_map(*items["fields"]) if avro.get("logicalType") == "map" else _plain_list(items)


def _plain_scalar(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _plain_fixed(value: Any) -> Any:
    return value.bytes if isinstance(value, UUID) else value


def _plain_record(fields: Sequence[dict[str, Any]], places: Iterable[int]) -> _Plain:
    known = [
        (field["name"], place, _plain(field["type"]))
        for field, place in zip(fields, places, strict=True)
    ]

    def plain(record: Record | None) -> dict[str, Any] | None:
        if record is None:
            return None
        return {name: of_type(record[place]) for name, place, of_type in known}

    return plain


def _plain_list(items: Any) -> _Plain:
    of_item = _plain(items)
    return lambda values: None if values is None else [of_item(each) for each in values]


def _plain_map(key: dict[str, Any], mapped: dict[str, Any]) -> _Plain:
    name, under, of_value = key["name"], mapped["name"], _plain(mapped["type"])

    def plain(values: Mapping[Any, Any] | None) -> list[dict[str, Any]] | None:
        if values is None:
            return None
        return [{name: one, under: of_value(each)} for one, each in values.items()]

    return plain
