"""
Data tables as the catalog has them, with all that the log has of them.

Docs/spec.md 9.1 and 11.2. A replica of the catalog may lag, and gives a table as it was; somebody
may have set one back to older metadata; or one may stand under two names.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from txns._iceberg.known_tables import load_table
from txns._identifier import dotted_name
from txns._log.commit_log import LAG_MS
from txns._log.entry import Kind
from txns._table import mark
from txns._table.logged_state import Stranger
from txns.errors import Quarantined

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from txns._clock import Clock
    from txns._iceberg.locked_rows import LockedRows
    from txns._identifier import Identifier
    from txns._log.entry import LoggedChange
    from txns._log.head import Head
    from txns._log.timeline import Timeline


@dataclass(frozen=True, slots=True)
class CompleteTables:
    """Loads tables until they have what the log has of them, or tells what they lack."""

    catalog: Catalog
    timeline: Timeline
    clock: Clock

    def load(self, identifier: Identifier, head: Head) -> tuple[Table, Stranger | None]:
        """
        Load a table after `head`; one that lacks something of the log is loaded again.

        A replica may lag. What it lacks after the last load, somebody has set back: it is
        described then. Nobody asks a second time, with a head that is newer than the table.

        Raises:
            NoSuchTableError: The catalog does not have it.
            Quarantined: What it lacks stands under another name of the same table.
        """
        table, lost_ts = self._load(identifier, head, head.beside)
        for wait_ms_max in LAG_MS:
            if lost_ts is None:
                break
            self.clock.back_off(wait_ms_max)
            table, lost_ts = self._load(identifier, head)
        if table is None:
            raise NoSuchTableError(f"Table does not exist: {dotted_name(identifier)}")
        if lost_ts is None:
            return table, None
        self._refuse_second_name(identifier, table.metadata, head)
        return table, _set_back(table.metadata, lost_ts)

    def _load(
        self, identifier: Identifier, head: Head, beside: LockedRows | None = None
    ) -> tuple[Table | None, int | None]:
        """Load a table once; with the `commit_ts` in ms up to which what is given lacks entries."""
        try:
            table = self._loaded_with(beside, identifier) or load_table(self.catalog, identifier)
        except NoSuchTableError:
            creation = head.state.creation(identifier, head.upper)
            if creation is None:
                return None, None
            return None, self.created_ts(creation.change.uuid, head)
        return table, self._lost_upto(table.metadata, head)

    @staticmethod
    def _loaded_with(beside: LockedRows | None, identifier: Identifier) -> Table | None:
        """Give a table as it was beside a head; None where nobody asked, or its file has gone."""
        if beside is None or not beside.has(identifier):
            return None
        with suppress(FileNotFoundError):
            return beside.load_table(identifier)
        return None

    def created_ts(self, uuid: str, head: Head) -> int | None:
        """
        Give up to which `commit_ts` in ms a table that a head creates has been there.

        Its entries have left the head, or were born applied. None while all of them are to be
        applied, from the first one on: then it may not be made yet. The first is not always the
        newest creation: a table is created again on what the first one made.
        """
        first = head.state.first(uuid)
        newest = self._newest(uuid, first.commit_ts, head, marked=True)
        return newest if newest > first.commit_ts or first.change.born_applied else None

    def _newest(self, uuid: str, above: int, head: Head, *, marked: bool) -> int:
        """
        Give the newest `commit_ts` in ms that a table has to show, of what is never laid over it.

        It has left the head, or was born applied. A table without a mark is its owner's once the
        forget that came last has left the head, too: before that nobody knows what had the table.
        """
        archived = self.timeline.archive.newest_applied(head, uuid, above, marked=marked)
        return max(archived, head.state.born_ts(uuid))

    def lost(self, metadata: TableMetadata, head: Head) -> Stranger | None:
        """Describe what a table lacks that the catalog itself has given, not a replica."""
        lost_ts = self._lost_upto(metadata, head)
        return None if lost_ts is None else _set_back(metadata, lost_ts)

    def _lost_upto(self, metadata: TableMetadata, head: Head) -> int | None:
        """
        Give the `commit_ts` in ms up to which a table lacks entries; None for one that has all.

        They have left the head, which they did when the table showed them; or an
        outstanding change does not find what it stands on; or the table was forgotten and
        registered again, and shows neither. Until a repair stands on what is there.
        """
        uuid, applied = str(metadata.table_uuid), mark.applied_ts(metadata)
        run = head.state.changes(uuid, after=applied, upto=head.upper)
        unfit = _unfit_ts(run, metadata) or head.state.after_forget_ts(run)
        if run and unfit is None and run[0].entry.kind is Kind.REPAIR:
            return None
        marked = mark.mark_of(metadata) is not None
        newest = self._newest(uuid, applied, head, marked=marked)
        return newest if newest > applied else unfit

    def _refuse_second_name(
        self, identifier: Identifier, metadata: TableMetadata, head: Head
    ) -> None:
        """Refuse a name whose table has what it lacks under the name that the log knows it by."""
        uuid, applied = str(metadata.table_uuid), mark.applied_ts(metadata)
        for name in sorted(self._names(uuid, applied, head)):
            if dotted_name(name).casefold() == dotted_name(identifier).casefold():
                continue
            try:
                other = self.catalog.load_table(name).metadata
            except NoSuchTableError:
                continue
            if str(other.table_uuid) == uuid and mark.applied_ts(other) > applied:
                raise Quarantined(
                    identifier,
                    "the table stands under two names of the catalog, and was written under the"
                    f" other one; other=`{dotted_name(name)}`",
                    "take this name out of the catalog without purging its files, which are the"
                    " other one's too",
                )

    def _names(self, uuid: str, above: int, head: Head) -> set[Identifier]:
        """Give the names by which a table was written above a `commit_ts` in ms."""
        return {
            change.table
            for entry in self.timeline.above(head.state, above)
            for change in entry.changes
            if change.uuid == uuid
        }


def _set_back(metadata: TableMetadata, lost_ts: int) -> Stranger:
    """Describe a table that lacks what the log has of it up to a `commit_ts`, in ms."""
    applied = mark.applied_ts(metadata)
    reason = (
        "the table was set back outside the protocol, by older metadata or a backup: rows of"
        f" the log are missing from it; applied=`{applied}` lost=`{lost_ts}`"
    )
    main = metadata.current_snapshot_id
    return Stranger(main, (), adoptable=False, reason=reason, lost=(applied, lost_ts))


def _unfit_ts(run: list[LoggedChange], metadata: TableMetadata) -> int | None:
    """
    Give the `commit_ts` in ms of the newest outstanding change that stands on what a table has not.

    Nor on the change before it: that was applied then, and strangers compacted. A forget needs
    nothing of it: everything before was applied, and its owner may have expired it.
    """
    unfit_ts, before = None, None
    for logged in run:
        source = logged.change.from_snapshot_id
        asks = source != before and logged.entry.kind is not Kind.FORGET
        if source is not None and asks and metadata.snapshot_by_id(source) is None:
            unfit_ts = logged.commit_ts
        before = logged.change.to_snapshot_id
    return unfit_ts
