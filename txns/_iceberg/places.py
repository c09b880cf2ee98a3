"""
Where files of a table lie: by its location, its properties, and what it has already.

Pure: paths are compared as they are written, but for the ways to write one.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from pyiceberg.table import TableProperties
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    SetLocationUpdate,
    SetPartitionStatisticsUpdate,
    SetPropertiesUpdate,
    SetStatisticsUpdate,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    from txns._identifier import Identifier

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_SAME_SCHEMES = {"": "file", "s3a": "s3", "s3n": "s3"}
_METADATA_PATH = TableProperties.WRITE_METADATA_PATH
PATHS = {
    _METADATA_PATH: "metadata",
    TableProperties.WRITE_DATA_PATH: "data",
    "write.object-storage.path": "data",  # Java's, as the next one is
    "write.folder-storage.path": "data",
}
"""The properties that say where a table's files are written, and what its folder has without."""

_BY_UUID = "/*"
"""What stands behind a folder in which a catalog calls tables by uuids alone."""

_UUID = re.compile("[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UNIQUE = re.compile(f"[-_]({_UUID.pattern})")
"""What catalogs add to a table's name that are to give each table a place of its own."""

_UNIQUE_NAME = re.compile(f"(.+){_UNIQUE.pattern}", re.DOTALL)


def is_below(path: str, folder: str) -> bool:
    """Whether a file lies below a folder; what has `..` in it, be it `%2e%2e`, lies below none."""
    return not _goes_up(path) and plain(path).startswith(f"{plain(folder)}/")


def _is_in(path: str, folder: str) -> bool:
    """Whether a file lies in a folder itself, and not in one inside; see `is_below`."""
    return not _goes_up(path) and posixpath.dirname(plain(path)) == plain(folder)


def is_at_or_below(path: str, folder: str) -> bool:
    """Whether a place is a folder, or lies below it; see `is_below`."""
    return is_below(path, folder) or is_same(path, folder)


def is_own(path: str, folder: str, name: str) -> bool:
    """
    Whether a place is that of a table's name in a folder, be it made unique with an uuid.

    Or an uuid alone, in a folder with `/*` behind it (`own_folders`).
    """
    if not _is_in(path, folder.removesuffix(_BY_UUID)):
        return False
    last = posixpath.basename(plain(path))
    if folder.endswith(_BY_UUID) and _UUID.fullmatch(last):
        return True
    rest = last.removeprefix(name)
    return last == name or (rest != last and _UNIQUE.fullmatch(rest) is not None)


def other_name(place: str, name: str) -> str | None:
    """
    Give the name of the other table of the namespace that may stand at a place of a table's own.

    The one may be called as the other one's place is, which an uuid made unique; None where no
    name but the table's leads there.
    """
    last = posixpath.basename(plain(place))
    if last != name:
        return last
    named = _UNIQUE_NAME.fullmatch(name)
    return named[1] if named else None


def folder_above(place: str, name: str) -> str:
    """
    Give the folder that a place of a table's name lies in, as users write it.

    It is `s3://`, say, for what is no more than a bucket.
    """
    plainly = plain(place)
    within = f"/{name}"
    above = plainly.removesuffix(within) if plainly.endswith(within) else posixpath.dirname(plainly)
    scheme, _, path = above.partition(":")
    return f"{scheme}://{path if scheme == 'file' else path.removeprefix('/')}"


def is_below_own(path: str, folder: str, name: str) -> bool:
    """Whether a file lies below that of a table's name in a folder; see `is_own`."""
    within = plain(folder.removesuffix(_BY_UUID))
    if not is_below(path, within):
        return False
    first = plain(path).removeprefix(f"{within}/").partition("/")[0]
    return is_own(f"{within}/{first}", folder, name) and plain(path) != f"{within}/{first}"


def is_below_uuid(path: str, folder: str, uuid: str) -> bool:
    """
    Whether a file lies below the place of a table's uuid, in a folder whose tables are called so.

    Any other uuid there is another table's.
    """
    if not folder.endswith(_BY_UUID) or not uuid:
        return False
    above = folder.removesuffix(_BY_UUID)
    return any(is_below(path, f"{above}/{each}") for each in (uuid, uuid.replace("-", "")))


def is_by_uuid(folder: str) -> bool:
    """Whether a catalog calls the tables of a folder by uuids alone; see `own_folders`."""
    return folder.endswith(_BY_UUID)


def own_folders(place: str, namespace: Identifier) -> tuple[str, ...]:
    """
    Give the folders in which a catalog puts tables that would put one at a place.

    With `/*` behind them where it calls them by uuids alone, as some servers do.
    """
    folder, last = posixpath.split(plain(place))
    by_uuid = _BY_UUID if _UUID.fullmatch(last) else ""
    return tuple(f"{each}{by_uuid}" for each in spellings(folder, namespace))


def _goes_up(path: str) -> bool:
    if ".." not in path and "%" not in path:  # as good as all, and much is asked
        return False
    return ".." in re.split(r"[/\\]", re.sub("%2e", ".", path, flags=re.IGNORECASE))


def plain(location: str) -> str:
    """Give a location in one way: s3 and s3a are one file, and so are file:/, file:/// and /."""
    match = _SCHEME.match(location)
    scheme = match[1].lower() if match else ""
    rest = location[match.end() :] if match else location
    path = posixpath.normpath("/" + rest.strip("/"))
    return f"{_SAME_SCHEMES.get(scheme, scheme)}:{'' if path == '/' else path}"


def spellings(folder: str, namespace: Identifier) -> tuple[str, ...]:
    """Give a namespace's folder as libraries write it: its levels joined by slashes, or by dots."""
    plainly, slashes, dots = plain(folder), "/".join(namespace), ".".join(namespace)
    for suffix in (slashes, dots):
        if plainly.endswith(f"/{suffix}"):
            above = plainly.removesuffix(suffix)
            return tuple(dict.fromkeys((f"{above}{slashes}", f"{above}{dots}")))
    return (plainly,)


@dataclass(frozen=True, slots=True)
class Moves:
    """
    Where updates put a table, of what it does not have yet.

    Attributes:
        locations: Its places, one after the other.
        paths: Its folders of metadata and data that are not `metadata` and `data` in one of its
            places.
    """

    locations: tuple[str, ...]
    paths: tuple[str, ...]


def moves(base: TableMetadata | None, updates: Iterable[TableUpdate]) -> Moves:
    """
    Give where updates put a table.

    Args:
        base: The table; None for one that the updates create.
        updates: What is laid over it.
    """
    every = list(updates)
    location = base.location if base else None
    known = base.properties if base else {}
    new = [each.location for each in every if isinstance(each, SetLocationUpdate)]
    stands = [*new, *((location,) if location else ())]
    sets = (each.updates for each in every if isinstance(each, SetPropertiesUpdate))
    paths = ((key, keys[key]) for keys in sets for key in PATHS if key in keys)
    return Moves(
        tuple(one for one in new if location is None or not is_same(one, location)),
        tuple(
            path
            for key, path in paths
            if path != known.get(key)
            and not any(is_same(path, f"{one}/{PATHS[key]}") for one in stands)
        ),
    )


def elsewhere(to: Moves, name: str, allowed: Iterable[str], own: Iterable[str]) -> str | None:
    """
    Give the first place of a table that is neither its catalog's own for its name nor allowed.

    None for none.

    Args:
        to: Where the table is put.
        name: Its name, without the namespace.
        allowed: Folders below which any place will do.
        own: The folders in which its catalog puts tables of its namespace; taken as needed.
    """
    named, taken, waiting = list(allowed), list[str](), iter(own)

    def is_default(place: str) -> bool:
        if any(is_own(place, folder, name) for folder in taken):
            return True
        for folder in waiting:
            taken.append(folder)
            if is_own(place, folder, name):
                return True
        return False

    def is_named(place: str) -> bool:
        return any(is_at_or_below(place, folder) for folder in named)

    refused = (path for path in to.paths if not is_named(path))
    moved = (place for place in to.locations if not (is_named(place) or is_default(place)))
    return next(chain(refused, moved), None)


def is_same(one: str, other: str) -> bool:
    """Whether two places are one; what has `..` in it is none."""
    return not _goes_up(one) and plain(one) == plain(other)


def misplaced_files(base: TableMetadata | None, updates: Iterable[TableUpdate]) -> list[str]:
    """
    Give the manifest lists and statistics that updates name and that lie where the table has none.

    It has them below its metadata folder, that which the updates themselves give it, and where the
    lists of its snapshots lie: somebody may have moved it since a snapshot was staged.

    Args:
        base: The table; None for one that the updates create.
        updates: What is laid over it.
    """
    every = list(updates)
    own = set(_metadata_folders(base, every))
    left = [path for path in _named(every) if not any(is_below(path, folder) for folder in own)]
    if not left or base is None:
        return left
    known = {posixpath.dirname(each.manifest_list) for each in base.snapshots}
    return [path for path in left if not any(is_below(path, folder) for folder in known)]


def _named(updates: Iterable[TableUpdate]) -> Iterator[str]:
    """Give the files that updates name: who expires a snapshot deletes them."""
    for each in updates:
        match each:
            case AddSnapshotUpdate():
                yield each.snapshot.manifest_list
            case SetStatisticsUpdate():
                yield each.statistics.statistics_path
            case SetPartitionStatisticsUpdate():
                yield each.partition_statistics.statistics_path
            case _:
                continue


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
