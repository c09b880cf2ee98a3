"""
Values of properties that libraries parse whenever they read a table or commit to it.

One that cannot be parsed would end every such try of everybody (docs/spec.md 7). Pure.
"""

from __future__ import annotations

import re
from typing import Any

from txns._log import limits

NAME_MAPPING = "schema.name-mapping.default"

_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1

_INTS = frozenset(
    {
        "commit.manifest.min-count-to-merge",
        "commit.retry.max-wait-ms",
        "commit.retry.min-wait-ms",
        "commit.retry.num-retries",
        "commit.retry.total-timeout-ms",
        "commit.status-check.max-wait-ms",
        "commit.status-check.min-wait-ms",
        "commit.status-check.num-retries",
        "commit.status-check.total-timeout-ms",
        "history.expire.min-snapshots-to-keep",
        "write.metadata.previous-versions-max",
        "write.summary.partition-limit",
    }
)
_LONGS = frozenset(
    {
        "commit.manifest.target-size-bytes",
        "history.expire.max-ref-age-ms",
        "history.expire.max-snapshot-age-ms",
        "write.target-file-size-bytes",
    }
)
_SPLITS = {
    "read.split.metadata-target-size": (1, _INT64_MAX),
    "read.split.open-file-cost": (0, _INT64_MAX),
    "read.split.planning-lookback": (1, _INT32_MAX),
    "read.split.target-size": (1, _INT64_MAX),
}
"""Java plans each scan by these, and none by less or more."""
_FLAGS = frozenset(
    {
        "commit.manifest-merge.enabled",
        "write.metadata.delete-after-commit.enabled",
        "write.object-storage.enabled",
        "write.object-storage.partitioned-paths",
    }
)
_WORDS = {
    "write.avro.compression-codec": re.compile(
        r"null|uncompressed|bzip2|snappy|deflate|gzip|zstandard|zstd", re.ASCII | re.IGNORECASE
    ),
    "write.metadata.compression-codec": re.compile(r"none|gzip", re.ASCII | re.IGNORECASE),
    "txns.conflicts": re.compile(r"file|table", re.ASCII),
}
"""Codecs of metadata: Avro's, too, with pyiceberg; and what the protocol goes by."""
_DIGITS = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_FLAG = re.compile(r"y|yes|t|true|on|1|n|no|f|false|off|0", re.ASCII | re.IGNORECASE)


def is_unreadable(key: str, value: str) -> bool:
    """Whether a library that goes by a property cannot parse its value."""
    if key in _INTS:
        return not _is_number(value, -_INT32_MAX, _INT32_MAX)
    if key in _LONGS:
        return not _is_number(value, -_INT64_MAX, _INT64_MAX)
    if key in _SPLITS:
        return not _is_number(value, *_SPLITS[key])
    if key in _FLAGS:
        return not _FLAG.fullmatch(value)
    if key in _WORDS:
        return not _WORDS[key].fullmatch(value)
    return key == NAME_MAPPING and not _is_name_mapping(value)


def _is_number(value: str, least: int, most: int) -> bool:
    return bool(_DIGITS.fullmatch(value)) and least <= int(value) <= most


def _is_name_mapping(value: str) -> bool:
    try:
        return _are_mapped(limits.parsed(value))
    except ValueError:
        return False


def _are_mapped(fields: Any) -> bool:
    """Whether these are fields of a mapping, none of which has the name of another."""
    if not (isinstance(fields, list) and all(map(_is_mapped, fields))):
        return False
    names = [name for each in fields for name in set(each["names"])]
    return len(names) == len(set(names))


def _is_mapped(field: Any) -> bool:
    if not isinstance(field, dict):
        return False
    number, names, inside = field.get("field-id", 0), field.get("names"), field.get("fields", [])
    return (
        type(number) is int
        and abs(number) <= _INT32_MAX
        and isinstance(names, list)
        and all(isinstance(name, str) for name in names)
        and _are_mapped(inside)
    )
