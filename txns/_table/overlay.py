"""
Table metadata plus logged changes: what readers see before apply, and what apply commits.

Docs/spec.md 8.1 to 8.3, 9.1 and 11.2. One function serves both, so that a reader sees
what will be there. Pure: who commits passes a `Renumber` that writes files.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType

from txns._iceberg import earlier_schema
from txns._iceberg.snapshots import History, main_of
from txns._identifier import dotted_name
from txns._log.entry import Kind
from txns._table import mark as _mark
from txns._table.logged_state import (
    LoggedHistory,
    Stranger,
    effective_ts,
    logged_state,
)
from txns._table.reconcile import adopted_by, altered, for_reader
from txns._table.replay import Requests, renumber_in_memory, replay
from txns.errors import Conflict, CorruptLog, Quarantined

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from txns._identifier import Identifier
    from txns._log.change import Change
    from txns._log.entry import LoggedChange


@dataclass(frozen=True, slots=True)
class TableView:
    """
    A data table as of a timestamp.

    Attributes:
        metadata: In memory only.
        read_ts: In ms.
        stranger: What strangers did to the table that the view leaves out.
    """

    metadata: TableMetadata
    read_ts: int
    stranger: Stranger | None = None

    @property
    def dropped(self) -> bool:
        """Whether the table does not exist at `read_ts`."""
        return _mark.is_dropped(main_of(self.metadata))


def as_of(
    table: Identifier,
    loaded: TableMetadata,
    mark: _mark.TableMark,
    run: list[LoggedChange],
    requests: Requests,
    *,
    read_ts: int,
    now_ms: int,
) -> TableView:
    """
    Give the metadata of a registered data table as of `read_ts`.

    Args:
        table: Its identifier, for messages.
        loaded: Its metadata, loaded after the head that `run` is from.
        mark: Its mark.
        run: What was logged and is not applied to it, up to `read_ts`, ascending.
        requests: The request of a logged change.
        read_ts: In ms.
        now_ms: The wall clock's time in ms.

    Raises:
        Conflict: `read_ts` lies before all that is left of the table ("too old").
        Quarantined: The logged state cannot be rebuilt.
    """
    logged = logged_state(loaded, mark, run)
    if mark.created > read_ts:
        raise too_old(table, mark.created, read_ts, "the table was created later")
    if logged.snapshot is None and not run:
        raise Quarantined(
            table,
            "the logged state of the table has been expired",
            "nobody can bring it back: unset the table's property txns.commit-table outside the"
            " protocol, which keeps it as the catalog has it, then register it",
        )
    if mark.applied <= read_ts:
        view = _with_main(loaded, logged.snapshot)
    else:
        view = _earlier(table, loaded, mark, logged.snapshot, read_ts)
    check_chain(table, run)
    stranger = logged.stranger
    misfit = ""
    for change in run:
        request = requests(change)
        view, reason = for_reader(view, change, request)
        misfit = misfit or reason
        view = replay(view, change, request, now_ms, renumber_in_memory)
        # It is ended when it is applied.
        if change.entry.kind is Kind.REPAIR:
            stranger, misfit = None, ""
        elif change.entry.kind is Kind.ADOPT and stranger:
            stranger = stranger.without(adopted_by(request))
    return TableView(view, read_ts, altered(loaded, stranger, misfit) if misfit else stranger)


def before_forget(
    table: Identifier, loaded: TableMetadata, forget: Change, read_ts: int
) -> TableView:
    """
    Give a table that has left care as of a `read_ts` in ms at which it was under care.

    Args:
        table: Its identifier, for messages.
        loaded: Its metadata; strangers may have written it since.
        forget: The change that took it from care.
        read_ts: Below the forget's `commit_ts`.

    Raises:
        Conflict: What it was has been expired ("too old").
    """
    mark = _mark.TableMark("", "", 0, _mark.applied_ts(loaded))
    history = History(loaded)
    logged = history.get(forget.to_snapshot_id) or history.get(forget.from_snapshot_id)
    return TableView(_earlier(table, loaded, mark, logged, read_ts), read_ts)


def check_chain(table: Identifier, run: list[LoggedChange]) -> None:
    """
    Check invariant I3: unapplied changes of one table are a chain.

    Raises:
        CorruptLog: Naming the change that stands on another snapshot.
    """
    for before, after in pairwise(run):
        if before.change.to_snapshot_id != after.change.from_snapshot_id:
            raise CorruptLog(
                f"invariant I3 does not hold: the change at {after.commit_ts} stands on snapshot"
                f" {after.change.from_snapshot_id}, not on {before.change.to_snapshot_id};"
                f" table=`{dotted_name(table)}`"
            )


def too_old(table: Identifier, least_ts: int, read_ts: int, reason: str) -> Conflict:
    """Describe a read before all that is left of a table (I11)."""
    return Conflict(
        f"the table cannot be read at {read_ts}: {reason}",
        table=table,
        least_ts=least_ts,
        what="too old, read at a newer timestamp",
    )


def refuse_given_up(table: Identifier, adopting: Snapshot, read_ts: int) -> None:
    """
    Refuse to read what an adoption of ours has given up, of a table that was set back.

    Args:
        table: Its identifier, for messages.
        adopting: A snapshot of ours, above `read_ts`; of any kind.
        read_ts: In ms.

    Raises:
        Conflict: "Too old": what was acknowledged at `read_ts` is in no snapshot of the table.
    """
    above = _mark.lost_above(adopting)
    if above is not None and read_ts > above:
        reason = f"it was set back to {above}, and what it lacked above that was given up"
        raise too_old(table, _mark.commit_ts_of(adopting), read_ts, reason)


def _earlier(
    table: Identifier,
    loaded: TableMetadata,
    mark: _mark.TableMark,
    logged: Snapshot | None,
    read_ts: int,
) -> TableMetadata:
    """Put main where it was at `read_ts`, with the schema of that time."""
    history = LoggedHistory(loaded)
    for at in history.ancestors(logged):
        if effective_ts(history, mark, at) <= read_ts:
            view = _with_main(loaded, at)
            known = {schema.schema_id for schema in loaded.schemas}
            if at.schema_id not in known or at.schema_id == view.current_schema_id:
                return view
            return earlier_schema.with_schema(view, at.schema_id)
        refuse_given_up(table, at, read_ts)
    raise too_old(table, mark.applied, read_ts, "its older snapshots have been expired")


def _with_main(metadata: TableMetadata, snapshot: Snapshot | None) -> TableMetadata:
    """Put main on a snapshot that the table has."""
    if snapshot is None or metadata.current_snapshot_id == snapshot.snapshot_id:
        return metadata
    here = {"snapshot_id": snapshot.snapshot_id}
    main = metadata.refs.get(MAIN_BRANCH) or SnapshotRef(
        **here, snapshot_ref_type=SnapshotRefType.BRANCH
    )
    refs = {**metadata.refs, MAIN_BRANCH: main.model_copy(update=here)}
    log = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= snapshot.timestamp_ms]
    return metadata.model_copy(
        update={"current_snapshot_id": snapshot.snapshot_id, "refs": refs, "snapshot_log": log}
    )
