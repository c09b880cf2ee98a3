"""What somebody logs who may write the commit table: entries that no writer would make."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyiceberg.table import CommitTableRequest, Namespace, TableIdentifier
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertTableUUID,
    AssignUUIDUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)

from txns._log import payload
from txns._log.change import Change
from txns._log.change import Operation as LoggedOperation
from txns._log.entry import Entry, Kind, Payload
from txns._stage.change_builder import main_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.update import TableUpdate

    from txns import Handle

FORGED_ID = "forged"
UUID_1 = str(UUID(int=1))


def last_applicable(handle: Handle) -> Entry:
    """Give the newest entry that has to be carried over to its tables."""
    [*_, last] = (each for each in handle.parts.log.load().state.entries if each.applies)
    return last


def log_entry(handle: Handle, change: Change, stored: Payload, kind: Kind = Kind.COMMIT) -> int:
    """Log an entry of one change, whatever its payload is; give its `commit_ts`."""
    log = handle.parts.log
    head = log.load()
    ts = head.upper + 1
    entry = Entry(
        kind,
        FORGED_ID,
        upper=ts,
        tidied_upto=head.state.tidied_upto,
        commit_ts=ts,
        prev_ts=head.upper,
        read_ts=head.upper,
        changes=(change,),
        payload=stored,
    )
    log.append(head, [entry])
    return ts


def log_forged(
    handle: Handle,
    table: Table,
    updates: Sequence[TableUpdate | str],
    kind: Kind = Kind.COMMIT,
    operation: LoggedOperation = LoggedOperation.ALTER,
    *,
    number: int | None = None,
    timestamp_ms: int | None = None,
    parent: int | None = None,
    **summary: str,
) -> int:
    """
    Log a snapshot 7 on `main` of a table; give its `commit_ts`.

    Args:
        handle: Whose log it gets into.
        table: As it stands.
        updates: What else is forged; one that is a text is the snapshot's manifest list.
        kind: Of the entry.
        operation: Of the change.
        number: The snapshot's sequence number; None for the next one.
        timestamp_ms: The snapshot's; None for the `commit_ts`.
        parent: What the snapshot stands on; None for where `main` is.
        summary: More keys of the snapshot's.
    """
    ts, main = handle.parts.log.load().upper + 1, table.current_snapshot()
    assert main is not None
    lists = [each for each in updates if isinstance(each, str)]
    snapshot = main.model_copy(
        update={
            "snapshot_id": 7,
            "parent_snapshot_id": parent or main.snapshot_id,
            "sequence_number": number or (main.sequence_number or 0) + 1,
            "timestamp_ms": timestamp_ms or ts,
            "manifest_list": [*lists, main.manifest_list][0],
            "summary": _stamped(ts, **summary),
        }
    )
    request = CommitTableRequest(
        identifier=TableIdentifier(namespace=Namespace(["shop"]), name=table.name()[-1]),
        requirements=(AssertTableUUID(uuid=table.metadata.table_uuid),),
        updates=(
            *(each for each in updates if not isinstance(each, str)),
            AddSnapshotUpdate(snapshot=snapshot),
            main_at(table.metadata, 7),
        ),
    )
    change = Change(
        table=table.name(),
        uuid=str(table.metadata.table_uuid),
        operation=operation,
        from_snapshot_id=main.snapshot_id,
        to_snapshot_id=7,
        added_records=0,
        deleted_records=0,
    )
    return log_entry(handle, change, Payload(inline=payload.dump([request])), kind)


def log_creation(
    handle: Handle,
    location: str | None = None,
    manifest_list: str | None = None,
    name: str = FORGED_ID,
    uuid: str = UUID_1,
    *,
    namespace: str = "shop",
    **properties: str,
) -> int:
    """
    Log the creation that was logged last once more, as another table; give its `commit_ts`.

    Args:
        handle: Whose log it gets into.
        location: None for the same.
        manifest_list: That of its snapshot 7; None for the same.
        name: In the namespace.
        uuid: The one that the table would have; its change and its mark say `UUID_1`.
        namespace: Whether it is there or not.
        **properties: Beside those that it has.
    """
    last = last_applicable(handle)
    request, ts = handle.parts.log.requests(last)[0], handle.parts.log.load().upper + 1

    def as_forged(update: TableUpdate) -> TableUpdate:
        match update:
            case AssignUUIDUpdate():
                return AssignUUIDUpdate(uuid=UUID(uuid))
            case SetLocationUpdate() if location:
                return SetLocationUpdate(location=location)
            case SetPropertiesUpdate():
                keys = {"txns.table-uuid": UUID_1, "txns.created": str(ts)}
                own = {key: keys.get(key, value) for key, value in update.updates.items()}
                return SetPropertiesUpdate(updates={**own, **properties})
            case AddSnapshotUpdate():
                fields: dict[str, Any] = {"snapshot_id": 7, "summary": _stamped(ts)}
                if manifest_list:
                    fields["manifest_list"] = manifest_list
                return AddSnapshotUpdate(snapshot=update.snapshot.model_copy(update=fields))
            case SetSnapshotRefUpdate():
                return update.model_copy(update={"snapshot_id": 7})
        return update

    identifier = TableIdentifier(namespace=Namespace([namespace]), name=name)
    updates = tuple(map(as_forged, request.updates))
    forged = request.model_copy(update={"identifier": identifier, "updates": updates})
    change = replace(last.changes[0], table=(namespace, name), uuid=UUID_1, to_snapshot_id=7)
    return log_entry(handle, change, Payload(inline=payload.dump([forged])))


def _stamped(ts: int, **more: str) -> Summary:
    stamp = {"txns.commit-ts": str(ts), "txns.txn-id": FORGED_ID}
    return Summary(Operation.APPEND, **stamp, **more)
