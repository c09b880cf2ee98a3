"""
Where a commit table stands by its catalog's own rules: nothing of it is removed elsewhere.

Where the table itself says that it stands is in the hands of whoever may write it, and others who
write it may remove files there (docs/spec.md 3.3).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from txns._iceberg import places
from txns._iceberg.default_places import namespace_folders, planned_folders
from txns._logger import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyiceberg.catalog import Catalog

    from txns._clock import Clock
    from txns._identifier import Identifier

_LOG = logger(__name__)

ASK_AGAIN_MS = 10 * 60 * 1000
"""How long a catalog that has failed is left alone, in ms: whoever tidies would wait for it."""


class OwnPlace:
    """Tells whether files lie where a catalog puts the commit table. Threads may share it."""

    def __init__(
        self,
        catalog: Catalog,
        identifier: Identifier,
        clock: Clock,
        allowed: Sequence[str],
        uuid: Callable[[], str],
    ) -> None:
        """`uuid` gives the commit table's, which nobody changes who writes it; empty for none."""
        self._uuid = uuid
        self._catalog = catalog
        self._identifier = identifier
        self._clock = clock
        self._allowed = tuple(allowed)
        self._known: dict[str, None] = {}
        self._all_known = False
        self._ask_from_ms: int | None = None

    def has(self, path: str) -> bool | None:
        """
        Whether a file lies there, or below a folder that this process allows.

        None while the catalog does not tell: it is asked again later.
        """
        if any(places.is_below(path, folder) for folder in self._allowed):
            return True
        if any(self._is_own(path, folder) for folder in self._folders()):
            return True
        return False if self._all_known else None

    def _is_own(self, path: str, folder: str) -> bool:
        if places.is_by_uuid(folder):
            return places.is_below_uuid(path, folder, self._uuid())
        return places.is_below_own(path, folder, self._identifier[-1])

    def why_files_stay(self, location: str) -> str:
        """Say why nothing is removed of a commit table that says where it stands; "" if it is."""
        found = self.has(f"{location}/metadata")
        if found:
            return ""
        above = places.folder_above(location, self._identifier[-1])
        allowing = (
            f"name a folder above it, in txns.open by create_locations='{above}', say, or with the"
            f" catalog by txns.create-locations={above}"
        )
        if found is None:
            return (
                "the catalog does not tell where the commit table belongs, so no file of it is"
                f" removed: look why, or {allowing}; location=`{location}`"
            )
        return (
            "the commit table does not stand at its catalog's own place for its name, so no file of"
            f" it is removed: where the place is right, {allowing}; else look who has moved it, and"
            f" set its location back with the catalog itself; location=`{location}`"
        )

    def _folders(self) -> Iterator[str]:
        """Give the catalog's own folders: it is asked where the known ones do not do."""
        yield from list(self._known)
        waits = self._ask_from_ms is not None and self._clock.elapsed_ms() < self._ask_from_ms
        if self._all_known or waits:
            return
        asked = chain(
            namespace_folders(self._catalog, self._identifier),
            planned_folders(self._catalog, self._identifier),
        )
        try:
            for folder in asked:
                self._known[folder] = None  # whoever may write the log alone does not move it
                yield folder
        except Exception:  # noqa: BLE001 -- whatever it was, files that stay harm nobody
            _LOG.warning(
                "the catalog does not tell where the commit table belongs, so that its superseded"
                " files stay until it does: it is asked again in 10 minutes; or name its folder in"
                " create_locations",
                exc_info=True,
            )
            self._ask_from_ms = self._clock.elapsed_ms() + ASK_AGAIN_MS
            return
        self._all_known = True
