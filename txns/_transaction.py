"""
A transaction as a catalog: staged changes over many tables, what was read, savepoints.

Imports: _catalog, _change, _commit, _creation, _entry, _loop, _read_set, _staged, _txn_table,
errors. Used by: _handle.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Self

from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableResponse, CreateTableTransaction
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AssertCreate
from pyiceberg.typedef import EMPTY_DICT

from txns import _change, _creation, _manifests
from txns._catalog import TxnCatalog
from txns._commit import Request
from txns._committed import Committed, Options, State
from txns._entry import Entry, Isolation, Kind
from txns._loop import Key
from txns._mark import applied_ts
from txns._parts import check_writable
from txns._read_set import ReadSet
from txns._recorded_io import RecordedIO
from txns._savepoints import Savepoints
from txns._staged import StagedTable
from txns._txn_table import TxnTable
from txns.errors import CommitStateUnknown, InvalidUsage, Unsupported, text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Properties

    from txns._log import Head
    from txns._parts import Parts
    from txns._tables import Loaded
    from txns.errors import Identifier


class Transaction(TxnCatalog):
    """
    A pyiceberg catalog whose tables are read as of one timestamp and whose changes are staged.

    Ends with `commit` or `rollback`; as a context manager it commits at the end of the block
    and rolls back on an exception. Threads may share it.
    """

    def __init__(self, parts: Parts, head: Head, options: Options, comment: str) -> None:
        super().__init__(parts)
        self._at = head
        self._options = options
        self.comment = comment
        self.reads = ReadSet()
        self.state = State.ACTIVE
        self.committed: Committed | None = None
        """What became of it; set from the start where its id had committed before."""
        self._loaded: dict[Identifier, Loaded] = {}
        self._shared: dict[Identifier, TxnTable] = {}
        self._files: dict[Identifier, RecordedIO] = {}
        self._staged: dict[Identifier, StagedTable] = {}
        self._savepoints = Savepoints()
        self._lock = threading.RLock()

    @property
    def txn_id(self) -> str:
        """Its id: the idempotence key."""
        return self._options.txn_id

    @property
    def read_ts(self) -> int:
        """What every table is read at, in ms."""
        return self._options.read_ts

    @property
    def isolation(self) -> Isolation:
        """What is validated at its commit."""
        return self._options.isolation

    @property
    def tables(self) -> tuple[Identifier, ...]:
        """The tables that it has written."""
        return self.committed.tables if self.committed else tuple(self._writes())

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
            staged = self._staged.get(name)
            if staged is not None:
                if staged.dropped:
                    raise NoSuchTableError(f"Table does not exist: {text(name)}")
                return self._table(name, staged.current, staged.io)
            loaded = self._load(name)
            return self._table(name, loaded.metadata, self._files_of(name, loaded))

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Whether a table exists for this transaction."""
        name = self.identifier_to_tuple(identifier)
        with self._lock:
            self._check_active()
            if name in self._staged:
                return not self._staged[name].dropped
            exists = super().table_exists(name)
            if exists:
                self.reads.present.add(name)
            return exists

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """List a namespace as of `read_ts`, with the transaction's own tables."""
        space = self.identifier_to_tuple(namespace)
        with self._lock:
            self._check_active()
            self.reads.listed.add(space)
            tables = dict.fromkeys(super().list_tables(namespace))
            for name, staged in self._staged.items():
                if name[:-1] == space and staged.dropped:
                    tables.pop(name, None)
                elif name[:-1] == space:
                    tables[name] = None
            return list(tables)

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        """Create a table with this transaction; it comes under care."""
        self.create_table_transaction(
            identifier, schema, location, partition_spec, sort_order, properties
        ).commit_transaction()
        return self.load_table(identifier)

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
            if self._exists(name):
                raise TableAlreadyExistsError(f"Table {text(name)} already exists")
            planned = _creation.planned_table(
                self._parts, self, name, schema, location, partition_spec, sort_order, properties
            )
            files = self._files.setdefault(name, RecordedIO(planned.io))
            planned.io = files
            return CreateTableTransaction(planned)

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Stage changes of a table; pyiceberg's operations call it."""
        name = table.name()
        with self._lock:
            self._check_writable()
            self._refuse_commit_table(name)
            if any(isinstance(requirement, AssertCreate) for requirement in requirements):
                staged = self._stage_create(table, updates)
            else:
                staged = self._stage(name, requirements, updates)
            if name in self._shared:
                self._shared[name].metadata = staged.current
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
            staged = self._writable(name)
            _change.stage_append(staged, self._parts.clock, files, properties)
            self._shared[name].metadata = staged.current

    def drop_table(self, identifier: str | Identifier) -> None:
        """Drop a table with this transaction; its files stay until they are purged."""
        name = self.identifier_to_tuple(identifier)
        with self._lock:
            self._check_writable()
            self._refuse_commit_table(name)
            self.load_table(name)
            staged = self._staged.get(name)
            if staged is not None and staged.create:
                staged.io.delete_created()
                del self._staged[name]
            else:
                _change.stage_drop(self._writable(name), self._parts.clock)
            self._shared.pop(name, None)

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
        elif exc_type is not None:
            self.rollback()

    def commit(self) -> Committed:
        """
        Commit, and apply unless the handle leaves that to the next writer.

        Raises:
            Conflict: Definitely not committed; run the transaction again.
            CommitStateUnknown: Ask with `begin(txn_id=...)`.
        """
        committed = self.commit_at()
        if self._parts.config.apply == "inline":
            committed.apply()
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
        """
        with self._lock:
            if self.committed is not None:
                self._discard()
                self.state = State.COMMITTED
                return self.committed
            self._check_active()
            writes = self._writes()
            if not writes:
                self.state = State.COMMITTED
                self.committed = Committed(
                    self.txn_id, self.read_ts, self.read_ts, (), applied=True
                )
                return self.committed
            entry = self._append(writes, ts)
            self.state = State.COMMITTED
            self.committed = Committed.of(entry, self._parts)
            return self.committed

    def _append(self, writes: dict[Identifier, StagedTable], ts: int | None) -> Entry:
        options = self._options
        key = Key(options.txn_id, self._at.upper, options.fresh_id, ts)
        request = Request(
            kind=Kind.COMMIT,
            key=key,
            read_ts=options.read_ts,
            born_ms=options.born_ms,
            writes=writes,
            isolation=options.isolation,
            reads=self.reads,
            comment=self.comment,
        )
        try:
            return self._parts.committer.commit(request)
        except CommitStateUnknown:
            self.state = State.UNKNOWN  # it may have committed: nothing is deleted
            raise
        except InvalidUsage:
            raise  # the wanted timestamp does not work: what was staged stays
        except Exception:
            self.rollback()
            raise
        except BaseException:
            self.state = State.UNKNOWN  # interrupted, perhaps after the swap
            raise

    def rollback(self) -> None:
        """Undo everything and delete the files that were written; harmless when it is over."""
        with self._lock:
            if self.state is not State.ACTIVE:
                return
            self.state = State.ROLLED_BACK
            self._discard()

    def savepoint(self, name: str) -> None:
        """Remember this moment under a name; a name used again hides the older one."""
        with self._lock:
            self._check_active()
            self._savepoints.remember(name, self._staged)

    def rollback_to(self, name: str) -> None:
        """
        Undo what was staged since a savepoint; the savepoint stays.

        Raises:
            InvalidUsage: 3B001 for an unknown savepoint.
        """
        with self._lock:
            self._check_active()
            before = self._staged
            self._staged = self._savepoints.back_to(name, before)
            for table in before.keys() | self._staged.keys():
                staged = self._staged.get(table)
                if staged is None:
                    self._shared.pop(table, None)
                elif table in self._shared:
                    self._shared[table].metadata = staged.current

    def release(self, name: str) -> None:
        """
        Forget a savepoint and those after it; what was staged stays.

        Raises:
            InvalidUsage: 3B001 for an unknown savepoint.
        """
        with self._lock:
            self._check_active()
            self._savepoints.release(name)

    # ---------------------------------------------------------------- inside

    def _head(self) -> Head:
        return self._at

    def _read_ts(self, head: Head) -> int:
        del head
        return self._options.read_ts

    def _load(self, identifier: Identifier) -> Loaded:
        known = self._loaded.get(identifier)
        if known is not None:
            return known
        try:
            loaded = self._parts.tables.load(identifier, self._at, self.read_ts)
        except NoSuchTableError:
            self.reads.absent.add(identifier)
            raise
        if not loaded.registered:
            loaded = self._take_care(loaded)
        self._loaded[identifier] = loaded
        return loaded

    def _take_care(self, loaded: Loaded) -> Loaded:
        """Register a table that the transaction touches first, where the handle says so."""
        own = loaded.identifier == self._parts.log.identifier
        if self._parts.config.register != "all" or own or self._options.read_only:
            self.reads.unprotected.add(text(loaded.identifier))
            return loaded
        self._parts.registrar.register(loaded.identifier)
        head = self._parts.log.load()
        return self._parts.tables.load(loaded.identifier, head, self.read_ts)

    def _exists(self, name: Identifier) -> bool:
        if name in self._staged:
            return not self._staged[name].dropped
        try:
            self._load(name)
        except NoSuchTableError:
            return False
        return True

    def _table(self, name: Identifier, metadata: object, files: RecordedIO) -> TxnTable:
        known = self._shared.get(name)
        if known is not None:
            return known
        loaded = self._loaded.get(name)
        location = loaded.table.metadata_location if loaded and loaded.table else ""
        protected = loaded is None or loaded.registered

        def on_read(row_filter: str) -> None:
            if protected:
                self.reads.read(name, row_filter)

        table = TxnTable(
            name,
            metadata,  # type: ignore[arg-type]
            location or f"{metadata.location}/metadata/txns-staged.metadata.json",  # type: ignore[attr-defined]
            files,
            self,
            read_ts=self.read_ts,
            on_read=on_read,
            append_files=partial(self._stage_append, name),
        )
        self._shared[name] = table
        return table

    def _files_of(self, name: Identifier, loaded: Loaded) -> RecordedIO:
        return self._files.setdefault(name, RecordedIO(loaded.io))

    def _writable(self, name: Identifier) -> StagedTable:
        """Give the staged table to write to; refuse one that cannot be written."""
        staged = self._staged.get(name)
        if staged is None:
            loaded = self._load(name)
            check_writable(loaded)
            _manifests.check_writable(loaded.metadata, text(name))
            applied = applied_ts(loaded.table.metadata) if loaded.table else 0
            files = self._files_of(name, loaded)
            staged = StagedTable(name, files, loaded.metadata, applied_ts=applied)
            self._staged[name] = staged
        return staged

    def _stage(
        self,
        name: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        staged = self._writable(name)
        for requirement in requirements:
            requirement.validate(staged.current)
        staged.stage(updates)
        return staged

    def _stage_create(self, table: Table, updates: tuple[TableUpdate, ...]) -> StagedTable:
        name = table.name()
        if self._exists(name):
            raise TableAlreadyExistsError(f"Table {text(name)} already exists")
        self.reads.absent.add(name)
        dropped = self._staged.get(name) or self._dropped_before(name)
        if dropped is None:
            staged = _creation.staged_creation(name, table.io, updates)
        else:
            staged = dropped
            _creation.stage_recreation(staged, updates, self._parts.clock)
        self._staged[name] = staged
        self._shared.pop(name, None)
        return staged

    def _dropped_before(self, name: Identifier) -> StagedTable | None:
        """Give a dropped table's physical one; None where there is none of that name."""
        try:
            loaded = self._parts.tables.load_with_dropped(name, self._at, self.read_ts)
        except NoSuchTableError:
            return None
        return _creation.dropped_table(loaded)

    def _writes(self) -> dict[Identifier, StagedTable]:
        return {name: staged for name, staged in self._staged.items() if staged.changed}

    def _discard(self) -> None:
        """Delete everything that was written; nothing of it is reachable from any table."""
        for files in {id(f): f for f in self._all_files()}.values():
            files.delete_created()
        self._staged.clear()
        self._shared.clear()

    def _all_files(self) -> list[RecordedIO]:
        return [*self._files.values(), *(staged.io for staged in self._staged.values())]

    def _check_active(self) -> None:
        if self.state is not State.ACTIVE:
            raise InvalidUsage(
                "25P01",
                f"the transaction is over ({self.state.value}): begin another one;"
                f" txn=`{self.txn_id}`",
            )

    def _check_writable(self) -> None:
        self._check_active()
        if self._options.read_only:
            raise InvalidUsage(
                "25006", "a read-only transaction does not write: begin one without read_only"
            )
