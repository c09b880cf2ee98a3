"""
Where a commit table stands by its catalog's own rules: nothing of it is removed elsewhere.

Where the table itself says that it stands is in the hands of whoever may write it, and others who
write it may remove files there (docs/spec.md 3.3).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from pyiceberg.exceptions import RESTError

from txns._iceberg import places
from txns._iceberg.default_places import namespace_folders, planned_folders
from txns._logger import logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.catalog import Catalog

    from txns._identifier import Identifier

_LOG = logger(__name__)


class OwnPlace:
    """Tells whether files lie where a catalog puts the commit table. Threads may share it."""

    def __init__(self, catalog: Catalog, identifier: Identifier, allowed: Sequence[str]) -> None:
        self._catalog = catalog
        self._identifier = identifier
        self._allowed = tuple(allowed)
        self._known: dict[str, None] = {}
        self._asked = False

    def has(self, path: str) -> bool:
        """Whether a file lies there, or below a folder that this process allows."""
        if any(places.is_below(path, folder) for folder in self._allowed):
            return True
        name = self._identifier[-1]
        return any(places.is_below_own(path, folder, name) for folder in self._folders())

    def _folders(self) -> Iterator[str]:
        """Give the catalog's own folders: it is asked once, where the known ones do not do."""
        yield from list(self._known)
        if self._asked:
            return
        asked = chain(
            namespace_folders(self._catalog, self._identifier),
            planned_folders(self._catalog, self._identifier),
        )
        try:
            for folder in asked:
                self._known[folder] = None  # whoever may write the log alone does not move it
                yield folder
        except RESTError:
            _LOG.warning(
                "the server does not tell where the commit table belongs, so that its superseded"
                " files stay: name its folder in create_locations",
                exc_info=True,
            )
        self._asked = True
