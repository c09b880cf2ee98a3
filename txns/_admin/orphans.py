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
from txns.errors import Unsupported

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


def orphans(parts: Parts) -> list[Orphan]:
    """
    Find the files that nothing refers to, by path; the head is loaded after the listing.

    So a file that a commit is just bringing in is either referred to or younger than the
    grace period.

    Raises:
        Unsupported: The files cannot be listed, or are listed under other names.
    """
    head = parts.log.load()
    location = head.metadata.location
    listed = list(_listed(head, location, parts.clock.now_ms()))
    newest = parts.log.load()
    used = {_plain(path) for path in _used(newest)} | {_plain(path) for path in _used(head)}
    if _plain(head.table.metadata_location if head.table else "") not in {
        _plain(each.path) for each in listed
    }:
        raise Unsupported(
            "the listing does not show the commit table's own metadata file, so nothing is removed;"
            f" location=`{location}`"
        )
    return sorted(
        (
            each
            for each in listed
            if _plain(each.path) not in used and each.age_ms > commit_log.GRACE_MS
            if _OURS.fullmatch(_plain(each.path).removeprefix(_plain(location) + "/"))
        ),
        key=lambda each: each.path,
    )


def remove(parts: Parts, files: list[Orphan]) -> None:
    """Delete files; one that stays is only reported."""
    for each in files:
        commit_log.remove(parts.log.io, each.path)


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


def _listed(head: Head, location: str, now_ms: int) -> Iterator[Orphan]:
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
    for info in found:
        if info.type == FileType.File and info.mtime is not None:
            age_ms = now_ms - round(info.mtime.timestamp() * 1000)
            yield Orphan(start + info.path, info.size, age_ms)


def _plain(location: str) -> str:
    """Give a location without its scheme: s3 and s3a, or none at all, are one file."""
    without = re.sub(r"^[a-z0-9+.-]+:", "", location)
    return posixpath.normpath("/" + without.lstrip("/"))
