"""
pyiceberg's DELETE and overwrite, whose lists have no manifests without files.

Manifests in which an earlier snapshot only says what it has removed are left out of the next list,
as by Iceberg's Java: with one more of each DELETE, each would read all of them. pyiceberg leaves
that to its appends; ours copy a list as it is.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions.visitors import (
    ROWS_MIGHT_NOT_MATCH,
    ROWS_MUST_MATCH,
    _InclusiveMetricsEvaluator,
    _StrictMetricsEvaluator,
)
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestEntryStatus
from pyiceberg.schema import index_by_id
from pyiceberg.table.update.snapshot import _DeleteFiles, _OverwriteFiles, _SnapshotProducer
from pyiceberg.typedef import KeyDefaultDict
from pyiceberg.types import StructType

from txns._iceberg.manifest_entries import live_entries
from txns._iceberg.manifests import manifests_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema


class _Removes(_SnapshotProducer[Any]):
    """
    Takes entries out of manifests, which it reads by known headers.

    What pyiceberg makes of a header costs more than the entries of a small manifest.
    """

    def _manifests_before(self) -> list[ManifestFile]:
        """Give the manifests of the snapshot that it stands on, as far as they have files."""
        parent = self._parent_snapshot_id
        before = None
        if parent is not None:
            before = self._transaction.table_metadata.snapshot_by_id(parent)
        listed = manifests_of(self._io, before.manifest_list) if before else []
        return [each for each in listed if each.has_added_files() or each.has_existing_files()]

    def _relevant(self) -> KeyDefaultDict[int, Callable[[ManifestFile], bool]]:
        """Say of a manifest whether it may have files that go, by its partition spec."""
        return KeyDefaultDict(self._build_manifest_evaluator)

    def _taken_out(
        self, manifest: ManifestFile, goes: Callable[[DataFile], bool], kept: list[ManifestFile]
    ) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
        """Give a manifest's entries that go, and those that stay; `kept` gets what it is then."""
        here: list[ManifestEntry] = []
        left: list[ManifestEntry] = []
        for each in live_entries(self._io, manifest):
            (here if goes(each.data_file) else left).append(each)
        if not here:
            kept.append(manifest)
        elif left:
            kept.append(self._rewritten(manifest.partition_spec_id, left))
        return [self._as(ManifestEntryStatus.DELETED, each) for each in here], left

    def _rewritten(self, spec_id: int, left: list[ManifestEntry]) -> ManifestFile:
        with self.new_manifest_writer(spec=self.spec(spec_id)) as writer:
            for each in left:
                writer.add_entry(self._as(ManifestEntryStatus.EXISTING, each))
        return writer.to_manifest_file()

    def _as(self, status: ManifestEntryStatus, entry: ManifestEntry) -> ManifestEntry:
        """Give an entry with another status: who deletes a file stands in its entry."""
        deleted = status == ManifestEntryStatus.DELETED
        return ManifestEntry.from_args(
            status=status,
            snapshot_id=self.snapshot_id if deleted else entry.snapshot_id,
            sequence_number=entry.sequence_number,
            file_sequence_number=entry.file_sequence_number,
            data_file=entry.data_file,
        )


class Deletes(_Removes, _DeleteFiles):
    """Drops files all of whose rows match, and says whether others may have some."""

    @cached_property
    def _compute_deletes(self) -> tuple[list[ManifestFile], list[ManifestEntry], bool]:
        """Give the manifests that stay, the entries that go, and whether files lose some rows."""
        kept: list[ManifestFile] = []
        gone: list[ManifestEntry] = []
        partly = False
        relevant = self._relevant()
        goes, may_match = self._evaluators()
        for manifest in self._manifests_before():
            spec_id = manifest.partition_spec_id
            if manifest.content != ManifestContent.DATA or not relevant[spec_id](manifest):
                kept.append(manifest)
                continue
            here, left = self._taken_out(manifest, goes, kept)
            gone += here
            partly = partly or any(may_match(each.data_file) for each in left)
        self._deleted_data_files = {each.data_file for each in gone}
        if self._planned_delete_files is None:
            self._planned_delete_files = set(self._deleted_data_files)
        return kept, gone, partly

    def _evaluators(self) -> tuple[Callable[[DataFile], bool], Callable[[DataFile], bool]]:
        """Say of a file whether all of its rows match, and whether one may; as planned."""
        planned = self._planned_delete_files
        if planned is not None:
            return planned.__contains__, lambda _file: False
        schema = self._transaction.table_metadata.schema()
        strict_evaluator = _StrictMetricsEvaluator(
            schema, self._predicate, case_sensitive=self._case_sensitive
        )
        strict_evaluator.struct = _all_fields(schema)
        strict = strict_evaluator.eval
        inclusive = _InclusiveMetricsEvaluator(
            schema, self._predicate, case_sensitive=self._case_sensitive
        ).eval
        return (
            lambda file: strict(file) == ROWS_MUST_MATCH,
            lambda file: inclusive(file) != ROWS_MIGHT_NOT_MATCH,
        )


def _all_fields(schema: Schema) -> StructType:
    """Give the fields of structs beside the columns: pyiceberg looks for none, and ends there."""
    return StructType(*index_by_id(schema).values())


class Overwrites(_Removes, _OverwriteFiles):
    """
    Replaces files by others: also those of which a DELETE takes some rows.

    Attributes:
        untouched: Manifests, by path, that have none of the files that go, and are not opened.
    """

    untouched: frozenset[str] = frozenset()

    @cached_property
    def _parted(self) -> tuple[list[ManifestFile], list[ManifestEntry]]:
        """Give the manifests that stay, and the entries that go."""
        kept: list[ManifestFile] = []
        gone: list[ManifestEntry] = []
        relevant = self._relevant()
        goes = self._deleted_data_files.__contains__
        for manifest in self._manifests_before():
            opened = (
                manifest.content == ManifestContent.DATA
                and manifest.manifest_path not in self.untouched
                and relevant[manifest.partition_spec_id](manifest)
            )
            if opened:
                gone += self._taken_out(manifest, goes, kept)[0]
            else:
                kept.append(manifest)
        return kept, gone

    def _refresh_for_retry(self) -> None:
        super()._refresh_for_retry()
        self.__dict__.pop("_parted", None)

    def _existing_manifests(self) -> list[ManifestFile]:
        return self._parted[0]

    def _deleted_entries(self) -> list[ManifestEntry]:
        gone = self._parted[1]
        self._validate_required_deletes(gone)
        return gone
