"""Tables that a transaction hands out: ordinary pyiceberg tables that note what is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, In, LessThanOrEqual
from pyiceberg.table import (
    ALWAYS_TRUE,
    Table,
    TableProperties,
    Transaction,
    _parse_row_filter,
)
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import EMPTY_DICT
from pyiceberg.utils.properties import property_as_bool

from txns._iceberg.light_transaction import LightTransaction, LightUpdates
from txns._iceberg.two_valued import two_valued
from txns._identifier import dotted_name
from txns._stage import data_files
from txns._stage.noted_scan import NotedScan
from txns._stage.read_set import EVERYTHING, RowFilter
from txns._table.mark import created_ts
from txns.errors import Conflict, Unsupported

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import DataScan
    from pyiceberg.table.inspect import InspectTable
    from pyiceberg.table.locations import LocationProvider
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.snapshots import Snapshot, SnapshotLogEntry
    from pyiceberg.table.update import TableUpdate
    from pyiceberg.table.update.snapshot import UpdateSnapshot

    from txns._iceberg.deletes import Deletes, Overwrites
    from txns._identifier import Identifier

OnRead = Callable[[RowFilter], None]
"""Told the filter of each read."""

OnNoFiles = Callable[["Iterable[str]"], None]
"""Told the paths of files that a table was found not to have."""

OnWrite = Callable[["TableMetadata"], None]
"""Told what is to be written on, before any file is; refuses it."""

AppendFiles = Callable[["list[DataFile]", "Mapping[str, str]"], None]
"""Stages an append of data files, with keys for the snapshot's summary."""


class TxnTable(Table):
    """A table as of a timestamp; what is read of it is noted."""

    def __init__(
        self,
        identifier: Identifier,
        metadata: TableMetadata,
        metadata_location: str,
        io: FileIO,
        catalog: Catalog,
        *,
        read_ts: int,
        on_read: OnRead,
        on_conditional: OnRead | None = None,
        on_no_files: OnNoFiles | None = None,
        on_write: OnWrite | None = None,
        before_write: Callable[[], None] | None = None,
        append_files: AppendFiles | None = None,
    ) -> None:
        super().__init__(identifier, metadata, metadata_location, io, catalog)
        self._versions: tuple[tuple[TableMetadata, int], ...] = ((metadata, read_ts),)
        self._on_read = on_read
        self._on_conditional = on_conditional or on_read
        self._on_no_files = on_no_files or _nobody
        self.on_write = on_write or _anywhere
        """Refuses to write what it shows, where that stands elsewhere than it may."""
        self._before_write = before_write or _at_once
        self.appends: set[int] = set()
        """Ids of the snapshots that appends make: those that do not depend on what it holds."""
        self._append_files = append_files

    def made_by_appends(self, updates: tuple[TableUpdate, ...]) -> bool:
        """Whether appends alone have made some updates, whatever the snapshots' summaries say."""
        return all(self._is_of_an_append(update) for update in updates)

    def _is_of_an_append(self, update: TableUpdate) -> bool:
        if isinstance(update, AddSnapshotUpdate):
            return update.snapshot.snapshot_id in self.appends
        # A tag is none, nor is main on a snapshot that was there before: a rollback.
        return (
            isinstance(update, SetSnapshotRefUpdate)
            and update.ref_name == MAIN_BRANCH
            and update.snapshot_id in self.appends
        )

    def seen(self, metadata: TableMetadata, read_ts: int) -> None:
        """Note what the table was at a timestamp in ms, before anything is built on it."""
        self._versions = ((metadata, read_ts), *self._versions[:1])

    def read_ts_of(self, metadata: TableMetadata) -> int:
        """Give the timestamp in ms of a version; the least one where it is not known."""
        known = self._versions
        exact = (read_ts for version, read_ts in known if version is metadata)
        return next(exact, min(read_ts for _, read_ts in known))

    def is_same(self, newer: TableMetadata) -> bool:
        """Whether a newer state is that of the table which was loaded, not of a later one."""
        mine = newer.table_uuid == self.metadata.table_uuid
        return mine and created_ts(newer) <= self.read_ts_of(self.metadata)

    def refresh(self) -> Table:
        """
        Load the table again; see pyiceberg's `Table.refresh`.

        pyiceberg does so before it tries an operation again, which was meant for the table as it
        was loaded: what has its name, and its uuid, may be another table by now.

        Raises:
            ValueError: A table with another uuid has its name.
            Conflict: It was dropped and created again since it was loaded.
        """
        fresh = self.catalog.load_table(self._identifier)
        self._check_uuid(self.metadata, fresh.metadata)
        if not self.is_same(fresh.metadata):
            raise Conflict(
                "the table was dropped and created again since it was loaded: load it again",
                table=self._identifier,
                least_ts=created_ts(fresh.metadata),
            )
        if isinstance(fresh, TxnTable):
            self.seen(fresh.metadata, fresh.read_ts_of(fresh.metadata))
            self.on_write = fresh.on_write
        self.metadata, self.metadata_location = fresh.metadata, fresh.metadata_location
        self.io = fresh.io
        return self

    def append(
        self,
        df: pa.Table | pa.RecordBatchReader,
        snapshot_properties: Mapping[str, str] = EMPTY_DICT,
        branch: str | None = MAIN_BRANCH,
    ) -> None:
        """
        Append rows; see pyiceberg's `Table.append`.

        Inside a transaction one manifest and one list are written and the metadata is copied
        once: pyiceberg's producer, made for one operation and one commit, copies it about
        eighteen times. What the short way does not know goes through the producer.
        """
        merges = property_as_bool(
            self.metadata.properties,
            TableProperties.MANIFEST_MERGE_ENABLED,
            TableProperties.MANIFEST_MERGE_ENABLED_DEFAULT,
        )
        is_arrow = isinstance(df, pa.Table | pa.RecordBatchReader)
        if self._append_files is None or branch != MAIN_BRANCH or merges or not is_arrow:
            super().append(df, dict(snapshot_properties), branch)
            return
        self._before_write()
        metadata = self.metadata  # another thread may change it meanwhile
        self.on_write(metadata)
        files = data_files.written(metadata, df, self.io)
        self._append_files(files, snapshot_properties)

    def scan(self, *args: Any, **kwargs: Any) -> DataScan:
        """
        Scan the table; see pyiceberg's `Table.scan`.

        One of an explicit snapshot sees the same for ever: it is not in the read set.
        """
        return NotedScan.of(super().scan(*args, **kwargs), self._on_read)

    def incremental_append_scan(self, *args: Any, **kwargs: Any) -> Any:
        """Scan appended rows; see pyiceberg's `Table.incremental_append_scan`."""
        self._on_read(EVERYTHING)
        return super().incremental_append_scan(*args, **kwargs)

    @property
    def inspect(self) -> InspectTable:
        """Look into the table's metadata; see pyiceberg's `Table.inspect`."""
        self._on_read(EVERYTHING)
        return super().inspect

    def current_snapshot(self) -> Snapshot | None:
        """Give the snapshot of `main`, which says whether others have written."""
        self._on_read(EVERYTHING)
        return super().current_snapshot()

    def snapshots(self) -> list[Snapshot]:
        """Give all snapshots, which say whether others have written."""
        self._on_read(EVERYTHING)
        return super().snapshots()

    def history(self) -> list[SnapshotLogEntry]:
        """Give where `main` has been, which says whether others have written."""
        self._on_read(EVERYTHING)
        return super().history()

    def refs(self) -> dict[str, SnapshotRef]:
        """Give branches and tags, which say whether others have written."""
        self._on_read(EVERYTHING)
        return super().refs()

    def snapshot_by_name(self, name: str) -> Snapshot | None:
        """Give the snapshot of a branch or tag, which says whether others have written."""
        self._on_read(EVERYTHING)
        return super().snapshot_by_name(name)

    def snapshot_as_of_timestamp(self, *args: Any, **kwargs: Any) -> Snapshot | None:
        """Give the snapshot of a time, which says whether others have written."""
        self._on_read(EVERYTHING)
        return super().snapshot_as_of_timestamp(*args, **kwargs)

    def to_polars(self) -> Any:
        """Read with Polars; see pyiceberg's `Table.to_polars`."""
        self._on_read(EVERYTHING)
        return super().to_polars()

    def to_daft(self) -> Any:
        """Read with Daft; see pyiceberg's `Table.to_daft`."""
        self._on_read(EVERYTHING)
        return super().to_daft()

    def to_bodo(self) -> Any:
        """Read with Bodo; see pyiceberg's `Table.to_bodo`."""
        self._on_read(EVERYTHING)
        return super().to_bodo()

    def __datafusion_table_provider__(self, session: Any | None = None) -> Any:
        """Refuse: DataFusion loads the catalog's metadata file, not the table as of `read_ts`."""
        del session
        raise Unsupported(
            "DataFusion reads the catalog's metadata file, which is not what this table shows:"
            f" give it scan().to_arrow(); table=`{dotted_name(self._identifier)}`"
        )

    def location_provider(self) -> LocationProvider:
        """
        Tell where files are to be written; see pyiceberg's `Table.location_provider`.

        Raises:
            Quarantined: A logged change has put them where this process writes nothing.
        """
        self.on_write(self.metadata)
        return super().location_provider()

    def transaction(self) -> Transaction:
        """
        Stage several operations of this table; they join the running transaction together.

        Raises:
            Conflict: The running transaction has lost.
            Quarantined: A logged change has put it where this process writes nothing.
        """
        self._before_write()
        self.on_write(self.metadata)
        return _NotingTransaction(self, self._on_read, self._on_conditional, self._on_no_files)


class _NotingTransaction(LightTransaction):
    """pyiceberg's transaction over one table, that notes what its operations read."""

    def __init__(
        self, table: TxnTable, on_read: OnRead, on_conditional: OnRead, on_no_files: OnNoFiles
    ) -> None:
        super().__init__(table)
        self._on_read = on_read
        self._on_conditional = on_conditional
        self._on_no_files = on_no_files
        self._all_appends = table.appends
        self._appends: set[int] = set()
        self._conditional = False
        self._filtered = False
        """Whether an operation runs whose filter is noted: its producers read no more than that."""

    @contextmanager
    def _by_rows(self, row_filter: RowFilter) -> Iterator[None]:
        """Note an operation that writes by what the table holds under a filter."""
        self._note_conditional(row_filter)
        before, self._filtered = self._filtered, True
        try:
            yield
        finally:
            self._filtered = before

    def _note_conditional(self, row_filter: RowFilter) -> None:
        """Note a write by what the table holds; the appends that belong to it are none, then."""
        self._conditional = True
        self._all_appends -= self._appends
        self._on_conditional(row_filter)

    def _note_producer(self) -> None:
        """Note what a program removes file by file: nobody says by which rows it chose them."""
        if not self._filtered:
            self._note_conditional(EVERYTHING)

    def _rows_of(self, expression: BooleanExpression, case_sensitive: bool) -> RowFilter:  # noqa: FBT001
        return RowFilter.of(self.table_metadata, expression, case_sensitive)

    def _note_append(self, snapshot_id: int) -> None:
        if not self._conditional:
            self._appends.add(snapshot_id)
            self._all_appends.add(snapshot_id)

    def _scan(
        self,
        row_filter: str | BooleanExpression = ALWAYS_TRUE,
        case_sensitive: bool = True,  # noqa: FBT001, FBT002 -- pyiceberg's signature
    ) -> DataScan:
        expression = _parse_row_filter(row_filter)
        if not self._filtered:
            self._on_read(self._rows_of(expression, case_sensitive))
        return super()._scan(expression, case_sensitive)

    def delete(
        self,
        delete_filter: str | BooleanExpression,
        snapshot_properties: dict[str, str] = EMPTY_DICT,
        case_sensitive: bool = True,  # noqa: FBT001, FBT002 -- pyiceberg's signature
        *args: Any,
        **kwargs: Any,
    ) -> None:
        expression = _parse_row_filter(delete_filter)
        decided = two_valued(expression, self.table_metadata.schema(), case_sensitive)
        with self._by_rows(self._rows_of(expression, case_sensitive)):
            super().delete(decided, snapshot_properties, case_sensitive, *args, **kwargs)

    def overwrite(
        self,
        df: Any,
        overwrite_filter: BooleanExpression | str = ALWAYS_TRUE,
        snapshot_properties: dict[str, str] = EMPTY_DICT,
        case_sensitive: bool = True,  # noqa: FBT001, FBT002 -- pyiceberg's signature
        *args: Any,
        **kwargs: Any,
    ) -> None:
        expression = _parse_row_filter(overwrite_filter)
        with self._by_rows(self._rows_of(expression, case_sensitive)):
            super().overwrite(df, expression, snapshot_properties, case_sensitive, *args, **kwargs)

    def upsert(
        self,
        df: pa.Table,
        join_cols: list[str] | None = None,
        when_matched_update_all: bool = True,  # noqa: FBT001, FBT002 -- pyiceberg's signature
        when_not_matched_insert_all: bool = True,  # noqa: FBT001, FBT002 -- the same
        case_sensitive: bool = True,  # noqa: FBT001, FBT002 -- the same
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        given = (when_matched_update_all, when_not_matched_insert_all, case_sensitive, *args)
        with self._by_rows(self._keys_of(df, join_cols, case_sensitive=case_sensitive)):
            return super().upsert(df, join_cols, *given, **kwargs)

    def _keys_of(
        self,
        df: pa.Table,
        join_cols: list[str] | None,
        case_sensitive: bool,  # noqa: FBT001
    ) -> RowFilter:
        """Give a filter that every row matches which an upsert looks for."""
        schema = self.table_metadata.schema()
        known = [schema.find_column_name(field_id) for field_id in schema.identifier_field_ids]
        names = join_cols or [name for name in known if name is not None]
        if not names or not {*names} <= {*df.column_names} or not df.num_rows:
            return EVERYTHING  # pyiceberg says what is wrong with it
        try:
            columns = [_values_within(name, df[name]) for name in names]
        except (TypeError, ValueError, NotImplementedError):  # of what no literal is made
            return EVERYTHING
        return self._rows_of(And(AlwaysTrue(), *columns), case_sensitive)

    def add_files(
        self,
        file_paths: list[str],
        snapshot_properties: dict[str, str] = EMPTY_DICT,
        check_duplicate_files: bool = True,  # noqa: FBT001, FBT002 -- pyiceberg's signature
        *args: Any,
        **kwargs: Any,
    ) -> None:
        given = (snapshot_properties, check_duplicate_files, *args)
        if not check_duplicate_files:
            super().add_files(file_paths, *given, **kwargs)
            return
        try:
            super().add_files(file_paths, *given, **kwargs)
        except Exception:  # it may have found some of them
            self._on_read(EVERYTHING)
            raise
        self._on_no_files(file_paths)

    def update_snapshot(self, *args: Any, **kwargs: Any) -> UpdateSnapshot:
        plain = super().update_snapshot(*args, **kwargs)
        return _NotingUpdates(plain, self._note_append, self._note_producer)


_FEW = 200
"""Up to so many values a file's statistics are held against each (pyiceberg's own limit)."""


def _values_within(name: str, values: pa.ChunkedArray) -> BooleanExpression:
    """Give a filter of one column that has some values: each of a few, or least and greatest."""
    if values.null_count:
        return AlwaysTrue()
    known = pc.unique(values)
    if len(known) <= _FEW:
        return In(term=name, literals=known.to_pylist())
    bounds = pc.min_max(values).as_py()
    least = GreaterThanOrEqual(term=name, value=bounds["min"])
    return And(least, LessThanOrEqual(term=name, value=bounds["max"]))


class _NotingUpdates(LightUpdates):
    """pyiceberg's choice of snapshot producers, that notes which ones only append."""

    def __init__(
        self,
        plain: UpdateSnapshot,
        on_append: Callable[[int], None],
        on_producer: Callable[[], None],
    ) -> None:
        super().__init__(plain)
        self._on_append = on_append
        self._on_producer = on_producer

    def fast_append(self) -> Any:
        producer = super().fast_append()
        self._on_append(producer.snapshot_id)
        return producer

    def merge_append(self) -> Any:
        producer = super().merge_append()
        self._on_append(producer.snapshot_id)
        return producer

    def overwrite(self, commit_uuid: uuid.UUID | None = None) -> Overwrites:
        self._on_producer()
        return super().overwrite(commit_uuid)

    def delete(self) -> Deletes:
        self._on_producer()
        return super().delete()


def _nobody(_paths: Iterable[str]) -> None:
    """Nobody notes what is found."""


def _at_once() -> None:
    """Nobody has to look at the log before a statement writes."""


def _anywhere(_metadata: TableMetadata) -> None:
    """A table that the transaction itself has created stands where it may."""
