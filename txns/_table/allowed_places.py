"""
Where tables may stand: where their catalog puts them, and where this process allows it.

Whoever carries a change out may write where its author may not (docs/spec.md 7).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.update import AssignUUIDUpdate, SetLocationUpdate, SetPropertiesUpdate

from txns._config import named_folders
from txns._iceberg.default_places import namespace_folders, planned_folders
from txns._iceberg.places import (
    PATHS,
    elsewhere,
    folder_above,
    is_at_or_below,
    is_same,
    moves,
    other_name,
)
from txns._identifier import dotted_name
from txns.errors import Quarantined, Unsupported

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    from txns._config import Config
    from txns._identifier import Identifier
    from txns._table.loaded import Loaded

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
            why, cure = _own_place(table, place)
            raise Unsupported(
                f"a table of transactions stands at its catalog's own place for its name{why}:"
                f" {cure}{_allowing(table, place)}, here and wherever it is applied;"
                f" place=`{place}` table=`{dotted_name(table)}`"
            )

    def refuse_to_write(self, loaded: Loaded, shown: TableMetadata | None = None) -> None:
        """
        Refuse to write a table that a change which is not applied yet has put elsewhere.

        Before the first file: who has logged that may have no right to write there.

        Args:
            loaded: The table; what the catalog itself has of it stands where it may.
            shown: What is written on, where that is not what was loaded.

        Raises:
            Quarantined: With the place, and the option that allows it.
        """
        shown = shown or loaded.metadata
        stands = loaded.table.metadata if loaded.table else None
        if shown is stands:
            return
        keys = {key: shown.properties[key] for key in PATHS if key in shown.properties}
        to = (SetLocationUpdate(location=shown.location), SetPropertiesUpdate(updates=keys))
        place = self.forbidden(loaded.identifier, stands, to)
        if place is not None:
            raise Quarantined(
                loaded.identifier,
                "a logged change that is not applied puts it, or its files, at a place that is not"
                " its catalog's own for its name, and that this process does not allow: nothing is"
                f" written there; place=`{place}`",
                "look who has written the commit table; where the place is right,"
                f" {_allowing(loaded.identifier, place)}; else `txns recover --void` takes the"
                " entry out of the log, with the commit_ts that `txns apply` tells",
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
                "look who has written the commit table; where the place is right,"
                f" {_allowing(table, place)}, and apply again; else `txns recover --void"
                f" {commit_ts}` takes the entry out of the log",
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


def _allowing(table: Identifier, place: str) -> str:
    """Give what allows a place, with a value that would do."""
    above = folder_above(place, table[-1])
    return (
        f"name a folder above it, in txns.open by create_locations='{above}', say, or with the"
        f" catalog by {_OPTION}={above}"
    )


def _own_place(table: Identifier, place: str) -> tuple[str, str]:
    """Say why a place is none of a catalog's own for a name, and how to do without an option."""
    if "/" in table[-1]:
        return ", and a name with a slash has none", ""
    if folder_above(place, table[-1]).endswith("://"):
        return ", and a bucket of a table's own, as S3 Tables gives it, is none", ""
    return "", "leave the place out, or "
