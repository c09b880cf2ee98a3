"""
What an entry does to each table, and its bytes: the list `txns.tables` of its record.

Written by hand from docs/spec.md, section 4.2. Pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from txns._identifier import Identifier, dotted_name
from txns._log import limits
from txns._log.stored import INT64_MAX, INT64_MIN, check_name, word
from txns.errors import CorruptLog

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLES = "txns.tables"


class Operation(Enum):
    """What an entry does to one data table."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    DELETE = "delete"
    REPLACE = "replace"
    CREATE = "create"
    ALTER = "alter"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Change:
    """
    What an entry does to one data table: all that conflict checks need.

    `born_applied` says that the swap of the entry itself moved the table (docs/spec.md 11.3).
    """

    table: Identifier
    uuid: str
    operation: Operation
    from_snapshot_id: int | None
    to_snapshot_id: int | None
    added_records: int = 0
    deleted_records: int = 0
    born_applied: bool = False


def dumped(changes: Iterable[Change]) -> str:
    """Encode what an entry does to each table."""
    return json.dumps([_element(change) for change in changes], ensure_ascii=False)


def _element(change: Change) -> dict[str, Any]:
    element: dict[str, Any] = {
        "identifier": {"namespace": list(change.table[:-1]), "name": change.table[-1]},
        "uuid": change.uuid,
        "operation": change.operation.value,
    }
    if change.from_snapshot_id is not None:
        element["from-snapshot-id"] = change.from_snapshot_id
    if change.to_snapshot_id is not None:
        element["to-snapshot-id"] = change.to_snapshot_id
    element["added-records"] = change.added_records
    element["deleted-records"] = change.deleted_records
    if change.born_applied:
        element["born-applied"] = True
    return element


def parsed(stored: str) -> tuple[Change, ...]:
    """
    Decode what an entry does to each table.

    Raises:
        CorruptLog: It is malformed.
    """
    try:
        elements = limits.parsed(stored)
    except ValueError as error:
        raise CorruptLog(f"{TABLES} is not JSON: {error}") from error
    if not isinstance(elements, list):
        raise CorruptLog(f"{TABLES} is not a list")
    if len(elements) > limits.TABLES_MAX:
        raise CorruptLog(f"an entry names at most {limits.TABLES_MAX} tables")
    changes: list[Change] = []
    seen: set[object] = set()
    for element in elements:
        change = _change(element if isinstance(element, dict) else {})
        if change.table in seen or change.uuid in seen:
            raise CorruptLog(f"an entry names a table once; table=`{dotted_name(change.table)}`")
        seen.update((change.table, change.uuid))
        changes.append(change)
    return tuple(changes)


def _change(element: dict[str, Any]) -> Change:
    identifier = element.get("identifier")
    if not isinstance(identifier, dict) or not isinstance(identifier.get("namespace"), list):
        raise CorruptLog(f"an element of {TABLES} has no list `namespace`")
    levels = identifier["namespace"]
    if not all(isinstance(level, str) for level in levels):
        raise CorruptLog(f"a namespace in {TABLES} is a list of texts")
    table = (*levels, _text(identifier, "name"))
    check_name(table)
    return Change(
        table=table,
        uuid=_text(element, "uuid"),
        operation=word(Operation, _text(element, "operation"), "operation"),
        from_snapshot_id=_whole(element, "from-snapshot-id"),
        to_snapshot_id=_whole(element, "to-snapshot-id"),
        added_records=_count(element, "added-records"),
        deleted_records=_count(element, "deleted-records"),
        born_applied=_flag(element, "born-applied"),
    )


def _text(element: dict[str, Any], name: str) -> str:
    value = element.get(name)
    if not isinstance(value, str):
        raise CorruptLog(f"an element of {TABLES} has no text `{name}`")
    return value


def _whole(element: dict[str, Any], name: str) -> int | None:
    value = element.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise CorruptLog(f"`{name}` in {TABLES} is not a whole number")
    if not INT64_MIN <= value <= INT64_MAX:
        raise CorruptLog(f"`{name}` in {TABLES} is not a whole number")
    return value


def _flag(element: dict[str, Any], name: str) -> bool:
    value = element.get(name, False)
    if not isinstance(value, bool):
        raise CorruptLog(f"`{name}` in {TABLES} is neither true nor false")
    return value


def _count(element: dict[str, Any], name: str) -> int:
    value = _whole(element, name)
    if value is None or value < 0:
        raise CorruptLog(f"an element of {TABLES} has no count `{name}`")
    return value
