"""
The commit table's rows: entries that have left the head, one row per entry and change.

Docs/spec.md 3.1.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    LessThanOrEqual,
    Or,
    Reference,
)
from pyiceberg.io.pyarrow import schema_to_pyarrow

from txns._identifier import dotted_name
from txns._log import limits
from txns._log.archive_scan import ArchiveScan, readable
from txns._log.change import Change, Operation
from txns._log.commit_table import SCHEMA
from txns._log.entry import APPLIED_KINDS, Entry, Isolation, Kind
from txns._log.stored import archived_name, word
from txns.errors import CorruptLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyiceberg.table import Table

    from txns._identifier import Identifier
    from txns._log.commit_log import CommitLog
    from txns._log.head import Head

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ARROW_SCHEMA: pa.Schema = schema_to_pyarrow(SCHEMA)

_TS = re.compile(r"[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Dropped:
    """
    What is known of drops in the archive.

    Attributes:
        version: Of the archive, when it was asked.
        upto: At and below this `commit_ts` in ms no row will be added: an entry that could not
            leave the head for long is archived below newer ones.
        names: Of the tables that were dropped.
    """

    version: str | None
    upto: int
    names: frozenset[Identifier]


_NO_DROPS = _Dropped(None, 0, frozenset())


@dataclass(frozen=True, slots=True)
class _OfTable:
    """
    What is known of the newest archived entries that name a table.

    Attributes:
        named_ts: The `commit_ts` in ms of the newest one.
        forgotten: Whether that one took the table from care.
        shown: Of the newest one that was applied to it, which it has to show: `commit_ts` in ms and
            transaction id.
    """

    named_ts: int
    forgotten: bool
    shown: tuple[int, str]

    def followed_by(self, commit_ts: int, txn_id: str, kind: Kind) -> _OfTable:
        """Give the same with an entry that is newer."""
        shown = (commit_ts, txn_id) if kind in APPLIED_KINDS else self.shown
        return _OfTable(commit_ts, kind is Kind.FORGET, shown)


_NOT_NAMED = _OfTable(0, forgotten=False, shown=(0, ""))


@dataclass(frozen=True, slots=True)
class _Newest:
    """
    What is known of the newest archived entries that name tables.

    Attributes:
        version: Of the archive, when it was asked.
        above: The bound in ms above which rows were read.
        upto: As in `_Dropped`.
        by_uuid: What is known of each table, by its uuid.
    """

    version: str | None
    above: int
    upto: int
    by_uuid: Mapping[str, _OfTable]


_NOTHING_READ = _Newest(None, sys.maxsize, 0, {})


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    Which entries are asked for.

    Attributes:
        after: Exclusive bound in ms.
        txn: Their transaction id, or their `commit_ts` in digits; None for any.
        table: A table that they name; None for any.
    """

    after: int = 0
    txn: str | None = None
    table: Identifier | None = None

    def has(self, entry: Entry) -> bool:
        """Whether an entry is asked for."""
        return (
            entry.commit_ts > self.after
            and self.txn in {None, entry.txn_id, str(entry.commit_ts)}
            and (self.table is None or any(each.table == self.table for each in entry.changes))
        )

    def scan(self, table: Table) -> ArchiveScan:
        """Give the reading of a commit table that gives these."""
        condition: BooleanExpression = AlwaysTrue()
        if self.txn is not None:
            condition = _equals("txn_id", self.txn)
            if _TS.fullmatch(self.txn):
                at = EqualTo(term=Reference("commit_ts"), value=int(self.txn))
                condition = Or(condition, at)
        naming = None if self.table is None else _equals("table_name", dotted_name(self.table))
        return ArchiveScan(table, condition, naming, least_ts=self.after + 1)


@dataclass(slots=True)
class Archive:
    """Reads the rows of one commit table."""

    log: CommitLog
    _dropped: _Dropped = field(default=_NO_DROPS, init=False, repr=False)
    _newest: _Newest = field(default=_NOTHING_READ, init=False, repr=False)

    def under(self, txn_id: str, since_ts: int) -> list[Entry]:
        """Give the archived entries under an id, with `commit_ts` above a bound, ascending."""
        return entries_of(self.rows(And(_above(since_ts), _equals("txn_id", txn_id))))

    def between(self, after: int, upto: int) -> list[Entry]:
        """Give the archived entries above one timestamp and not above another, ascending."""
        return entries_of(self.rows(And(_above(after), _not_above(upto))))

    def newest_first(self, head: Head, wanted: Wanted) -> Iterator[Entry]:
        """Give what has left a head, from the newest on, as far as somebody asks."""
        for rows in wanted.scan(_of(head)).newest_first():
            yield from reversed(entries_of(rows.to_pylist()))

    def oldest_first(self, head: Head, wanted: Wanted) -> Iterator[Entry]:
        """Give what has left a head, from the oldest on, piece by piece."""
        for rows in wanted.scan(_of(head)).oldest_first():
            yield from entries_of(rows.to_pylist())

    def lives_of_table(self, uuid: str, upto: int) -> list[Entry]:
        """Give how archived entries created and dropped a table, up to a timestamp, ascending."""
        deeds = Or(
            _equals("operation", Operation.CREATE.value), _equals("operation", Operation.DROP.value)
        )
        return entries_of(self.rows(And(_not_above(upto), _equals("table_uuid", uuid), deeds)))

    def dropped(self, head: Head) -> frozenset[Identifier]:
        """
        Give the names of the tables ever dropped; they may have been created again since.

        Args:
            head: Whose archive is asked; what an earlier call has read for good, or of the same
                version of the archive, is not read again.
        """
        known, version = self._dropped, head.archive_version
        if version is None or known.version == version:
            return known.names
        condition = And(_above(known.upto), _equals("operation", Operation.DROP.value))
        rows = self.rows(condition, ("commit_ts", "table_name"))
        names = known.names | {archived_name(row["table_name"] or "") for row in rows}
        self._dropped = _Dropped(version, max(known.upto, head.state.archived_upto), names)
        return names

    def newest_applied(self, head: Head, uuid: str, above: int, *, marked: bool) -> int:
        """
        Give the greatest `commit_ts` in ms of what was applied to a table and has left the head.

        Args:
            head: Whose archive is asked; the same version of it is read once, for all tables. What
                has left a newer one says nothing: the table may have been read before that.
            uuid: The table's.
            above: A bound in ms, which is given where there is nothing above it.
            marked: Whether the table has its mark: without one, a forgotten table is its owner's.
        """
        if not head.exists or above >= head.state.tidied_upto:
            return above
        left = self._left(head, uuid, above - 1)  # with the change that `has_applied` asks for
        return above if left.forgotten and not marked else max(above, left.shown[0])

    def has_applied(self, head: Head, uuid: str, commit_ts: int, txn_id: str) -> bool:
        """
        Say whether a change that a table shows has left the head; True where a newer one has.

        Args:
            head: As above.
            uuid: The table's.
            commit_ts: Of the change, in ms.
            txn_id: Of the change.
        """
        shown = self._left(head, uuid, commit_ts - 1).shown
        return shown[0] > commit_ts or shown == (commit_ts, txn_id)

    def _left(self, head: Head, uuid: str, above: int) -> _OfTable:
        """Give what of a table above a bound in ms has left this very head."""
        of_table = self._newest_above(head, above).by_uuid.get(uuid, _NOT_NAMED)
        if of_table.named_ts <= above or head.state.has_left(of_table.named_ts):
            return of_table
        within = And(_above(above), _not_above(head.state.tidied_upto))
        found = self.rows(And(within, _equals("table_uuid", uuid)), ("commit_ts", "txn_id", "kind"))
        of_table = _NOT_NAMED
        for row in found:
            if head.state.has_left(row["commit_ts"]):
                kind = word(Kind, row["kind"], "kind")
                of_table = of_table.followed_by(row["commit_ts"], row["txn_id"], kind)
        return of_table

    def _newest_above(self, head: Head, above: int) -> _Newest:
        """Give what is known of the newest entries above a bound in ms, read where it is not."""
        known, version = self._newest, head.archive_version
        if above < known.above:
            known = _Newest(None, above, above, {})
        if known.version != version:
            known = self._read_newest(known, head)
            self._newest = known  # and not given from there: another thread's may begin above that
        return known

    def _read_newest(self, known: _Newest, head: Head) -> _Newest:
        """Add to what is known what the archive of a head has above that; it may be much."""
        by_uuid = dict(known.by_uuid)
        scan = ArchiveScan(self._table(), least_ts=known.upto + 1)
        for rows in scan.oldest_first(("commit_ts", "txn_id", "kind", "table_uuid")):
            by_kind = rows.group_by(["table_uuid", "kind"], use_threads=False)  # in order
            newest = by_kind.aggregate([("commit_ts", "last"), ("txn_id", "last")])
            for row in newest.sort_by("commit_ts_last").to_pylist():
                uuid, kind = row["table_uuid"], word(Kind, row["kind"], "kind")
                of_table = by_uuid.get(uuid, _NOT_NAMED)
                by_uuid[uuid] = of_table.followed_by(
                    row["commit_ts_last"], row["txn_id_last"], kind
                )
        upto = max(known.upto, head.state.archived_upto)
        return _Newest(head.archive_version, known.above, upto, by_uuid)

    def rows(
        self, condition: BooleanExpression | None = None, columns: tuple[str, ...] = ("*",)
    ) -> list[dict[str, Any]]:
        """Give archived rows by column name, ascending by `commit_ts`, which is one of them."""
        table = self._table()
        with readable():
            scan = table.scan(row_filter=condition or AlwaysTrue(), selected_fields=columns)
            found = scan.to_arrow().to_pylist()
        return sorted(found, key=lambda row: row["commit_ts"])

    def _table(self) -> Table:
        """Give the commit table, never older than a head that was seen."""
        return _of(self.log.load())


def _of(head: Head) -> Table:
    assert head.table is not None
    return head.table


def _above(ts: int) -> BooleanExpression:
    return GreaterThan(term=Reference("commit_ts"), value=ts)


def _not_above(ts: int) -> BooleanExpression:
    return LessThanOrEqual(term=Reference("commit_ts"), value=ts)


def _equals(column: str, value: str) -> BooleanExpression:
    return EqualTo(term=Reference(column), value=value)


def rows_of(entry: Entry) -> list[dict[str, Any]]:
    """Give the rows that an entry leaves; one without a table where it changes none."""
    changes: Iterable[Change | None] = entry.changes or (None,)
    return [_row(entry, change) for change in changes]


def to_arrow(rows: list[dict[str, Any]]) -> pa.Table:
    """Give rows as Arrow, in the archive's schema."""
    return pa.Table.from_pylist(rows, schema=ARROW_SCHEMA)


def time_of(commit_ts: int) -> datetime:
    """Give the time that a `commit_ts` in ms is; the last one of all where it is none."""
    return _EPOCH + timedelta(milliseconds=min(commit_ts, limits.COMMIT_TS_LE))


def _row(entry: Entry, change: Change | None) -> dict[str, Any]:
    return {
        "commit_ts": entry.commit_ts,
        "committed_at": time_of(entry.commit_ts),
        "txn_id": entry.txn_id,
        "kind": entry.kind.value,
        "table_name": dotted_name(change.table) if change else None,
        "table_uuid": change.uuid if change else None,
        "operation": change.operation.value if change else None,
        "parent_snapshot_id": change.from_snapshot_id if change else None,
        "snapshot_id": change.to_snapshot_id if change else None,
        "added_records": change.added_records if change else None,
        "deleted_records": change.deleted_records if change else None,
        "read_ts": entry.read_ts,
        "isolation": entry.isolation.value,
        "engine": entry.engine,
        "comment": entry.comment,
    }


def entries_of(rows: Iterable[dict[str, Any]]) -> list[Entry]:
    """
    Put entries together from their rows; payloads are gone: nothing is left to apply.

    Raises:
        CorruptLog: A row holds no entry's.
    """
    by_ts: dict[int, list[dict[str, Any]]] = {}
    for row in rows:  # not by their id: it may be used again after its retention
        by_ts.setdefault(row["commit_ts"], []).append(row)
    return [_entry(group) for group in by_ts.values()]


def _entry(rows: list[dict[str, Any]]) -> Entry:
    first = rows[0]
    return Entry(
        kind=word(Kind, first["kind"], "kind"),
        txn_id=first["txn_id"],
        upper=first["commit_ts"],
        tidied_upto=0,
        commit_ts=first["commit_ts"],
        read_ts=first["read_ts"],
        isolation=word(Isolation, first["isolation"], "isolation"),
        engine=first["engine"] or "",
        comment=first["comment"] or "",
        changes=tuple(_change(row) for row in rows if row["table_name"] is not None),
    )


def _change(row: dict[str, Any]) -> Change:
    if row["table_uuid"] is None:
        raise CorruptLog(
            f"the archive has a row without table_uuid; commit_ts=`{row['commit_ts']}`"
        )
    return Change(
        table=archived_name(row["table_name"]),
        uuid=row["table_uuid"],
        operation=word(Operation, row["operation"], "operation"),
        from_snapshot_id=row["parent_snapshot_id"],
        to_snapshot_id=row["snapshot_id"],
        added_records=row["added_records"] or 0,
        deleted_records=row["deleted_records"] or 0,
    )
