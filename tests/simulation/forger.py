"""
A process that may swap the commit table, and write and delete files below its place: nothing else.

It puts into the log what it likes (`forgeries`): what is well-formed, and what nobody can read.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    SetSnapshotRefUpdate,
    update_table_metadata,
)

from tests.simulation.observer import COMMIT_TABLE
from tests.simulation.rights import Rights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    from tests.simulation.attempts import Identifier
    from tests.simulation.guard import Guard
    from tests.simulation.scheduler import Process
    from tests.simulation.worker import Lake

Json = dict[str, Any]


class Forger:
    """The commit table as a forger has loaded it, and what he makes of it."""

    def __init__(self, lake: Lake, by: Process) -> None:
        """Load the commit table, by a connection with the rights on it alone."""
        guard = lake.guard
        assert guard is not None
        self.lake, self.rng = lake, by.rng
        self.txn_id = f"forged-{by.doing}"
        self.guard: Guard = guard
        self.folder = guard.log_folder
        self.rights = Rights(frozenset({COMMIT_TABLE}), (self.folder,))
        self.catalog = self.lake.connect(self.rights)
        self.table = self.catalog.load_table(COMMIT_TABLE)
        self.log: TableMetadata = self.table.metadata
        self.upper = max(map(upper_of, self.log.snapshots), default=0)

    # ------------------------------------------------------------ what there is

    def metadata(self, name: Identifier) -> TableMetadata:
        """Give a table, of which whoever may write the log may know all."""
        return self.lake.observer.registry.metadata(name)

    def one_in_care(self) -> Identifier:
        """Give a table in the log's care."""
        pointers = self.lake.observer.registry.pointers
        return self.rng.choice([name for name in self.lake.tables if name in pointers])

    def one_of_others(self) -> Identifier:
        """Give a table that is not in the log's care."""
        return self.rng.choice([name for name, _location in self.guard.others.values()])

    def any_table(self) -> Identifier:
        """Give any."""
        return self.rng.choice((self.one_in_care, self.one_of_others))()

    def number(self) -> int:
        """Give an id for a snapshot."""
        return self.rng.randrange(1, 2**62)

    # ------------------------------------------------------------ records

    def record(
        self,
        kind: str,
        tables: Sequence[Json] = (),
        changes: Sequence[Json] | None = None,
        **keys: str,
    ) -> dict[str, str]:
        """Give a record as the protocol would write it next; `keys` are said in its place."""
        ts = self.upper + 1
        said = {
            "txns.format-version": "1",
            "txns.kind": kind,
            "txns.commit-ts": str(ts),
            "txns.prev-ts": str(self.upper),
            "txns.upper": str(ts),
            "txns.tidied-upto": str(max(map(_tidied, self.log.snapshots), default=0)),
            "txns.read-ts": str(self.upper),
            "txns.txn-id": self.txn_id,
            "txns.isolation": "snapshot",
            "txns.engine": "forger",
            "txns.tables": json.dumps(list(tables)),
        }
        if changes is not None:
            said["txns.payload"] = json.dumps({"table-changes": list(changes)})
        return said | {f"txns.{key.replace('_', '-')}": text for key, text in keys.items()}

    def element(
        self,
        name: Identifier,
        operation: str = "append",
        updates: Sequence[Json] = (),
        manifest_list: str | None = None,
        **summary: str,
    ) -> tuple[Json, Json]:
        """
        Give what stands in `txns.tables` and in the payload for a change that moves `main`.

        Args:
            name: The table.
            operation: What is said of it.
            updates: What comes before its snapshot.
            manifest_list: The snapshot's; that of `main` otherwise.
            **summary: Of its snapshot, besides.
        """
        table, main = self.metadata(name), self._stands_on(name)
        listed = table.current_snapshot()
        to = self.number()
        ts = str(self.upper + 1)
        snapshot = {
            "snapshot-id": to,
            **({"parent-snapshot-id": main} if main is not None else {}),
            "sequence-number": table.last_sequence_number + 1,
            "timestamp-ms": self.upper + 1,
            "manifest-list": manifest_list or (listed.manifest_list if listed else "memory://x"),
            "summary": {
                "operation": "append",
                "txns.commit-ts": ts,
                "txns.txn-id": self.txn_id,
                **{f"txns.{key.replace('_', '-')}": text for key, text in summary.items()},
            },
            "schema-id": table.current_schema_id,
        }
        said = self.said(name, str(table.table_uuid), operation, main, to)
        return said, {
            "identifier": said["identifier"],
            "requirements": [{"type": "assert-table-uuid", "uuid": said["uuid"]}],
            "updates": [
                *updates,
                {"action": "add-snapshot", "snapshot": snapshot},
                main_at(to),
            ],
        }

    @staticmethod
    def said(name: Identifier, uuid: str, operation: str, main: int | None, to: int | None) -> Json:
        """Give an element of `txns.tables`."""
        return {
            "identifier": {"namespace": list(name[:-1]), "name": name[-1]},
            "uuid": uuid,
            "operation": operation,
            **({"from-snapshot-id": main} if main is not None else {}),
            **({"to-snapshot-id": to} if to is not None else {}),
            "added-records": 0,
            "deleted-records": 0,
        }

    def _stands_on(self, name: Identifier) -> int | None:
        """Give the snapshot on which the next change of a table stands."""
        metadata = self.metadata(name)
        stands, newest = metadata.current_snapshot_id, 0
        for each in self.log.snapshots:
            try:
                tables = json.loads(_key(each, "txns.tables") or "[]")
                ts, payload = upper_of(each), _key(each, "txns.payload")
                for table in tables if payload or _key(each, "txns.payload-location") else ():
                    if table["uuid"] == str(metadata.table_uuid) and ts > newest:
                        stands, newest = table["to-snapshot-id"], ts
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        return stands

    # ------------------------------------------------------------ swaps

    def put(self, *records: dict[str, str], manifest_list: str = "") -> None:
        """Put records on top of the log, in one swap."""
        updates: list[TableUpdate] = []
        parent = self.log.current_snapshot()
        assert parent is not None
        at_ms = self.log.last_updated_ms
        for number, summary in enumerate(records, 1):
            said = {  # halves of pairs are in no file of metadata
                key: text.encode(errors="replace").decode()
                for key, text in summary.items()
                if key != "operation"
            }
            parent = Snapshot(
                snapshot_id=self.number(),
                parent_snapshot_id=parent.snapshot_id,
                sequence_number=self.log.last_sequence_number + number,
                timestamp_ms=at_ms + number,
                manifest_list=manifest_list or parent.manifest_list,
                summary=Summary(Operation.APPEND, **said),
                schema_id=self.log.current_schema_id,
            )
            updates.append(AddSnapshotUpdate(snapshot=parent))
        updates.append(
            SetSnapshotRefUpdate(
                ref_name=MAIN_BRANCH,
                type=SnapshotRefType.BRANCH,
                snapshot_id=parent.snapshot_id,
                min_snapshots_to_keep=2147483647,
                max_snapshot_age_ms=3153600000000,
            )
        )
        self.change(*updates)
        self.lake.forged.extend(
            each.snapshot.snapshot_id for each in updates if isinstance(each, AddSnapshotUpdate)
        )

    def change(self, *updates: TableUpdate) -> None:
        """Swap in what updates make of the commit table: by its pointer, whatever they are."""
        self.point_to(update_table_metadata(self.log, tuple(updates)))

    def point_to(self, metadata: TableMetadata) -> None:
        """Let the commit table's name point to a file of his own with some metadata."""
        location = f"{self.folder}/metadata/{self.lake.new_row()}-forged.metadata.json"
        self.write(location, metadata)
        self.point_at(location)

    def point_at(self, location: str) -> None:
        """Let the commit table's name point to a file that is there."""
        registry, expected = self.lake.observer.registry, self.table.metadata_location
        swap: Callable[[], None] = lambda: registry.swap(  # noqa: E731
            COMMIT_TABLE, expected, location
        )
        self.catalog._step("swap", ".".join(COMMIT_TABLE), swap)

    def write(self, location: str, content: bytes | TableMetadata) -> None:
        """Write a file, below the commit table's location."""
        if not self.rights.may_write(location):
            raise PermissionError(location)
        self.lake.observer.registry.storage.files[location] = content

    def payload_file(self, content: bytes, name: str = "") -> tuple[str, str]:
        """Write a payload's file; give its location and digest."""
        sha256 = hashlib.sha256(content).hexdigest()
        name = name or f"txns-payload-{self.rng.randbytes(16).hex()}-{sha256[:8]}.json"
        location = f"{self.folder}/metadata/{name}"
        self.write(location, content)
        return location, sha256


def main_at(snapshot_id: int) -> Json:
    """Give the update that moves a table's `main`."""
    return {
        "action": "set-snapshot-ref",
        "ref-name": "main",
        "type": "branch",
        "snapshot-id": snapshot_id,
        "min-snapshots-to-keep": 10,
        "max-snapshot-age-ms": 86_400_000,
    }


def _key(snapshot: Snapshot, key: str) -> str:
    return (snapshot.summary.additional_properties.get(key) or "") if snapshot.summary else ""


def _number(snapshot: Snapshot, key: str) -> int:
    stored = _key(snapshot, key)
    sane = stored.isascii() and stored.isdecimal() and len(stored) < 18
    return int(stored) if sane else 0


def upper_of(snapshot: Snapshot) -> int:
    """Give the upper in ms that a record says; 0 for one that says none, or one that ends time."""
    return _number(snapshot, "txns.upper")


def _tidied(snapshot: Snapshot) -> int:
    return _number(snapshot, "txns.tidied-upto")
