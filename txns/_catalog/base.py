"""
The tables of a handle as a pyiceberg catalog.

What does not concern tables (namespaces, views) goes to the catalog underneath.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    NamespaceNotEmptyError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import EMPTY_DICT

from txns._identifier import dotted_name, folded, namespace_of, parts_of
from txns._log.change import Operation
from txns._table.mark import written_by_protocol_only
from txns._table.purge_name import is_apart
from txns.errors import Conflict, InvalidUsage, TxnsError, Unsupported

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import PropertiesUpdateSummary
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import CommitTableResponse, CreateTableTransaction, Transaction
    from pyiceberg.table.locations import LocationProvider
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Properties
    from pyiceberg.view import View

    from txns._identifier import Identifier
    from txns._log.change import Change
    from txns._log.head import Head
    from txns._services import Parts
    from txns._table.loaded import Loaded

NameLike = "str | Identifier"


class TxnCatalog(Catalog):
    """The tables that the protocol cares for, and those that it does not, as one catalog."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts.catalog.name, **parts.catalog.properties)
        self._parts = parts

    @staticmethod
    def identifier_to_tuple(identifier: str | Identifier) -> Identifier:
        """Give the parts of a name; blanks about those of its namespace are none of it."""
        return parts_of(identifier)

    @abstractmethod
    def _load(self, identifier: Identifier) -> Loaded:
        """Load a table as this catalog sees it; NoSuchTableError where it does not."""

    @abstractmethod
    def _head(self) -> Head:
        """Give the head that this catalog reads with."""

    @abstractmethod
    def _read_ts(self, head: Head) -> int:
        """Give the timestamp in ms that this catalog reads at."""

    def _refuse_existing(self, identifier: str | Identifier) -> None:
        """Refuse a name that a table has, by the newest head: the catalog may not know it yet."""
        name = self.identifier_to_tuple(identifier)
        newest = self._parts.log.load_if_exists()
        try:
            self._parts.tables.load(name, newest, newest.upper)
        except NoSuchTableError:
            for other in newest.state.created_alike(name):
                self._refuse_alike(name, other, newest)
            return
        raise TableAlreadyExistsError(f"Table {dotted_name(name)} already exists")

    def _refuse_alike(self, name: Identifier, other: Identifier, newest: Head) -> None:
        """Refuse a name that may be that of a table of the log, which the catalog has not yet."""
        with suppress(NoSuchTableError):
            if self._parts.tables.load_with_dropped(other, newest, newest.upper).table is None:
                raise Unsupported(
                    "a table of the log that is not created yet has a name which differs in letters"
                    " alone, and the catalog may take both for one: `txns apply` first;"
                    f" table=`{dotted_name(name)}` other=`{dotted_name(other)}`"
                )

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Whether a table exists."""
        try:
            self._load(self.identifier_to_tuple(identifier))
        except NoSuchTableError:
            return False
        return True

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
        self.create_table_transaction(
            identifier, schema, location, partition_spec, sort_order, properties
        ).commit_transaction()
        return self.load_table(identifier)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """
        List a namespace: the catalog's tables, with what the log adds and takes away.

        Raises:
            InvalidUsage: 55000, the log that has been seen is missing: nobody knows what it has
                created and dropped.
        """
        space = namespace_of(namespace)
        tables = dict.fromkeys(self._parts.catalog.list_tables(namespace))
        head = self._head()
        read_ts = self._read_ts(head)
        # The catalog's list is of now: what others have created or dropped since is in it, and
        # what was applied and tidied since it was made is in neither of it and the newest head.
        newest = self._parts.log.load_if_ever()
        dropped = set(map(folded, self._parts.timeline.archive.dropped(newest)))
        names = dict.fromkeys(
            table for table in tables if is_apart(table) or folded(table) in dropped
        )
        logged = self._coming_or_going(space, head, newest, read_ts)
        same = set(map(folded, logged))
        # Where the catalog folds names, its own letters may be others than the log's.
        names |= dict.fromkeys(table for table in tables if folded(table) in same)
        names |= dict.fromkeys(logged)
        for table in names:
            if self._is_there(table, head):
                tables[table] = None
            else:
                tables.pop(table, None)
        return list(tables)

    def _coming_or_going(
        self, namespace: Identifier, head: Head, newest: Head, read_ts: int
    ) -> dict[Identifier, Change | None]:
        """Give what the log has created or dropped in a namespace: the first above `read_ts`."""
        entries = {entry.commit_ts: entry for entry in head.state.entries}
        entries |= {entry.commit_ts: entry for entry in newest.state.entries}
        later = self._parts.timeline.above(newest.state, read_ts)
        entries |= {entry.commit_ts: entry for entry in later}
        names: dict[Identifier, Change | None] = {}
        for _, entry in sorted(entries.items()):
            for change in entry.changes:
                if change.operation in {Operation.CREATE, Operation.DROP}:
                    above = change if entry.commit_ts > read_ts else None
                    names[change.table] = names.get(change.table) or above
        return {name: first for name, first in names.items() if name[:-1] == namespace}

    def _is_there(self, table: Identifier, head: Head) -> bool:
        read_ts = self._read_ts(head)
        try:
            self._parts.tables.load(table, head, read_ts)
        except NoSuchTableError:
            return False
        except Conflict:  # created later: again, where it was dropped before that
            return self._was_there(table, head)
        except TxnsError:
            return True  # what is wrong with it is said when it is loaded
        return True

    def _was_there(self, table: Identifier, head: Head) -> bool:
        """Whether a table that was created above `read_ts` was there until it was dropped."""
        newest = self._parts.log.load_if_ever()  # after the table, or it knows less than that
        read_ts = self._read_ts(head)
        logged = self._coming_or_going(table[:-1], head, newest, read_ts)
        first = next((logged[name] for name in logged if folded(name) == folded(table)), None)
        if first is None or first.operation is not Operation.DROP:
            return False
        # Who purges a dropped table drops it once more in the log.
        return not self._parts.timeline.was_dropped(newest.state, first.uuid, read_ts)

    def supports_server_side_planning(self) -> bool:
        """Whether the server plans scans: it does not know what is staged."""
        return False

    def register_table(
        self,
        identifier: str | Identifier,
        metadata_location: str,
        overwrite: bool = False,  # noqa: FBT001, FBT002 -- pyiceberg's signature
    ) -> Table:
        """Take a metadata file as a table, outside of any transaction; it is not under care."""
        self._refuse_in_transaction("register_table")
        self._parts.catalog.register_table(identifier, metadata_location, overwrite)
        return self.load_table(identifier)

    def _refuse_in_transaction(self, operation: str) -> None:
        """Refuse what cannot be rolled back; a catalog outside of transactions allows it."""

    def _check_writable(self) -> None:
        """Refuse to write; a catalog that is not read-only allows it."""

    def _refuse_commit_table(self, identifier: Identifier) -> None:
        """Refuse the commit table's name, also before there is a table under it."""
        if identifier == self._parts.log.identifier:
            raise written_by_protocol_only(identifier)

    def create_namespace(
        self, namespace: str | Identifier, properties: Properties = EMPTY_DICT
    ) -> None:
        """Create a namespace, at once."""
        self._check_writable()
        self._parts.catalog.create_namespace(namespace, properties)

    def drop_namespace(self, namespace: str | Identifier) -> None:
        """Drop a namespace, at once; one that holds tables only the log knows is not empty."""
        tables = self.list_tables(namespace)
        if tables:
            name = dotted_name(namespace_of(namespace))
            raise NamespaceNotEmptyError(
                f"Namespace {name} is not empty. {len(tables)} tables exist."
            )
        self._check_writable()
        self._parts.catalog.drop_namespace(namespace)

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """List namespaces."""
        return self._parts.catalog.list_namespaces(namespace)

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """Whether a namespace exists."""
        return self._parts.catalog.namespace_exists(namespace)

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Give a namespace's properties."""
        return self._parts.catalog.load_namespace_properties(namespace)

    def update_namespace_properties(
        self,
        namespace: str | Identifier,
        removals: set[str] | None = None,
        updates: Properties = EMPTY_DICT,
    ) -> PropertiesUpdateSummary:
        """Change a namespace's properties, at once."""
        self._check_writable()
        return self._parts.catalog.update_namespace_properties(namespace, removals, updates)

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """List views."""
        return self._parts.catalog.list_views(namespace)

    def load_view(self, identifier: str | Identifier) -> View:
        """Load a view."""
        return self._parts.catalog.load_view(identifier)

    def view_exists(self, identifier: str | Identifier) -> bool:
        """Whether a view exists."""
        return self._parts.catalog.view_exists(identifier)

    def create_view(self, *args: Any, **kwargs: Any) -> View:
        """Create a view, at once."""
        self._check_writable()
        self._refuse_existing(args[0] if args else kwargs["identifier"])
        return self._parts.catalog.create_view(*args, **kwargs)

    def register_view(self, identifier: str | Identifier, metadata_location: str) -> View:
        """Take a metadata file as a view, at once."""
        self._check_writable()
        self._refuse_existing(identifier)
        return self._parts.catalog.register_view(identifier, metadata_location)

    def drop_view(self, identifier: str | Identifier) -> None:
        """Drop a view, at once."""
        self._check_writable()
        self._parts.catalog.drop_view(identifier)


class _ReadOnlyTable(Table):
    """A table of a snapshot: pyiceberg would write files before its catalog refuses them."""

    def transaction(self) -> Transaction:
        """Refuse to write."""
        raise self._read_only()

    def location_provider(self) -> LocationProvider:
        """Refuse to write."""
        raise self._read_only()

    def _read_only(self) -> InvalidUsage:
        assert isinstance(self.catalog, SnapshotCatalog)
        return self.catalog.read_only(self.name())


class SnapshotCatalog(TxnCatalog):
    """All tables as of one timestamp, to be read."""

    def __init__(self, parts: Parts, head: Head, read_ts: int) -> None:
        super().__init__(parts)
        self._at = head
        self.read_ts = read_ts

    @staticmethod
    def at(parts: Parts, read_ts: int | None) -> SnapshotCatalog:
        """
        Give all tables as of a timestamp in ms; None for the upper.

        Raises:
            InvalidUsage: 25000, nothing has committed at that time yet.
        """
        head = parts.log.load()
        if read_ts is not None and read_ts > head.upper:
            raise InvalidUsage(
                "25000",
                "nothing has committed at that time yet: read at the upper or below, or advance"
                f" it; read_ts=`{read_ts}` upper=`{head.upper}`",
            )
        return SnapshotCatalog(parts, head, head.upper if read_ts is None else read_ts)

    def _head(self) -> Head:
        return self._at

    def _read_ts(self, head: Head) -> int:
        del head
        return self.read_ts

    def _load(self, identifier: Identifier) -> Loaded:
        return self._parts.tables.load(identifier, self._at, self.read_ts)

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load a table as of `read_ts`."""
        loaded = self._load(self.identifier_to_tuple(identifier))
        return _ReadOnlyTable(loaded.identifier, loaded.metadata, loaded.location, loaded.io, self)

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Refuse to write."""
        del requirements, updates
        raise self.read_only(table.name())

    def create_table(self, identifier: str | Identifier, *args: Any, **kwargs: Any) -> Table:
        """Refuse to write."""
        del args, kwargs
        raise self.read_only(identifier)

    def create_table_transaction(
        self,
        identifier: str | Identifier,
        schema: Schema | Any,
        location: str | None = None,
        partition_spec: PartitionSpec | None = None,
        sort_order: SortOrder | None = None,
        properties: Properties = EMPTY_DICT,
    ) -> CreateTableTransaction:
        """Refuse to write."""
        del schema, location, partition_spec, sort_order, properties
        raise self.read_only(identifier)

    def drop_table(self, identifier: str | Identifier) -> None:
        """Refuse to write."""
        raise self.read_only(identifier)

    def purge_table(self, identifier: str | Identifier) -> None:
        """Refuse to write."""
        raise self.read_only(identifier)

    def rename_table(
        self, from_identifier: str | Identifier, to_identifier: str | Identifier
    ) -> Table:
        """Refuse to write."""
        del to_identifier
        raise self.read_only(from_identifier)

    def _refuse_in_transaction(self, operation: str) -> None:
        raise self.read_only(operation)

    def _check_writable(self) -> None:
        raise self.read_only("namespaces and views")

    def read_only(self, what: str | Identifier) -> InvalidUsage:
        """Describe a write, which is refused."""
        return InvalidUsage(
            "25006",
            f"a snapshot of the tables at {self.read_ts} is read-only: write in a transaction;"
            f" table=`{dotted_name(what)}`",
        )
