"""
Where tables may stand: where their catalog puts them, and where this process allows it.

Whoever carries a change out may write where its author may not (docs/spec.md 7).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.update import AssignUUIDUpdate

from txns._config import named_folders
from txns._iceberg.default_places import namespace_folders, planned_folders
from txns._iceberg.places import elsewhere, is_at_or_below, is_same, moves, other_name
from txns._identifier import dotted_name
from txns.errors import Quarantined, Unsupported

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    from txns._config import Config
    from txns._identifier import Identifier

_OPTION = "txns.create-locations"


class AllowedPlaces:
    """Tells which places of tables this process takes part in."""

    def __init__(self, catalog: Catalog, config: Config) -> None:
        self._catalog = catalog
        self._named = named_folders(catalog, config.create_locations)
        self._known: dict[Identifier, dict[str, None]] = {}

    def refuse_to_stage(
        self, table: Identifier, base: TableMetadata | None, updates: Collection[TableUpdate]
    ) -> None:
        """
        Refuse a user's change that puts a table where nobody would create it.

        Args:
            table: Its name.
            base: The table as it was planned on; None for a new one.
            updates: The change.

        Raises:
            Unsupported: With the place, and the option that allows it.
        """
        place = self.forbidden(table, base, updates)
        if place is not None:
            raise Unsupported(
                "a table of transactions stands at its catalog's own place for its name: leave the"
                " place out, or name a folder above it in create_locations of txns.open, or"
                f" {_OPTION} of the catalog, here and wherever it is applied;"
                f" place=`{place}` table=`{dotted_name(table)}`"
            )

    def refuse_to_apply(
        self,
        table: Identifier,
        base: TableMetadata | None,
        updates: Collection[TableUpdate],
        commit_ts: int,
    ) -> None:
        """
        Refuse to carry a logged change out that puts a table elsewhere; see `refuse_to_stage`.

        Raises:
            Quarantined: With the place, and the option that allows it.
        """
        place = self.forbidden(table, base, updates)
        if place is not None:
            raise Quarantined(
                table,
                "a logged change puts it at a place that is not its catalog's own for its name,"
                f" and that this process does not allow; place=`{place}`",
                "look who has written the commit table; where the place is right, name a folder"
                f" above it in create_locations of txns.open, or {_OPTION} of the catalog, and"
                f" apply again; else `txns recover --void {commit_ts}` takes the entry out of the"
                " log",
            )

    def forbidden(
        self, table: Identifier, base: TableMetadata | None, updates: Collection[TableUpdate]
    ) -> str | None:
        """Give the first place where a change puts a table, and may not; None for none."""
        if any(isinstance(each, AssignUUIDUpdate) for each in updates):
            base = None
        to = moves(base, updates)
        place = elsewhere(to, table[-1], self._named, self._folders(table, base))
        return place or next((one for one in to.locations if self._is_taken(table, one)), None)

    def _is_taken(self, table: Identifier, place: str) -> bool:
        """Whether the one other table that is looked for has a place, which is not allowed."""
        other = other_name(place, table[-1])
        if other is None or any(is_at_or_below(place, folder) for folder in self._named):
            return False
        try:
            return is_same(self._catalog.load_table((*table[:-1], other)).location(), place)
        except NoSuchTableError:
            return False

    def _folders(self, table: Identifier, base: TableMetadata | None) -> Iterator[str]:
        """Give the catalog's own folders: it is asked while those that are known will not do."""
        known = self._known.setdefault(table[:-1], {})
        yield from list(known)
        asked = namespace_folders(self._catalog, table)
        for folder in asked if base else chain(asked, planned_folders(self._catalog, table)):
            known[folder] = None  # whoever may write the log alone does not move a namespace
            yield folder
