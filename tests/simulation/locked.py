"""
A simulated database that moves several rows at once, or none (docs/spec.md 11.3).

Nobody waits for a lock: who has looked at rows moves them if they stand as they were. That is what
a lock comes to whose holder stands still for longer than the database lets it, and more orders of
steps than locks let happen.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.catalogs import SwapCatalog
from txns._iceberg.locked_rows import LockedRows, Rows
from txns._iceberg.sql_rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyiceberg.table import Table

    from txns._identifier import Identifier


@dataclass
class _Looked(LockedRows):
    """Rows as they were looked at, and where they are to be moved."""

    catalog: SwapCatalog
    moves: list[tuple[Identifier, str | None, str]] = field(default_factory=list, kw_only=True)

    def _read(self, identifier: Identifier, location: str) -> Table:
        return self.catalog.table_at(identifier, location)

    def _write(self, made: Table) -> None:
        self.catalog.refuse_what_python_cannot_write(made.metadata)
        self.catalog.registry.storage.files[made.metadata_location] = made.metadata

    def _move(self, moves: Sequence[tuple[Table | None, Table]]) -> None:
        for base, made in moves:
            expected = base.metadata_location if base else None
            self.moves.append((made.name(), expected, made.metadata_location))

    def _commit(self) -> None:
        self.catalog.swap_all(self.moves)


@dataclass
class SimulatedRows(Rows):
    """All rows of a simulated catalog."""

    catalog: SwapCatalog

    @contextmanager
    def locked(self, first: Identifier, others: Iterable[Identifier]) -> Iterator[LockedRows]:
        rows = self.looked_at([first, *sorted(set(others) - {first})])
        try:
            yield rows
        finally:
            rows.undo()

    def known(self, locations: Mapping[Identifier, str]) -> LockedRows:
        return _Looked(self.catalog, locations, held=False)

    def looked_at(self, tables: Iterable[Identifier]) -> LockedRows:
        return _Looked(self.catalog, self.catalog.look(list(tables)))


@rows_of.register(SwapCatalog)
def _rows_of_simulated(catalog: SwapCatalog) -> Rows | None:
    return SimulatedRows(catalog) if catalog.queues else None
