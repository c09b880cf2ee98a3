"""
The files of a dropped table, deleted in an order that a purge which died can be resumed in.

Data files, then the manifests that name them, then the lists that name those; the table's
marker and its metadata files last, when the catalog has it no more. Of these only what lies below
the table's location and no other table uses: what manifests name elsewhere stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.utils.properties import property_as_bool

from txns._iceberg import manifests as _manifests
from txns._iceberg import places
from txns._iceberg.manifest_entries import live_entries

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata


class PurgedFiles:
    """The files of one dropped table."""

    def __init__(self, io: FileIO, metadata: TableMetadata, used: AbstractSet[str]) -> None:
        """See the files of a table, of which some are `used_by_others`."""
        self._io = io
        self._metadata = metadata
        self._used = used
        self.kept: set[str] = set()
        """What is named by the table's metadata, and is not the table's to delete."""
        self.keeps_data = not property_as_bool(metadata.properties, "gc.enabled", default=True)
        """Whether other tables may need its data files: then they stay, as in Iceberg itself."""

    def delete_unreachable(self) -> int:
        """
        Delete what the marker on `main` does not need; give how many files are gone.

        Raises:
            OSError: A file could not be deleted; those that name it are there still.
        """
        main = self._metadata.current_snapshot_id
        lists = {
            snapshot.manifest_list
            for snapshot in self._metadata.snapshots
            if snapshot.snapshot_id != main
        }
        manifests = self._manifests(lists)
        deleted = 0 if self.keeps_data else self._delete(self._data_files(manifests.values()))
        statistics = (*self._metadata.statistics, *self._metadata.partition_statistics)
        deleted += self._delete(each.statistics_path for each in statistics)
        return deleted + self._delete(manifests) + self._delete(sorted(lists))

    def delete_rest(self, metadata_location: str) -> int:
        """Delete the marker and the metadata files, when no catalog has the table any more."""
        main = self._metadata.current_snapshot()
        earlier = [each.metadata_file for each in self._metadata.metadata_log]
        marker = [main.manifest_list] if main else []
        return self._delete([*marker, *earlier, metadata_location])

    def _manifests(self, lists: Iterable[str]) -> dict[str, ManifestFile]:
        found: dict[str, ManifestFile] = {}
        for path in sorted(lists):
            try:
                listed = _manifests.manifests_of(self._io, path)
            except FileNotFoundError:
                continue  # an earlier purge came as far as this, or an expiry
            found.update((each.manifest_path, each) for each in listed)
        return found

    def _data_files(self, manifests: Iterable[ManifestFile]) -> set[str]:
        """Give what some snapshot holds: what was removed may be another table's by now."""
        paths: set[str] = set()
        for manifest in manifests:
            try:
                entries = live_entries(self._io, manifest)
            except FileNotFoundError:
                continue
            paths.update(entry.data_file.file_path for entry in entries)
        return paths

    def _delete(self, paths: Iterable[str]) -> int:
        deleted = 0
        for path in paths:
            if not self._is_own(path):
                self.kept.add(path)
                continue
            try:
                self._io.delete(path)
            except FileNotFoundError:
                continue
            deleted += 1
        return deleted

    def _is_own(self, path: str) -> bool:
        below = places.is_below(path, self._metadata.location)
        return below and places.plain(path) not in self._used
