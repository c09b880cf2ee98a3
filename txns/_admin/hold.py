"""
Holds: tags on the snapshots that a `read_ts` resolves to, so that no engine expires them.

A hold is set and released by a transaction like any other; whoever reads it needs the tag
only, also when the snapshots around the held ones have been expired.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.refs import MAIN_BRANCH

from txns._admin.inventory import survey
from txns._catalog.base import SnapshotCatalog
from txns._iceberg.earlier_schema import with_schema
from txns._iceberg.snapshots import History
from txns._identifier import dotted_name, namespace_of
from txns._log import limits
from txns._log.entry import Isolation
from txns._log.permitted import HOLD_TAG
from txns._retry import run_transaction
from txns._table.loaded import Registered
from txns._table.logged_state import LoggedHistory, effective_ts
from txns._table.overlay import TableView
from txns.errors import Conflict, InvalidUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from txns._catalog.transaction import Transaction
    from txns._identifier import Identifier
    from txns._log.head import Head
    from txns._retry import Begins
    from txns._services import Parts
    from txns._table.loaded import Loaded

TAG = HOLD_TAG
"""Tags of a hold are named this and the hold's name."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


@dataclass(frozen=True)
class Hold:
    """
    A promise that a `read_ts` stays readable.

    Attributes:
        name: Its name; the tags are `txns-hold-` and this.
        tables: The snapshot that is held of each table.
        read_ts: The least timestamp in ms at which the tables are as they are held.
        expires_ms: Until when every table is held, in ms since the epoch; None for ever.
    """

    name: str
    tables: dict[Identifier, int]
    read_ts: int
    expires_ms: int | None

    @property
    def tag(self) -> str:
        """The name of its tags: `VERSION AS OF` it in Spark."""
        return TAG + self.name


def hold(
    handle: Begins,
    parts: Parts,
    name: str,
    tables: Iterable[Identifier],
    *,
    read_ts: int | None,
    ttl_ms: int,
) -> Hold:
    """Tag, in one transaction, the snapshot of every table as of `read_ts`."""
    tag, names = _tag(name), list(dict.fromkeys(tables))
    read_ts, ttl_ms = limits.whole(read_ts, "read_ts"), limits.whole(ttl_ms, "ttl_ms")
    if not 0 < ttl_ms <= limits.LENGTH_MS_LE:
        raise InvalidUsage("42000", f"a hold lasts 1 ms to 36500 days; ttl_ms=`{ttl_ms}`")
    if not names:
        raise InvalidUsage("42000", f"a hold names at least one table; hold=`{name}`")
    held = SnapshotCatalog.at(parts, read_ts)
    at = held.read_ts
    snapshots = {table: _held_snapshot(held, table, at) for table in names}

    def set_tags(txn: Transaction) -> None:
        now_ms = parts.clock.now_ms()
        for table, snapshot in snapshots.items():
            staged = txn.load_table(table)
            if tag in staged.metadata.refs:
                raise InvalidUsage(
                    "42710",
                    "there is such a hold, release it first or take another name;"
                    f" hold=`{name}` table=`{dotted_name(table)}`",
                )
            if staged.metadata.snapshot_by_id(snapshot.snapshot_id) is None:
                raise Conflict(
                    "the catalog gives an older state of the table than a moment ago",
                    table=table,
                    least_ts=at,
                )
            # Iceberg counts the age of a tag from its snapshot's time, not from its own.
            age_ms = max(0, now_ms - snapshot.timestamp_ms)
            staged.manage_snapshots().create_tag(
                snapshot.snapshot_id, tag, max_ref_age_ms=age_ms + ttl_ms
            ).commit()

    comment = f"hold {name} at {at}"
    run_transaction(handle, set_tags, isolation=Isolation.SNAPSHOT, comment=comment)
    made = {table: snapshot.snapshot_id for table, snapshot in snapshots.items()}
    ends_ms = parts.clock.now_ms() + ttl_ms
    # A table that cannot be loaded just now is left out of the survey; the hold stands.
    return next((one for one in holds(parts) if one.name == name), Hold(name, made, at, ends_ms))


def release(handle: Begins, parts: Parts, name: str) -> tuple[Identifier, ...]:
    """Remove the tags of a hold, in one transaction; give the tables that had one."""
    tag = _tag(name)
    found = _find(parts, name)

    def remove_tags(txn: Transaction) -> None:
        for table in found.tables:
            staged = txn.load_table(table)
            if tag in staged.metadata.refs:  # an expiry may have been faster
                staged.manage_snapshots().remove_tag(tag).commit()

    run_transaction(handle, remove_tags, isolation=Isolation.SNAPSHOT, comment=f"release {name}")
    return tuple(found.tables)


def holds(parts: Parts) -> list[Hold]:
    """Give every hold of the tables under care, by name."""
    found: dict[str, Hold] = {}
    for each in survey(parts, parts.log.load()):
        if each.loaded is None:
            continue
        for name, snapshot, expires_ms in tagged(each.loaded.metadata):
            known = found.get(name) or Hold(name, {}, 0, None)
            ends = [end for end in (known.expires_ms, expires_ms) if end is not None]
            found[name] = Hold(
                name,
                {**known.tables, each.identifier: snapshot.snapshot_id},
                max(known.read_ts, _effective_ts(each.loaded, snapshot)),
                min(ends, default=None),
            )
    return [found[name] for name in sorted(found)]


def held(parts: Parts, name: str) -> SnapshotCatalog:
    """Give the tables of a hold as they are held, to be read."""
    found = _find(parts, name)
    return _HeldCatalog(parts, parts.log.load(), found)


class _HeldCatalog(SnapshotCatalog):
    """The tables of a hold; their snapshots are found by tag: no ancestry is needed."""

    def __init__(self, parts: Parts, head: Head, hold: Hold) -> None:
        super().__init__(parts, head, hold.read_ts)
        self._hold = hold

    def _load(self, identifier: Identifier) -> Loaded:
        snapshot_id = self._hold.tables.get(identifier)
        if snapshot_id is None:
            raise NoSuchTableError(
                f"Table is not part of the hold {self._hold.name}: {dotted_name(identifier)}"
            )
        loaded = self._parts.tables.load_with_dropped(identifier, self._at, self._at.upper)
        return loaded.showing(TableView(_main_on(loaded.metadata, snapshot_id), self.read_ts))

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """List the held tables of a namespace."""
        space = namespace_of(namespace)
        return [table for table in self._hold.tables if table[:-1] == space]


def _main_on(metadata: TableMetadata, snapshot_id: int) -> TableMetadata:
    """Put main on a snapshot that the table has, with the schema of that time."""
    snapshot = metadata.snapshot_by_id(snapshot_id)
    assert snapshot is not None
    main = metadata.refs[MAIN_BRANCH].model_copy(update={"snapshot_id": snapshot_id})
    update = {"current_snapshot_id": snapshot_id, "refs": {**metadata.refs, MAIN_BRANCH: main}}
    view = metadata.model_copy(update=update)
    known = {schema.schema_id for schema in metadata.schemas}
    return with_schema(view, snapshot.schema_id) if snapshot.schema_id in known else view


def tagged(metadata: TableMetadata) -> Iterator[tuple[str, Snapshot, int | None]]:
    """Give the name, the snapshot and the end in ms of each hold of a table."""
    history = History(metadata)
    for ref_name, ref in metadata.refs.items():
        snapshot = history.get(ref.snapshot_id)
        if ref_name.startswith(TAG) and snapshot is not None:
            lasts_ms = ref.max_ref_age_ms
            ends_ms = None if lasts_ms is None else snapshot.timestamp_ms + lasts_ms
            yield ref_name.removeprefix(TAG), snapshot, ends_ms


def _effective_ts(loaded: Loaded, snapshot: Snapshot) -> int:
    assert isinstance(loaded, Registered)
    return effective_ts(LoggedHistory(loaded.metadata), loaded.mark, snapshot)


def _held_snapshot(catalog: SnapshotCatalog, table: Identifier, read_ts: int) -> Snapshot:
    snapshot = catalog.load_table(table).current_snapshot()
    if snapshot is None:
        raise InvalidUsage(
            "42000",
            "the table has no snapshot at that time, so there is nothing to hold;"
            f" table=`{dotted_name(table)}` read_ts=`{read_ts}`",
        )
    return snapshot


def _find(parts: Parts, name: str) -> Hold:
    known = {each.name: each for each in holds(parts)}
    if name not in known:
        raise InvalidUsage(
            "42704", f"there is no such hold; hold=`{name}` known=`{', '.join(known)}`"
        )
    return known[name]


def _tag(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise InvalidUsage(
            "42602",
            "a hold's name has up to 100 letters, digits, dots, dashes and underscores, a letter or"
            f" digit first; hold=`{name}`",
        )
    return TAG + name
