"""
Ends what strangers did to a table: takes it in, or puts the logged state back.

Docs/spec.md 9.3 and 9.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.update import RemoveSnapshotRefUpdate

from txns._commit.adoption import open_branch, taken_in
from txns._identifier import dotted_name
from txns._log.entry import Kind
from txns._log.swap import is_refusal
from txns._stage import change_builder
from txns._stage.staged_table import StagedTable
from txns._table import mark as _mark
from txns._table.logged_state import logged_state
from txns._table.swap import swap
from txns.errors import Conflict, Unsupported, transactions_off

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from txns._commit.commit_request import CommitRequest
    from txns._identifier import Identifier
    from txns._log.head import Head
    from txns._services import Parts
    from txns._table.loaded import Loaded
    from txns._table.logged_state import Stranger


class Repairer:
    """Ends quarantines and foreign writes of one catalog's tables."""

    def __init__(self, parts: Parts) -> None:
        self._catalog = parts.catalog
        self._adoption = parts.adoption
        self._tables = parts.tables
        self._committer = parts.committer
        self._clock = parts.clock

    def adopt(self, identifier: Identifier) -> int:
        """
        Make what strangers wrote an entry of its own, after which readers see it.

        Raises:
            Unsupported: There is nothing to adopt, or it does not fit on what was logged since.
            Quarantined: No repair ends what was done to the table.
        """
        head, loaded = self._adoption.newest(identifier)
        set_back = loaded.stranger is not None and loaded.stranger.lost is not None
        if loaded.dropped and not set_back:  # of one that was set back there is nothing to reject
            raise Unsupported(
                "the log has dropped the table, so nothing is adopted into it: reject what was"
                f" written, which keeps it on a branch; table=`{dotted_name(identifier)}`"
            )
        kept = open_branch(loaded)
        stranger = kept.stranger if kept else _stranger(loaded)
        staged = self._adoption.marked_again(loaded)
        if kept:
            staged.stage((RemoveSnapshotRefUpdate(ref_name=kept.name),))
        if not stranger.adoptable:
            return self._adopt_state(head, loaded, stranger)
        return self._commit(self._adoption.of_append(loaded, staged, stranger))

    def reject(self, identifier: Identifier) -> int:
        """Put the logged state back on main; what strangers wrote stays on a branch."""
        _, loaded = self._adoption.newest(identifier)
        stranger = _stranger(loaded)
        if stranger.lost:
            raise Unsupported(
                "what the log has is in no snapshot of the table: register its newest metadata in"
                " the catalog again, or adopt, which takes the table as it stands;"
                f" table=`{dotted_name(identifier)}`"
            )
        staged = self._adoption.marked_again(loaded)
        if staged.dropped:
            change_builder.stage_drop(staged, self._clock)  # a copy of the marker would not be one
        return self._commit(
            self._adoption.request(Kind.REPAIR, "reject", loaded, staged, stranger, {})
        )

    def _adopt_state(self, head: Head, loaded: Loaded, stranger: Stranger) -> int:
        """
        Take the strangers' state as it is, under a snapshot of ours with a list of its own.

        It stands on a footing: what the catalog itself has, whatever a replica of it gave. A table
        that was set back to where it was dropped is dropped, under one more marker.

        Raises:
            Unsupported: Changes are logged that their state does not have; transactions are off; or
                somebody wrote on a marker.
            Conflict: The table is another one meanwhile.
        """
        if head.state.off:
            raise transactions_off()  # before the table has a footing
        _refuse_outstanding(head, loaded, stranger)
        stands_dropped = stranger.lost is not None and _stands_dropped(loaded)
        loaded = self._on_footing(head, loaded, stranger)
        stranger = _stranger(loaded)
        staged = self._adoption.marked_again(loaded)
        assert loaded.table is not None
        source = loaded.table.metadata.current_snapshot()
        parent = staged.current.current_snapshot()
        if stands_dropped:
            change_builder.stage_drop(staged, self._clock)
        else:
            change_builder.stage_copy(staged, self._clock, source=source, parent=parent)
        marks = taken_in(stranger)
        return self._commit(
            self._adoption.request(Kind.REPAIR, "adopt", loaded, staged, stranger, marks)
        )

    def _on_footing(self, head: Head, loaded: Loaded, judged: Stranger) -> Loaded:
        """Give a table on its footing, which is still what somebody wants to adopt."""
        assert loaded.table is not None
        table = self._with_footing(loaded.identifier, loaded.table, head)
        again = self._tables.seen(loaded.identifier, table, head)
        stranger = again.stranger
        same = _mark.applied_ts(table.metadata) == _mark.applied_ts(loaded.table.metadata)
        kept = stranger and not stranger.adoptable and bool(stranger.lost) == bool(judged.lost)
        if not (same and kept):
            raise _other_state(loaded.identifier, head)
        return again

    def _with_footing(self, identifier: Identifier, table: Table, head: Head) -> Table:
        """
        Put a copy of `main` on it, which the catalog does only if that is where it has `main`.

        Whatever the answer is, unless it is won, another load decides: who sees the footing there
        knows that the table was as it was judged.

        Raises:
            Conflict: It is not known to be there.
            Exception: Nor is it, and the catalog has refused it.
        """
        main = table.metadata.current_snapshot_id
        staged = StagedTable(identifier, table.io, table.metadata)
        footing, here, updates = change_builder.put_footing(staged, self._clock)
        try:
            return swap(self._catalog, table, here, updates, self._clock)
        except Exception as error:
            newest = self._catalog.load_table(identifier)
            if newest.metadata.current_snapshot_id == footing:
                return newest
            if is_refusal(error) and newest.metadata.current_snapshot_id == main:
                raise
            raise _other_state(identifier, head) from error

    def _commit(self, request: CommitRequest) -> int:
        entry = self._committer.commit_once(request)
        self._committer.apply(entry)
        return entry.commit_ts


def _stranger(loaded: Loaded) -> Stranger:
    if not loaded.registered:
        name = dotted_name(loaded.identifier)
        raise Unsupported(
            "there is nothing to repair, since the table is not under care: `txns register"
            f" {name}` takes it as it stands; table=`{name}`"
        )
    if loaded.stranger is None:
        raise Unsupported(
            "there is nothing to repair: nobody wrote the table outside the protocol;"
            f" table=`{dotted_name(loaded.identifier)}`"
        )
    return loaded.stranger


def _stands_dropped(loaded: Loaded) -> bool:
    """
    Whether a table was set back to where the log had dropped it: nothing is adopted into it.

    Raises:
        Unsupported: Somebody wrote on the marker, which a purge would take for the log's.
    """
    assert loaded.table is not None
    metadata = loaded.table.metadata
    mark = _mark.mark_of(metadata) or _mark.TableMark("", "", 0, _mark.applied_ts(metadata))
    stands = logged_state(metadata, mark)
    if not _mark.is_dropped(stands.snapshot):
        return False
    if stands.stranger is not None:
        assert stands.snapshot is not None
        raise Unsupported(
            "the table was set back to where the log had dropped it, and somebody wrote it since:"
            " put `main` back on that snapshot with plain Iceberg, keeping what was written on a"
            " branch, and adopt again, which leaves it dropped;"
            f" snapshot=`{stands.snapshot.snapshot_id}` table=`{dotted_name(loaded.identifier)}`"
        )
    return True


def _refuse_outstanding(head: Head, loaded: Loaded, stranger: Stranger) -> None:
    """Refuse a state that lacks what is logged since, unless the table was set back: that ends."""
    uuid = str(loaded.metadata.table_uuid)
    changes = head.state.changes(uuid, after=loaded.applied_ts, upto=head.upper)
    if changes and not stranger.lost:
        raise Unsupported(
            "other transactions have committed to the table since: reject what was written,"
            " and put what is on the branch back by hand;"
            f" table=`{dotted_name(loaded.identifier)}`"
        )


def _other_state(identifier: Identifier, head: Head) -> Conflict:
    return Conflict(
        "the catalog has another state of the table than it gave, by a replica that lags or since"
        " somebody has changed it: nothing is adopted, look at the table again",
        table=identifier,
        least_ts=head.upper,
    )
