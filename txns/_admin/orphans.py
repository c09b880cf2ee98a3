"""
Files of the commit table that nothing refers to: what owners that died have left.

Only files below the commit table's location, of the kinds that the protocol writes, and
older than the grace period, are ever named.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.serializers import FromInputFile

from txns._admin.kept_versions import of_log, staying
from txns._admin.listing import listed, plain
from txns._admin.log_versions import Versions, version_at
from txns._iceberg import manifests
from txns._iceberg.manifest_entries import live_entries
from txns._iceberg.snapshots import summary_value
from txns._log import commit_log
from txns._log.entry import KIND, PAYLOAD_LOCATION, Kind
from txns._log.superseded import GRACE_MS
from txns._log.swap import Outcome
from txns._message import said_by
from txns.errors import Conflict, CorruptLog, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata

    from txns._admin.listing import File
    from txns._admin.log_versions import Version
    from txns._log.head import Head
    from txns._services import Parts

_OURS = re.compile(
    r"metadata/([^/]+\.metadata\.json|txns-payload-[^/]+\.json|txns-clock-[^/]+\.txt|[^/]+\.avro)"
    r"|data/[^/]+\.parquet"
)
"""
What the protocol writes below the commit table's location: in these folders, and in none below,
where tables of a namespace of the commit table's name may stand.
"""


@dataclass(frozen=True, slots=True)
class Orphan:
    """
    A file that nothing refers to.

    Attributes:
        stays: Why it could not be deleted; empty where it was, or nobody has tried.
    """

    path: str
    size_bytes: int
    age_ms: int
    stays: str = ""


def orphans(parts: Parts) -> list[Orphan]:
    """
    Say which files nothing refers to, by path, and are older than the grace period by the clock.

    The head is loaded after the listing: so a file that a commit is just bringing in is either
    referred to or younger than the grace period.

    Raises:
        CorruptLog: A file that the log refers to is missing.
        Unsupported: The files cannot be listed, or are listed under other names, or some are
            another table's.
    """
    head = parts.log.load()
    found = listed(parts.log.io, head.metadata.location)
    _written_ms(head, found)
    return _unused(parts, found, parts.clock.now_ms())


def remove(parts: Parts) -> list[Orphan]:
    """
    Delete the files that nothing refers to; give them, with why one stays that could not be.

    Who is about to refer to one of them, and has stood still since, stands on a head of before the
    listing: `main` is moved from one that was loaded after it, so he has lost, and writes his files
    again. What is older than the grace period storage says, which has just written a head: no clock
    does.

    Whatever is raised, nothing is deleted.

    Raises:
        Conflict: The head could not be moved, or is not seen to have moved.
        CorruptLog: A file that the log refers to is missing.
        Unsupported: The files cannot be listed, or are listed under other names, or some are
            another table's, or the commit table stands where its catalog would not put it.
    """
    _refuse_elsewhere(parts, head := parts.log.load())
    moved = _moved(parts, head)
    _refuse_elsewhere(parts, moved)
    found = listed(parts.log.io, moved.metadata.location)
    now_ms = _written_ms(moved, found)
    _moved(parts, parts.log.load())
    io = parts.log.io
    return [replace(each, stays=_delete(io, each.path)) for each in _unused(parts, found, now_ms)]


def _refuse_elsewhere(parts: Parts, head: Head) -> None:
    """Refuse to remove files where the commit table stands by its own word alone (spec 3.3)."""
    if why := parts.log.place.why_files_stay(head.metadata.location):
        raise Unsupported(why)


def _delete(io: FileIO, path: str) -> str:
    """Delete a file; give why it stays, if it does."""
    try:
        io.delete(path)
    except FileNotFoundError:
        return ""  # somebody else was faster
    except Exception as error:  # noqa: BLE001 -- the others are deleted all the same
        return said_by(error)
    return ""


def _moved(parts: Parts, head: Head) -> Head:
    """Move `main` from where a head has it; give a head that shows it."""
    swap = parts.tidier.move_head(head)
    newest = parts.log.load()
    if newest.is_past(head):
        return newest
    if swap.outcome is Outcome.REFUSED and swap.cause:
        raise swap.cause
    raise Conflict(
        "the head could not be moved, so nothing is removed: try again",
        table=parts.log.identifier,
        least_ts=newest.upper,
    )


def _unused(parts: Parts, listed: list[File], now_ms: int) -> list[Orphan]:
    """Give the files of the protocol that are old, and that no version refers to that stays."""
    newest, used = _newest(parts)
    io = parts.log.io
    versions = Versions.of(io, [each.path for each in listed], newest.uuid)
    written_ms = {plain(each.path): each.written_ms for each in listed}
    late = _late_heads(newest, versions, written_ms, now_ms)
    stay = [*late, *staying(of_log(versions, newest), written_ms, now_ms)]
    used |= _used_before(io, stay, _lists(newest.metadata))
    used = {plain(path) for path in used}
    start = plain(newest.metadata.location) + "/"
    unused = [
        Orphan(each.path, each.size_bytes, now_ms - each.written_ms)
        for each in listed
        if plain(each.path) not in used
        if _OURS.fullmatch(plain(each.path).removeprefix(start))
    ]
    # Whoever has written one may be about to refer to it for as long as a transaction may last;
    # but not to what the log had for a version.
    grace_ms = newest.state.settings.max_age_ms + GRACE_MS
    old = [
        each
        for each in unused
        if each.age_ms > (GRACE_MS if plain(each.path) in versions.by_path else grace_ms)
    ]
    others = [one for one in old if plain(one.path) not in versions.by_path]
    if _refuse_another_table(newest, others):
        aside = _aside(parts, newest)
        old = [each for each in old if plain(each.path) not in aside]
    return sorted(old, key=lambda each: each.path)


def _aside(parts: Parts, newest: Head) -> set[str]:
    """Give what commit tables refer to that a recovery has put aside: the catalog has them."""
    used = set[str]()
    for name in parts.catalog.list_tables(parts.log.identifier[:-1]):
        try:
            table = parts.catalog.load_table(name)
        except (NoSuchTableError, FileNotFoundError):
            continue
        if table.metadata.location == newest.metadata.location and name != parts.log.identifier:
            used |= _used(table.io, table.metadata_location, table.metadata)
    return {plain(path) for path in used}


def _written_ms(head: Head, listed: list[File]) -> int:
    """Give the time at which a head's own metadata file was written, by a listing."""
    own = plain(head.table.metadata_location if head.table else "")
    for each in listed:
        if plain(each.path) == own:
            return each.written_ms
    raise Unsupported(
        "the listing does not show the commit table's own metadata file, so nothing is removed;"
        f" location=`{head.metadata.location}`"
    )


def _newest(parts: Parts) -> tuple[Head, set[str]]:
    """
    Give the newest head and the paths that it refers to.

    What stands behind a file that is missing nobody can tell from what nothing refers to.
    """
    for _ in range(commit_log.LOADS):
        head = parts.log.load()
        assert head.table is not None
        try:
            return head, _used(head.table.io, head.table.metadata_location, head.metadata)
        except FileNotFoundError as error:
            missing = error  # somebody has tidied since, and removed it; or it is gone
        if parts.log.load().main_id == head.main_id:
            raise CorruptLog(
                "a file that the log refers to is missing, so nothing is removed: restore it"
                f" ({missing})"
            )
    raise Conflict(
        "the log changes faster than it can be read, so nothing is removed: try again",
        table=parts.log.identifier,
        least_ts=parts.log.load().upper,
    )


def _used(io: FileIO, location: str, metadata: TableMetadata) -> set[str]:
    """Give the paths that a version refers to, which are all there."""
    lists = _lists(metadata)
    return _named(location, metadata) | lists | _listed_in(io, lists)


def _used_before(io: FileIO, versions: Iterable[Version], read: set[str]) -> set[str]:
    """Give the paths that versions refer to, but for what stands behind lists that were read."""
    used, lists = set[str](), set[str]()
    for version in versions:
        used |= {version.path} | version.named
        lists |= version.lists
    # What a version of before names its tidier may have removed in the meantime.
    return used | lists | _listed_in(io, lists - read, FileNotFoundError)


def _named(location: str, metadata: TableMetadata) -> set[str]:
    """Give a version's own path, and those that stand in it, but for lists of manifests."""
    statistics = (*metadata.statistics, *metadata.partition_statistics)
    return {
        location,
        *(each.metadata_file for each in metadata.metadata_log),
        *(each.statistics_path for each in statistics),
        *(summary_value(each, PAYLOAD_LOCATION) or "" for each in metadata.snapshots),
    }


def _lists(metadata: TableMetadata) -> set[str]:
    return {each.manifest_list for each in metadata.snapshots}


def _listed_in(io: FileIO, lists: Iterable[str], *gone: type[Exception]) -> set[str]:
    """
    Give the manifests that lists name, and the files that these name.

    Args:
        io: Reads them.
        lists: Where they are.
        gone: What stands for one that may be missing.
    """
    known: dict[str, ManifestFile] = {}
    for manifest_list in lists:
        with suppress(*gone):
            known |= {
                each.manifest_path: each for each in manifests.manifests_of(io, manifest_list)
            }
    used = set(known)
    for manifest in known.values():
        with suppress(*gone):
            used.update(each.data_file.file_path for each in live_entries(io, manifest))
    return used


def _late_heads(
    newest: Head, versions: Versions, written_ms: Mapping[str, int], now_ms: int
) -> list[Version]:
    """
    Give the versions that were the head within the grace period, from the newest on.

    One was until the next one landed: after its file was written, and before that of the one after
    it was.
    """
    assert newest.table is not None
    found: list[Version] = []
    location, until_ms = newest.table.metadata_location, now_ms
    before = next((each.metadata_file for each in newest.metadata.metadata_log[-1:]), "")
    while until_ms > now_ms - GRACE_MS and before:
        until_ms = written_ms.get(plain(location), now_ms)
        location = before
        try:
            version = versions.by_path.get(plain(location)) or version_at(newest.table.io, location)
        except FileNotFoundError:  # superseded so long ago that somebody has removed it
            break
        found.append(version)
        before = version.before
    return found


def _refuse_another_table(newest: Head, unused: list[Orphan]) -> bool:
    """
    Refuse to remove the files of another table; give whether some are of a mere creation.

    A commit table that was moved aside stays where it is, and catalogs give its place to whoever
    makes another one under its old name.
    """
    assert newest.table is not None
    created = False
    for each in unused:
        if not each.path.endswith(".metadata.json"):
            continue
        try:
            metadata = FromInputFile.table_metadata(newest.table.io.new_input(each.path))
        except (FileNotFoundError, ValueError):
            continue  # gone, or never written to its end
        if metadata.table_uuid == newest.metadata.table_uuid:
            continue
        created = True
        if not _is_lost_creation(metadata):
            raise Unsupported(
                "another table has its files below the commit table's location, so nothing is"
                " removed: if nobody needs it, drop it with its files, or remove them by hand;"
                f" metadata=`{each.path}` uuid=`{metadata.table_uuid}`"
                f" expected=`{newest.uuid}`"
            )
    return created


def _is_lost_creation(metadata: TableMetadata) -> bool:
    """Whether it is a commit table as it is created: of two creators one leaves that behind."""
    first = [summary_value(each, KIND) for each in metadata.snapshots]
    return first == [Kind.TIDY.value] and not metadata.metadata_log
