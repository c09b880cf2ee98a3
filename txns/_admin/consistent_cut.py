"""
A consistent cut as query text for engines outside the protocol.

A time is printed only where every table was checked to resolve to the right snapshot by
that engine's own rule; the snapshot ids otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError

from txns._identifier import dotted_name
from txns._message import said, time_of
from txns.errors import Conflict, CorruptLog, InvalidUsage

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from txns._admin.health import Health
    from txns._identifier import Identifier
    from txns._services import Parts

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)

Resolve = Callable[["TableMetadata", int], "int | None"]
"""The snapshot that an engine reads for a time in ms; None where it has none, or many."""


@dataclass(frozen=True)
class TableCut:
    """One table of a cut: the snapshot to read, and where the catalog has it now."""

    table: Identifier
    snapshot_id: int
    metadata: TableMetadata
    metadata_location: str


@dataclass(frozen=True)
class Cut:
    """
    Every table under care at one timestamp.

    Attributes:
        ts: In ms; everything at or below it is applied.
        tables: What to read.
        left_out: Tables that are not there at that time, and why.
        by_time: The engines that read the right snapshots by the time alone.
    """

    ts: int
    tables: tuple[TableCut, ...]
    left_out: dict[str, str]
    by_time: frozenset[str]


@dataclass(frozen=True)
class Engine:
    """How an engine is asked for a table of the past, and which snapshot it takes."""

    name: str
    quote: str
    at_time: str
    at_id: str
    resolve: Resolve


def cut_at(parts: Parts, health: Health, ts: int) -> Cut:
    """
    Find what every table under care holds at a timestamp.

    Raises:
        InvalidUsage: 25000, the timestamp lies above the newest consistent cut.
    """
    if ts > health.cut_ts:
        reached = f"cut=`{health.cut_ts}` upper=`{health.head.upper}`"
        cure = "run `txns apply` first" if ts <= health.head.upper else "run `txns advance` first"
        raise InvalidUsage(
            "25000",
            f"not everything at that time is in the tables yet: {cure}; ts=`{ts}` {reached}",
        )
    tables, left_out = [], {}
    for each in health.surveyed:
        try:
            tables.append(_table_cut(parts, health, each.identifier, ts))
        except NoSuchTableError:
            left_out[dotted_name(each.identifier)] = "it is not there at that time"
        except Conflict as error:
            left_out[dotted_name(each.identifier)] = (
                f"it cannot be read that far back, least_ts=`{error.least_ts}`"
            )
        except Exception as error:  # noqa: BLE001 -- one that is broken keeps no other from it
            left_out[dotted_name(each.identifier)] = f"it cannot be read: {said(error)}"
    if not tables and left_out:
        raise InvalidUsage(
            "25000",
            f"no table under care can be read at that time; ts=`{ts}` tables=`{left_out}`",
        )
    engines = frozenset(
        engine.name
        for engine in ENGINES
        if ts <= health.now_ms  # snapshots of now could still come below a time in the future
        and all(engine.resolve(each.metadata, ts) == each.snapshot_id for each in tables)
    )
    return Cut(ts, tuple(tables), left_out, engines)


def _table_cut(parts: Parts, health: Health, table: Identifier, ts: int) -> TableCut:
    loaded = parts.tables.load(table, health.head, ts)
    snapshot_id = loaded.metadata.current_snapshot_id
    if snapshot_id is None or loaded.table is None:
        raise NoSuchTableError(f"Table has no snapshot at that time: {dotted_name(table)}")
    raw = loaded.table.metadata
    if raw.snapshot_by_id(snapshot_id) is None:
        raise CorruptLog(
            f"a table lacks a snapshot that is applied to it; table=`{dotted_name(table)}`"
        )
    return TableCut(table, snapshot_id, raw, loaded.table.metadata_location)


def queries(parts: Parts, cut: Cut, engine: Engine) -> list[str]:
    """Give a query per table that reads the cut in an engine."""
    by_time = engine.name in cut.by_time
    at = engine.at_time if by_time else engine.at_id
    found = []
    for each in cut.tables:
        name = _quoted(engine, (parts.catalog.name, *each.table))
        if engine.name == DUCKDB and not isinstance(parts.catalog, RestCatalog):
            found.append(_scan_of_metadata(each, cut.ts, by_time=by_time))
        else:
            words = at.format(id=each.snapshot_id, time=time_of(cut.ts)[:-1])
            found.append(f"SELECT * FROM {name} {words}")  # noqa: S608 -- printed, not run
    return found


def _scan_of_metadata(each: TableCut, ts: int, *, by_time: bool) -> str:
    """DuckDB attaches REST catalogs only; of others it reads a table's metadata file."""
    location = each.metadata_location.replace("'", "''")
    at = f"snapshot_from_id = {each.snapshot_id}"
    if by_time:
        at = f"snapshot_from_timestamp = TIMESTAMP '{time_of(ts)[:-1]}'"
    return f"SELECT * FROM iceberg_scan('{location}', {at})"  # noqa: S608 -- printed, not run


def _quoted(engine: Engine, parts: Identifier) -> str:
    q = engine.quote
    if q == '"':  # catalog.schema.table: a nested namespace is one name
        parts = (parts[0], ".".join(parts[1:-1]), parts[-1])
    return ".".join(
        part if _PLAIN.fullmatch(part) else q + part.replace(q, q + q) + q for part in parts
    )


def _last_of_log(metadata: TableMetadata, ts: int) -> int | None:
    """Source: Iceberg, SnapshotUtil.nullableSnapshotIdAsOfTime: the last entry not above."""
    found = None
    for entry in metadata.snapshot_log:
        if entry.timestamp_ms <= ts:
            found = entry.snapshot_id
    return found


def _greatest_of_log(metadata: TableMetadata, ts: int) -> int | None:
    """Source: Trino, IcebergUtil.getSnapshotIdAsOfTime: the greatest, the first of ties."""
    due = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= ts]
    return max(due, key=lambda entry: entry.timestamp_ms).snapshot_id if due else None


def _greatest_of_all(metadata: TableMetadata, ts: int) -> int | None:
    """
    Give the newest snapshot of all branches, if it is one.

    Source: duckdb-iceberg, FindSnapshotByIdTimestampInternal, over an unordered map.
    """
    due = [each for each in metadata.snapshots if each.timestamp_ms <= ts]
    newest = max((each.timestamp_ms for each in due), default=None)
    ids = [each.snapshot_id for each in due if each.timestamp_ms == newest]
    return ids[0] if len(ids) == 1 else None


DUCKDB = "duckdb"
ENGINES = (
    Engine(
        "spark",
        "`",
        "FOR TIMESTAMP AS OF TIMESTAMP '{time}Z'",
        "FOR VERSION AS OF {id}",
        _last_of_log,
    ),
    Engine(
        "trino",
        '"',
        "FOR TIMESTAMP AS OF TIMESTAMP '{time} UTC'",
        "FOR VERSION AS OF {id}",
        _greatest_of_log,
    ),
    Engine(
        DUCKDB,
        '"',
        "AT (TIMESTAMP => TIMESTAMP '{time}')",
        "AT (VERSION => {id})",
        _greatest_of_all,
    ),
)
