"""
Files of the commit table that nothing refers to: what owners that died have left.

Only files below the commit table's location, of the kinds that the protocol writes, and
older than the grace period, are ever named.
"""

from __future__ import annotations

import posixpath
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile

from txns._iceberg import manifests
from txns._iceberg.snapshots import summary_value
from txns._log import commit_log
from txns._log.entry import PAYLOAD_LOCATION
from txns.errors import Conflict, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata

    from txns._log.commit_log import Head
    from txns._services import Parts

_OURS = re.compile(r"metadata/(.+\.metadata\.json|txns-payload-.+\.json|.+\.avro)|data/.+\.parquet")
"""What the protocol writes below the commit table's location."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file that nothing refers to."""

    path: str
    size_bytes: int
    age_ms: int


@dataclass(frozen=True, slots=True)
class _File:
    """A file in storage, with the time in ms at which storage says that it was written."""

    path: str
    size_bytes: int
    written_ms: int


def orphans(parts: Parts) -> list[Orphan]:
    """
    Say which files nothing refers to, by path, and are older than the grace period by the clock.

    The head is loaded after the listing: so a file that a commit is just bringing in is either
    referred to or younger than the grace period.

    Raises:
        Unsupported: The files cannot be listed, or are listed under other names.
    """
    head = parts.log.load()
    listed = _listed(head)
    _written_ms(head, listed)
    return _unused(listed, parts.log.load(), parts.clock.now_ms())


def remove(parts: Parts) -> list[Orphan]:
    """
    Delete the files that nothing refers to; give them. One that stays is only reported.

    Who is about to refer to one of them, and has stood still since, stands on a head of before the
    listing: `main` is moved from one that was loaded after it, so he has lost, and writes his files
    again. What is older than the grace period storage says, which has just written a head: no clock
    does.

    Raises:
        Conflict: The head could not be moved, or is not seen to have moved: nothing is deleted.
        Unsupported: The files cannot be listed, or are listed under other names.
    """
    moved = _moved(parts, parts.log.load())
    listed = _listed(moved)
    now_ms = _written_ms(moved, listed)
    newest = _moved(parts, parts.log.load())
    found = _unused(listed, newest, now_ms)
    for each in found:
        commit_log.remove(parts.log.io, each.path)
    return found


def _moved(parts: Parts, head: Head) -> Head:
    """Move `main` from where a head has it; give a head that shows it."""
    parts.tidier.move_head(head)
    newest = parts.log.load()
    if not newest.is_past(head):
        raise Conflict(
            "the head could not be moved, so nothing is removed: try again",
            table=parts.log.identifier,
            least_ts=newest.upper,
        )
    return newest


def _unused(listed: list[_File], newest: Head, now_ms: int) -> list[Orphan]:
    """Give the files of the protocol that are old, and that no head of late refers to."""
    start = _plain(newest.metadata.location) + "/"
    used = _used(newest, {_plain(each.path): each.written_ms for each in listed}, now_ms)
    unused = [
        Orphan(each.path, each.size_bytes, now_ms - each.written_ms)
        for each in listed
        if _plain(each.path) not in used
        if _OURS.fullmatch(_plain(each.path).removeprefix(start))
    ]
    return sorted(
        (each for each in unused if each.age_ms > commit_log.GRACE_MS), key=lambda each: each.path
    )


def _written_ms(head: Head, listed: list[_File]) -> int:
    """Give the time at which a head's own metadata file was written, by a listing."""
    own = _plain(head.table.metadata_location if head.table else "")
    for each in listed:
        if _plain(each.path) == own:
            return each.written_ms
    raise Unsupported(
        "the listing does not show the commit table's own metadata file, so nothing is removed;"
        f" location=`{head.metadata.location}`"
    )


def _used(newest: Head, written_ms: Mapping[str, int], now_ms: int) -> set[str]:
    """Give the paths that heads refer to which somebody may have loaded within the grace period."""
    assert newest.table is not None
    io = newest.table.io
    used: set[str] = set()
    lists: set[str] = set()
    for location, metadata in _versions(newest, written_ms, now_ms):
        used.add(location)
        used.update(each.metadata_file for each in metadata.metadata_log)
        for statistics in (*metadata.statistics, *metadata.partition_statistics):
            used.add(statistics.statistics_path)
        for snapshot in metadata.snapshots:
            used.add(summary_value(snapshot, PAYLOAD_LOCATION) or "")
            lists.add(snapshot.manifest_list)
    # What a version of before names its tidier may have removed in the meantime.
    known: dict[str, ManifestFile] = {}
    for manifest_list in lists:
        with suppress(FileNotFoundError):
            known |= {
                each.manifest_path: each for each in manifests.manifests_of(io, manifest_list)
            }
    for manifest in known.values():
        with suppress(FileNotFoundError):
            used.update(each.data_file.file_path for each in manifest.fetch_manifest_entry(io))
    return {_plain(path) for path in used | lists | known.keys()}


def _versions(
    newest: Head, written_ms: Mapping[str, int], now_ms: int
) -> Iterator[tuple[str, TableMetadata]]:
    """
    Give the versions that were the head within the grace period, with where they stand.

    One was for as long as the file of the next one was not written.
    """
    assert newest.table is not None
    location, metadata = newest.table.metadata_location, newest.metadata
    yield location, metadata
    while written_ms.get(_plain(location), now_ms) > now_ms - commit_log.GRACE_MS:
        if not metadata.metadata_log:
            return
        location = metadata.metadata_log[-1].metadata_file
        try:
            metadata = FromInputFile.table_metadata(newest.table.io.new_input(location))
        except FileNotFoundError:  # superseded so long ago that somebody has removed it
            return
        yield location, metadata


def _listed(head: Head) -> list[_File]:
    assert head.table is not None
    location = head.metadata.location
    files = PyArrowFileIO(head.table.io.properties)
    scheme, netloc, path = PyArrowFileIO.parse_location(location, files.properties)
    try:
        found = files.fs_by_scheme(scheme, netloc).get_file_info(
            FileSelector(path, recursive=True, allow_not_found=True)
        )
    except Exception as error:
        raise Unsupported(
            f"the files of the commit table cannot be listed ({error}); location=`{location}`"
        ) from error
    start = location[: -len(path)] if location.endswith(path) else f"{scheme}://"
    return [
        _File(start + info.path, info.size, round(info.mtime.timestamp() * 1000))
        for info in found
        if info.type == FileType.File and info.mtime is not None
    ]


def _plain(location: str) -> str:
    """Give a location without its scheme: s3 and s3a, or none at all, are one file."""
    without = re.sub(r"^[a-z0-9+.-]+:", "", location)
    return posixpath.normpath("/" + without.lstrip("/"))
