"""A data table as the catalog has it and as the protocol sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from txns._identifier import Identifier, dotted_name
from txns._table.mark import refuse_commit_table
from txns.errors import ForeignWrite, Quarantined, Unsupported, transactions_off

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from txns._table import mark as _mark
    from txns._table.overlay import TableView


@dataclass(frozen=True, slots=True)
class Loaded:
    """
    A data table as the catalog has it and as the protocol sees it.

    Attributes:
        identifier: Its name.
        table: The catalog's table; None for one that is logged and not created yet.
        mark: None for a table that is not under care.
        view: As of a timestamp; None for a table that is not under care, unless `forgotten`, and
            for one that is `plain`.
        io: Its files.
    """

    identifier: Identifier
    table: Table | None
    mark: _mark.TableMark | None
    view: TableView | None
    io: FileIO

    @property
    def registered(self) -> bool:
        """Whether it is under care."""
        return self.mark is not None

    @property
    def plain(self) -> bool:
        """Whether it is read and written as the catalog has it: transactions are off."""
        return self.mark is not None and self.view is None

    @property
    def forgotten(self) -> bool:
        """Whether the log has taken it from care, and the table does not say so yet."""
        return self.mark is None and self.view is not None

    @property
    def metadata(self) -> TableMetadata:
        """What a reader sees."""
        if self.view is not None:
            return self.view.metadata
        assert self.table is not None
        return self.table.metadata


def check_writable(loaded: Loaded) -> None:
    """
    Refuse to write through the log a table that nobody registered, or that strangers have written.

    Raises:
        Unsupported: With the call that registers it; it is a commit table; or transactions are off.
        Quarantined: With the command that repairs it.
    """
    name = dotted_name(loaded.identifier)
    if loaded.plain:
        raise transactions_off()
    if not loaded.registered:
        refuse_commit_table(loaded.identifier, loaded.metadata)
        raise Unsupported(
            f"a transaction writes registered tables only: handle.register('{name}') or `txns"
            f" register {name}` first; table=`{name}`"
        )
    stranger = loaded.view.stranger if loaded.view else None
    if stranger:
        kind = ForeignWrite if stranger.adoptable else Quarantined
        raise kind(loaded.identifier, stranger.reason, stranger.cure)
