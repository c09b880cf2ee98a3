"""
Which files of the commit table a tidy leaves behind that no kept version names.

Docs/spec.md 3.3 and 10. Of each file it is asked from which upper on versions may have named it, or
from one before: a file that lives on for a minute too much harms nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._iceberg import manifests
from txns._iceberg.snapshots import summary_value
from txns._log import commit_table
from txns._log.archive_scan import bounds_of
from txns._log.entry import TIDIED_UPTO
from txns._log.payload import is_at_its_place
from txns._log.superseded import ends_minute
from txns._logger import logger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.snapshots import Snapshot

    from txns._log.entry import Entry
    from txns._log.head import Head

_LOG = logger(__name__)


def dropped(
    head: Head, io: FileIO, done: list[Entry], live: list[Snapshot], upper: int
) -> list[str]:
    """
    Give the files that nothing in the next head points to, and no kept version; some may stay.

    Of those that records name, the commit table's own alone: anybody may write a path there.

    Args:
        head: Which the next one follows.
        io: The commit table's files.
        done: The entries that leave it.
        live: The snapshots of the next one.
        upper: Of the next one, in ms.
    """
    location = head.metadata.location
    needed = {each.payload.location for each in head.state.entries if each not in done}
    payloads = [
        each.payload.location
        for each in done
        if each.payload.location
        and each.payload.location not in needed
        and is_at_its_place(each.payload.location, location)
        and not ends_minute(each.commit_ts, upper)
    ]
    try:
        since = _since(head, io, {each.manifest_list for each in live}, upper)
        return [
            *payloads,
            *sorted(
                path
                for path, ts in since.items()
                if commit_table.is_its_own(path, location) and not ends_minute(ts, upper)
            ),
        ]
    except Exception:  # noqa: BLE001 -- the tidy does not need it
        _LOG.warning("files of the log that nothing names any more stay", exc_info=True)
        return payloads


def _since(head: Head, io: FileIO, live: set[str], upper: int) -> dict[str, int]:
    """Give lists, manifests and files that live lists do not reach, and since when others have."""
    since = {path: ts for path, ts in _lists_since(head).items() if path not in live}
    if all(ends_minute(ts, upper) for ts in since.values()):
        return since  # nothing that stands behind a list is younger
    reached, still = manifests.only_reached_by(io, since, live)
    for manifest_list, of_list in reached.items():
        for manifest, files in of_list:
            if files:
                since[manifest.manifest_path] = _greatest(files)
            else:  # it only says what was removed: of the rows it has nothing
                own = head.metadata.snapshot_by_id(manifest.added_snapshot_id or 0)
                since[manifest.manifest_path] = since[manifest_list] if own else 0
            gone = (each for each in files if each.file_path not in still)
            since |= {each.file_path: _greatest([each]) for each in gone}
    return since


def _lists_since(head: Head) -> dict[str, int]:
    """
    Give, by each list of a head in the log's own place, an upper in ms that it is not older than.

    All records with one list say how far he had tidied who has written it.
    """
    since: dict[str, int] = {}
    for each in head.metadata.snapshots:
        path = each.manifest_list
        if commit_table.is_its_own(path, head.metadata.location):
            ts = int(summary_value(each, TIDIED_UPTO) or 0)
            since[path] = min(ts, since.get(path, ts))
    return since


def _greatest(files: Iterable[DataFile]) -> int:
    """Give the greatest `commit_ts` of the rows of files, which were in the log before; or 0."""
    return max((bounds[1] for each in files if (bounds := bounds_of(each))), default=0)
