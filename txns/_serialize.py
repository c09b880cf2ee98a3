"""
Uncommitted transactions as bytes: built in several processes, committed by one.

Imports: _committed, _creation, _entry, _mark, _read_set, _staged, errors. Used by:
_transaction, _resume.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.table import CommitTableRequest, Namespace, TableIdentifier

from txns import _creation
from txns._committed import Options
from txns._entry import Isolation
from txns._mark import applied_ts
from txns._overlay import fitted, renumber_in_memory
from txns._read_set import ReadSet
from txns._staged import StagedTable
from txns._updates import laid_over
from txns.errors import Conflict, Unsupported, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from txns._entry import Entry
    from txns._log import Head
    from txns._parts import Parts
    from txns.errors import Identifier

FORMAT = 1


@dataclass(frozen=True)
class Serialized:
    """
    An uncommitted transaction without its catalog.

    Attributes:
        landed: The entry, where somebody has committed the same bytes; then `writes` is empty.
    """

    options: Options
    comment: str
    reads: ReadSet
    writes: tuple[StagedTable, ...]
    landed: Entry | None = None


def dump(parts: Parts, transaction: Serialized) -> bytes:
    """Give an uncommitted transaction as bytes."""
    options = transaction.options
    stored = {
        "format": FORMAT,
        "catalog": parts.catalog.name,
        "commit-table": text(parts.log.identifier),
        "commit-table-uuid": parts.log.load().uuid,
        "options": {**asdict(options), "isolation": options.isolation.value},
        "comment": transaction.comment,
        "reads": _reads_json(transaction.reads),
        "writes": [_write_json(staged) for staged in transaction.writes],
    }
    return json.dumps(stored).encode()


def load(parts: Parts, head: Head, data: bytes) -> Serialized:
    """
    Give the transaction that bytes hold.

    Raises:
        Unsupported: The bytes are of another format, catalog or commit table.
        Conflict: A table that it wrote cannot be read at its `read_ts` any more.
    """
    stored = _checked(parts, data)
    options = stored["options"]
    options["isolation"] = Isolation(options["isolation"])
    options["fresh_id"] = False  # another process may have committed the same bytes
    begun, reads = Options(**options), _reads(stored["reads"])
    writes: tuple[StagedTable, ...] = ()
    failure: Exception | None = None
    try:
        writes = tuple(_staged(parts, head, begun.read_ts, each) for each in stored["writes"])
    except Exception as error:  # noqa: BLE001 -- raised below, unless the tables have it already
        failure = error
    # Looked up after the tables: what they show of it is in a head that is newer.
    landed = parts.loop.find(parts.log.load(), begun.txn_id, begun.read_ts)
    if landed is not None:
        return Serialized(begun, stored["comment"], reads, (), landed)
    if failure is not None:
        raise failure
    return Serialized(begun, stored["comment"], reads, writes)


def _checked(parts: Parts, data: bytes) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = json.loads(data)
        version = stored["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise Unsupported(f"these bytes are no serialized transaction: {error}") from error
    if version != FORMAT:
        raise Unsupported(
            "a serialized transaction of another format, use the same version of this package on"
            f" both sides; format=`{version}` known=`{FORMAT}`"
        )
    here = {
        "catalog": parts.catalog.name,
        "commit-table": text(parts.log.identifier),
        "commit-table-uuid": parts.log.load().uuid,
    }
    for key, value in here.items():
        if stored[key] != value:
            raise Unsupported(
                "a serialized transaction of another catalog or commit table;"
                f" {key}=`{stored[key]}` here=`{value}`"
            )
    return stored


def _write_json(staged: StagedTable) -> dict[str, Any]:
    identifier = TableIdentifier(
        namespace=Namespace(list(staged.identifier[:-1])), name=staged.identifier[-1]
    )
    request = CommitTableRequest(identifier=identifier, requirements=(), updates=staged.updates)
    return {
        "table": list(staged.identifier),
        "create": staged.create,
        "base": staged.base.current_snapshot_id,
        "created": staged.io.created,
        "request": json.loads(request.model_dump_json()),
    }


def _staged(parts: Parts, head: Head, read_ts: int, stored: dict[str, Any]) -> StagedTable:
    name = tuple(stored["table"])
    updates = CommitTableRequest.model_validate(stored["request"]).updates
    if stored["create"]:
        io = parts.catalog._load_file_io({}, None)  # noqa: SLF001 -- as in DataTables.io_of
        staged = _creation.staged_creation(name, io, updates)
    else:
        loaded = parts.tables.load_with_dropped(name, head, read_ts)
        if loaded.metadata.current_snapshot_id != stored["base"]:
            raise Conflict(
                "a table is not at its read_ts what it was when the transaction was serialized",
                table=name,
                least_ts=head.upper,
            )
        applied = applied_ts(loaded.table.metadata) if loaded.table else 0
        staged = StagedTable(name, loaded.io, loaded.metadata, applied_ts=applied)
        # The table may have taken the staged numbers since: apply gives them new ones.
        fitting = fitted(staged.base, updates, parts.clock.now_ms(), renumber_in_memory)
        staged.stage_as(updates, laid_over(staged.base, fitting))
    staged.io.created[:0] = stored["created"]
    return staged


def _reads_json(reads: ReadSet) -> dict[str, Any]:
    return {
        "tables": [[list(table), filters] for table, filters in reads.tables.items()],
        "present": _lists(reads.present),
        "absent": _lists(reads.absent),
        "listed": _lists(reads.listed),
        "overwritten": _lists(reads.overwritten),
        "unprotected": sorted(reads.unprotected),
    }


def _reads(stored: dict[str, Any]) -> ReadSet:
    return ReadSet(
        tables={tuple(table): filters for table, filters in stored["tables"]},
        present={tuple(name) for name in stored["present"]},
        absent={tuple(name) for name in stored["absent"]},
        listed={tuple(name) for name in stored["listed"]},
        overwritten={tuple(name) for name in stored["overwritten"]},
        unprotected=set(stored["unprotected"]),
    )


def _lists(names: Iterable[Identifier]) -> list[list[str]]:
    return sorted(list(name) for name in names)
