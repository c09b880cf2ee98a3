"""
Makes what strangers appended to a table an entry of its own.

Docs/spec.md 9.3. Here the entry is prepared; who has it committed is the caller's affair.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pyiceberg.schema import index_by_id
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetPropertiesUpdate

from txns._commit.commit_request import CommitRequest
from txns._commit.group import Key, Origin
from txns._iceberg import manifests, snapshots
from txns._iceberg.snapshots import History
from txns._iceberg.updates import reads_as
from txns._identifier import dotted_name
from txns._log.entry import Isolation, Kind, derived_id
from txns._log.permitted import PREFIX
from txns._logger import fields, logger
from txns._stage import change_builder
from txns._stage.restage import whole_or_gone
from txns._stage.staged_table import StagedTable
from txns._table import mark as _mark
from txns._table.logged_state import (
    branch_line,
    is_cut_off,
    is_of_dropped,
    logged_state,
    stranger_above,
)
from txns.errors import Quarantined, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from txns._clock import Clock
    from txns._commit.apply import Applier
    from txns._identifier import Identifier
    from txns._log.commit_log import CommitLog
    from txns._log.head import Head
    from txns._log.timeline import Timeline
    from txns._table.allowed_places import AllowedPlaces
    from txns._table.data_tables import DataTables
    from txns._table.loaded import Loaded
    from txns._table.logged_state import Stranger

    Wanted = Callable[[int], bool]

_LOG = logger(__name__)

_SOURCE = "source-snapshot-id"
"""The key of a summary by which Iceberg knows a cherry-picked snapshot."""


class StrangerMet(Exception):
    """Under its lock an attempt has met rows that strangers appended: they are adopted first."""

    def __init__(self, table: Identifier) -> None:
        super().__init__(dotted_name(table))
        self.table = table


class Adoption:
    """Prepares adoptions of the tables of one catalog."""

    def __init__(
        self,
        log: CommitLog,
        timeline: Timeline,
        tables: DataTables,
        places: AllowedPlaces,
        applier: Applier,
        clock: Clock,
    ) -> None:
        self._log = log
        self._timeline = timeline
        self._tables = tables
        self._places = places
        self._applier = applier
        self._clock = clock
        self._left: dict[int, str] = {}
        """
        Heads of branches that are a person's affair, as far as they were looked at: why nobody else
        adopts them, "" for what a person has set aside.
        """

    # ---------------------------------------------------------------- whoever writes next

    def is_due(self, metadata: TableMetadata) -> bool:
        """
        Whether a table that was loaded may show rows that are to be adopted before it is written.

        Args:
            metadata: The catalog's own, of a table under care.
        """
        mark, main = _mark.mark_of(metadata), snapshots.main_of(metadata)
        if mark is None or main is None:
            return False
        if not _mark.is_ours(main):
            stranger = logged_state(metadata, mark).stranger
            if stranger and stranger.adoptable:
                return True
        return any(
            name.startswith(_mark.FOREIGN_BRANCH) and ref.snapshot_id not in self._left
            for name, ref in metadata.refs.items()
        )

    def due(self, identifier: Identifier) -> CommitRequest | None:
        """
        Prepare the adoption of what strangers have appended to a table.

        That is what stands on `main`, or what an apply has put on a branch. Not what a person has
        rejected, and not what does more than append.

        Returns:
            None where there is nothing of the kind.

        Raises:
            NoSuchTableError: Neither the catalog nor the log has the table.
            Unsupported: It has other columns than the log.
            Quarantined: No repair ends what was done to the table.
        """
        head, loaded = self.newest(identifier)
        if not loaded.registered or loaded.dropped or head.state.off:
            return None
        if loaded.stranger is None:
            return self._of_kept(head, loaded) if loaded.table is not None else None
        if not loaded.stranger.adoptable:
            return None
        return self.of_append(loaded, self.marked_again(loaded), loaded.stranger)

    def why_left(self, metadata: TableMetadata) -> list[str]:
        """Say why branches of a table are left that an apply has kept, as far as it was looked."""
        heads = {ref.snapshot_id for ref in metadata.refs.values()}
        return [why for kept_head, why in self._left.items() if why and kept_head in heads]

    def _of_kept(self, head: Head, loaded: Loaded) -> CommitRequest | None:
        """Adopt what an apply has kept. What cannot be adopted of that is in nobody's way."""
        while kept := open_branch(loaded, lambda at: self._is_kept(head, loaded, at)):
            try:
                staged = self.marked_again(loaded)
                staged.stage((RemoveSnapshotRefUpdate(ref_name=kept.name),))
                return self.of_append(loaded, staged, kept.stranger)
            except Unsupported as why:
                assert kept.stranger.head_snapshot_id is not None
                self._leave(loaded, kept.stranger.head_snapshot_id, str(why))
        return None

    def _leave(self, loaded: Loaded, kept_head: int, why: str) -> None:
        """Make it a person's affair from now on, who is told once."""
        if kept_head not in self._left:
            _LOG.warning("not adopted: %s", why, extra=fields(table=loaded.identifier))
        self._left[kept_head] = why

    def _is_kept(self, head: Head, loaded: Loaded, kept_head: int) -> bool:
        """Whether an apply has kept a branch that may be adopted; not looked at again if not."""
        assert loaded.table is not None
        metadata = loaded.table.metadata
        if kept_head in self._left:
            return False
        stranger = stranger_above(metadata, kept_head)
        if stranger is None or not self._is_kept_by_apply(head, metadata, kept_head):
            if loaded.applied_ts <= head.upper:  # else a newer head may tell
                self._left[kept_head] = ""
            return False
        reason = _not_adoptable(metadata, stranger, kept_head)
        if reason:
            name = f"{_mark.FOREIGN_BRANCH}{kept_head}"
            self._leave(loaded, kept_head, _refusal(loaded, name, reason))
        return not reason

    def _is_kept_by_apply(self, head: Head, metadata: TableMetadata, kept_head: int) -> bool:
        """
        Whether a change that was applied has taken `main` off a stranger's head.

        A repair has put it aside otherwise: then somebody has decided that it is not to be seen.
        Where nobody can tell any more, it is left to a person as well.
        """
        log = metadata.snapshot_log
        nexts = [after for before, after in pairwise(log) if before.snapshot_id == kept_head]
        by = History(metadata).get(nexts[-1].snapshot_id) if nexts else None
        if by is None or not _mark.is_ours(by):
            return False
        txn_id = snapshots.summary_value(by, _mark.SNAPSHOT_TXN_ID) or ""
        commit_ts = _mark.commit_ts_of(by)
        found = self._timeline.under(head.state, txn_id, commit_ts - 1)
        kinds = [entry.kind for entry in found if entry.commit_ts == commit_ts]
        if not kinds or Kind.REPAIR in kinds:
            return False
        return not self._is_rejected(head, metadata, kept_head)

    def _is_rejected(self, head: Head, metadata: TableMetadata, kept_head: int) -> bool:
        """Whether a person has rejected it, which is applied after what was outstanding then."""
        below = branch_line(metadata, kept_head).stands_on
        if below is None or not _mark.is_ours(below):
            return False
        applied = _mark.commit_ts_of(below)
        txn_id = derived_id("reject", str(metadata.table_uuid), kept_head, applied)
        return bool(self._timeline.under(head.state, txn_id, applied))

    # ---------------------------------------------------------------- for a repair, too

    def newest(self, identifier: Identifier) -> tuple[Head, Loaded]:
        """
        Give a table as of the newest head, which is given as well; what is outstanding comes first.

        Raises:
            Quarantined: No repair ends what was done to the table.
        """
        head = self._log.load_if_exists()
        if head.exists and not self._applier.apply(head, identifier):
            _LOG.info("entries stay unapplied before a repair", extra=fields(table=identifier))
        newest = self._log.load_if_exists()
        loaded = self._tables.load_with_dropped(identifier, newest, newest.upper)
        stranger = loaded.stranger
        if stranger and stranger.cure:
            raise Quarantined(identifier, stranger.reason, stranger.cure)
        self._places.refuse_to_write(loaded)
        return newest, loaded

    def marked_again(self, loaded: Loaded) -> StagedTable:
        """Stage a table for its repair, with the mark that a stranger took."""
        manifests.check_writable(loaded.metadata, dotted_name(loaded.identifier))
        staged = StagedTable.of(loaded)
        if loaded.registered and _mark.mark_of(staged.base) is None:
            uuid = str(staged.base.table_uuid)
            mark = _mark.mark_properties(self._log.identifier, self._log.load().log_id, uuid)
            mark |= _mark.retention_properties(staged.base.properties)
            staged.stage((SetPropertiesUpdate(updates=mark),))
        return staged

    def of_append(self, loaded: Loaded, staged: StagedTable, stranger: Stranger) -> CommitRequest:
        """
        Stage the strangers' files after the newest change, and give what commits that.

        To Iceberg each of their snapshots is cherry-picked: an expiry up to 1.9 would delete the
        files of one that is beside main's history, if no snapshot of that named it as its source.
        Each keeps its own words, too: programs find there how far they have come, look for it
        below `main` when they begin again, and there may be several of one kind.

        Raises:
            Unsupported: Their files do not fit: a column of the log is another one in them.
        """
        assert loaded.table is not None
        theirs = loaded.table.metadata
        picked: list[Snapshot] = []
        for snapshot_id in reversed(stranger.snapshot_ids):
            snapshot = theirs.snapshot_by_id(snapshot_id)
            assert snapshot is not None
            _check_columns(staged, theirs, snapshot)
            picked.append(snapshot)
        with whole_or_gone(staged):
            for snapshot in picked:
                self._pick(staged, snapshot)
        return self.request(Kind.ADOPT, "adopt", loaded, staged, stranger, {})

    def _pick(self, staged: StagedTable, snapshot: Snapshot) -> None:
        """Stage what one snapshot of a stranger has appended, with its words."""
        *before, words = words_for(snapshot)
        files = manifests.added_files(staged.io, snapshot)
        for source in before:
            change_builder.stage_append(staged, self._clock, [], source)
        change_builder.stage_append(staged, self._clock, files, words)

    def request(
        self,
        kind: Kind,
        deed: str,
        loaded: Loaded,
        staged: StagedTable,
        stranger: Stranger,
        marks: dict[str, str],
    ) -> CommitRequest:
        """Give what commits a repair that is staged: whoever does the same makes the same entry."""
        # Of the table, not of the view: whoever comes before a repair is applied makes the same.
        # It may be set back twice to the same metadata, from another place each time.
        applied = stranger.lost[1] if stranger.lost else loaded.applied_ts
        uuid = str(staged.base.table_uuid)
        txn_id = derived_id(deed, uuid, stranger.head_snapshot_id or 0, applied)
        # Who has adopted the same stands above what the table showed: no older rows are asked.
        since_ts = applied if kind is Kind.ADOPT else 0
        return CommitRequest(
            kind=kind,
            key=Key(txn_id, since_ts, Origin.DERIVED),
            read_ts=loaded.read_ts,
            born_ms=self._clock.now_ms(),
            writes={loaded.identifier: staged},
            isolation=Isolation.SNAPSHOT,
            marks=marks,
        )


def words_for(snapshot: Snapshot) -> list[dict[str, str]]:
    """Give what the snapshots say that stand for one of a stranger, the oldest first."""
    said = snapshots.own_words(snapshot)
    words = {key: value for key, value in said.items() if not key.startswith(PREFIX)}
    source = words.get(_SOURCE)
    before = [] if source is None else [{_SOURCE: source}]  # it was a cherry-pick itself
    taken = str(snapshot.snapshot_id)
    return [*before, words | {_SOURCE: taken, _mark.SNAPSHOT_ADOPTED: taken}]


def taken_in(stranger: Stranger) -> dict[str, str]:
    """Give the summary keys that name what an adoption takes in, and what it gives up."""
    ids = ",".join(map(str, stranger.taken_in))
    marks = {_mark.SNAPSHOT_ADOPTED: ids} if ids else {}
    if stranger.lost:
        marks[_mark.SNAPSHOT_LOST_ABOVE] = str(stranger.lost[0])
    return marks


class OpenBranch(NamedTuple):
    """A branch on which rows of strangers are open for adoption, and they."""

    name: str
    stranger: Stranger


def open_branch(loaded: Loaded, wanted: Wanted = lambda _head: True) -> OpenBranch | None:
    """
    Find the oldest branch on which a stranger was put; it goes when its rows are taken in.

    The oldest first: programs look from `main` down for how far they have come.

    Args:
        loaded: The table.
        wanted: Says by the head of a branch whether it is to be looked at.

    Returns:
        None where a stranger stands on main, or none is left.

    Raises:
        Unsupported: All that is left cannot be adopted.
    """
    if not loaded.registered or loaded.stranger:
        return None
    metadata, refused = loaded.metadata, ""
    for name, kept_head in _kept_heads(metadata):
        stranger = stranger_above(metadata, kept_head) if wanted(kept_head) else None
        if stranger is None:
            continue
        reason = _not_adoptable(metadata, stranger, kept_head)
        if not reason:
            return OpenBranch(name, stranger)
        refused = refused or _refusal(loaded, name, reason)
    if refused:
        raise Unsupported(refused)
    return None


def _refusal(loaded: Loaded, name: str, reason: str) -> str:
    return (
        f"what the branch {name} holds {reason}: put it back by hand and drop the branch;"
        f" table=`{dotted_name(loaded.identifier)}`"
    )


def _kept_heads(metadata: TableMetadata) -> list[tuple[str, int]]:
    """Give the branches on which strangers may be kept, with their heads, the oldest first."""
    history = History(metadata)

    def number(kept: tuple[str, int]) -> tuple[int, str]:
        at = history.get(kept[1])
        return (at.sequence_number or 0) if at else 0, kept[0]

    heads = ((name, ref.snapshot_id) for name, ref in metadata.refs.items())
    return sorted((kept for kept in heads if kept[0].startswith(_mark.FOREIGN_BRANCH)), key=number)


def _not_adoptable(metadata: TableMetadata, stranger: Stranger, head_snapshot_id: int) -> str:
    """Say why nothing is adopted from a branch; "" where it is."""
    if is_cut_off(metadata, head_snapshot_id):
        return "stands on nothing that is known"
    if is_of_dropped(metadata, head_snapshot_id):
        return "belongs to the table that was dropped before this one was created"
    return "" if stranger.adoptable else "does more than append"


def _check_columns(staged: StagedTable, theirs: TableMetadata, snapshot: Snapshot) -> None:
    """Refuse files in which the id of a column stands for something else in the log."""
    schema = theirs.schema_by_id(snapshot.schema_id) if snapshot.schema_id is not None else None
    written = index_by_id(schema) if schema else {}
    logged = staged.current.schema()
    for field_id, field in index_by_id(logged).items():
        if schema is None or field_id not in written:
            continue
        ours, other = logged.find_column_name(field_id), schema.find_column_name(field_id)
        kind = written[field_id].field_type
        if ours == other and not reads_as(kind, field.field_type):
            ours, other = f"{ours} {field.field_type}", f"{other} {kind}"
        if ours != other:
            raise Unsupported(
                f"the column `{ours}` of the log is `{other}` in what was written:"
                " reject it, put what is on the branch back by hand, and drop the branch;"
                f" table=`{dotted_name(staged.identifier)}`"
            )
