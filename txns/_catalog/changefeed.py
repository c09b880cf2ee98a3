"""Each transaction's rows per table, in `commit_ts` order and without gaps."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.table import DataScan

from txns._identifier import dotted_name, folded
from txns._log.change import Operation
from txns._log.entry import Kind
from txns._table import mark, overlay
from txns.errors import Conflict, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask
    from pyiceberg.table.metadata import TableMetadata

    from txns._identifier import Identifier
    from txns._log.change import Change
    from txns._log.head import Head
    from txns._services import Parts
    from txns._table.loaded import Loaded

_POLL_MS = 100


@dataclass(frozen=True, slots=True)
class TableRows:
    """
    What one transaction did to one table.

    Attributes:
        table: Its name.
        operation: `append`, `overwrite`, ... as in the log.
        appended: Rows that are there afterwards and were not before, with their multiplicity.
        removed: Rows that were there before and are not afterwards.
    """

    table: Identifier
    operation: str
    appended: pa.Table
    removed: pa.Table


@dataclass(frozen=True, slots=True)
class Delivery:
    """
    One transaction that wrote a subscribed table, or progress without one.

    Attributes:
        commit_ts: Everything at or below it has been delivered, in ms.
        txn_id: None for progress.
        tables: What it did, by subscribed table; empty for progress.
    """

    commit_ts: int
    txn_id: str | None = None
    tables: tuple[TableRows, ...] = ()


def subscribe(
    parts: Parts, tables: Sequence[Identifier], as_of: int, until: int | None
) -> Iterator[Delivery]:
    """
    Give each transaction's rows on some tables, in `commit_ts` order and without gaps.

    Args:
        parts: Of the handle.
        tables: Which.
        as_of: Everything above it is delivered, in ms.
        until: Ends at it, in ms, inclusive; None waits for more for ever.

    Raises:
        Conflict: A snapshot that is needed has been expired, or a table was set back and adopted
            so: begin again at the timestamp that it names.
    """
    done = as_of
    while until is None or done < until:
        head = parts.log.load()
        upper = head.upper if until is None else min(until, head.upper)
        for entry in parts.timeline.above(head.state, done):
            if entry.commit_ts > upper:
                continue
            rows = tuple(
                _rows(parts, head, entry.kind, replace(change, table=table))
                for change in entry.changes
                if (table := known_as(parts, head, change, tables)) is not None
            )
            if rows:
                yield Delivery(entry.commit_ts, entry.txn_id, rows)
        if upper > done:
            done = upper
            yield Delivery(done)
        else:
            parts.clock.sleep(_POLL_MS)


def known_as(
    parts: Parts, head: Head, change: Change, tables: Sequence[Identifier]
) -> Identifier | None:
    """Give which of some names is a changed table's, on catalogs that fold names, too."""
    if change.table in tables:
        return change.table
    for table in tables:
        if folded(table) == folded(change.table):
            with suppress(NoSuchTableError):
                if str(_loaded(parts, head, table).metadata.table_uuid) == change.uuid:
                    return table
    return None


def _rows(parts: Parts, head: Head, kind: Kind, change: Change) -> TableRows:
    """Read what a change appended and removed: files of one snapshot that the other has not."""
    loaded = _loaded(parts, head, change.table)
    metadata, io = loaded.metadata, loaded.io
    # An `alter` may have written rows as well. That of a forget may be on no table: others may
    # have written before it was applied.
    same_rows = change.operation is Operation.REPLACE or kind in {Kind.REGISTER, Kind.FORGET}
    needed = () if same_rows else (change.to_snapshot_id, change.from_snapshot_id)
    if any(each is not None and metadata.snapshot_by_id(each) is None for each in needed):
        raise overlay.too_old(
            change.table, head.upper, 0, "a snapshot of a transaction has been expired"
        )
    to = None if change.to_snapshot_id is None else metadata.snapshot_by_id(change.to_snapshot_id)
    if to and kind is Kind.REPAIR:
        # Rows that were delivered are gone, and no transaction has removed them.
        overlay.refuse_given_up(change.table, to, mark.commit_ts_of(to) - 1)
    schema = _schema(metadata, change.to_snapshot_id)
    empty = schema_to_pyarrow(schema, include_field_ids=False).empty_table()
    if same_rows or change.to_snapshot_id is None:
        return TableRows(change.table, change.operation.value, empty, empty)
    before = _tasks(change.table, metadata, io, change.from_snapshot_id)
    after = _tasks(change.table, metadata, io, change.to_snapshot_id)
    added = [task for key, task in after.items() if key not in before]
    gone = [task for key, task in before.items() if key not in after]
    appended = _read(metadata, io, schema, added) if added else empty
    removed = _read(metadata, io, schema, gone) if gone else empty
    if appended.num_rows and removed.num_rows:
        appended, removed = _net(appended, removed)
    return TableRows(change.table, change.operation.value, appended, removed)


def _loaded(parts: Parts, head: Head, table: Identifier) -> Loaded:
    try:
        return parts.tables.load_with_dropped(table, head, head.upper)
    except Conflict:  # dropped and created again since the head was loaded
        newest = parts.log.load()
        return parts.tables.load_with_dropped(table, newest, newest.upper)


def _schema(metadata: TableMetadata, snapshot_id: int | None) -> Schema:
    snapshot = None if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    known = {schema.schema_id: schema for schema in metadata.schemas}
    schema_id = snapshot.schema_id if snapshot else None
    return known.get(-1 if schema_id is None else schema_id, metadata.schema())


def _tasks(
    table: Identifier, metadata: TableMetadata, io: FileIO, snapshot_id: int | None
) -> dict[object, FileScanTask]:
    """
    Give the files of a snapshot, each with the delete files that apply to it.

    Raises:
        Unsupported: Some delete by value.
    """
    if snapshot_id is None:
        return {}
    scan = DataScan(metadata, io, snapshot_id=snapshot_id)
    try:
        tasks = list(scan.plan_files())
    except ValueError as error:
        if "equality deletes" not in str(error):
            raise
        raise Unsupported(
            "pyiceberg reads no rows of which some were deleted by value (equality deletes), as"
            " streaming engines do (apache/iceberg#6568): compact the table with Spark"
            f" (rewrite_data_files), and subscribe above that; table=`{dotted_name(table)}`"
        ) from error
    return {
        (task.file.file_path, frozenset(each.file_path for each in task.delete_files)): task
        for task in tasks
    }


def _read(
    metadata: TableMetadata, io: FileIO, schema: Schema, tasks: list[FileScanTask]
) -> pa.Table:
    return ArrowScan(metadata, io, schema, AlwaysTrue()).to_table(tasks)


def _net(appended: pa.Table, removed: pa.Table) -> tuple[pa.Table, pa.Table]:
    """
    Leave out the rows that a copied file carries over unchanged.

    Linear in the rows of the rewritten files, which are held in memory.
    """
    new, old = _keys(appended), _keys(removed)
    kept = Counter(new) & Counter(old)
    return _without(appended, new, Counter(kept)), _without(removed, old, Counter(kept))


def _keys(rows: pa.Table) -> list[str]:
    return [repr(row) for row in rows.to_pylist()]


def _without(rows: pa.Table, keys: list[str], kept: Counter[str]) -> pa.Table:
    mask: list[Any] = []
    for key in keys:
        carried = kept[key] > 0
        if carried:
            kept[key] -= 1
        mask.append(not carried)
    return rows.filter(pa.array(mask, pa.bool_()))
