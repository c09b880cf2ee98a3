"""The files below the commit table's location, as storage lists them."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO

from txns.errors import Unsupported

if TYPE_CHECKING:
    from pyiceberg.io import FileIO


@dataclass(frozen=True, slots=True)
class File:
    """A file in storage, with the time in ms at which storage says that it was written."""

    path: str
    size_bytes: int
    written_ms: int


def listed(io: FileIO, location: str) -> list[File]:
    """
    Give the files below a commit table's location.

    Raises:
        Unsupported: Storage does not list them.
    """
    files = PyArrowFileIO(io.properties)
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
        File(start + info.path, info.size, round(info.mtime.timestamp() * 1000))
        for info in found
        if info.type == FileType.File and info.mtime is not None
    ]


def plain(location: str) -> str:
    """Give a location without its scheme: s3 and s3a, or none at all, are one file."""
    without = re.sub(r"^[a-z0-9+.-]+:", "", location)
    return posixpath.normpath("/" + without.lstrip("/"))
