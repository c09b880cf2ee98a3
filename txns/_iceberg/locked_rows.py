"""
A few tables of a catalog that stand still, and move together (docs/spec.md 11.3).

What is said of them is kept, and nobody sees it before all of it is committed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.update import _update_table_metadata_log, update_table_metadata

from txns._iceberg.old_metadata import remove_old
from txns._iceberg.updates import laid_over
from txns._identifier import dotted_name

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from txns._identifier import Identifier


class RowsBusy(CommitFailedException):
    """The rows are not to be had, as others hold them, or the connection was lost: no harm done."""


@dataclass(slots=True)
class Ready:
    """
    What becomes of one table, its metadata written before its row was locked.

    Attributes:
        base: What its row named then.
        said: What was said of it, before a file was made of that.
        made: What it is to name.
        change: Says of which change it is made.
    """

    base: Table
    said: Table
    made: Table
    change: Hashable
    _owned: Lock = field(default_factory=Lock)

    @property
    def taken(self) -> bool:
        """Whether its file has an owner besides who has written it."""
        return self._owned.locked()

    def take(self) -> bool:
        """
        Own its file from now on, to move a row to it or to remove it; the first one does.

        Who leads a group may be about to move the row while the thread that has written the file
        is interrupted, and removes it.
        """
        return self._owned.acquire(blocking=False)


@dataclass(frozen=True, slots=True)
class _Moved:
    """
    What becomes of one table; `base` is what its row names, None for a creation.

    `ready` is that where it is written already.
    """

    base: Table | None
    now: Table
    ready: Ready | None = None


@dataclass
class LockedRows(ABC):
    """
    A few tables of a catalog that stand still, and what is to become of them.

    It is asked as a catalog is, for these tables alone, and shows what it was told. Nobody else
    sees any of that before `commit`. One thread's.

    Attributes:
        catalog: Theirs.
        held: Whether they stand still; others may move what was only looked at.
        unlocked: Tables that are there, and whose rows are not locked: who asks may read these rows
            and not write them, or somebody has made them since. They are read, and not moved.
    """

    catalog: MetastoreCatalog
    _locations: Mapping[Identifier, str]
    _moved: dict[Identifier, _Moved] = field(default_factory=dict)
    _seen: dict[Identifier, Table] = field(default_factory=dict)
    _written: list[Table] = field(default_factory=list)
    _sent: list[Table] = field(default_factory=list)
    held: bool = field(default=True, kw_only=True)
    unlocked: frozenset[Identifier] = field(default=frozenset(), kw_only=True)

    def load_table(self, identifier: Identifier) -> Table:
        """
        Give a table as its row has it, or as it is to be.

        Raises:
            NoSuchTableError: There is none.
        """
        self.at_work()
        if moved := self._moved.get(identifier):
            return moved.now
        if (known := self._seen.get(identifier)) is not None:
            return known
        location = self._locations.get(identifier)
        if location is None:
            raise NoSuchTableError(f"Table does not exist: {dotted_name(identifier)}")
        return self._seen.setdefault(identifier, self._read(identifier, location))

    def has(self, identifier: Identifier) -> bool:
        """Whether there is a table, or is to be."""
        return identifier in self._moved or identifier in self._locations

    def still_names(self, identifier: Identifier, table: Table) -> bool:
        """Whether a row names a version of a table."""
        return self._locations.get(identifier) == table.metadata_location

    def may_create(self, identifier: Identifier) -> bool:  # noqa: ARG002 -- others ask for it
        """Whether who asks has the right to make a row of a name that is free."""
        return True

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """
        Say what is to become of a table.

        Raises:
            CommitFailedException: A requirement does not hold.
        """
        identifier = table.name()
        try:
            now: Table | None = self.load_table(identifier)
        except NoSuchTableError:
            now = None
        for requirement in requirements:
            requirement.validate(now.metadata if now else None)
        if now is None:
            empty = self.catalog._empty_table_metadata()  # noqa: SLF001 -- as commit_table does
            metadata = update_table_metadata(empty, updates, enforce_validation=True)
        else:
            metadata = laid_over(now.metadata, updates)
        moved = self._moved.get(identifier)
        location = now.metadata_location if now else ""
        made = Table(identifier, metadata, location, table.io, self.catalog)
        self._moved[identifier] = _Moved(moved.base if moved else now, made)
        return CommitTableResponse(metadata=metadata, metadata_location=location)

    def take(self, ready: Ready | None, change: Hashable) -> bool:
        """
        Let a table become what was made ready of it for a change, if its row still fits.

        Returns:
            False where it is to be made now.
        """
        if ready is None or ready.taken or ready.change != change:
            return False
        identifier = ready.made.name()
        if self._locations.get(identifier) != ready.base.metadata_location:
            return False
        if identifier in self._moved:
            return False
        self._moved[identifier] = _Moved(ready.base, ready.said, ready)
        return True

    def make_ready(self, changes: Mapping[Identifier, Hashable]) -> dict[Identifier, Ready]:
        """Write the new metadata of tables that were there; no row moves."""
        ready: dict[Identifier, Ready] = {}
        try:
            for identifier, moved in sorted(self._moved.items()):
                if moved.base is None:
                    continue
                made = self._made(identifier, moved)
                self._written.append(made)
                self._write(made)
                ready[identifier] = Ready(moved.base, moved.now, made, changes[identifier])
        except BaseException:  # its thread may be stopped in it
            self.undo()
            raise
        self._written = []
        return ready

    def so_far(self) -> dict[Identifier, _Moved]:
        """Give what has been said until now, to come back to."""
        return dict(self._moved)

    def back_to(self, before: dict[Identifier, _Moved]) -> None:
        """Forget what has been said since."""
        self._moved = dict(before)

    def prepare(self) -> None:
        """
        Write the new metadata, and move the rows: nobody sees it yet.

        Raises:
            CommitFailedException: A row is not what it was: nothing is done.
        """
        moves = []
        for identifier, moved in sorted(self._moved.items()):
            self.at_work()
            made = moved.ready.made if moved.ready else self._made(identifier, moved)
            self._written.append(made)
            if moved.ready is None:
                self._write(made)
            elif not moved.ready.take():
                name = dotted_name(identifier)
                raise CommitFailedException(f"what was written ahead is gone; table=`{name}`")
            moves.append((moved.base, made))
        self._move(moves)

    def commit(self) -> None:
        """
        Commit the database's transaction.

        Raises:
            Exception: What was prepared may have been committed, or not.
        """
        self._sent, self._written = self._written, []  # its thread may be stopped in it
        self._commit()
        for table in self._sent:
            base = self._moved[table.name()].base
            self._moved[table.name()] = _Moved(table, table)
            if base:
                remove_old(table.io, base.metadata, table.metadata)

    def made(self, identifier: Identifier) -> Table:
        """Give a table that was committed."""
        return self._moved[identifier].now

    def undo(self) -> None:
        """Take back what was prepared, as far as that is known not to have been committed."""
        for table in self._written:
            with suppress(Exception):  # a file that stays harms nobody
                table.io.delete(table.metadata_location)
        self._written = []

    def refused(self) -> None:
        """Learn that what was sent has not been committed, and will not be."""
        self._sent, self._written = [], self._sent

    def _made(self, identifier: Identifier, moved: _Moved) -> Table:
        """Give a table with what a new version says of the one before, as pyiceberg writes it."""
        base, metadata, version = moved.base, moved.now.metadata, 0
        if base:
            before_ms = base.metadata.last_updated_ms
            metadata = _update_table_metadata_log(metadata, base.metadata_location, before_ms)
            if metadata.last_updated_ms == before_ms:
                metadata = metadata.model_copy(update={"last_updated_ms": before_ms + 1})
            version = self.catalog._parse_metadata_version(base.metadata_location) + 1  # noqa: SLF001
        provider = load_location_provider(metadata.location, metadata.properties)
        location = provider.new_table_metadata_file_location(version)
        return Table(identifier, metadata, location, moved.now.io, self.catalog)

    def at_work(self) -> None:  # noqa: B027 -- there may be nobody who asks
        """Say that work goes on, where the database ends a transaction that says nothing."""

    @abstractmethod
    def _read(self, identifier: Identifier, location: str) -> Table:
        """Give a table by the file that its row names."""

    @abstractmethod
    def _write(self, made: Table) -> None:
        """Write the file of a table's new metadata."""

    @abstractmethod
    def _move(self, moves: Sequence[tuple[Table | None, Table]]) -> None:
        """
        Let rows name what was made, each if it names what it was made of, or is none yet for None.

        Raises:
            CommitFailedException: One does not.
        """

    @abstractmethod
    def _commit(self) -> None:
        """Let everybody see it."""


class Rows(ABC):
    """The rows of a catalog that can move several at once."""

    @abstractmethod
    def locked(
        self, first: Identifier, others: Iterable[Identifier]
    ) -> AbstractContextManager[LockedRows]:
        """
        Lock the rows of tables, the first one first; what is not committed at the end is undone.

        Raises:
            RowsBusy: Others held them for too long, or the connection was lost meanwhile.
        """

    @abstractmethod
    def known(self, locations: Mapping[Identifier, str]) -> LockedRows:
        """
        Give the rows of tables as somebody knows them, by the files that they name.

        Nobody is asked for them. What the files say is read, or known: a table that somebody has in
        hand may say something else, since its owner may change its dictionaries.
        """

    @abstractmethod
    def looked_at(self, tables: Iterable[Identifier]) -> LockedRows:
        """Give the rows of tables as they are, which others may move meanwhile."""
