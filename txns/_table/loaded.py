"""A data table as the catalog has it and as the protocol sees it: four cases, and no more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from txns._iceberg import manifests
from txns._identifier import Identifier, dotted_name
from txns._table import mark as _mark
from txns.errors import ForeignWrite, Quarantined, Unsupported, transactions_off

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from txns._table.logged_state import Stranger
    from txns._table.overlay import TableView


@dataclass(frozen=True, slots=True)
class Loaded(ABC):
    """
    A data table that was loaded: `Unregistered`, `SwitchedOff`, `Forgotten` or `Registered`.

    Attributes:
        identifier: Its name.
        io: Its files.
        table: The catalog's table; None for one that is logged and not created yet.
    """

    identifier: Identifier
    io: FileIO
    table: Table | None

    @property
    def registered(self) -> bool:
        """Whether it is under care."""
        return isinstance(self, Registered | SwitchedOff)

    @property
    def metadata(self) -> TableMetadata:
        """What a reader sees."""
        assert self.table is not None
        return self.table.metadata

    @property
    def read_ts(self) -> int:
        """What it is seen at, in ms; 0 where the log has no say."""
        return 0

    @property
    def stranger(self) -> Stranger | None:
        """What somebody did to it outside the protocol."""
        return None

    @property
    def dropped(self) -> bool:
        """Whether it is hidden by a drop."""
        return False

    @property
    def applied_ts(self) -> int:
        """`txns.applied` in ms that the catalog's table has; 0 for none."""
        return _mark.applied_ts(self.table.metadata) if self.table else 0

    @property
    def location(self) -> str:
        """The catalog's metadata file, or the table's folder where there is none yet."""
        return self.table.metadata_location if self.table else self.metadata.location

    @abstractmethod
    def writable(self) -> Registered:
        """
        Give it where it can be written through the log.

        Raises:
            Unsupported: With the call that registers it; it is a commit table; transactions are
                off; or its format is not written here.
            Quarantined: With the command that repairs it.
        """

    def showing(self, view: TableView) -> Loaded:
        """Give the same table, read as something else."""
        return Forgotten(self.identifier, self.io, self.table, view)


@dataclass(frozen=True, slots=True)
class Unregistered(Loaded):
    """A table that is not under care."""

    def writable(self) -> Registered:
        """Refuse: nobody registered it."""
        _refuse_unregistered(self)


@dataclass(frozen=True, slots=True)
class SwitchedOff(Loaded):
    """A table under care that is read and written as the catalog has it: transactions are off."""

    def writable(self) -> Registered:
        """Refuse until transactions are on."""
        raise transactions_off()


@dataclass(frozen=True, slots=True)
class _Viewed(Loaded):
    """
    A table of which the log has something to say.

    Attributes:
        view: As of a timestamp.
    """

    view: TableView

    @property
    def metadata(self) -> TableMetadata:
        return self.view.metadata

    @property
    def read_ts(self) -> int:
        return self.view.read_ts

    @property
    def stranger(self) -> Stranger | None:
        return self.view.stranger

    @property
    def dropped(self) -> bool:
        return self.view.dropped


@dataclass(frozen=True, slots=True)
class Forgotten(_Viewed):
    """A table that the log has taken from care, and that does not say so yet."""

    def writable(self) -> Registered:
        """Refuse: it is its owner's."""
        _refuse_unregistered(self)


@dataclass(frozen=True, slots=True)
class Registered(_Viewed):
    """
    A table under care.

    Attributes:
        mark: What says so, or said so before a stranger took it.
    """

    mark: _mark.TableMark

    def writable(self) -> Registered:
        """
        Refuse what strangers have done to it, and a format that is not written here.

        What they have only appended is adopted when it is written; but not into a dropped one.
        """
        if self.stranger and not self.stranger.adoptable:
            raise Quarantined(self.identifier, self.stranger.reason, self.stranger.cure)
        if self.stranger and self.dropped:
            raise ForeignWrite(self.identifier, self.stranger.reason, self.stranger.cure)
        manifests.check_writable(self.metadata, dotted_name(self.identifier))
        return self

    def showing(self, view: TableView) -> Registered:
        return replace(self, view=view)


def seen(identifier: Identifier, io: FileIO, table: Table | None, view: TableView) -> Loaded:
    """Give a table of the log: what is seen of it says whether it is under care."""
    mark = _mark.mark_of(view.metadata)
    if mark is None:
        return Forgotten(identifier, io, table, view)
    return Registered(identifier, io, table, view, mark)


def _refuse_unregistered(loaded: Loaded) -> NoReturn:
    _mark.refuse_commit_table(loaded.identifier, loaded.metadata)
    name = dotted_name(loaded.identifier)
    raise Unsupported(
        f"a transaction writes registered tables only: handle.register('{name}') or `txns"
        f" register {name}` first; table=`{name}`"
    )
