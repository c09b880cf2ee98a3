"""
One table inside a transaction: what it stands on, and the changes kept in memory.

Data files, manifests and manifest lists are in storage already; only pointers are here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
)

from txns._iceberg import manifests, snapshots
from txns._iceberg.new_table import creating_updates
from txns._iceberg.recorded_io import RecordedIO
from txns._iceberg.snapshots import History
from txns._iceberg.updates import laid_over
from txns._identifier import dotted_name
from txns._table import mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

    from txns._identifier import Identifier
    from txns._table.loaded import Loaded


UNNUMBERED = 2
"""Formats up to this one give rows no numbers."""


@dataclass(frozen=True, slots=True)
class Point:
    """
    A state of a staged table to go back to.

    Attributes:
        current: The table with what was staged.
        updates: What was staged, in order.
        appended: Whether appends alone have made it.
    """

    current: TableMetadata
    updates: tuple[TableUpdate, ...]
    appended: bool


class StagedTable:
    """A table with the changes of one transaction."""

    def __init__(
        self,
        identifier: Identifier,
        io: FileIO,
        base: TableMetadata,
        *,
        create: bool = False,
        real: Table | None = None,
    ) -> None:
        """
        Start from a table as of the transaction's `read_ts`.

        Args:
            identifier: Its name.
            io: Its files.
            base: Its metadata; for a new table the first one, which is itself a change.
            create: Whether it is a new table.
            real: The catalog's table, as it was loaded; None for a new one.
        """
        self.identifier = identifier
        self.io = io if isinstance(io, RecordedIO) else RecordedIO(io)
        self.base = base
        self.create = create
        self.real = real
        self.replaced: list[str] = []
        """Files of an older version of the same appends, which nothing needs once this commits."""
        self.inheriting: dict[int, Sequence[ManifestFile]] = {}
        """The manifests of snapshots that were staged with no entry naming a snapshot."""
        self.point = Point(base, creating_updates(base) if create else (), appended=not create)

    @staticmethod
    def of(loaded: Loaded, io: FileIO | None = None) -> StagedTable:
        """Start from a table that was loaded; `io` gives its files where something counts them."""
        return StagedTable(loaded.identifier, io or loaded.io, loaded.metadata, real=loaded.table)

    @property
    def applied_ts(self) -> int:
        """`txns.applied` in ms that the catalog's table had; 0 for none."""
        return mark.applied_ts(self.real.metadata) if self.real else 0

    @property
    def current(self) -> TableMetadata:
        """The table with what was staged."""
        return self.point.current

    @property
    def metadata(self) -> TableMetadata:
        """The same, as a loaded table says it."""
        return self.current

    @property
    def updates(self) -> tuple[TableUpdate, ...]:
        """What was staged, in order."""
        return self.point.updates

    @property
    def changed(self) -> bool:
        """Whether anything was staged."""
        return bool(self.point.updates)

    def stage(self, updates: tuple[TableUpdate, ...], *, appended: bool = False) -> None:
        """Keep updates, and whether an append made them; what changes nothing is dropped."""
        self.stage_as(updates, laid_over(self.current, updates), appended=appended)

    def check_base(self, updates: tuple[TableUpdate, ...]) -> None:
        """
        Check that new snapshots of a branch stand on its head.

        pyiceberg's producers ask the table several times, which another thread may have moved
        in between: what they require of `main` then says nothing of what they have built on.

        Raises:
            CommitFailedException: pyiceberg builds them again.
        """
        heads = {name: ref.snapshot_id for name, ref in self.current.refs.items()}
        parents: dict[int, int | None] = {}
        for update in updates:
            if isinstance(update, AddSnapshotUpdate):
                parents[update.snapshot.snapshot_id] = update.snapshot.parent_snapshot_id
            elif isinstance(update, RemoveSnapshotRefUpdate):
                heads.pop(update.ref_name, None)
            elif isinstance(update, SetSnapshotRefUpdate):
                at: int | None = update.snapshot_id
                while at in parents and at != heads.get(update.ref_name):
                    at = parents[at]
                if update.snapshot_id in parents and at != heads.get(update.ref_name):
                    raise CommitFailedException(
                        f"`{update.ref_name}` has moved; table=`{dotted_name(self.identifier)}`"
                    )
                heads[update.ref_name] = update.snapshot_id

    def stage_as(
        self, updates: tuple[TableUpdate, ...], updated: TableMetadata, *, appended: bool = False
    ) -> None:
        """Keep updates whose result is known already."""
        if updated is not self.current:
            appended = appended and self.point.appended
            self.point = Point(updated, (*self.updates, *updates), appended)

    def files_since(self, point: Point | None = None) -> list[str]:
        """
        Give the files of the snapshots that were staged after a point; of all for None.

        Not simply what was written since: another operation of the transaction may be
        writing files now that it stages later.
        """
        kept = len(point.updates) if point else 0
        files: list[str] = []
        for update in self.updates[kept:]:
            if isinstance(update, AddSnapshotUpdate):
                files += manifests.files_of(self.io, update.snapshot)
        return files

    def snapshots(self) -> list[Snapshot]:
        """Give the snapshots that were staged, in order."""
        return [each.snapshot for each in self.updates if isinstance(each, AddSnapshotUpdate)]

    def metadata_path(self, name: str) -> str:
        """Give the path of a new metadata file of the table."""
        provider = load_location_provider(self.current.location, self.current.properties)
        return provider.new_metadata_location(name)

    @property
    def append_only(self) -> bool:
        """
        Whether all it does is to append rows to `main`: then it may be restaged.

        The operation of a snapshot does not tell: an upsert that only inserts has `append`, and
        depends on what the table held.
        """
        return self.changed and self.point.appended and self._on_main()

    @property
    def changes_only_files(self) -> bool:
        """
        Whether all it does is to add and remove data files on `main`.

        Then it can be made again as one operation on a newer state (`restage_as_one`). A format
        above 2 numbers rows, which only appends and single operations leave as they are.
        """
        return (
            self.changed
            and not self.create
            and not self.alters
            and self._on_main()
            and (self.base.format_version <= UNNUMBERED or len(self.snapshots()) == 1)
        )

    @staticmethod
    def _moves_files(update: TableUpdate) -> bool:
        if isinstance(update, SetSnapshotRefUpdate):
            return update.ref_name == MAIN_BRANCH
        return isinstance(update, AddSnapshotUpdate)

    @property
    def alters(self) -> bool:
        """Whether it does more to the table than to put other files on `main`."""
        moves_files = all(self._moves_files(update) for update in self.updates)
        return self.dropped or self.recreates or self.rolls_back or not moves_files

    @property
    def rolls_back(self) -> bool:
        """Whether `main` was put on a snapshot that was there before, if only for a while."""
        own = {snapshot.snapshot_id for snapshot in self.snapshots()}
        return any(
            isinstance(update, SetSnapshotRefUpdate)
            and update.ref_name == MAIN_BRANCH
            and update.snapshot_id not in own
            for update in self.updates
        )

    @property
    def root_of_main(self) -> Snapshot | None:
        """The first staged snapshot of main's new run; None where `main` stands on none."""
        own = {snapshot.snapshot_id for snapshot in self.snapshots()}
        root = None
        for at in History(self.current).ancestors(snapshots.main_of(self.current)):
            if at.snapshot_id not in own:
                break
            root = at
        return root

    @property
    def stands_on_unapplied(self) -> frozenset[int]:
        """The `commit_ts` in ms of what was outstanding when it was read, and it stands on."""
        return frozenset() if self.create else mark.above(self.base, self.applied_ts)

    @property
    def restored(self) -> int | None:
        """The snapshot of another state whose rows `main` is to have, or to go on from."""
        root = self.root_of_main
        copied = snapshots.summary_value(root, mark.SNAPSHOT_RESTORED)
        if copied is not None:
            return int(copied)
        source = root.parent_snapshot_id if root else self.current.current_snapshot_id
        return None if self.create or source == self.base.current_snapshot_id else source

    def _on_main(self) -> bool:
        """Whether every staged snapshot is on `main`: one of write-audit-publish is not."""
        left = {snapshot.snapshot_id for snapshot in self.snapshots()}
        for at in History(self.current).ancestors(snapshots.main_of(self.current)):
            if at.snapshot_id not in left:
                break
            left.remove(at.snapshot_id)
        return not left

    @property
    def has_new_main(self) -> bool:
        """Whether `main` stands on a snapshot that was staged here."""
        main = self.current.current_snapshot_id
        return any(snapshot.snapshot_id == main for snapshot in self.snapshots())

    @property
    def main_has_other_columns(self) -> bool:
        """Whether the schema was changed after `main`'s newest snapshot was staged here."""
        main = snapshots.main_of(self.current)
        return (
            main is not None
            and self.has_new_main
            and main.schema_id != self.current.current_schema_id
        )

    @property
    def moves_main(self) -> bool:
        """Whether a staged change moves `main` (I2 asks every change to)."""
        return any(
            isinstance(update, SetSnapshotRefUpdate) and update.ref_name == MAIN_BRANCH
            for update in self.updates
        )

    @property
    def drops_main(self) -> bool:
        """Whether a staged change takes `main` away, as a replacement of a table does."""
        return any(
            isinstance(update, RemoveSnapshotRefUpdate) and update.ref_name == MAIN_BRANCH
            for update in self.updates
        )

    @property
    def dropped(self) -> bool:
        """Whether the transaction has dropped the table."""
        return mark.is_dropped(snapshots.main_of(self.current))

    @property
    def recreates(self) -> bool:
        """Whether a dropped table is created again, on the same physical one."""
        base = snapshots.main_of(self.base)
        return not self.create and mark.is_dropped(base) and self.drops_main
