"""What one transaction has loaded and staged, table by table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table.locations import load_location_provider

from txns._iceberg.recorded_io import RecordedIO
from txns._identifier import dotted_name, folded
from txns._stage import create_table
from txns._stage.staged_table import StagedTable
from txns._stage.txn_table import TxnTable
from txns._table import mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from uuid import UUID

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from txns._identifier import Identifier
    from txns._log.entry import Isolation
    from txns._log.head import Head
    from txns._log.reservation import Turn
    from txns._stage.read_set import ReadSet, RowFilter
    from txns._table.allowed_places import AllowedPlaces
    from txns._table.data_tables import DataTables
    from txns._table.loaded import Loaded

    AppendTo = Callable[[Identifier, list[DataFile], Mapping[str, str]], None]
    Expiry = Callable[
        [TableMetadata, TableMetadata | None, tuple[TableUpdate, ...]], tuple[TableUpdate, ...]
    ]


@dataclass(frozen=True, slots=True)
class BeginOptions:
    """
    How a transaction was begun.

    Attributes:
        txn_id: Its id: the idempotence key.
        fresh_id: Whether nobody else can know the id.
        isolation: What is validated at its commit.
        conflicts: In what two transactions have to meet to clash: `file` or `table`.
        read_only: Whether writes are refused.
        read_ts: What every table is read at, in ms.
        born_ms: When it began, by the handle's clock.
        turn: How old it is, with the tries before it, and what is reserved for it.
    """

    txn_id: str
    fresh_id: bool
    isolation: Isolation
    conflicts: str
    read_only: bool
    read_ts: int
    born_ms: int
    turn: Turn


class WriteSet:
    """The tables of one transaction."""

    def __init__(
        self,
        tables: DataTables,
        head: Head,
        options: BeginOptions,
        reads: ReadSet,
        *,
        places: AllowedPlaces,
        expiry: Expiry,
        before_read: Callable[[], None],
        before_write: Callable[[], None],
        take_care: Callable[[Identifier], Head] | None,
    ) -> None:
        """
        Begin with nothing loaded or staged.

        Args:
            tables: The catalog's.
            head: What was loaded at its beginning.
            options: How it was begun.
            reads: What it notes reads in.
            places: Where it may write.
            expiry: Takes from updates of a table, as it is shown and as the catalog has it, what
                others forbid.
            before_read: Called before rows are read.
            before_write: Called before a statement writes; not for each file, of which producers
                write several at a time and would leave one to nobody.
            take_care: Registers a table that is touched first, and gives the head after that; None
                where tables do not come under care by themselves.
        """
        self._tables = tables
        self._places = places
        self._expiry = expiry
        self._before_read = before_read
        self._before_write = before_write
        self._register = take_care
        self._head = head
        self.options = options
        self._reads = reads
        self._loaded: dict[Identifier, Loaded] = {}
        self._first_names: dict[tuple[str, UUID], Identifier] = {}
        """Those of loaded tables, by what letters fold to and by uuid."""
        self._names: dict[Identifier, Identifier] = {}
        """By each other name of a table, in letters that its catalog folds, the first one."""
        self._files: dict[Identifier, RecordedIO] = {}
        self.shared: dict[Identifier, TxnTable] = {}
        """The one object that stands for each table, so that its operations see each other."""
        self.staged: dict[Identifier, StagedTable] = {}
        self._passing: list[StagedTable] = []
        """Tables that it has created and dropped."""

    def restore(self, staged: dict[Identifier, StagedTable]) -> None:
        """Go back to what was staged before."""
        for table in self.staged.keys() | staged.keys():
            earlier = staged.get(table) or self._loaded.get(table)
            if earlier is None:
                self.shared.pop(table, None)
            elif table in self.shared:  # the object that the user may hold goes back as well
                self.shared[table].metadata = earlier.metadata
        self.staged = staged

    def show(self, staged: StagedTable) -> None:
        """Let the one object that stands for a table show what was staged."""
        shared = self.shared.get(staged.identifier)
        if shared is not None:
            shared.metadata = staged.current

    def files(self, name: Identifier, io: FileIO) -> RecordedIO:
        """Give the files of a table, whose creation is noted."""
        return self._files.setdefault(name, RecordedIO(io))

    def drop(self, name: Identifier) -> StagedTable | None:
        """Forget a table that the transaction created; else give it, to be marked."""
        name = self._named(name)
        self.shared.pop(name, None)
        staged = self.staged.get(name)
        if staged is not None and staged.create:
            self._passing.append(staged)  # a savepoint may bring it back
            del self.staged[name]
            return None
        return self.writable(name)

    def load(self, identifier: Identifier) -> Loaded:
        """Load a table as of `read_ts`, the same one every time; note an absent name."""
        known = self._loaded.get(self.first_name(identifier))
        if known is not None:
            return known
        try:
            loaded = self._tables.load_in_transaction(identifier, self._head, self.options.read_ts)
        except NoSuchTableError:
            self._reads.absent.add(identifier)
            raise
        key = folded(identifier), loaded.metadata.table_uuid
        first = self._first_names.setdefault(key, identifier)
        if first != identifier:
            self._names[identifier] = first
            return self.load(first)  # again, where that has failed
        if not loaded.registered:
            loaded = self._take_care(loaded)
        self._loaded[identifier] = loaded
        seen = loaded.metadata
        outstanding = mark.above(seen, loaded.applied_ts) if loaded.registered else frozenset()
        self._reads.load(identifier, seen, outstanding)
        return loaded

    def first_name(self, name: Identifier) -> Identifier:
        """Give the name by which a table that is known by this one was loaded first."""
        return self._names.get(name, name)

    def _named(self, name: Identifier) -> Identifier:
        """Give the first name of a table that there is; load it where the name is a new one."""
        if name not in self.staged:
            self.load(name)
        return self.first_name(name)

    def _take_care(self, loaded: Loaded) -> Loaded:
        """Register a table that the transaction touches first, where the handle says so."""
        register = None if mark.is_commit_table(loaded.metadata) else self._register
        if register is None or self.options.read_only:
            self._reads.unprotected.add(dotted_name(loaded.identifier))
            return loaded
        head = register(loaded.identifier)
        return self._tables.load_in_transaction(loaded.identifier, head, self.options.read_ts)

    def exists(self, name: Identifier) -> bool:
        """Whether a table exists, with what was staged."""
        try:
            staged = self.staged.get(self._named(name))
        except NoSuchTableError:
            return False
        return staged is None or not staged.dropped

    def table(self, name: Identifier, catalog: Catalog, append: AppendTo) -> TxnTable:
        """Give the one object that stands for a table, with what was staged on it."""
        called, name = name, self._named(name)
        staged = self.staged.get(name)
        if staged is not None and staged.dropped:
            raise NoSuchTableError(f"Table does not exist: {dotted_name(called)}")
        known = self.shared.get(name)
        if known is not None:
            return known
        loaded = self._loaded.get(name)
        if staged is not None:
            metadata, files = staged.current, staged.io
        else:
            assert loaded is not None
            metadata, files = loaded.metadata, self.files(name, loaded.io)
        if loaded and loaded.table:
            location = loaded.table.metadata_location
        else:
            place = load_location_provider(metadata.location, metadata.properties)
            location = place.new_metadata_location("txns-staged.metadata.json")
        protected = loaded is None or loaded.registered
        table = TxnTable(
            name,
            metadata,
            location,
            files,
            catalog,
            read_ts=self.options.read_ts,
            on_read=partial(self._read, name) if protected else _nothing,
            on_conditional=partial(self._reads.write_by_rows, name) if protected else _nothing,
            on_no_files=partial(self._find_no_files, name) if protected else _nothing,
            on_write=partial(self._write, loaded),
            before_write=self._before_write,
            append_files=partial(append, name),
        )
        self.shared[name] = table
        return table

    def _read(self, name: Identifier, row_filter: RowFilter) -> None:
        self._before_read()
        self._reads.read(name, row_filter)

    def _find_no_files(self, name: Identifier, paths: Iterable[str]) -> None:
        self._before_read()
        self._reads.find_no_files(name, paths)

    def _write(self, loaded: Loaded | None, metadata: TableMetadata) -> None:
        if loaded is not None:  # what it has created itself stands where it may
            self._places.refuse_to_write(loaded, metadata)

    def writable(self, name: Identifier) -> StagedTable:
        """Give the staged table to write to; refuse one that cannot be written."""
        name = self._named(name)
        staged = self.staged.get(name)
        if staged is None:
            loaded = self.load(name).writable()
            self._places.refuse_to_write(loaded)
            staged = StagedTable.of(loaded, self.files(name, loaded.io))
            self.staged[name] = staged
        return staged

    def stage(
        self,
        name: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
        *,
        appended: bool,
    ) -> StagedTable:
        """Stage updates of a table, on what was staged before, and whether an append made them."""
        staged = self.writable(name)
        for requirement in requirements:
            requirement.validate(staged.current)
        staged.check_base(updates)
        real = staged.real.metadata if staged.real else None
        staged.stage(self._expiry(staged.current, real, updates), appended=appended)
        return staged

    def stage_create(self, table: Table, updates: tuple[TableUpdate, ...]) -> StagedTable:
        """Stage a new table, or one that was dropped on its physical one."""
        name = table.name()
        if self.exists(name):
            raise TableAlreadyExistsError(f"Table {dotted_name(name)} already exists")
        self._reads.absent.add(name)
        staged = create_table.staged_creation(table, updates, self.dropped(name))
        self.staged[name] = staged
        self.shared.pop(name, None)
        return staged

    def dropped(self, name: Identifier) -> StagedTable | None:
        """
        Give the physical table of one that was dropped, by the transaction or before it.

        Raises:
            TableAlreadyExistsError: The name has come to a table since it was looked for.
        """
        if name in self.staged:
            return self.staged[name]
        try:
            loaded = self._tables.load_with_dropped(name, self._head, self.options.read_ts)
        except NoSuchTableError:
            return None
        return create_table.dropped_table(loaded, self._places)

    def writes(self) -> dict[Identifier, StagedTable]:
        """Give what is to be committed."""
        return {name: staged for name, staged in self.staged.items() if staged.changed}

    def delete_passing(self) -> None:
        """Delete the files of tables that it has created and dropped: it has committed."""
        standing = {id(staged) for staged in self.staged.values()}
        for passing in self._passing:
            if id(passing) not in standing:
                passing.io.delete_of(passing.files_since())

    def discard(self) -> None:
        """Delete everything that was written; nothing of it is reachable from any table."""
        for files in {id(f): f for f in self._all_files()}.values():
            files.delete_created()
        self._reads.written.update(
            {str(staged.base.table_uuid): None for staged in self.writes().values()}
        )
        self.staged.clear()
        self.shared.clear()

    def _all_files(self) -> list[RecordedIO]:
        return [*self._files.values(), *(staged.io for staged in self.staged.values())]


def _nothing(_read: object) -> None:
    """A table that nobody registered is read without protection."""
