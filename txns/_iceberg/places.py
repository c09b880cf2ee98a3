"""
Where files of a table lie: by its location, its properties, and what it has already.

Pure: paths are compared as they are written, but for the ways to write one.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from pyiceberg.table import TableProperties
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_SAME_SCHEMES = {"": "file", "s3a": "s3", "s3n": "s3"}
_METADATA_PATH = TableProperties.WRITE_METADATA_PATH


def is_below(path: str, folder: str) -> bool:
    """Whether a file lies below a folder; what has `..` in it lies below none."""
    return ".." not in path.split("/") and plain(path).startswith(f"{plain(folder)}/")


def plain(location: str) -> str:
    """Give a location in one way: s3 and s3a are one file, and so are file:/, file:/// and /."""
    match = _SCHEME.match(location)
    scheme = match[1].lower() if match else ""
    rest = location[match.end() :] if match else location
    path = posixpath.normpath("/" + rest.strip("/"))
    return f"{_SAME_SCHEMES.get(scheme, scheme)}:{'' if path == '/' else path}"


def misplaced_lists(base: TableMetadata | None, updates: Iterable[TableUpdate]) -> list[str]:
    """
    Give the manifest lists that updates add and that lie where the table has none.

    It has them below its metadata folder, that which the updates themselves give it, and where
    those of its snapshots lie: somebody may have moved it since a snapshot was staged.

    Args:
        base: The table; None for one that the updates create.
        updates: What is laid over it.
    """
    every = list(updates)
    added = (each.snapshot.manifest_list for each in every if isinstance(each, AddSnapshotUpdate))
    own = set(_metadata_folders(base, every))
    left = [path for path in added if not any(is_below(path, folder) for folder in own)]
    if not left or base is None:
        return left
    known = {posixpath.dirname(each.manifest_list) for each in base.snapshots}
    return [path for path in left if not any(is_below(path, folder) for folder in known)]


def _metadata_folders(base: TableMetadata | None, updates: Iterable[TableUpdate]) -> Iterator[str]:
    location = base.location if base else None
    properties = dict(base.properties) if base else {}
    if location is not None:
        yield _metadata_folder(location, properties)
    for update in updates:
        match update:
            case SetLocationUpdate():
                location = update.location
            case SetPropertiesUpdate():
                properties.update(update.updates)
            case RemovePropertiesUpdate():
                properties = {k: v for k, v in properties.items() if k not in update.removals}
            case _:
                continue
        if location is not None:
            yield _metadata_folder(location, properties)


def _metadata_folder(location: str, properties: Mapping[str, str]) -> str:
    """Give where every library writes a table's manifest lists."""
    return properties.get(_METADATA_PATH) or f"{location}/metadata"
