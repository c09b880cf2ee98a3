"""A catalog outside of any transaction: every pyiceberg operation is one of its own."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import (
    CommitTableResponse,
    CreateTableTransaction,
    Table,
    TableProperties,
)
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSnapshotUpdate, AssertCreate, SetSnapshotRefUpdate
from pyiceberg.typedef import EMPTY_DICT

from txns._catalog.base import TxnCatalog
from txns._commit.commit_request import CommitRequest
from txns._commit.group import Key
from txns._commit.register import not_applied
from txns._iceberg import manifests, timestamps
from txns._iceberg.requirements import is_about_main
from txns._iceberg.updates import laid_over
from txns._identifier import dotted_name
from txns._log.entry import Kind
from txns._log.settings import INLINE
from txns._logger import about, fields, logger
from txns._stage import change_builder
from txns._stage import create_table as _create_table
from txns._stage.staged_table import StagedTable
from txns._stage.txn_table import TxnTable
from txns._table.loaded import Forgotten, Registered, SwitchedOff, Unregistered
from txns._table.mark import mark_of, refuse_commit_table, refuse_reserved_in
from txns.errors import Conflict, InvalidUsage, Unsupported

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Properties

    from txns._identifier import Identifier
    from txns._log.head import Head
    from txns._stage.read_set import RowFilter
    from txns._table.loaded import Loaded

_LOG = logger(__name__)

_TRIES = 50
"""Of one statement on a table that is ahead: as often as the log's swap is tried."""

_BACK_OFF_MS = 5


def _ignore_read(_row_filter: RowFilter) -> None:
    """A single operation validates what it reads by pyiceberg's own means."""


def _moves_main(update: TableUpdate) -> bool:
    """Whether an update is made for the rows that there are: others do not mind more of them."""
    return isinstance(update, AddSnapshotUpdate) or getattr(update, "ref_name", "") == MAIN_BRANCH


class AutocommitCatalog(TxnCatalog):
    """
    Tables at the newest timestamp; each operation on one commits through the protocol.

    Never stricter than the same operation on a plain table: what moved since is decided by
    pyiceberg's own retry and validation, and appends are put on the newer state.
    """

    def _head(self) -> Head:
        return self._parts.log.load_if_exists()

    def _read_ts(self, head: Head) -> int:
        return head.upper

    def _load(self, identifier: Identifier) -> Loaded:
        head = self._head()
        plain = self._parts.tables.load_plain(identifier, head)
        if plain is not None:
            return plain
        loaded = self._parts.tables.load(identifier, head, head.upper)
        if isinstance(loaded, Forgotten) and self._parts.applier.apply(head, identifier):
            return self._parts.tables.load(identifier, head, head.upper)
        return loaded

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load a table as of now, every committed transaction included."""
        name = self.identifier_to_tuple(identifier)
        loaded = self._load(name)
        cared_for = loaded.registered or self._parts.config.register == "all"
        if isinstance(loaded, SwitchedOff) or not cared_for:
            assert loaded.table is not None
            raw = loaded.table
            return Table(raw.name(), raw.metadata, raw.metadata_location, raw.io, self, raw.config)
        table = TxnTable(
            name,
            loaded.metadata,
            loaded.location,
            loaded.io,
            self,
            read_ts=loaded.read_ts,
            on_read=_ignore_read,
            on_write=partial(self._parts.places.refuse_to_write, loaded),
            before_write=lambda: self._adopt_for(table, loaded),
        )
        return table

    def _adopt_for(self, table: TxnTable, loaded: Loaded) -> None:
        """Let an operation see what strangers had appended when its table was loaded."""
        if table.metadata is loaded.metadata and self._adopts(loaded):
            table.refresh()

    def _adopts(self, loaded: Loaded) -> bool:
        """Adopt what strangers have appended to a table; say whether it is to be loaded again."""
        if not isinstance(loaded, Registered) or loaded.table is None or loaded.dropped:
            return False
        if not self._parts.adoption.is_due(loaded.table.metadata):
            return False
        self._parts.committer.adopt(loaded.identifier)  # which others may do at this moment
        return True

    def _load_to_write(self, name: Identifier) -> Loaded:
        loaded = self._load(name)
        return self._load(name) if self._adopts(loaded) else loaded

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        """Create a table; it comes under care unless the handle says otherwise."""
        asked = (identifier, schema, location, partition_spec, sort_order, properties)
        if not self._stays_plain(properties):
            return super().create_table(*asked)
        name = self.identifier_to_tuple(identifier)
        self._refuse_commit_table(name)
        self._refuse_existing(name)
        self._parts.catalog.create_table(*asked)
        return self.load_table(name)

    def create_table_transaction(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> CreateTableTransaction:
        """Plan a table that is created together with its first rows."""
        name = self.identifier_to_tuple(identifier)
        self._refuse_commit_table(name)
        head = self._head()
        if head.state.off or self._stays_plain(properties):
            self._refuse_existing(name)
            return self._parts.catalog.create_table_transaction(
                identifier, schema, location, partition_spec, sort_order, properties
            )
        return self._parts.new_tables.plan(
            self,
            name,
            schema,
            location,
            partition_spec,
            sort_order,
            properties,
            dropped=self._dropped(name, head),
            files=lambda _name, io: io,
        )

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Commit one operation; pyiceberg's operations call it."""
        name = table.name()
        self._refuse_commit_table(name)
        refuse_reserved_in(name, table.metadata, updates)
        if any(isinstance(requirement, AssertCreate) for requirement in requirements):
            return self._create(table, updates)
        if not isinstance(table, TxnTable):
            return self._commit_unregistered(table, requirements, updates)
        loaded = self._load(name)
        if not loaded.registered and self._parts.config.register == "all":
            return self._commit_unregistered(table, requirements, updates)
        loaded, base = loaded.writable(), table.metadata
        read_ts = table.read_ts_of(base)
        if not any(map(_moves_main, updates)) and self._adopts(loaded):
            loaded = self._load(name).writable()
            base, read_ts = loaded.metadata, loaded.read_ts
        self._parts.places.refuse_to_write(loaded, base)
        self._parts.places.refuse_to_stage(name, base, updates)
        for requirement in requirements:
            # Whether main has moved since is the log's to say, but it is built on this base.
            requirement.validate(base if is_about_main(requirement) else loaded.metadata)
        staged = StagedTable(name, table.io, base, real=loaded.table)
        staged.check_base(updates)
        # What is no append pyiceberg validates on the newer state, as on a plain table.
        appended = table.made_by_appends(updates)
        with about(table=name):
            real = loaded.table.metadata if loaded.table else None
            kept = self._parts.kept_by_expiry(base, real, updates)
        staged.stage(kept, appended=appended)
        if staged.changed:
            self._commit(staged, read_ts)
        return self._committed(table, staged)

    def _committed(self, table: Table, staged: StagedTable) -> CommitTableResponse:
        """Give a table after a commit: an error from here would say that nothing committed."""
        location = table.metadata_location
        try:
            newest = self._load(staged.identifier)
        except Exception:  # noqa: BLE001 -- whatever it was, it has committed
            _LOG.warning(
                "committed, but it cannot be loaded now",
                exc_info=True,
                extra=fields(table=staged.identifier),
            )
            return CommitTableResponse(metadata=staged.current, metadata_location=location)
        if isinstance(table, TxnTable):
            if not table.is_same(newest.metadata):
                return CommitTableResponse(metadata=staged.current, metadata_location=location)
            if not isinstance(newest, Unregistered | SwitchedOff):
                table.seen(newest.metadata, newest.read_ts)
                table.on_write = partial(self._parts.places.refuse_to_write, newest)
        if newest.table:
            location = newest.table.metadata_location
        return CommitTableResponse(metadata=newest.metadata, metadata_location=location)

    def drop_table(self, identifier: str | Identifier) -> None:
        """Drop a table: it is hidden; its files stay for readers of older timestamps."""
        name = self.identifier_to_tuple(identifier)
        self._refuse_commit_table(name)
        loaded = self._load_to_write(name)
        if not loaded.registered:
            refuse_commit_table(name, loaded.metadata)
            self._parts.catalog.drop_table(identifier)
            return
        self._parts.places.refuse_to_write(loaded)
        staged = StagedTable.of(loaded.writable())
        change_builder.stage_drop(staged, self._parts.clock)
        self._commit(staged, loaded.read_ts)

    def purge_table(self, identifier: str | Identifier) -> None:
        """Drop a table that is not under care, and delete its files."""
        name = self.identifier_to_tuple(identifier)
        self._refuse_commit_table(name)
        loaded = self._load(name)
        if loaded.registered:
            loaded.writable()
            raise Unsupported(
                "a registered table's files may be needed by what is not applied yet, and by"
                f" readers of older timestamps: handle.forget('{dotted_name(name)}') first, then"
                f" purge it; table=`{dotted_name(name)}`"
            )
        refuse_commit_table(name, loaded.metadata)
        self._parts.catalog.purge_table(identifier)

    def register_table(
        self,
        identifier: str | Identifier,
        metadata_location: str,
        overwrite: bool = False,  # noqa: FBT001, FBT002 -- pyiceberg's signature
    ) -> Table:
        """Take a metadata file as a table; it is not under care."""
        name = self.identifier_to_tuple(identifier)
        self._refuse_commit_table(name)
        try:
            loaded = self._load(name)
        except NoSuchTableError:
            pass
        else:
            refuse_commit_table(name, loaded.metadata)
            if loaded.registered:
                raise TableAlreadyExistsError(f"Table {dotted_name(name)} already exists")
        return super().register_table(identifier, metadata_location, overwrite)

    def rename_table(
        self, from_identifier: str | Identifier, to_identifier: str | Identifier
    ) -> Table:
        """
        Rename a table: it is forgotten, renamed, and registered under its new name.

        Transactions that have it open find a conflict. Where the catalog does not rename it, it
        comes back under care; a process that dies between leaves it to be registered again.

        Raises:
            InvalidUsage: 55000, it is not under care now: with the call that registers it.
            Quarantined: What the log has of it cannot be applied.
        """
        source = self.identifier_to_tuple(from_identifier)
        target = self.identifier_to_tuple(to_identifier)
        self._refuse_commit_table(source)
        self._refuse_commit_table(target)
        loaded = self._load_to_write(source)
        refuse_commit_table(source, loaded.metadata)
        self._refuse_existing(target)
        if isinstance(loaded, Forgotten):  # by a rename that died, perhaps
            raise not_applied(source, "renamed")
        if not loaded.registered:
            self._parts.catalog.rename_table(from_identifier, to_identifier)
            return self.load_table(target)
        self._parts.registrar.forget(source)
        try:
            self._rename_applied(source, target)
        except Exception as error:
            # The answer may have been lost: it is under care where it stands now.
            self._register_again(loaded.metadata, (source, target), error)
            raise
        self._register_again(loaded.metadata, (target, source))
        return self.load_table(target)

    def _rename_applied(self, source: Identifier, target: Identifier) -> None:
        """Under its new name nobody would look for what is still to be applied."""
        if not self._parts.applier.apply(self._parts.log.load(), source):
            raise not_applied(source, "renamed")
        self._parts.catalog.rename_table(source, target)

    def _register_again(
        self,
        renamed: TableMetadata,
        names: tuple[Identifier, Identifier],
        error: Exception | None = None,
    ) -> None:
        """
        Register a table that was to be renamed under that of two names which it has.

        By its uuid: somebody else's table may stand under either. Where that fails, say where
        things stand; a table that has neither name was dropped, or renamed once more.
        """
        uuid = str(renamed.table_uuid)
        try:
            for name in names:
                with suppress(NoSuchTableError):
                    self._parts.registrar.register(name, uuid)
                    return
        except Exception as failure:  # noqa: BLE001 -- whatever it was, the caller has to know
            first = f"the rename failed ({error}), and " if error else "the table was renamed, but "
            likely, other = map(dotted_name, names)
            raise InvalidUsage(
                "55000",
                f"{first}it could not be put under care again ({failure}): handle.register("
                f"'{likely}') or `txns register {likely}` does, or the same with {other} where it"
                f" has that name; table=`{likely}` uuid=`{uuid}`",
            ) from (error or failure)

    def _stays_plain(self, properties: Properties) -> bool:
        """Whether a new table does not come under care: the handle or its format says so."""
        version = int(properties.get(TableProperties.FORMAT_VERSION, manifests.WRITABLE_FORMAT))
        return self._parts.config.register == "none" or version < manifests.WRITABLE_FORMAT

    def _create(self, table: Table, updates: tuple[TableUpdate, ...]) -> CommitTableResponse:
        name = table.name()
        self._parts.places.refuse_to_stage(name, table.metadata, updates)
        head = self._parts.log.load_or_create()
        staged = _create_table.staged_creation(table, updates, self._dropped(name, head))
        try:
            self._commit(staged, head.upper)
        except CommitFailedException as error:
            raise TableAlreadyExistsError(f"Table {dotted_name(name)} already exists") from error
        return self._committed(table, staged)

    def _dropped(self, name: Identifier, head: Head) -> StagedTable | None:
        """
        Give the physical table of a dropped one; None for a name that is not used.

        Raises:
            TableAlreadyExistsError: A table has it.
        """
        try:
            loaded = self._parts.tables.load_with_dropped(name, head, head.upper)
        except NoSuchTableError:
            return None
        return _create_table.dropped_table(loaded, self._parts.places)

    def _commit(self, staged: StagedTable, read_ts: int) -> None:
        clock = self._parts.clock
        request = CommitRequest(
            kind=Kind.COMMIT,
            key=Key.fresh(clock.new_txn_id()),
            read_ts=read_ts,
            born_ms=clock.now_ms(),
            writes={staged.identifier: staged},
        )
        try:
            entry = self._parts.committer.commit_once(request)
        except Conflict as error:
            # pyiceberg's own retry decides on the new state, as on a plain table.
            raise CommitFailedException(str(error)) from error
        if self._parts.in_force(self._parts.log.newest).apply == INLINE:
            self._parts.committer.apply(entry)
        else:
            self._parts.committer.leave()

    def _commit_unregistered(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """
        Commit as the catalog does, also to a table under care while transactions are off.

        Who passes just before they are on again is found as a stranger. Times follow the table's,
        which a fast clock may have put ahead (docs/spec.md 8.3).
        """
        name = table.name()
        refuse_commit_table(name, table.metadata)
        if self._parts.config.register == "all" and not self._head().state.off:
            self._parts.registrar.register(name)
        for left in reversed(range(_TRIES)):
            try:
                return self._commit_following(name, requirements, updates)
            except timestamps.MovedOn:
                if not left or any(isinstance(each, AddSnapshotUpdate) for each in updates):
                    raise  # pyiceberg builds its snapshots again
                self._parts.clock.back_off(_BACK_OFF_MS)
        raise AssertionError("unreachable")

    def _commit_following(
        self,
        name: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        clock = self._parts.clock
        plain = self._parts.catalog.load_table(name)
        if mark_of(plain.metadata) is not None:
            if not isinstance(self._load(name), SwitchedOff):
                raise CommitFailedException(
                    "the table has come under care, or transactions were turned on, since it was"
                    f" loaded: load it again; {dotted_name(name)}"
                )
            with about(table=name):
                real = plain.metadata
                updates = self._parts.kept_by_expiry(real, real, updates)
        if timestamps.is_ahead(plain.metadata, clock.now_ms()):
            for requirement in requirements:
                requirement.validate(plain.metadata)
            timestamps.refuse_overtaken(plain.metadata, updates)
            if laid_over(plain.metadata, updates) is plain.metadata:
                return CommitTableResponse(
                    metadata=plain.metadata, metadata_location=plain.metadata_location
                )
            updates = self._onto_copy(plain, updates)
        updates = timestamps.following(plain.metadata, updates, clock)
        required = timestamps.required(plain.metadata, requirements, updates, clock)
        return self._parts.catalog.commit_table(plain, required, updates)

    def _onto_copy(self, plain: Table, updates: tuple[TableUpdate, ...]) -> tuple[TableUpdate, ...]:
        """
        Give updates that put `main` on a copy of a snapshot, in place of one that was there before.

        pyiceberg has its clock's time for such a move, and for a new snapshot that one's own. The
        copy is a child of the other one, so that the history of `main` is what was asked for. Of
        format 3 servers alone write metadata, which have the time that the updates bring along.
        """
        if plain.metadata.format_version > manifests.WRITABLE_FORMAT:
            return updates
        added = {
            each.snapshot.snapshot_id for each in updates if isinstance(each, AddSnapshotUpdate)
        }
        moves = [
            each
            for each in updates
            if isinstance(each, SetSnapshotRefUpdate) and each.ref_name == MAIN_BRANCH
        ]
        back = [each for each in moves if each.snapshot_id not in added]
        kept = tuple(each for each in updates if each not in back)
        if not back or moves[-1] not in back:
            return kept
        staged = StagedTable(plain.name(), plain.io, plain.metadata)
        staged.stage(updates)
        copy = change_builder.footing(staged, self._parts.clock)
        onto = moves[-1].model_copy(update={"snapshot_id": copy.snapshot_id})
        return (*kept, AddSnapshotUpdate(snapshot=copy), onto)
