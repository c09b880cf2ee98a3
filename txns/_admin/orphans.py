"""
Files of the commit table that nothing refers to: what owners that died have left.

Only files below the commit table's location, of the kinds that the protocol writes, and
older than the grace period, are ever named.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO

from txns._iceberg import manifests
from txns._log import commit_log
from txns.errors import Conflict, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    listed = _listed(head, head.metadata.location)
    newest = parts.log.load()
    _written_ms(head, listed)
    return _unused(listed, (head, newest), parts.clock.now_ms())


def remove(parts: Parts) -> list[Orphan]:
    """
    Delete the files that nothing refers to; give them. One that stays is only reported.

    Who is about to refer to one of them, and has stood still since, asserts where `main` stood
    before the files were listed: it is moved after that, so he has lost, and writes them again.
    What is older than the grace period storage says, which has just written the head: no clock
    does.

    Raises:
        Conflict: The head could not be moved, or is not seen to have moved: nothing is deleted.
        Unsupported: The files cannot be listed, or are listed under other names.
    """
    head = parts.log.load()
    listed = _listed(head, head.metadata.location)
    parts.tidier.move_head(head)
    newest = parts.log.load()
    if not newest.is_past(head):
        raise Conflict(
            "the head could not be moved, so nothing is removed: try again",
            table=parts.log.identifier,
            least_ts=newest.upper,
        )
    now_ms = _written_ms(newest, _listed(newest, newest.metadata.location))
    found = _unused(listed, (head, newest), now_ms)
    for each in found:
        commit_log.remove(parts.log.io, each.path)
    return found


def _unused(listed: list[_File], heads: tuple[Head, ...], now_ms: int) -> list[Orphan]:
    """Give the files of the protocol that no head refers to, older than the grace period."""
    start = _plain(heads[0].metadata.location) + "/"
    used = {_plain(path) for head in heads for path in _used(head)}
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


def _used(head: Head) -> Iterator[str]:
    """Give every path that a head refers to, earlier metadata files of its log included."""
    assert head.table is not None
    metadata, io = head.metadata, head.table.io
    yield head.table.metadata_location
    for earlier in metadata.metadata_log:
        yield earlier.metadata_file
    for entry in head.state.entries:
        if entry.payload.location is not None:
            yield entry.payload.location
    for statistics in (*metadata.statistics, *metadata.partition_statistics):
        yield statistics.statistics_path
    for manifest_list in {snapshot.manifest_list for snapshot in metadata.snapshots}:
        yield manifest_list
        for manifest in manifests.manifests_of(io, manifest_list):
            yield manifest.manifest_path
            for listed in manifest.fetch_manifest_entry(io):
                yield listed.data_file.file_path


def _listed(head: Head, location: str) -> list[_File]:
    assert head.table is not None
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
