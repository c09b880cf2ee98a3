"""Updates and requirements that golden payloads do not have, and some that there are not."""

from __future__ import annotations

from typing import Any

UUID = "c8f2a7e4-5b19-4f63-a0d2-6e4b8c1f9d03"
LOG_UUID = "e1a94b70-3c8d-47f5-b6a2-7d0e5f2c1b04"
_TYPES = ["long", "string", "decimal(9,2)", "fixed[4]", "timestamp_ns", "variant", "unknown"]
MORE_UPDATES: list[Any] = [
    {"action": "assign-uuid", "uuid": UUID},
    {"action": "upgrade-format-version", "format-version": 3},
    {"action": "upgrade-format-version", "format-version": 99},
    {"action": "set-location", "location": "file:///elsewhere"},
    {"action": "set-properties", "updates": {"txns.applied": "9", "a": "b"}},
    {"action": "set-properties", "updates": {"txns.applied": "x"}},
    {"action": "set-properties", "updates": {"txns.table-uuid": "x"}},
    {"action": "remove-properties", "removals": ["txns.commit-table", "a"]},
    {"action": "remove-snapshots", "snapshot-ids": [11]},
    {"action": "remove-snapshot-ref", "ref-name": "main"},
    {"action": "remove-snapshot-ref", "ref-name": "gone"},
    {"action": "remove-schemas", "schema-ids": [0, 1, 7]},
    {"action": "remove-partition-specs", "spec-ids": [0, 1, 7]},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "set-current-schema", "schema-id": 77},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "set-default-sort-order", "sort-order-id": -1},
    {"action": "remove-statistics", "snapshot-id": 11},
    {"action": "remove-partition-statistics", "snapshot-id": 11},
    {"action": "enable-row-lineage"},
    {"action": "add-encryption-key", "encryption-key": {"key-id": "k"}},
    {"action": "remove-encryption-key", "key-id": "k"},
    {"action": "add-view-version", "view-version": {}},
    {"action": "unheard-of"},
    {
        "action": "set-statistics",
        "snapshot-id": 11,
        "statistics": {
            "snapshot-id": 11,
            "statistics-path": "file:///s",
            "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        },
    },
    {
        "action": "set-partition-statistics",
        "partition-statistics": {
            "snapshot-id": 11,
            "statistics-path": "file:///s",
            "file-size-in-bytes": 1,
        },
    },
    {
        "action": "add-spec",
        "spec": {
            "spec-id": 1,
            "fields": [
                {"name": "id_bucket", "transform": "bucket[4]", "source-id": 1, "field-id": 1000}
            ],
        },
    },
    {
        "action": "add-sort-order",
        "sort-order": {
            "order-id": 1,
            "fields": [
                {
                    "transform": "identity",
                    "source-id": 1,
                    "direction": "asc",
                    "null-order": "nulls-first",
                }
            ],
        },
    },
    *(
        {
            "action": "add-schema",
            "schema": {
                "type": "struct",
                "schema-id": 3,
                "fields": [{"id": 1, "name": "id", "required": False, "type": kind}],
            },
        }
        for kind in _TYPES
    ),
    {"type": "assert-create"},
    {"type": "assert-table-uuid", "uuid": LOG_UUID},
    {"type": "assert-ref-snapshot-id", "ref": "side", "snapshot-id": None},
    {"type": "assert-ref-snapshot-id", "ref": "side", "snapshot-id": 11},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
    {"type": "assert-current-schema-id", "current-schema-id": 0},
    {"type": "assert-default-spec-id", "default-spec-id": 0},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
    {"type": "assert-view-uuid", "uuid": UUID},
    {"type": "unheard-of"},
]
"""Of each kind that there is, and some that there are not."""
