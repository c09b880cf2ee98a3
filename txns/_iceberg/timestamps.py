"""
The times in a table's metadata (docs/spec.md 8.3).

Iceberg's Java cannot load a table whose times go back by more than a minute. So what a table has
beats every clock: a fast one may have written it, a slow one may be ours. No I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import PrivateAttr
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2, TableMetadataV3
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, RemoveSnapshotsUpdate

from txns._iceberg.snapshots import main_of

if TYPE_CHECKING:
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from txns._clock import Clock

TOLERANCE_MS = 59_000
"""Iceberg refuses timestamps that are more than a minute apart; a second is kept in hand."""


def acceptable_ts(base: TableMetadata | None, wanted_ts: int, now_ms: int) -> int:
    """
    Give a `commit_ts`, or a clock's time, or the nearest that Iceberg accepts for a snapshot.

    Args:
        base: None for a table that is created.
        wanted_ts: In ms.
        now_ms: The clock's, which the snapshot must not be far ahead of.
    """
    wanted = min(wanted_ts, now_ms + TOLERANCE_MS)
    newest = newest_ms(base) if base else wanted
    return newest + 1 if wanted < newest - TOLERANCE_MS else wanted


def newest_ms(metadata: TableMetadata) -> int:
    """Give the newest time in a table's metadata, below which its next one must not be."""
    return max([metadata.last_updated_ms, *(at.timestamp_ms for at in metadata.snapshot_log[-1:])])


def is_ahead(metadata: TableMetadata, now_ms: int) -> bool:
    """Whether Iceberg's Java could not load a table any more that got this clock's time."""
    return newest_ms(metadata) > now_ms + TOLERANCE_MS


class MovedOn(CommitFailedException):
    """A table is not what updates were built on: their times would not follow its newest."""


class Following(AssertTableUUID):
    """
    The requirement that updates follow a table's times also as they are committed.

    pyiceberg's catalogs commit to whatever the table is by then, as long as all requirements are
    met: another property, say, is none. To a server it is the assertion of the uuid alone.
    """

    _built_on: TableMetadata = PrivateAttr()
    _least_ms: int = PrivateAttr()
    _ahead: bool = PrivateAttr()

    @classmethod
    def of(
        cls, uuid: AssertTableUUID, built_on: TableMetadata, least_ms: int, now_ms: int
    ) -> Following:
        """
        Put it in the place of an assertion of the uuid.

        `least_ms` is the oldest time that the updates have, or the clock's `now_ms`, which
        pyiceberg gives what brings none along.
        """
        made = cls(uuid=uuid.uuid)
        made._built_on = built_on
        made._least_ms = least_ms
        made._ahead = is_ahead(built_on, now_ms)
        return made

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        """
        Check what the table is now.

        Raises:
            MovedOn: Somebody has committed, and the table was ahead of the clock, or what it has
                now is more than a minute newer than something of the updates.
        """
        super().validate(base_metadata)
        assert base_metadata is not None
        behind = self._ahead or is_ahead(base_metadata, self._least_ms)
        if behind and base_metadata != self._built_on:
            raise MovedOn("others have written the table, and their times are newer")


def refuse_overtaken(metadata: TableMetadata, updates: tuple[TableUpdate, ...]) -> None:
    """
    Refuse snapshots whose numbers are taken, as what passes the time of a table takes one.

    Raises:
        MovedOn: pyiceberg builds them again, which it does not for its own error.
    """
    if isinstance(metadata, TableMetadataV2) and any(
        isinstance(update, AddSnapshotUpdate)
        and (update.snapshot.sequence_number or 0) <= metadata.last_sequence_number
        for update in updates
    ):
        raise MovedOn("others have written the table, which a fast clock has put ahead")


def required(
    metadata: TableMetadata,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
    clock: Clock,
) -> tuple[TableRequirement, ...]:
    """Give requirements of updates that follow a table's times, for which that is required too."""
    now_ms = clock.now_ms()
    times = [at.snapshot.timestamp_ms for at in updates if isinstance(at, AddSnapshotUpdate)]
    least_ms = min([now_ms, *times])
    return tuple(
        Following.of(each, metadata, least_ms, now_ms)
        if isinstance(each, AssertTableUUID)
        else each
        for each in requirements
    )


def following(
    metadata: TableMetadata, updates: tuple[TableUpdate, ...], clock: Clock
) -> tuple[TableUpdate, ...]:
    """Give updates of pyiceberg's own, which have its clock's times, with such as follow."""
    if not any(isinstance(update, AddSnapshotUpdate) for update in updates):
        return (*time_passes(metadata, clock), *updates) if updates else ()
    return tuple(_fitted(metadata, update, clock.now_ms()) for update in updates)


def _fitted(metadata: TableMetadata, update: TableUpdate, now_ms: int) -> TableUpdate:
    if not isinstance(update, AddSnapshotUpdate):
        return update
    time_ms = acceptable_ts(metadata, update.snapshot.timestamp_ms, now_ms)
    return AddSnapshotUpdate(snapshot=update.snapshot.model_copy(update={"timestamp_ms": time_ms}))


def time_passes(metadata: TableMetadata, clock: Clock) -> tuple[TableUpdate, ...]:
    """
    Give the updates that let a swap without a snapshot follow a table that is ahead.

    Such a swap gets the clock's time, of pyiceberg as of servers, but for what a snapshot brings
    along that is added: one that the same swap removes again, so that it is never there.
    """
    if not is_ahead(metadata, clock.now_ms()):
        return ()
    main = main_of(metadata)
    first_row_id = (metadata.next_row_id or 0) if isinstance(metadata, TableMetadataV3) else None
    passing = Snapshot(
        snapshot_id=clock.new_snapshot_id(),
        parent_snapshot_id=main.snapshot_id if main else None,
        sequence_number=metadata.next_sequence_number(),
        timestamp_ms=newest_ms(metadata) + 1,
        manifest_list=main.manifest_list if main else metadata.location,
        summary=Summary(Operation.APPEND),
        schema_id=metadata.current_schema_id,
        first_row_id=first_row_id,
        added_rows=None if first_row_id is None else 0,
    )
    removed = RemoveSnapshotsUpdate(snapshot_ids=[passing.snapshot_id])
    return AddSnapshotUpdate(snapshot=passing), removed
