"""The files of metadata that a new version of a table names no more."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata


def remove_old(io: FileIO, before: TableMetadata, now: TableMetadata) -> None:
    """
    Remove them after a commit, where the table says so; a file that stays harms nobody.

    pyiceberg's catalogs leave it to the table that somebody commits by (`Table._do_commit`).
    """
    with suppress(Exception):
        Catalog._delete_old_metadata(io, before, now)  # noqa: SLF001 -- as a table does
