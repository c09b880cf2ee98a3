"""
Watches every swap of every table, and checks what must hold from then on.

Nothing can change between two swaps, so checking each one is checking after each step.
It decodes what it needs itself: the core's own reading is under test.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from tests.simulation import java_rules, late_creations
from tests.simulation.attempts import Attempt, Version, folded
from tests.simulation.contents import Contents
from tests.simulation.history import History
from tests.simulation.late_heads import files_of_late_heads
from tests.simulation.scheduler import Violation, World
from tests.simulation.settings import Switch
from tests.simulation.table_checks import TableChecks, is_marked, still_needed
from tests.simulation.turns import Reserved

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from tests.simulation.catalogs import Registry
    from tests.simulation.disaster import Disaster
    from tests.simulation.guard import Guard
    from tests.simulation.rows import Rows

Identifier = tuple[str, ...]
COMMIT_TABLE: Identifier = ("txns", "commits")
OTHER_NAMESPACE = "other"
"""Where another commit table is, with its tables (`other_log`)."""
_OWN_IDS = ("job-", "shared")
"""What the ids begin with that users choose."""


@dataclass(frozen=True)
class Logged:
    """An entry as it stands in the log."""

    commit_ts: int
    kind: str
    txn_id: str
    comment: str
    read_ts: int
    tables: list[dict[str, Any]]
    changes: list[dict[str, Any]]

    @property
    def names(self) -> set[Identifier]:
        """The tables that it names."""
        return {_name(table) for table in self.tables}


class Observer:
    """Keeps the model of history up with the log, and judges each swap."""

    def __init__(self, world: World, registry: Registry) -> None:
        self.world = world
        self.registry = registry
        self.history = History()
        self.contents = Contents(registry.storage)
        self.entries: dict[int, Logged] = {}
        self.standing: set[int] = set()
        """The `commit_ts` in ms of those that stand in the head."""
        self.under: dict[str, Logged] = {}
        """The newest entry under each id."""
        self.stood: dict[tuple[int, str], Identifier] = {}
        """The name that a table had when an entry changed it, by `commit_ts` and uuid."""
        self.disaster: Disaster | None = None
        """What the lake has not been recovered from yet."""
        self.gone: dict[int, Logged] = {}
        """What the log lacks since the last recovery, by `commit_ts` in ms."""
        self.off = False
        self.on_ts = 0
        """When transactions were turned on last, as `commit_ts` in ms."""
        self.grouped = 0
        """Swaps that brought several entries."""
        self.reserved = Reserved()
        self.checks = TableChecks(self)
        registry.on_commit = self.on_commit
        registry.on_rename = self.history.rename
        registry.on_drop = self.checks.dropped
        registry.storage.before_delete = self.before_delete

    def stand_back_for(self, guard: Guard) -> None:
        """Judge nothing more: where records are forged, a guard does, and no model of history."""
        registry = self.registry
        registry.on_commit, registry.on_rename = guard.on_commit, guard.on_rename
        registry.on_drop = guard.on_drop
        registry.storage.before_delete = guard.before_delete
        registry.storage.files.before_write = guard.before_write

    def on_commit(self, name: Identifier, old: TableMetadata | None, new: TableMetadata) -> None:
        """Judge a swap; runs inside its step."""
        if name[0] == OTHER_NAMESPACE:
            return  # it is held against what its own users meant, at the end
        # A table that was set back, or lost its mark, has the times of whoever wrote it meanwhile.
        ours = name == COMMIT_TABLE or (is_marked(new) and name not in self.history.upset)
        if ours and not self.world.actor.stranger:
            java_rules.check(name, old, new)
        cared = name == COMMIT_TABLE or (old is not None and is_marked(old))
        late = self.world.actor.epoch < self.world.epoch and not self.world.actor.stranger
        if cared and late:
            raise Violation("recovery", f"{name} is changed by who has not seen the recovery")
        if self.disaster is not None:
            self._changed_in_disaster(self.disaster, name, old, new)
        elif name == COMMIT_TABLE:
            self._log_changed(old, new)
        elif late and old is None and is_marked(new):
            late_creations.arrives(self, name, new)
        else:
            self.checks.changed(name, old, new)

    def _changed_in_disaster(
        self,
        disaster: Disaster,
        name: Identifier,
        old: TableMetadata | None,
        new: TableMetadata,
    ) -> None:
        """Note a swap; what is judged is what a recovery makes of them all."""
        actor = self.world.actor
        is_admins = actor.epoch > self.world.epoch
        if name != COMMIT_TABLE:
            if not (is_admins or actor.stranger) and old is not None and is_marked(old):
                disaster.landed.add(name)
            return
        known = {(each.commit_ts, each.txn_id) for each in self.entries.values()}
        known |= {(each.commit_ts, each.txn_id) for each in self.decoded(old)}
        for logged in self.decoded(new):
            key = (logged.commit_ts, logged.txn_id)
            if key in known or (disaster.void_ids[1] == logged.commit_ts):
                continue
            self.world.note(f"entry {logged.kind} {logged.commit_ts} {logged.txn_id}, unjudged")
            disaster.written[key] = logged
            if is_admins:
                disaster.by_admin.add(key)
                continue
            if logged.kind == "commit" and (attempt := self._attempt_of(logged)):
                attempt.logged_ts, attempt.txn_id = logged.commit_ts, logged.txn_id
            self._versions_in_disaster(disaster, logged)

    def _versions_in_disaster(self, disaster: Disaster, logged: Logged) -> None:
        """Let the model have what an entry means, if it stands on what the model has."""
        for table, change in zip(logged.tables, logged.changes, strict=False):
            try:
                self._version(logged, table, change)
            except (Violation, AssertionError):
                disaster.unsure.add(self._stands_under(table))

    def decoded(self, metadata: TableMetadata | None) -> list[Logged]:
        """Give the entries that stand in a version of the log."""
        broken = self.disaster.void_ids[0] if self.disaster else 0
        return [
            self._decode(snapshot)
            for snapshot in _records(metadata).values()
            if _key(snapshot, "txns.kind") != "tidy" and snapshot.snapshot_id != broken
        ]

    @staticmethod
    def upper_of(metadata: TableMetadata) -> int:
        """Give the upper that a version of the log has."""
        main = _newest_record(metadata)
        assert main is not None
        return int(_key(main, "txns.upper"))

    # ------------------------------------------------------------ the log

    def _log_changed(self, old: TableMetadata | None, new: TableMetadata) -> None:
        before, after = _records(old), _records(new)
        added = [after[one] for one in after if one not in before]
        entries = [one for one in added if _key(one, "txns.kind") != "tidy"]
        self.grouped += len(entries) > 1
        for snapshot in sorted(entries, key=lambda one: int(_key(one, "txns.commit-ts"))):
            self._entry(snapshot)
        gone = [before[one] for one in before if one not in after]
        if gone and not self.world.actor.stranger:
            self._tidied([one for one in gone if _key(one, "txns.kind") != "tidy"], added, new)
        main = _newest_record(new)
        if main is None or int(_key(main, "txns.upper")) != self.history.upper:
            raise Violation("I6", f"the head's upper is not {self.history.upper}")
        self.reserved.note(_key(main, "txns.reserve", "[]"), self.world.now_ms)

    def _entry(self, snapshot: Snapshot) -> None:
        logged = self._decode(snapshot)
        if logged.commit_ts <= self.history.upper:
            raise Violation("I1", f"{logged.commit_ts} is not above {self.history.upper}")
        if int(_key(snapshot, "txns.prev-ts")) != self.history.upper:
            raise Violation("I1", f"{logged.commit_ts} does not follow {self.history.upper}")
        self._judge_id(logged)
        self.world.note(f"entry {logged.kind} {logged.commit_ts} {logged.txn_id}")
        if self.off and logged.kind not in {"off", "on"}:
            raise Violation("off", f"{logged.kind} {logged.commit_ts} while writers are off")
        if logged.kind in {"off", "on"}:
            self.off = logged.kind == "off"
            self.on_ts = logged.commit_ts if logged.kind == "on" else self.on_ts
        if logged.kind == "commit":
            self._judge_commit(logged)
        for index, table in enumerate(logged.tables):
            self._version(logged, table, logged.changes[index] if logged.changes else None)
        self.entries[logged.commit_ts] = logged
        self.standing.add(logged.commit_ts)
        self.history.upper = logged.commit_ts

    def _judge_id(self, logged: Logged) -> None:
        """Check that an id commits once, and no try under it that was refused."""
        before = self.under.get(logged.txn_id)
        self.under[logged.txn_id] = logged
        again = any(one.repeats for one in self.history.same_txn(logged.txn_id))
        own = again or logged.txn_id.startswith(_OWN_IDS)
        if logged.kind == "abort" and (logged.tables or not own):
            raise Violation("I8", f"{logged.txn_id} is no caller's own id, or its abort writes")
        if before is None:
            return
        if before.kind != "abort":
            raise Violation("I8", f"the id {logged.txn_id} stands in the log twice")
        if logged.kind != "abort" and logged.read_ts < before.commit_ts:
            raise Violation("I8", f"{logged.txn_id} commits from before its abort")

    def _decode(self, snapshot: Snapshot) -> Logged:
        payload = _key(snapshot, "txns.payload", "")
        location = _key(snapshot, "txns.payload-location", "")
        if location:
            payload = self.registry.storage.bytes_of(location).decode()
        tables = json.loads(_key(snapshot, "txns.tables"))
        txn_id = _key(snapshot, "txns.txn-id")
        carried = iter(json.loads(payload)["table-changes"] if payload else [])
        born = any(table.get("born-applied") for table in tables)
        return Logged(
            int(_key(snapshot, "txns.commit-ts")),
            _key(snapshot, "txns.kind"),
            txn_id,
            _key(snapshot, "txns.comment", ""),
            int(_key(snapshot, "txns.read-ts")),
            tables,
            [
                self._born(table, txn_id) if table.get("born-applied") else next(carried)
                for table in (tables if payload or born else ())
            ],
        )

    def _born(self, table: dict[str, Any], txn_id: str) -> dict[str, Any]:
        """Give a change that a table's own swap has brought as a payload would have it."""
        arriving = self.registry.arriving.get(table["uuid"])
        metadata = arriving or self.registry.metadata(self._stands_under(table))
        return {
            "updates": [
                {"action": "add-snapshot", "snapshot": json.loads(each.model_dump_json())}
                for each in metadata.snapshots
                if _key(each, "txns.txn-id", "") == txn_id
            ]
        }

    def _judge_commit(self, logged: Logged) -> None:
        attempt = self._attempt_of(logged)
        if attempt is None:
            raise Violation("uncommitted", f"nobody meant to commit {logged.txn_id}")
        if attempt.txn_id and attempt.txn_id != logged.txn_id:
            raise Violation("uncommitted", f"{attempt.key} is {attempt.txn_id}: {logged.txn_id}")
        if attempt.logged_ts is not None:
            raise Violation("exactly once", f"{attempt.key} commits a second time")
        if attempt.refused:
            raise Violation("refused", f"{attempt.key} was told that it had not committed")
        named = logged.names
        if missing := attempt.changed(self.history) - named:
            raise Violation("atomicity", f"{attempt.key} does not name {sorted(missing)}")
        if more := named - attempt.tables:
            raise Violation("atomicity", f"{attempt.key} did not write {sorted(more)}")
        self.history.judge_commit(attempt, logged.commit_ts)
        if attempt.purges:
            for name in named:
                self.history.purge(name, logged.commit_ts)
            return
        attempt.logged_ts = logged.commit_ts
        attempt.txn_id = logged.txn_id

    def _attempt_of(self, logged: Logged) -> Attempt | None:
        """
        Give whose transaction it is: the actor's, or a thread's whose entry it takes along.

        Of threads that try one id at the same time the comment tells whose it is.
        """
        actor = self.world.actor
        attempts = [each.attempt for each in (actor, *actor.mates) if each.attempt is not None]
        under_it = [each for each in attempts if each.txn_id == logged.txn_id]
        by_comment = (each for each in under_it if each.key == logged.comment)
        return next(by_comment, under_it[0] if under_it else actor.attempt)

    # ------------------------------------------------------------ versions

    def _version(self, logged: Logged, table: dict[str, Any], change: Any) -> None:
        if change is None:  # a register entry: the mark made the version
            return
        name = self.stood[logged.commit_ts, table["uuid"]] = self._stands_under(table)
        before = self.history.newest(name) or Version(0)
        expected = self._expected(logged, table, before, change)
        actual = self._rows_logged(name, table["to-snapshot-id"], change)
        if name in self.history.unmarked:  # whoever marked it again took in what was there
            expected = replace(expected, rows=actual)
        if expected.exists and actual != expected.rows:
            raise Violation(
                "content",
                f"{logged.txn_id} at {logged.commit_ts} leaves {sorted(actual)} in {name},"
                f" expected {sorted(expected.rows)}",
            )
        if table["operation"] == "create":
            self.history.create(name, logged.commit_ts)
        self.history.add(name, replace(expected, ts=logged.commit_ts))

    def _stands_under(self, table: dict[str, Any]) -> Identifier:
        """Give a table's name, which a stranger may have changed since it was staged."""
        for name in self.registry.pointers:
            if str(self.registry.metadata(name).table_uuid) == table["uuid"]:
                return name
        return _name(table)

    def _expected(
        self, logged: Logged, table: dict[str, Any], before: Version, change: Any
    ) -> Version:
        actor = self.world.actor
        name = self.stood[logged.commit_ts, table["uuid"]]
        if logged.kind == "commit":
            attempt = self._attempt_of(logged)
            assert attempt is not None
            after = attempt.state(_name(table), before)
            # A stranger may put main on a snapshot inside the transaction.
            passing = frozenset().union(*(each.rows for each in attempt.operations))
            self.history.removed.setdefault(name, set()).update(passing - after.rows)
            return replace(after, cared=True)
        if logged.kind == "forget":
            return replace(before, cared=False)
        if logged.kind == "repair" and actor.repairing == "reject":
            return before
        foreign = self._adopted(change) if logged.kind == "adopt" else None
        if foreign is not None:
            return replace(before, rows=before.rows | foreign)
        rows = self._rows_logged(name, _to_snapshot(change), change)
        return replace(before, rows=rows)

    def _adopted(self, change: Any) -> Rows | None:
        """Give the rows of the foreign appends that a change takes in; None: not only appends."""
        rows: set[int] | None = None
        for update in change["updates"]:
            if update["action"] != "add-snapshot":
                continue
            ids = update["snapshot"]["summary"].get("txns.adopted", "")
            for snapshot_id in filter(None, ids.split(",")):
                added = self.checks.foreign.get(int(snapshot_id.strip()))
                if added is None:
                    return None
                rows = (rows or set()) | added
        return None if rows is None else frozenset(rows)

    def _rows_logged(self, name: Identifier, snapshot_id: int, change: Any) -> Rows:
        for update in change["updates"]:
            if update["action"] != "add-snapshot":
                continue
            if update["snapshot"]["snapshot-id"] == snapshot_id:
                return self.contents.rows_of_list(update["snapshot"]["manifest-list"])
        raise Violation("I2", f"the payload for {name} does not add {snapshot_id}")

    # ------------------------------------------------------------ tidy, files

    def _tidied(self, gone: list[Snapshot], added: list[Snapshot], new: TableMetadata) -> None:
        if not any(_key(one, "txns.kind") == "tidy" for one in added):
            raise Violation("I6", "entries left the head without a tidy")
        archived = self._archived_ts(new)
        for snapshot in gone:
            logged = self.entries.get(int(_key(snapshot, "txns.commit-ts")))
            if logged is None:
                continue  # its swap was judged to break a promise: what follows is on the way out
            if logged.commit_ts not in archived:
                raise Violation("I6", f"{logged.commit_ts} left the head and is not archived")
            self.standing.discard(logged.commit_ts)
            for table in logged.tables if logged.kind != "register" else ():
                self.checks.must_be_applied(logged, table)

    def _archived_ts(self, new: TableMetadata) -> set[int]:
        found: set[int] = set()
        for file in self.contents.files(new.current_snapshot()):
            content = io.BytesIO(self.registry.storage.bytes_of(file))
            found.update(pq.read_table(content, columns=["commit_ts"])["commit_ts"].to_pylist())
        return found

    def before_delete(self, location: str) -> None:
        """Refuse the removal of a file that a table or the log still needs."""
        if self.world.actor.stranger:
            return
        if location in self.needed() or self._is_live(location):
            raise Violation("files", f"{self.world.actor.doing} removes a file in use: {location}")

    def _is_live(self, location: str) -> bool:
        """Whether a table reads a data file."""
        return location not in self.registry.storage.files and any(
            location in self.contents.files(snapshot)
            for name in self.registry.pointers
            for snapshot in still_needed(self.registry.metadata(name))
        )

    def needed(self) -> set[str]:
        """Give what the newest state of some table stands on, or that of the log of late."""
        found: set[str] = set(self.registry.pointers.values())
        for name in self.registry.pointers:
            for snapshot in still_needed(self.registry.metadata(name)):
                found.add(snapshot.manifest_list)
                found.update(self.contents.manifest_paths(snapshot.manifest_list))
        if COMMIT_TABLE in self.registry.pointers:
            if not self.world.faults.settings.has(Switch.CLOCKS):  # ages are by them
                found |= files_of_late_heads(self.registry, self.contents, COMMIT_TABLE)
            for snapshot in _records(self.registry.metadata(COMMIT_TABLE)).values():
                self._payload_files(snapshot, found)
        return found

    def _payload_files(self, snapshot: Snapshot, found: set[str]) -> None:
        if _key(snapshot, "txns.kind") == "tidy":
            return
        found.add(_key(snapshot, "txns.payload-location", ""))
        logged = self.entries.get(int(_key(snapshot, "txns.commit-ts")))
        if logged is None:
            return  # its swap was judged to break a promise: what follows is on the way out
        for table, change in zip(logged.tables, logged.changes, strict=False):
            if self.checks.is_applied(logged, table):
                continue
            for update in change["updates"]:
                if update["action"] == "add-snapshot":
                    path = update["snapshot"]["manifest-list"]
                    found.add(path)
                    found.update(self.contents.manifest_paths(path))


def _records(metadata: TableMetadata | None) -> dict[int, Snapshot]:
    if metadata is None:
        return {}
    return {one.snapshot_id: one for one in metadata.snapshots if _key(one, "txns.kind", "")}


def _newest_record(metadata: TableMetadata) -> Snapshot | None:
    """Give the snapshot of `main`, or what stands below compactions of the archive (spec 5)."""
    at = metadata.current_snapshot()
    while at is not None and at.summary is not None and at.summary.operation.value == "replace":
        at = metadata.snapshot_by_id(at.parent_snapshot_id or -1)
    return at


def _key(snapshot: Snapshot, key: str, default: str | None = None) -> str:
    properties = snapshot.summary.additional_properties if snapshot.summary else {}
    value = properties.get(key, default)
    if value is None:
        raise Violation("entry", f"snapshot {snapshot.snapshot_id} has no {key}")
    return value


def _name(table: dict[str, Any]) -> Identifier:
    identifier = table["identifier"]
    return folded((*identifier["namespace"], identifier["name"]))


def _to_snapshot(change: Any) -> int:
    for update in change["updates"]:
        if update["action"] == "set-snapshot-ref" and update["ref-name"] == "main":
            return update["snapshot-id"]
    raise Violation("I2", f"a change does not set main: {change['identifier']}")
