"""
Puts tables under care, and takes them from it.

Docs/spec.md 6.2 and 6.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
)

from txns._commit.commit_request import CommitRequest
from txns._commit.drafts import control_entry
from txns._commit.group import Key, Origin
from txns._iceberg import manifests, timestamps
from txns._iceberg.updates import unlisted_order
from txns._identifier import dotted_name
from txns._log.change import Change, Operation
from txns._log.entry import Entry, Kind
from txns._logger import fields, logger
from txns._stage import change_builder
from txns._stage.staged_table import StagedTable
from txns._table import mark as _mark
from txns._table.swap import swap
from txns.errors import (
    Conflict,
    ForeignWrite,
    Quarantined,
    Unsupported,
    refuse_without_namespace,
    transactions_off,
)

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

    from txns._clock import Clock
    from txns._commit.apply import Applier
    from txns._commit.committer import Committer
    from txns._commit.group_commit import CommitLoop
    from txns._identifier import Identifier
    from txns._log.commit_log import CommitLog
    from txns._log.head import Head
    from txns._log.state import LogState
    from txns._table.data_tables import DataTables

_LOG = logger(__name__)


class Registrar:
    """Registers and forgets tables of one catalog."""

    def __init__(
        self,
        catalog: Catalog,
        log: CommitLog,
        loop: CommitLoop,
        tables: DataTables,
        applier: Applier,
        committer: Committer,
        clock: Clock,
    ) -> None:
        self._catalog = catalog
        self._log = log
        self._loop = loop
        self._tables = tables
        self._applier = applier
        self._committer = committer
        self._clock = clock

    def register(self, identifier: Identifier, uuid: str | None = None) -> int:
        """
        Mark a table, then log that it is marked; give the `commit_ts` from which it is, in ms.

        The mark is the truth: a registrar that dies between the two leaves a registered table,
        and the next one writes the entry.

        Args:
            identifier: Its name.
            uuid: The table that is meant, where another one may stand under the name.

        Raises:
            InvalidUsage: 42602, the name has no namespace.
            NoSuchTableError: There is none, or it has another uuid.
            Quarantined: The log has more of it than it shows.
            CorruptLog: It shows more than the log has, or another log has marked it.
        """
        refuse_without_namespace(identifier)
        head = self._log.load_or_create()
        if head.state.off:
            raise transactions_off()  # before the table is marked
        if not self._applier.apply_run(head, identifier):
            raise not_applied(identifier, "registered")
        table = self._tables.whole(identifier, head)
        self._check_registrable(identifier, table, uuid)
        mark = _mark.mark_of(table.metadata)
        if mark is None:
            table = self._marked(identifier, table, uuid)
        else:
            self._tables.check_mark(identifier, table.metadata, mark, head)
        marking = _mark_snapshot(table)
        return head.upper if marking is None else self._log_registration(table, marking)

    def forget(self, identifier: Identifier) -> int:
        """Take a table from care, as a change like any other; give its `commit_ts` in ms."""
        head = self._log.load_if_ever()
        if not self._applier.apply_run(head, identifier):
            raise not_applied(identifier, "forgotten")
        loaded = self._tables.load(identifier, head, head.upper)
        if not loaded.registered:
            return head.upper
        if head.state.off:
            raise transactions_off()  # a stranger's write is no reason before this
        if loaded.stranger:
            raise ForeignWrite(identifier, loaded.stranger.reason)
        manifests.check_writable(loaded.metadata, dotted_name(identifier))
        staged = StagedTable.of(loaded)
        marked = [key for key in _mark.KEYS if key in staged.base.properties]
        staged.stage((RemovePropertiesUpdate(removals=marked),))
        request = CommitRequest(
            kind=Kind.FORGET,
            key=Key.fresh(self._clock.new_txn_id()),
            read_ts=loaded.read_ts,
            born_ms=self._clock.now_ms(),
            writes={identifier: staged},
        )
        entry = self._committer.commit_once(request)
        self._committer.apply(entry)
        return entry.commit_ts

    def _check_registrable(self, identifier: Identifier, table: Table, uuid: str | None) -> None:
        if uuid not in {None, str(table.metadata.table_uuid)}:
            raise NoSuchTableError(
                f"Another table stands under the name: {dotted_name(identifier)}"
            )
        _mark.refuse_commit_table(identifier, table.metadata)
        mark = _mark.mark_of(table.metadata)
        name = dotted_name(identifier)
        if mark and mark.commit_table != ".".join(self._log.identifier):
            raise Unsupported(
                "the table is under the care of another commit table, forget it there first;"
                f" table=`{name}` commit_table=`{mark.commit_table}`"
            )
        if table.metadata.format_version < manifests.WRITABLE_FORMAT:
            raise Unsupported(
                "a table of format version 1 cannot be registered, upgrade it first: with"
                " table.transaction() as t: t.upgrade_table_version(2);"
                f" table=`{name}`"
            )
        if mark is None:
            manifests.check_writable(table.metadata, name)

    def _marked(self, identifier: Identifier, table: Table, uuid: str | None) -> Table:
        """
        Mark a table, and give it as it is then.

        A swap that was lost starts again, once: the winner may have marked it, which is as good.

        Raises:
            Conflict: Others write it all the time.
        """
        try:
            return self._mark(identifier, table)
        except CommitFailedException:
            _LOG.debug(
                "somebody else changed the table first",
                exc_info=True,
                extra=fields(table=identifier),
            )
        table = self._catalog.load_table(identifier)
        self._check_registrable(identifier, table, uuid)
        if _mark.mark_of(table.metadata) is None:
            return self._mark_or_conflict(identifier, table)
        return table

    def _mark_or_conflict(self, identifier: Identifier, table: Table) -> Table:
        try:
            return self._mark(identifier, table)
        except CommitFailedException as error:
            raise Conflict(
                "others write the table while it is registered",
                table=identifier,
                least_ts=self._log.load().upper,
            ) from error

    def _mark(self, identifier: Identifier, table: Table) -> Table:
        """Swap the mark in, with an empty snapshot that has a manifest list of its own."""
        head = self._log.load()  # after the table: it has the forget that the table may show
        uuid = str(table.metadata.table_uuid)
        self._refuse_outstanding(identifier, table, head)
        properties = _mark.registration_properties(
            self._log.identifier, head.log_id, uuid, head.upper, table.metadata.properties
        )
        staged = StagedTable(identifier, table.io, table.metadata)
        marks: list[TableUpdate] = [
            *unlisted_order(table.metadata),
            SetPropertiesUpdate(updates=properties),
        ]
        if copied := _mark.copied_keys(table.metadata):
            marks.append(RemovePropertiesUpdate(removals=copied))
        staged.stage(tuple(marks))
        change_builder.complete(staged, self._clock)
        empty = staged.snapshots()[-1]
        stamp = {
            _mark.SNAPSHOT_COMMIT_TS: str(head.upper),
            _mark.SNAPSHOT_TXN_ID: _mark.registration_id(table.metadata, empty),
        }
        now_ms = self._clock.now_ms()
        time_ms = timestamps.acceptable_ts(table.metadata, now_ms, now_ms)
        marking = change_builder.stamped(empty, stamp, time_ms)
        main = table.metadata.current_snapshot_id
        here = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=main),
        )
        moved = change_builder.main_at(table.metadata, marking.snapshot_id)
        updates = (*marks, AddSnapshotUpdate(snapshot=marking), moved)
        return swap(self._catalog, table, here, updates, self._clock)

    def _refuse_outstanding(self, identifier: Identifier, table: Table, head: Head) -> None:
        """
        Refuse to mark a table to which something of the log is still to be applied.

        Raises:
            CommitFailedException: It is another one since it was loaded, before the head.
            Quarantined: It lacks that after the head, too, and nobody has registered it.
        """
        if not _lacks(table.metadata, head):
            return
        newest = self._catalog.load_table(identifier).metadata
        if _mark.mark_of(newest) is None and _lacks(newest, head):
            raise not_applied(identifier, "registered")
        raise CommitFailedException(f"somebody has registered the table: {dotted_name(identifier)}")

    def _log_registration(self, table: Table, marking: Snapshot) -> int:
        txn_id = _mark.registration_id(table.metadata, marking)
        change = Change(
            table=table.name(),
            uuid=str(table.metadata.table_uuid),
            operation=Operation.ALTER,
            from_snapshot_id=marking.parent_snapshot_id,
            to_snapshot_id=marking.snapshot_id,
        )

        mark_ts = _mark.commit_ts_of(marking)

        def attempt(state: LogState, head: Head, commit_ts: int) -> Entry:
            forgotten = state.forgotten_ts(change.uuid) > mark_ts
            archived = head.state.tidied_upto > mark_ts
            if forgotten or (archived and self._tables.forget_above(mark_ts, change.uuid)):
                raise Conflict(
                    "somebody has taken the table from care since it was marked",
                    table=change.table,
                    least_ts=head.upper,
                )
            return control_entry(Kind.REGISTER, txn_id, state, commit_ts, (change,))

        return self._loop.append(Key(txn_id, 0, Origin.DERIVED), attempt).commit_ts


def _lacks(metadata: TableMetadata, head: Head) -> bool:
    """Whether something of the log is still to be applied to a table."""
    uuid, applied = str(metadata.table_uuid), _mark.applied_ts(metadata)
    return bool(head.state.changes(uuid, after=applied, upto=head.upper))


def not_applied(identifier: Identifier, deed: str) -> Quarantined:
    """Say that a table cannot leave or change its name before the log has nothing left for it."""
    reason = f"entries of the table are not applied, so it cannot be {deed} yet"
    return Quarantined(
        identifier, reason, "`txns apply` applies them, or says what is in the way; then try again"
    )


def _mark_snapshot(table: Table) -> Snapshot | None:
    """Find the snapshot that marked a table; None for one created under care, or expired."""
    applied = _mark.applied_ts(table.metadata)
    # The newest: it may have been marked before.
    marks = (at for at in reversed(table.metadata.snapshots) if _mark.marks(table.metadata, at))
    return next((at for at in marks if _mark.commit_ts_of(at) <= applied), None)
