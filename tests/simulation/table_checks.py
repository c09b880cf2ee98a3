"""What must hold whenever a data table is swapped."""

from __future__ import annotations

from hashlib import md5
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC

from tests.simulation import row_lineage, schemas
from tests.simulation.attempts import Identifier, Version, folded
from tests.simulation.contents import is_copy
from tests.simulation.scheduler import Violation

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from tests.simulation.observer import Logged, Observer
    from tests.simulation.rows import Rows

OURS = "txns.commits"
"""The commit table that is judged, as marks name it."""

_MARK = "txns.commit-table"
_OUTSTANDING = "txns-outstanding"

TOLERANCE_MS = 59_000
"""How far from a table's last update, and from the clock, a timestamp may lie (spec 8.3)."""


class TableChecks:
    """
    Judges each swap of a data table.

    Attributes:
        foreign: Rows that each stranger's append added, by snapshot id; None for snapshots
            that did something else.
        purged: Uuids of tables that are gone for good, with everything that was applied to them.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._history = observer.history
        self._contents = observer.contents
        self.foreign: dict[int, Rows | None] = {}
        self.purged: set[str] = set()

    def changed(self, name: Identifier, old: TableMetadata | None, new: TableMetadata) -> None:
        """Judge a swap; a stranger's is only recorded, and so is that of another log's users."""
        if old is not None and is_marked(old) and is_anothers(new):
            raise Violation("trust", f"another commit table has taken {name}")
        if is_anothers(new):
            self._history.anothers.add(name)
        strangers = self._observer.world.actor.stranger or is_anothers(new)
        if strangers or self._passes_the_log(name, old, new):
            self._history.strange.add(name)
            if old is not None or name not in self._history.upset:  # what comes back is known
                self._foreign(old, new)
            if old is not None and {*_ids(old)} - {*_ids(new)}:
                self._expired(name, new)
            return
        self._lists_of_their_own(name, old, new)
        self._sequence_numbers(name, old, new)
        row_lineage.check(name, old, new, self._contents)
        if old is not None and is_marked(old):
            self.nothing_vanishes(name, old, new)
        if is_marked(new) and self._comes_under_care(name, old, new):
            self._registered(name, old, new)
        elif applied_of(new) != applied_of(old):
            self._applied(name, old, new)
        elif is_marked(new) and _main(new) != _main(old) and not self._is_footing(old, new):
            raise Violation("I4", f"the protocol moved main of {name} without txns.applied")

    def _is_footing(self, old: TableMetadata | None, new: TableMetadata) -> bool:
        """Whether main is a copy of what it was, for an adoption to stand on (spec 9.4)."""
        main, before = new.current_snapshot(), None if old is None else _main(old)
        if old is None or main is None or main.parent_snapshot_id != before:
            return False
        copied = "-1" if before is None else str(before)
        if (_summary(main, "txns.restored"), _summary(main, "txns.commit-ts")) != (copied, None):
            return False
        return self._contents.rows(main) == self._contents.rows(old.current_snapshot())

    def _passes_the_log(
        self, name: Identifier, old: TableMetadata | None, new: TableMetadata
    ) -> bool:
        """Whether it is a statement's own, as any may be that ran while transactions were off."""
        attempt = self._observer.world.actor.attempt
        if attempt is None or attempt.isolation != "autocommit" or old is None:
            return False
        known = {one.snapshot_id for one in old.snapshots}
        added = [one for one in new.snapshots if one.snapshot_id not in known]
        stamped = any(_summary(one, "txns.commit-ts") is not None for one in added)
        if stamped or not (is_marked(old) and is_marked(new)) or applied_of(old) != applied_of(new):
            return False
        passes = self._observer.off or self._observer.on_ts > attempt.began_above
        attempt.passes_the_log |= passes
        if passes:
            changed = schemas.columns(old.schema(), old.spec()) ^ schemas.columns(
                new.schema(), new.spec()
            )
            self._history.passed.setdefault(name, set()).update(changed)
        return passes

    def dropped(self, aside: Identifier, metadata: TableMetadata) -> None:
        """Judge the end of a purge: what it takes is a marker that nobody needs."""
        if self._observer.world.actor.stranger:
            return
        uuid, name = str(metadata.table_uuid), _name_before(aside)
        at = f"{name}, {uuid}"
        if not metadata.properties.get("txns.purging"):
            raise Violation("purge", f"{at} is dropped and was not claimed")
        if rows := self._contents.rows(metadata.current_snapshot()):
            raise Violation("purge", f"{at} is dropped with the rows {sorted(rows)}")
        for ref, head in metadata.refs.items():
            if ref.startswith("txns-hold-"):
                raise Violation("hold", f"{at} is dropped, and held by {ref}")
            adopted = self.foreign.get(head.snapshot_id)
            lost = (adopted or frozenset()) - self._history.removed.get(name, set())
            if ref.startswith("txns-foreign-") and lost:
                raise Violation("purge", f"{at} is dropped with {sorted(lost)} of a stranger")
        for logged in self._observer.entries.values():
            for table in logged.tables if logged.changes else ():
                if table["uuid"] == uuid and logged.commit_ts > applied_of(metadata):
                    raise Violation("purge", f"{at} is dropped, {logged.commit_ts} is in the log")
        self.purged.add(uuid)

    def _foreign(self, old: TableMetadata | None, new: TableMetadata) -> None:
        known = {one.snapshot_id for one in old.snapshots} if old else set()
        for snapshot in new.snapshots:
            if snapshot.snapshot_id in known or snapshot.summary is None:
                continue
            operation = snapshot.summary.operation.value
            parent = new.snapshot_by_id(snapshot.parent_snapshot_id or -1)
            added = self._contents.rows(snapshot) - self._contents.rows(parent)
            same_or_more = operation in {"append", "replace"}
            self.foreign[snapshot.snapshot_id] = added if same_or_more else None

    def _expired(self, name: Identifier, new: TableMetadata) -> None:
        """Note below which timestamp a table cannot be read any more (spec 9.1, effective ts)."""
        at = new.current_snapshot()
        oldest = None
        while at is not None:
            oldest, at = at, new.snapshot_by_id(at.parent_snapshot_id or -1)
        ours = None if oldest is None else _summary(oldest, "txns.commit-ts")
        newest = self._history.newest(name)
        if newest and not newest.cared and name in self._history.put_back:
            # A forget leaves main to who has put it back: what was logged is on no branch then.
            self._history.since[name] = newest.ts
        elif ours is not None:
            self._history.since[name] = int(ours)
        else:  # a compaction whose parents are gone stands for whatever was applied last
            self._history.since[name] = applied_of(new)
            self._history.rootless.add(name)
            # Nothing tells of which state, where strangers have put another one there before.
            if name in self._history.put_back and all(
                _summary(each, "txns.commit-ts") is None for each in new.snapshots
            ):
                self._history.upset[name] = self._history.upper
                self._history.unmarked.add(name)

    # ------------------------------------------------------------ each protocol swap

    def _lists_of_their_own(
        self, name: Identifier, old: TableMetadata | None, new: TableMetadata
    ) -> None:
        known = {one.snapshot_id for one in old.snapshots} if old else set()
        lists = [one.manifest_list for one in new.snapshots if not is_copy(one)]
        for snapshot in still_needed(new):
            self._contents.manifest_paths(snapshot.manifest_list)
            if snapshot.snapshot_id not in known and lists.count(snapshot.manifest_list) > 1:
                raise Violation("I2", f"{name}: {snapshot.snapshot_id} shares its manifest list")

    def _sequence_numbers(
        self, name: Identifier, old: TableMetadata | None, new: TableMetadata
    ) -> None:
        last = old.last_sequence_number if old else 0
        known = {one.snapshot_id for one in old.snapshots} if old else set()
        for snapshot in new.snapshots:
            if snapshot.snapshot_id in known:
                continue
            # Catalogs compare nothing of a first snapshot, and have no other requirement to tell
            # an empty table from one that a stranger has emptied since a replica gave it.
            unseen = self._observer.world.actor.stale and _main(old) is None
            if snapshot.sequence_number <= last and last and not unseen:
                raise Violation("renumber", f"{name}: {snapshot.sequence_number} after {last}")
            for manifest in self._contents.manifests(snapshot.manifest_list):
                number, own = manifest.number, manifest.added_by == snapshot.snapshot_id
                if number > snapshot.sequence_number or (
                    own and number != snapshot.sequence_number
                ):
                    raise Violation(
                        "renumber",
                        f"{name}: a manifest of {snapshot.sequence_number} carries {number}",
                    )

    def nothing_vanishes(self, name: Identifier, old: TableMetadata, new: TableMetadata) -> None:
        """Rows that some branch reached stay reachable, unless the log removed them."""
        lost = self._reachable(old) - self._reachable(new)
        lost -= self._history.removed.get(name, set())
        if lost:
            raise Violation("rows lost", f"{name}: {sorted(lost)} are on no branch any more")

    def _reachable(self, metadata: TableMetadata) -> Rows:
        rows: set[int] = set()
        for name, ref in metadata.refs.items():
            if name != _OUTSTANDING:  # it goes with a repair that gives up what was logged
                rows |= self._contents.rows(metadata.snapshot_by_id(ref.snapshot_id))
        return frozenset(rows)

    # ------------------------------------------------------------ register, apply

    def _comes_under_care(
        self, name: Identifier, old: TableMetadata | None, new: TableMetadata
    ) -> bool:
        """Whether a swap sets a mark, if only over one that a stranger has put back since."""
        if old is None:
            return not _created(new)
        moves = old.current_snapshot_id != new.current_snapshot_id
        return not is_marked(old) or (name in self._history.upset and moves and _marks(new))

    def _registered(self, name: Identifier, old: TableMetadata | None, new: TableMetadata) -> None:
        main = new.current_snapshot()
        rows = self._contents.rows(main)
        if old is not None and rows != self._contents.rows(old.current_snapshot()):
            raise Violation("register", f"the mark of {name} changed its rows")
        if main is None or _summary(main, "txns.commit-ts") != str(applied_of(new)):
            raise Violation("I7", f"the mark of {name} carries no txns.commit-ts")
        if applied_of(new) < applied_of(old):
            raise Violation("I4", f"the mark of {name} turned txns.applied back")
        columns = schemas.columns(new.schema(), new.spec())
        branches = tuple(
            (ref, self._contents.rows(new.snapshot_by_id(at.snapshot_id)))
            for ref, at in sorted(new.refs.items())
            if ref != "main" and at.snapshot_ref_type.value == "branch"
            if not ref.startswith("txns-foreign-")  # which an adoption takes away
        )
        version = Version(
            applied_of(new), exists=True, rows=rows, columns=columns, branches=branches
        )
        self._history.add(name, version)

    def _applied(self, name: Identifier, old: TableMetadata | None, new: TableMetadata) -> None:
        before, after = applied_of(old), applied_of(new)
        if after < before:
            raise Violation("I4", f"txns.applied of {name} went from {before} to {after}")
        due = [
            (logged, table)
            for ts, logged in sorted(self._observer.entries.items())
            for table in logged.tables
            if before < ts <= after and logged.changes and table["uuid"] == str(new.table_uuid)
        ]
        # Who takes a table as it stands that was set back goes on without what has left the head.
        taken = name in self._history.upset and due and due[-1][0].kind == "repair"
        # One swap of the log may bring several entries, and move a table by all of them.
        born = [logged for logged, table in due if table.get("born-applied")]
        together = len(born) == len(due) and due and due[-1][0].commit_ts == after
        if not together and [one.commit_ts for one, _ in due[-1 if taken else 0 :]] != [after]:
            raise Violation(
                "I5",
                f"{name} went from {before} to {after}; logged between:"
                f" {[logged.commit_ts for logged, _table in due]}",
            )
        logged, table = due[-1]
        if logged.kind == "forget" and old is not None and not self._fits(table, old):
            self._left_to_others(name, old, new)
            return
        self._main_is_the_logged(name, new, logged, table)
        if old is not None and self._quarantined(old) and not self._repaired_later(due[-1]):
            raise Violation("quarantine", f"{after} was applied to {name}, past a stranger")
        if _log_of(new) - _log_of(old) > len(due):
            raise Violation("I2", f"the history of {name} shows a moment inside {after}")

    def _fits(self, change: dict[str, Any], old: TableMetadata) -> bool:
        """Whether a table has what a change was staged on, and nobody has changed rows (6.3)."""
        base = change.get("from-snapshot-id")
        return self.is_as_logged(old) and (base is None or old.snapshot_by_id(base) is not None)

    def _left_to_others(self, name: Identifier, old: TableMetadata, new: TableMetadata) -> None:
        """Whoever wrote a table after it was forgotten keeps it, under an empty snapshot (6.3)."""
        main, theirs = new.current_snapshot(), old.current_snapshot()
        stands = main is not None and main.parent_snapshot_id == _main(old)
        if not stands or self._contents.rows(main) != self._contents.rows(theirs):
            raise Violation("forget", f"main of {name} was taken from who wrote it since")

    def _quarantined(self, old: TableMetadata) -> bool:
        """Whether a stranger did more to a table than to append and to compact (spec 9.1)."""
        by_id = {one.snapshot_id: one for one in old.snapshots}
        at = old.current_snapshot()
        while at is not None:
            commit_ts = _summary(at, "txns.commit-ts")
            if commit_ts is not None:
                return int(commit_ts) < applied_of(old)
            if at.summary is None or at.summary.operation.value not in {"append", "replace"}:
                return True
            parent = at.parent_snapshot_id
            at = by_id.get(parent) if parent is not None else None
        return False

    def _repaired_later(self, due: tuple[Logged, dict[str, Any]]) -> bool:
        logged, table = due
        return any(
            other.kind == "repair" and other.commit_ts >= logged.commit_ts
            for other in self._observer.entries.values()
            if any(one["uuid"] == table["uuid"] for one in other.tables)
        )

    def _main_is_the_logged(
        self, name: Identifier, new: TableMetadata, logged: Logged, table: dict[str, Any]
    ) -> None:
        main = new.current_snapshot()
        if main is None or main.snapshot_id != table["to-snapshot-id"]:
            raise Violation("I2", f"{name}: main is not on the to-snapshot of {logged.commit_ts}")
        self._stands_on(name, new, main, logged, table.get("from-snapshot-id"))
        marks = (_summary(main, "txns.commit-ts"), _summary(main, "txns.txn-id"))
        if marks != (str(logged.commit_ts), logged.txn_id):
            raise Violation("I7", f"{name}: main carries {marks} at {logged.commit_ts}")
        if not self._is_timely(new, main, logged.commit_ts):
            raise Violation("I7", f"{name}: main is of {main.timestamp_ms}: {logged.commit_ts}")
        # It may have been renamed before this was applied.
        then = self._observer.stood[logged.commit_ts, table["uuid"]]
        version = self._history.at(then, logged.commit_ts)
        rows = self._contents.rows(main)
        if version is None and then in self._history.upset:
            return  # another table has had the name since
        assert version is not None
        if rows != version.rows:
            raise Violation("content", f"{name} at {logged.commit_ts}: {sorted(rows)}")
        schema = new.schema_by_id(main.schema_id)
        if schema is not None and version.exists:  # by which the past is read
            own = schemas.columns(schema, UNPARTITIONED_PARTITION_SPEC)
            own |= {each for each in version.columns if schemas.is_of_spec(each)}
            where = f"the schema of main of {name} at {logged.commit_ts}"
            self._history.judge_columns("content", where, own, version, then)
        for branch, expected in version.branches:
            ref = new.refs.get(branch)
            actual = self._contents.rows(new.snapshot_by_id(ref.snapshot_id)) if ref else None
            if actual != expected:
                raise Violation("content", f"{name}, branch {branch} at {logged.commit_ts}")

    @staticmethod
    def _stands_on(
        name: Identifier,
        new: TableMetadata,
        main: Snapshot,
        logged: Logged,
        source: int | None,
    ) -> None:
        """The chain of an entry's snapshots stands on its from-snapshot."""
        by_id = {one.snapshot_id: one for one in new.snapshots}
        at: Snapshot | None = main
        while at is not None and _summary(at, "txns.txn-id") == logged.txn_id:
            parent = at.parent_snapshot_id
            if parent == source:
                return
            at = by_id.get(parent) if parent is not None else None
        raise Violation("I3", f"{name}: main at {logged.commit_ts} does not stand on {source}")

    def _is_timely(self, new: TableMetadata, main: Snapshot, commit_ts: int) -> bool:
        """
        Whether a snapshot has its `commit_ts` as timestamp, or what Iceberg took for it (8.3).

        The applier's clock is not known to the millisecond: its swap may land long after it.
        """
        known = {entry.timestamp_ms for entry in (*new.snapshot_log[:-1], *new.metadata_log)}
        floors = {at + 1 for at in known}
        if main.timestamp_ms in {commit_ts, *floors}:
            return True
        ceiling_ms = self._observer.world.actor.began_ms + TOLERANCE_MS
        return ceiling_ms <= main.timestamp_ms < max({commit_ts, *floors})

    # ------------------------------------------------------------ tidy

    def is_applied(self, logged: Logged, table: dict[str, Any]) -> bool:
        """Whether a table that an entry names shows the entry, whatever its name is now."""
        registry = self._observer.registry
        if table["uuid"] in self.purged:
            return True
        known = (registry.metadata(name) for name in registry.pointers)
        return any(
            applied_of(metadata) >= logged.commit_ts
            for metadata in known
            if str(metadata.table_uuid) == table["uuid"]
        )

    @staticmethod
    def shows(metadata: TableMetadata, commit_ts: int, txn_id: str) -> bool:
        """Whether a table has a snapshot of an entry, since it came under care the last time."""
        marked = [one.sequence_number or 0 for one in metadata.snapshots if is_mark(metadata, one)]
        return any(
            (_summary(one, "txns.commit-ts"), _summary(one, "txns.txn-id"))
            == (str(commit_ts), txn_id)
            for one in metadata.snapshots
            if (one.sequence_number or 0) >= max(marked, default=0)
        )

    @staticmethod
    def is_as_logged(metadata: TableMetadata) -> bool:
        """
        Whether nobody but the protocol has changed a table's rows since its newest entry.

        Where what strangers have compacted is expired, their compactions have its rows (9.1).
        """
        by_id = {one.snapshot_id: one for one in metadata.snapshots}
        at = main = metadata.current_snapshot()
        while at is not None and _is_strangers_compaction(at):
            at = by_id.get(at.parent_snapshot_id or -1)
        if at is None:
            return main is not None
        applied = str(applied_of(metadata))
        of_entry = [one for one in metadata.snapshots if _summary(one, "txns.commit-ts") == applied]
        inside = {one.parent_snapshot_id for one in of_entry}  # moments that the entry has left
        return at in of_entry and at.snapshot_id not in inside

    def outstanding(self, name: Identifier) -> bool:
        """Whether an entry names a table and the table does not show it."""
        return any(
            logged.changes and not self.is_applied(logged, table)
            for logged in self._observer.entries.values()
            for table in logged.tables
            if _name(table) == name
        )

    def is_kept_by_a_branch(self, name: Identifier, metadata: TableMetadata) -> bool:
        """Whether a table has the whole branch of spec 8.5, for all that it does not show."""
        ref = metadata.refs.get("txns-outstanding")
        at = metadata.snapshot_by_id(ref.snapshot_id) if ref else None
        reaches = int(_summary(at, "txns.outstanding") or 0) if at else 0
        copies = 0
        while at is not None and is_copy(at):
            copies += 1
            at = metadata.snapshot_by_id(at.parent_snapshot_id or -1)
        newest = max(
            logged.commit_ts
            for logged in self._observer.entries.values()
            for table in logged.tables
            if logged.changes and _name(table) == name and not self.is_applied(logged, table)
        )
        return ref is not None and reaches >= newest and copies + 1 == ref.min_snapshots_to_keep

    def must_be_applied(self, logged: Logged, table: dict[str, Any]) -> None:
        """An entry may leave the head only when its tables show it (I6)."""
        name = _name(table)
        if name in self._history.upset:
            return  # a stranger may have been between the look and the swap
        newest = self._history.newest(name)
        forgotten = newest is not None and not newest.cared
        if not (forgotten or self.is_applied(logged, table)):
            raise Violation("I6", f"{logged.commit_ts} left the head, {name} does not show it")


def still_needed(metadata: TableMetadata) -> list[Snapshot]:
    """Give the snapshots of a table whose files must be there: of a claimed one, the marker."""
    main = metadata.current_snapshot()
    return [main] if main and "txns.purging" in metadata.properties else metadata.snapshots


def _name_before(aside: Identifier) -> Identifier:
    return (*aside[:-1], aside[-1].split("__txns_purge_")[0])


def _name(table: dict[str, Any]) -> Identifier:
    identifier = table["identifier"]
    return folded((*identifier["namespace"], identifier["name"]))


def is_marked(metadata: TableMetadata) -> bool:
    """Whether a table itself says that it is under care of the commit table that is judged."""
    own = metadata.properties.get("txns.table-uuid") == str(metadata.table_uuid)
    return own and metadata.properties.get(_MARK) == OURS


def is_anothers(metadata: TableMetadata) -> bool:
    """Whether another commit table has taken a table, whose mark strangers have taken before."""
    return metadata.properties.get(_MARK, OURS) != OURS


def _created(new: TableMetadata) -> bool:
    return "txns.created" in new.properties


def _marks(metadata: TableMetadata) -> bool:
    """Whether `main` is on the snapshot of a mark."""
    main = metadata.current_snapshot()
    return main is not None and is_mark(metadata, main)


def is_mark(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Whether a snapshot is that of a mark, which is known by the id derived from it."""
    text = f"register:{metadata.table_uuid}:{snapshot.snapshot_id}"
    derived = UUID(bytes=md5(text.encode(), usedforsecurity=False).digest(), version=3)
    return _summary(snapshot, "txns.txn-id") == str(derived)


def _ids(metadata: TableMetadata) -> list[int]:
    return [snapshot.snapshot_id for snapshot in metadata.snapshots]


def applied_of(metadata: TableMetadata | None) -> int:
    """Give the `commit_ts` in ms that a table says has been applied to it; 0 for none."""
    return int(metadata.properties.get("txns.applied", "0")) if metadata else 0


def _main(metadata: TableMetadata | None) -> int | None:
    return metadata.current_snapshot_id if metadata else None


def _log_of(metadata: TableMetadata | None) -> int:
    return len(metadata.snapshot_log) if metadata else 0


def _summary(snapshot: Snapshot, key: str) -> str | None:
    return snapshot.summary.additional_properties.get(key) if snapshot.summary else None


def _is_strangers_compaction(snapshot: Snapshot) -> bool:
    is_one = snapshot.summary is not None and snapshot.summary.operation.value == "replace"
    return is_one and _summary(snapshot, "txns.commit-ts") is None
