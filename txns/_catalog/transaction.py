"""A transaction as a catalog: staged changes over many tables, what was read, savepoints."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableResponse, CreateTableTransaction
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AssertCreate
from pyiceberg.typedef import EMPTY_DICT

from txns._catalog.base import TxnCatalog
from txns._catalog.early_doom import EarlyDoom
from txns._catalog.outcome import Committed, State
from txns._commit.commit_request import CommitRequest
from txns._commit.file_conflicts import Meetings
from txns._commit.group import Attempts, Key, Origin
from txns._commit.leftovers import Leftovers
from txns._config import FILE
from txns._identifier import dotted_name, namespace_of
from txns._log import limits
from txns._log.entry import Entry, Isolation, Kind
from txns._log.settings import INLINE
from txns._logger import about
from txns._metrics import Count, Phase
from txns._stage import change_builder, listing
from txns._stage.read_set import ReadSet
from txns._stage.savepoints import Savepoints
from txns._stage.txn_table import TxnTable
from txns._stage.write_set import BeginOptions, WriteSet
from txns._table.mark import refuse_reserved, refuse_reserved_in
from txns.errors import CommitStateUnknown, InvalidUsage, Unsupported, is_final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from uuid import UUID

    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Properties

    from txns._identifier import Identifier
    from txns._log.head import Head
    from txns._services import Parts
    from txns._table.loaded import Loaded


class Transaction(TxnCatalog):
    """
    A pyiceberg catalog whose tables are read as of one timestamp and whose changes are staged.

    Ends with `commit` or `rollback`; as a context manager it commits at the end of the block
    and rolls back on an exception. Threads may share it.
    """

    def __init__(self, parts: Parts, head: Head, options: BeginOptions, comment: str) -> None:
        super().__init__(parts)
        self._at = head
        self.options = options
        self.comment = comment
        self.reads = ReadSet()
        self.state = State.ACTIVE
        self.committed: Committed | None = None
        """What became of it; set from the start where its id had committed before."""
        self._lock = threading.RLock()
        self._doom = EarlyDoom(parts, self._lock, self._undecided)
        self._write_set = WriteSet(
            parts.tables,
            head,
            options,
            self.reads,
            places=parts.places,
            expiry=parts.kept_by_expiry,
            before_read=self._doom.before_read,
            before_write=self._doom.before_write,
            take_care=self._take_care if parts.config.register == "all" else None,
        )
        self._savepoints = Savepoints()
        self.attempts = Attempts()
        self._leftovers = Leftovers()
        self._met = Meetings()

    def _take_care(self, table: Identifier) -> Head:
        self._parts.registrar.register(table)
        return self._parts.log.load()

    @property
    def parts(self) -> Parts:
        """The parts underneath, for this package's own modules."""
        return self._parts

    @property
    def txn_id(self) -> str:
        """Its id: the idempotence key."""
        return self.options.txn_id

    @property
    def read_ts(self) -> int:
        """What every table is read at, in ms."""
        return self.options.read_ts

    @property
    def isolation(self) -> Isolation:
        """What is validated at its commit."""
        return self.options.isolation

    @property
    def tables(self) -> tuple[Identifier, ...]:
        """The tables that it has written."""
        return self.committed.tables if self.committed else tuple(self._write_set.writes())

    @property
    def unprotected(self) -> tuple[str, ...]:
        """What it has read that nothing protects: tables that nobody registered."""
        return tuple(sorted(self.reads.unprotected))

    # ---------------------------------------------------------------- as a catalog

    def load_table(self, identifier: str | Identifier) -> Table:
        """
        Load a table as of `read_ts` with the transaction's own changes.

        The same object every time: its operations see each other.
        """
        name = self.identifier_to_tuple(identifier)
        with self._lock:
            self._check_active()
            self._doom.before_read()
            return self._write_set.table(name, self, self._stage_append)

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Whether a table exists for this transaction."""
        name = self.identifier_to_tuple(identifier)
        with self._lock:
            self._check_active()
            exists = self._write_set.exists(name)
            if exists:
                self.reads.present.add(self._write_set.first_name(name))
            return exists

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """List a namespace as of `read_ts`, with the transaction's own tables."""
        space = namespace_of(namespace)
        with self._lock:
            self._check_active()
            self.reads.listed.add(space)
            listed = super().list_tables(namespace)
            return listing.with_staged(listed, space, self._write_set.staged, self._uuid_of)

    def _uuid_of(self, name: Identifier) -> UUID | None:
        try:
            return self._parts.catalog.load_table(name).metadata.table_uuid
        except NoSuchTableError:
            return None

    def create_table_transaction(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> CreateTableTransaction:
        """Plan a table that is created with this transaction, together with its first rows."""
        name = self.identifier_to_tuple(identifier)
        with self._lock:
            self._check_writable()
            self._refuse_commit_table(name)
            if self._write_set.exists(name):
                raise TableAlreadyExistsError(f"Table {dotted_name(name)} already exists")
            name = self._write_set.first_name(name)
            return self._parts.new_tables.plan(
                self,
                name,
                schema,
                location,
                partition_spec,
                sort_order,
                properties,
                dropped=self._write_set.dropped(name),
                files=self._write_set.files,
            )

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Stage changes of a table; pyiceberg's operations call it."""
        name = table.name()
        with self._lock, about(txn=self.txn_id, table=name, phase=Phase.STAGE):
            self._check_writable()
            self._refuse_commit_table(name)
            refuse_reserved_in(name, table.metadata, updates)
            self._parts.places.refuse_to_stage(name, table.metadata, updates)
            if any(isinstance(requirement, AssertCreate) for requirement in requirements):
                staged = self._write_set.stage_create(table, updates)
            else:
                appended = isinstance(table, TxnTable) and table.made_by_appends(updates)
                staged = self._write_set.stage(name, requirements, updates, appended=appended)
            self._write_set.show(staged)
            return CommitTableResponse(
                metadata=staged.current, metadata_location=table.metadata_location
            )

    def _stage_append(
        self, name: Identifier, files: list[DataFile], properties: Mapping[str, str]
    ) -> None:
        """Stage an append without pyiceberg's producer; see `TxnTable.append`."""
        with self._lock:
            self._check_writable()
            self._refuse_commit_table(name)
            refuse_reserved(name, properties)
            staged = self._write_set.writable(name)
            change_builder.stage_append(staged, self._parts.clock, files, properties)
            self._write_set.show(staged)

    def drop_table(self, identifier: str | Identifier) -> None:
        """Drop a table with this transaction; its files stay until they are purged."""
        name = self.identifier_to_tuple(identifier)
        with self._lock:
            self._check_writable()
            self._refuse_commit_table(name)
            self.load_table(name)
            staged = self._write_set.drop(name)
            if staged is not None:
                change_builder.stage_drop(staged, self._parts.clock)

    def purge_table(self, identifier: str | Identifier) -> None:
        """Refuse: files that are deleted at once do not come back with a rollback."""
        del identifier
        self._refuse_in_transaction("purge_table")

    def rename_table(
        self, from_identifier: str | Identifier, to_identifier: str | Identifier
    ) -> Table:
        """Refuse: catalogs rename at once."""
        del from_identifier, to_identifier
        self._refuse_in_transaction("rename_table")
        raise AssertionError

    def _refuse_in_transaction(self, operation: str) -> None:
        raise Unsupported(
            f"{operation} acts at once and cannot be rolled back: call it outside a transaction"
        )

    # ---------------------------------------------------------------- its end

    def __enter__(self) -> Self:
        """Begin a block that commits at its end and rolls back on an exception."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        """Commit, or roll back on an exception."""
        if exc_type is None and self.state is State.ACTIVE:
            self.commit()
        elif exc_val is not None:
            self.rollback_after(exc_val)

    def commit(self) -> Committed:
        """
        Commit, and apply unless the handle leaves that to the next writer.

        Raises:
            Conflict: Definitely not committed; run the transaction again.
            CommitStateUnknown: Ask with `begin(txn_id=...)`.
            Exception: Of the catalog or the storage: what was staged stays.
        """
        committed = self.commit_at()
        if self._parts.in_force(self._parts.log.newest).apply == INLINE:
            committed.apply()
        else:
            self._parts.committer.leave()
        return committed

    def commit_at(self, ts: int | None = None) -> Committed:
        """
        Append the entry with one swap: the moment of durability. Nothing is applied yet.

        Args:
            ts: The `commit_ts` in ms that it must have; None for the next one. At or below the
                upper it is InvalidUsage with the least one that works, and the transaction can
                be committed at that without writing data again.

        Raises:
            Conflict: Definitely not committed; run the transaction again.
            CommitStateUnknown: Ask with `begin(txn_id=...)`.
            Exception: As for `commit`.
        """
        with self._lock, about(txn=self.txn_id):
            if self.committed is not None:
                if self.state is State.ACTIVE:  # under its id somebody else has, before it began
                    self._write_set.discard()
                self.state = State.COMMITTED
                self._parts.reserver.give_up(self.options.turn)
                return self.committed
            self._check_active()
            ts = limits.whole(ts, "ts")
            if not self._write_set.writes():
                self.state = State.COMMITTED
                self._write_set.delete_passing()
                self._parts.committer.metrics.count(Count.COMMITTED)
                self.committed = Committed.of_nothing(self.txn_id, self.read_ts)
                self._parts.reserver.give_up(self.options.turn)
                return self.committed
            self.reads.end(self._write_set.writes())
            self.state = State.UNKNOWN  # until the answer is here: an interrupt deletes nothing
            entry = self._append(ts)
            self.state = State.COMMITTED
            self.committed = Committed.of(entry, self._parts)
            self._write_set.delete_passing()
            return self.committed

    def _key(self, ts: int | None = None) -> Key:
        since_ts = self._at.upper if self.options.fresh_id else self.read_ts
        origin = Origin.FRESH if self.options.fresh_id else Origin.CALLERS
        return Key(self.txn_id, since_ts, origin, ts, self.attempts)

    def _request(self, ts: int | None = None) -> CommitRequest:
        return CommitRequest(
            kind=Kind.COMMIT,
            key=self._key(ts),
            read_ts=self.read_ts,
            born_ms=self.options.born_ms,
            writes=self._write_set.writes(),
            isolation=self.isolation,
            reads=self.reads,
            by_file=self.options.conflicts == FILE,
            comment=self.comment,
            turn=self.options.turn,
            leftovers=self._leftovers,
            met=self._met,
        )

    def _undecided(self) -> CommitRequest | None:
        """Give what it would commit, where it may still: an attempt of its own may land."""
        over = self.state is not State.ACTIVE or self.committed is not None
        return None if over or self.attempts.stood_on is not None else self._request()

    def _append(self, ts: int | None) -> Entry:
        try:
            if self.attempts.stood_on is None:  # or an earlier one might commit all the same
                self._parts.rehearsal.lose(self.txn_id)
            return self._parts.committer.commit(self._request(ts))
        except CommitStateUnknown:
            raise  # it may have committed: nothing is deleted
        except Exception as error:
            if not is_final(error):
                self.state = State.ACTIVE  # no outcome: what was staged stays
                raise
            self._lost()
            raise

    def _lost(self) -> None:
        self.state, self.attempts.ended_ms = State.ROLLED_BACK, self._parts.clock.elapsed_ms()
        self._write_set.discard()

    def rollback(self) -> None:
        """
        Undo everything and delete the files that were written; harmless when it is over.

        Raises:
            InvalidUsage: 25000, a commit that was refused has landed all the same.
            CommitStateUnknown: It may have committed, or may still: nothing is undone or deleted.
        """
        with self._lock, about(txn=self.txn_id, phase=Phase.STAGE):
            if self.state is State.ACTIVE and self.attempts.stood_on is not None:
                self._settle_refused()
            if self.state is State.UNKNOWN:
                raise CommitStateUnknown(self.txn_id)
            if self.state is not State.ACTIVE:
                return
            self._leftovers.remove(self._parts.log, None)
            self._lost()

    def rollback_after(self, error: BaseException) -> None:
        """Undo everything because of an error; an interrupt is not hidden, see `rollback`."""
        if self.state is State.UNKNOWN and isinstance(error, CommitStateUnknown):
            return
        try:
            self.rollback()
        except CommitStateUnknown:
            if isinstance(error, Exception):
                raise

    def _settle_refused(self) -> None:
        """Ask whether an attempt that was refused can still commit; what it needs stays then."""
        try:
            entry = self._parts.loop.settle(self._key())
        except Exception as error:
            self.state = State.UNKNOWN  # files that stay harm nobody
            raise CommitStateUnknown(self.txn_id) from error
        if entry is not None:
            self.state = State.COMMITTED
            self.committed = Committed.of(entry, self._parts)
            raise InvalidUsage(
                "25000",
                "the transaction has committed, although the catalog refused it: there is nothing"
                f" to roll back; txn=`{self.txn_id}` commit_ts=`{entry.commit_ts}`",
            )
        if self.attempts.stood_on is not None:
            self.state = State.UNKNOWN

    def savepoint(self, name: str) -> None:
        """Remember this moment under a name; a name used again hides the older one."""
        with self._lock:
            self._check_unattempted()
            self._savepoints.remember(name, self._write_set.staged)

    def rollback_to(self, name: str) -> None:
        """
        Undo what was staged since a savepoint; the savepoint stays.

        Raises:
            InvalidUsage: 3B001 for an unknown savepoint.
        """
        with self._lock, about(txn=self.txn_id, phase=Phase.STAGE):
            self._check_unattempted()
            staged, undone = self._savepoints.back_to(name, self._write_set.staged)
            self._write_set.restore(staged)
            for files, locations in undone:
                files.delete_of(locations)

    def release(self, name: str) -> None:
        """
        Forget a savepoint and those after it; what was staged stays.

        Raises:
            InvalidUsage: 3B001 for an unknown savepoint.
        """
        with self._lock:
            self._check_unattempted()
            self._savepoints.release(name)

    # ---------------------------------------------------------------- inside

    def _head(self) -> Head:
        return self._at

    def _read_ts(self, head: Head) -> int:
        del head
        return self.options.read_ts

    def _load(self, identifier: Identifier) -> Loaded:
        return self._write_set.load(identifier)

    def _check_active(self) -> None:
        if self.state is not State.ACTIVE:
            raise InvalidUsage(
                "25P01",
                f"the transaction is over ({self.state.value}): begin another one;"
                f" txn=`{self.txn_id}`",
            )

    def _check_unattempted(self) -> None:
        """Refuse what would change it while a refused commit may still land as it was."""
        self._check_active()
        if self.attempts.stood_on is not None:
            raise InvalidUsage(
                "25000",
                "a refused commit of the transaction may still land: commit it again, or roll it"
                f" back; txn=`{self.txn_id}`",
            )

    def _check_writable(self) -> None:
        self._check_unattempted()
        if self.options.read_only:
            raise InvalidUsage(
                "25006", "a read-only transaction does not write: begin one without read_only"
            )
