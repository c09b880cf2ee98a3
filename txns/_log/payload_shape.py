"""
What a payload looks like, looked at before a library reads it (docs/spec.md 7.1).

Libraries read more than they write, each something else: a number that is a text, a word in
capitals, a field that is missing. What one takes another may not, or may take for something else.
Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from txns._log.stored import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_INT32_MAX = (1 << 31) - 1
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_TYPE = re.compile(
    r"boolean|int|long|float|double|date|time|timestamp|timestamptz|timestamp_ns|timestamptz_ns"
    r"|string|uuid|binary|unknown|variant|fixed\[[0-9]{1,9}\]"
    r"|decimal\(([1-9]|[12][0-9]|3[0-8]), ?[0-9]{1,2}\)"
    r"|geometry(\([^()]*\))?|geography(\([^()]*\))?",
    re.ASCII,
)
_TRANSFORM = re.compile(
    r"identity|year|month|day|hour|void|bucket\[[1-9][0-9]{0,8}\]|truncate\[[1-9][0-9]{0,8}\]",
    re.ASCII,
)


def check(payload: object) -> None:
    """
    Refuse what is no `CommitTransactionRequest` of tables.

    Raises:
        ValueError: Saying where.
    """
    _object(payload, "payload", {"table-changes": _list_of(_element)})


def _wrong(what: str, at: str) -> ValueError:
    return ValueError(f"{what}: {at}")


def _element(value: object, at: str) -> None:
    _object(
        value,
        at,
        {
            "identifier": _identifier,
            "requirements": _list_of(_kind("type", _REQUIREMENTS)),
            "updates": _list_of(_kind("action", _UPDATES)),
        },
    )


def _identifier(value: object, at: str) -> None:
    _object(value, at, {"namespace": _list_of(_name), "name": _name})
    if not _field(value, "name"):
        raise _wrong("a table has a name", at)


def _name(value: object, at: str) -> None:
    _text(value, at)
    if "\0" in str(value):
        raise _wrong("a name has no null characters", at)


def _field(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _object(value: object, at: str, shape: _Shape) -> None:
    """Check an object: a key that ends in `?` may be missing, others are not; more may be there."""
    if not isinstance(value, dict):
        raise _wrong("not an object", at)
    for key, looked_at in shape.items():
        name = key.removesuffix("?")
        if name in value:
            looked_at(value[name], f"{at}.{name}")
        elif name == key:
            raise _wrong("missing", f"{at}.{name}")


def _of(shape: _Shape) -> _Look:
    return lambda value, at: _object(value, at, shape)


def _kind(key: str, shapes: dict[str, _Shape]) -> _Look:
    """Check an object whose shape one of its words says."""

    def look(value: object, at: str) -> None:
        word = _field(value, key)
        if not isinstance(word, str) or word not in shapes:
            raise _wrong(f"unknown {key}", at)
        _object(value, f"{at}.{word}", shapes[word])

    return look


def _list_of(each: _Look) -> _Look:
    def look(value: object, at: str) -> None:
        if not isinstance(value, list):
            raise _wrong("not a list", at)
        for number, one in enumerate(value):
            each(one, f"{at}.{number}")

    return look


def _text(value: object, at: str) -> None:
    if not isinstance(value, str):
        raise _wrong("not a text", at)


def _matching(pattern: re.Pattern[str]) -> _Look:
    def look(value: object, at: str) -> None:
        if not isinstance(value, str) or pattern.fullmatch(value) is None:
            raise _wrong("not a known word", at)

    return look


def _one_of(*words: str) -> _Look:
    return _matching(re.compile("|".join(words)))


def _flag(value: object, at: str) -> None:
    if not isinstance(value, bool):
        raise _wrong("not true or false", at)


def _whole(value: object, at: str, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _wrong("not a whole number of its size", at)


def _int(value: object, at: str) -> None:
    _whole(value, at, -_INT32_MAX - 1, _INT32_MAX)


def _long(value: object, at: str) -> None:
    _whole(value, at, INT64_MIN, INT64_MAX)


def _count(value: object, at: str) -> None:
    _whole(value, at, 0, INT64_MAX)


def _long_or_null(value: object, at: str) -> None:
    if value is not None:
        _long(value, at)


def _any(value: object, at: str) -> None:
    del value, at


def _texts(value: object, at: str) -> None:
    """Check an object of texts."""
    if not isinstance(value, dict):
        raise _wrong("not an object", at)
    for key, each in value.items():
        _text(each, f"{at}.{key}")


def _summary(value: object, at: str) -> None:
    _texts(value, at)
    _object(value, at, {"operation": _one_of("append", "replace", "overwrite", "delete")})


def _snapshot(value: object, at: str) -> None:
    _object(value, at, _SNAPSHOT)
    if _field(value, "first-row-id") is not None and _field(value, "added-rows") is None:
        raise _wrong("row ids are of so many rows", at)


def _type(value: object, at: str) -> None:
    if isinstance(value, str):
        _matching(_TYPE)(value, at)
    else:
        _kind("type", _NESTED)(value, at)


def _schema(value: object, at: str) -> None:
    _object(value, at, {"schema-id": _int, "identifier-field-ids?": _list_of(_int)})
    _object(value, at, {"type": _one_of("struct"), **_NESTED["struct"]})
    ids = list(_ids(value))
    if len(set(ids)) < len(ids):
        raise _wrong("two columns have one id", at)


def _ids(type_: Any) -> Iterator[int]:
    """Give the ids of all columns in a type."""
    if isinstance(type_, dict):
        for field in type_.get("fields", ()):
            yield field["id"]
            yield from _ids(field["type"])
        for name in ("element", "key", "value"):
            if name in type_:
                yield type_[f"{name}-id"]
                yield from _ids(type_[name])


def _sort_order(value: object, at: str) -> None:
    _object(value, at, {"order-id": _int, "fields": _list_of(_of(_ORDER_FIELD))})
    if (_field(value, "order-id") == 0) != (not _field(value, "fields")):
        raise _wrong("the order of no columns, and no other one, is 0", at)


if TYPE_CHECKING:
    _Look = Callable[[object, str], None]
    _Shape = dict[str, _Look]

_FIELD: _Shape = {
    "id": _int,
    "name": _text,
    "required": _flag,
    "type": _type,
    "doc?": _text,
    "initial-default?": _any,
    "write-default?": _any,
}
_NESTED: dict[str, _Shape] = {
    "struct": {"fields": _list_of(_of(_FIELD))},
    "list": {"element-id": _int, "element": _type, "element-required": _flag},
    "map": {
        "key-id": _int,
        "key": _type,
        "value-id": _int,
        "value": _type,
        "value-required": _flag,
    },
}
_SPEC_FIELD: _Shape = {
    "name": _text,
    "transform": _matching(_TRANSFORM),
    "source-id": _int,
    "field-id": _int,
}
_ORDER_FIELD: _Shape = {
    "transform": _matching(_TRANSFORM),
    "source-id": _int,
    "direction": _one_of("asc", "desc"),
    "null-order": _one_of("nulls-first", "nulls-last"),
}
_SNAPSHOT: _Shape = {
    "snapshot-id": _long,
    "parent-snapshot-id?": _long,
    "sequence-number?": _long,
    "timestamp-ms": _long,
    "manifest-list": _text,
    "summary": _summary,
    "schema-id?": _int,
    "first-row-id?": _count,
    "added-rows?": _count,
    "key-id?": _text,
}
_BLOB: _Shape = {
    "type": _text,
    "snapshot-id": _long,
    "sequence-number": _long,
    "fields": _list_of(_int),
    "properties?": _texts,
}
_FILE: _Shape = {"snapshot-id": _long, "statistics-path": _text, "file-size-in-bytes": _long}
_STATISTICS: _Shape = {
    **_FILE,
    "file-footer-size-in-bytes": _long,
    "blob-metadata": _list_of(_of(_BLOB)),
}
_REF: _Shape = {
    "ref-name": _text,
    "type": _one_of("branch", "tag"),
    "snapshot-id": _long,
    "min-snapshots-to-keep?": _int,
    "max-snapshot-age-ms?": _long,
    "max-ref-age-ms?": _long,
}
_UPDATES: dict[str, _Shape] = {
    "assign-uuid": {"uuid": _matching(_UUID)},
    "upgrade-format-version": {"format-version": _int},
    "add-schema": {"schema": _schema},
    "set-current-schema": {"schema-id": _int},
    "add-spec": {"spec": _of({"spec-id": _int, "fields": _list_of(_of(_SPEC_FIELD))})},
    "set-default-spec": {"spec-id": _int},
    "add-sort-order": {"sort-order": _sort_order},
    "set-default-sort-order": {"sort-order-id": _int},
    "add-snapshot": {"snapshot": _snapshot},
    "set-snapshot-ref": _REF,
    "remove-snapshots": {"snapshot-ids": _list_of(_long)},
    "remove-snapshot-ref": {"ref-name": _text},
    "set-location": {"location": _text},
    "set-properties": {"updates": _texts},
    "remove-properties": {"removals": _list_of(_text)},
    "remove-schemas": {"schema-ids": _list_of(_int)},
    "remove-partition-specs": {"spec-ids": _list_of(_int)},
    "set-statistics": {"statistics": _of(_STATISTICS)},
    "remove-statistics": {"snapshot-id": _long},
    "set-partition-statistics": {"partition-statistics": _of(_FILE)},
    "remove-partition-statistics": {"snapshot-id": _long},
    "add-encryption-key": {
        "encryption-key": _of({"key-id": _text, "encrypted-key-metadata": _text})
    },
    "remove-encryption-key": {"key-id": _text},
}
_REQUIREMENTS: dict[str, _Shape] = {
    "assert-create": {},
    "assert-table-uuid": {"uuid": _matching(_UUID)},
    "assert-ref-snapshot-id": {"ref": _text, "snapshot-id?": _long_or_null},
    "assert-last-assigned-field-id": {"last-assigned-field-id": _int},
    "assert-current-schema-id": {"current-schema-id": _int},
    "assert-last-assigned-partition-id": {"last-assigned-partition-id": _int},
    "assert-default-spec-id": {"default-spec-id": _int},
    "assert-default-sort-order-id": {"default-sort-order-id": _int},
}
