"""Payloads at the limits of docs/spec.md 4.7, and just above them: up to 64 MiB of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._log import limits

if TYPE_CHECKING:
    from tests.fuzz.inputs import Input

_MIB = 1024 * 1024
_IDENTIFIER = '{"identifier":{"namespace":["shop"],"name":"a"},"requirements":[],"updates":['
# Without it no change is carried out, whatever else it has.
_MAIN = '{"action":"set-snapshot-ref","ref-name":"main","type":"branch","snapshot-id":0}'
_BEFORE, _AFTER = '{"table-changes":[' + _IDENTIFIER + _MAIN, "]}]}"
_UNKNOWN = _BEFORE + ']}],"unknown":'
_PROPERTY = '{"action":"set-properties","updates":{"a":"'
_SNAPSHOT = (
    '{"action":"add-snapshot","snapshot":{"snapshot-id":1,"sequence-number":1,"timestamp-ms":1,'
    '"manifest-list":"x","summary":{"operation":"append","b":"'
)
_LONGEST = limits.TEXT_MAX_CHARACTERS
_MOST = limits.VALUES_MAX

PIECES: dict[str, list[tuple[str, int]]] = {
    "the longest text": [(_BEFORE + "," + _PROPERTY, 1), ("x", _LONGEST), ('"}}' + _AFTER, 1)],
    "a longer text": [(_BEFORE + "," + _PROPERTY, 1), ("x", _LONGEST + 1), ('"}}' + _AFTER, 1)],
    "above 20 million": [(_BEFORE + "," + _PROPERTY, 1), ("x", 21_000_000), ('"}}' + _AFTER, 1)],
    "two units each": [
        (_BEFORE + "," + _PROPERTY, 1),
        ("\U0001f600", _LONGEST),
        ('"}}' + _AFTER, 1),
    ],
    "escapes": [(_BEFORE + "," + _PROPERTY, 1), ("\\u0041", _LONGEST), ('"}}' + _AFTER, 1)],
    "a long key": [('{"', 1), ("k", 60 * _MIB), ('":0}', 1)],
    "many numbers": [("[0", 1), (",0", 31 * _MIB), ("]", 1)],
    "many objects": [(_UNKNOWN + "[0", 1), (',{"a":0}', _MOST // 2 - 10), ("]}", 1)],
    "many lists": [(_UNKNOWN + "[0", 1), (",[]", _MOST // 2 - 10), ("]}", 1)],
    "one key again": [(_UNKNOWN + '{"a":0', 1), (',"a":0', _MOST - 10), ("}}", 1)],
    "deep": [("[", 30 * _MIB), ("]", 30 * _MIB)],
    "deep objects": [('{"a":', 10 * _MIB)],
    "blanks": [(" ", 64 * _MIB - 100), (_BEFORE + _AFTER, 1)],
    "too large": [(" ", 64 * _MIB), (_BEFORE + _AFTER, 1)],
    "a long number": [("[1", 1), ("0", 60 * _MIB), ("]", 1)],
    "a great exponent": [("[1e", 1), ("9", 60 * _MIB), ("]", 1)],
    "many updates": [
        (_BEFORE + "," + _PROPERTY, 1),
        ('"}},' + _PROPERTY, 400_000),
        ('"}}' + _AFTER, 1),
    ],
    "many snapshots": [
        (_BEFORE + "," + _SNAPSHOT, 1),
        ('"}}},' + _SNAPSHOT, 150_000),
        ('"}}}' + _AFTER, 1),
    ],
    "half of a text": [('"', 1), ("x", 64 * _MIB - 1)],
}
"""What they are made of: texts, and how often each comes."""


def inputs() -> list[Input]:
    """Give them as payload files."""
    return [
        {"n": n, "kind": "payload", "in": {"tables": 1, "pieces": [list(each) for each in pieces]}}
        for n, pieces in enumerate(PIECES.values())
    ]
