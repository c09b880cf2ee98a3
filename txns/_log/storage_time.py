"""
What time it is for those who destroy something by its age: the storage is asked, not the clock.

Docs/spec.md 10. A clock that is fast would take for old what somebody has just made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from txns._logger import logger
from txns.errors import InvalidUsage

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyiceberg.io import FileIO

    from txns._clock import Clock
    from txns._log.head import Head

_LOG = logger(__name__)

SKEW_MS_MAX = 60_000
"""By so much a clock may differ from the storage's."""

AHEAD_MS_MAX = 2 * SKEW_MS_MAX
"""By so much an upper may lie ahead of the storage: a clock's skew, and `advance` adds as much."""

CLOCK_FILE = "txns-clock-"
"""What the name of a file begins with that was written to be asked for its time."""


def checked_now_ms(head: Head, clock: Clock) -> int:
    """
    Give the time in ms by which something may be destroyed, as of a head.

    Where the storage tells no time, the upper: no clock counts then.

    Raises:
        InvalidUsage: 58000, this process's clock is wrong.
    """
    assert head.table is not None
    before_ms = clock.now_ms()
    written_ms = _written_ms(head.table.io, head.metadata.location, clock.new_uuid())
    now_ms = clock.now_ms()
    if written_ms is None:
        return head.upper
    # However long the storage has taken, its time lay between the two.
    skew_ms = max(before_ms - written_ms, 0) + min(now_ms - written_ms, 0)
    if abs(skew_ms) > SKEW_MS_MAX:
        raise InvalidUsage(
            "58000",
            "the clock of this host is wrong, so nothing is removed: set it right, as by NTP, and"
            f" run it again; it is {abs(skew_ms) / 1000:.0f} s"
            f" {'ahead of' if skew_ms > 0 else 'behind'} the storage; now=`{now_ms}`"
            f" storage=`{written_ms}`",
        )
    return min(max(now_ms, head.upper), written_ms + AHEAD_MS_MAX)


def _written_ms(io: FileIO, location: str, name: str) -> int | None:
    """Write a file, ask when the storage has it from, in ms, and remove it; None: it cannot say."""
    files = _files(io)
    if files is None:
        return None
    path = f"{location.rstrip('/')}/metadata/{CLOCK_FILE}{name}.txt"
    with io.new_output(path).create() as stream:
        stream.write(b"what time is it\n")
    try:
        scheme, netloc, inside = PyArrowFileIO.parse_location(path, files.properties)
        filesystem: FileSystem = files.fs_by_scheme(scheme, netloc)
        written_at = filesystem.get_file_info(inside).mtime
    except Exception:  # noqa: BLE001 -- whatever it cannot, it does not tell the time
        _LOG.warning("the storage does not tell when a file was written", exc_info=True)
        return None
    finally:
        io.delete(path)
    return None if written_at is None else round(written_at.timestamp() * 1000)


def _files(io: FileIO) -> PyArrowFileIO | None:
    if isinstance(io, PyArrowFileIO):
        return io
    return PyArrowFileIO(io.properties) if isinstance(io, FsspecFileIO) else None
