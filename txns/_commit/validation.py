"""
One attempt of a commit on top of a head (docs/spec.md 11.1).

What was staged is validated, what has moved is restaged, and the entry is made, or why not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from txns._commit.adoption import StrangerMet
from txns._commit.conflict import OF_FILES, ConflictChecker
from txns._commit.file_conflicts import FileConflicts
from txns._iceberg import places
from txns._identifier import dotted_name
from txns._log import limits, permitted
from txns._log import payload as _payload
from txns._log.change import Change, Operation
from txns._log.entry import NO_PAYLOAD, THIS_ENGINE, Entry, Kind, LoggedChange
from txns._stage import added_files, change_builder, restage
from txns._stage.restage_as_one import restage_as_one
from txns._table import replay
from txns.errors import NOBODY, TOO_OLD, Conflict, InvalidUsage, TxnsError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import CommitTableRequest

    from txns._clock import Clock
    from txns._commit.born_applied import Ahead, Births
    from txns._commit.commit_request import CommitRequest
    from txns._config import Config
    from txns._identifier import Identifier
    from txns._log.commit_log import CommitLog
    from txns._log.entry import Payload
    from txns._log.head import Head
    from txns._log.state import LogState
    from txns._log.timeline import Timeline
    from txns._stage.staged_table import StagedTable
    from txns._table.allowed_places import AllowedPlaces
    from txns._table.data_tables import DataTables
    from txns._table.loaded import Loaded
    from txns.errors import Winner

_LACKS = "lacks what it was read with: a record of the log was made void"
_VOID = f"a table that it wrote {_LACKS}"


@dataclass(frozen=True)
class Validation:
    """Makes the entry of one attempt, or refuses it."""

    _config: Config
    _log: CommitLog
    _timeline: Timeline
    _tables: DataTables
    _places: AllowedPlaces
    _births: Births
    _clock: Clock

    def entry(
        self,
        request: CommitRequest,
        state: LogState,
        head: Head,
        commit_ts: int,
        ahead: Ahead | None,
    ) -> Entry:
        """
        Make the entry that follows a state.

        Args:
            request: What is to be committed.
            state: Of the head, with the entries that stand before it in the same swap.
            head: Which the swap is to replace.
            commit_ts: Its own, in ms.
            ahead: What was written for it before.

        Raises:
            Conflict: It clashes with what the state has.
            InvalidUsage: 25P04, it is too old; 42602, nobody would carry it out.
            Unsupported: A table's files stand where nobody of the protocol reads them.
            StrangerMet: Rows of strangers are to be adopted first.
        """
        self._refuse_old(request, state)
        if request.judge:
            request.judge(state)
        writes = self._validated(request, state, head)
        self._births.learn(request.writes, writes)
        self._refuse_void(request, state)
        return self._entry(request, state, head, commit_ts, writes, ahead)

    def _refuse_old(self, request: CommitRequest, state: LogState) -> None:
        age_ms = self._clock.now_ms() - request.born_ms
        max_age_ms = self._config.within(state.settings).max_age_ms
        if age_ms > max_age_ms:
            raise InvalidUsage(
                TOO_OLD,
                f"the transaction is {age_ms // 1000} s old, and may be {max_age_ms // 1000} s: it"
                " would be as old the next time, so shorten it, or raise the log's by `txns"
                " settings --max-age`, and this process's own max_age_s;"
                f" txn=`{request.key.txn_id}`",
            )

    def _refuse_void(self, request: CommitRequest, state: LogState) -> None:
        """Hold against its table what was read before it was applied, and has left the log."""
        standing = {entry.commit_ts for entry in state.entries}
        for table, uuid, newest in request.reads.left(standing):
            if not self._tables.shows(table, uuid, newest):
                raise Conflict(
                    f"a table that it read {_LACKS}, or somebody has taken the table away",
                    table=table,
                    txn_id=request.key.txn_id,
                    winner=NOBODY,
                    least_ts=state.upper,
                )

    def _validated(
        self, request: CommitRequest, state: LogState, head: Head
    ) -> dict[Identifier, StagedTable]:
        """
        Give what is to be written on top of a state: as it was staged, or restaged.

        Every attempt starts from what was staged, since the head of a lost one may have held
        entries that never landed.
        """
        writes = dict(request.writes)
        newer = self.newer(request, state, head)
        at = replace(head, state=state)
        moved: dict[Identifier, dict[str, Winner]] = {}
        changes = [(entry, change) for entry in newer for change in entry.changes]
        for entry, change in sorted(changes, key=lambda each: each[1].operation not in OF_FILES):
            moved.setdefault(change.table, {})[entry.txn_id] = entry.winner
        standing = {entry.commit_ts for entry in state.entries}
        for table, staged in request.writes.items():
            if table in moved or not staged.stands_on_unapplied <= standing:
                writes[table] = self._restaged(request, at, staged, moved.get(table, {}))
        return writes

    def newer(
        self, request: CommitRequest, state: LogState, head: Head, but: Kind | None = None
    ) -> list[Entry]:
        """
        Give the entries above what a transaction has read: none of them clashes with it.

        Args:
            request: What is to be committed.
            state: What it is held against.
            head: Which holds that, or did before a lock was taken.
            but: Entries that are left to a later check.

        Raises:
            Conflict: One does.
        """
        newer = self._timeline.above(state, request.read_ts)
        others = frozenset(entry.txn_id for entry in newer)
        standing = partial(self._table_at, replace(head, state=state))
        files = FileConflicts(request.reads, others, standing, request.met)
        checker = ConflictChecker(
            request.key.txn_id,
            request.isolation,
            request.reads,
            request.writes,
            files if request.by_file else None,
        )
        checker.validate([entry for entry in newer if entry.kind is not but])
        return newer

    def _restaged(
        self,
        request: CommitRequest,
        head: Head,
        staged: StagedTable,
        winners: Mapping[str, Winner],
    ) -> StagedTable:
        """
        Make again on a head's state of its table what was staged, where that can be.

        Args:
            request: What is to be committed.
            head: Which the swap is to replace.
            staged: What was staged.
            winners: Who has written the table since, by their ids, in order, who has altered it
                last; none where a record was made void.
        """
        winner = [NOBODY, *winners.values()][-1]
        table, txn_id = staged.identifier, request.key.txn_id
        try:
            loaded = self._standing(staged, head)
        except NoSuchTableError:
            raise Conflict(
                "a table that it appended to was dropped" if winner.txn_id else _VOID,
                table=table,
                txn_id=txn_id,
                winner=winner,
                least_ts=head.upper,
            ) from None
        newer = loaded.metadata
        if newer.current_snapshot_id == staged.base.current_snapshot_id:
            return staged
        # What it adopts may have been adopted since, or stand on a branch of its own now.
        appends = staged.append_only and request.kind is not Kind.ADOPT
        by_file = request.by_file and winner.txn_id and staged.changes_only_files
        if not (appends or by_file):
            raise Conflict(
                "a table that it wrote was written" if winner.txn_id else _VOID,
                table=table,
                txn_id=txn_id,
                winner=winner,
                least_ts=head.upper,
            )
        self._places.refuse_to_write(loaded)
        again = (
            partial(restage.restage, staged, newer, self._clock)
            if appends
            else partial(restage_as_one, staged, newer, self._clock, winners=winners)
        )
        added_files.refuse_again(
            staged,
            newer,
            request.reads.without.get(table, set()),
            txn_id=txn_id,
            winner=winner,
            winners=winners,
            least_ts=head.upper,
        )
        restaged = again(txn_id=txn_id, winner=winner, least_ts=head.upper)
        request.leftovers.restaged(restaged)
        return restaged

    def _standing(self, staged: StagedTable, head: Head) -> Loaded:
        """Give a table as a head has it; under a lock with what the swap makes of it so far."""
        table = staged.identifier
        load = self._dropped_at if staged.recreates else self._table_at
        loaded = load(head, table)
        if loaded.metadata.table_uuid != staged.base.table_uuid:  # somebody has taken its name
            raise NoSuchTableError(f"Table does not exist: {dotted_name(table)}")
        return loaded

    def _table_at(self, head: Head, table: Identifier) -> Loaded:
        if head.rows and head.rows.has(table):
            return self._tables.live(table, head.rows.load_table(table), head)
        return self._tables.load(table, head, head.upper)

    def _dropped_at(self, head: Head, table: Identifier) -> Loaded:
        """Give a table that the log has dropped, whether that is applied to it or not."""
        if head.rows and head.rows.has(table):
            return self._tables.seen(table, head.rows.load_table(table), head)
        return self._tables.load_with_dropped(table, head, head.upper)

    def _entry(
        self,
        request: CommitRequest,
        state: LogState,
        head: Head,
        commit_ts: int,
        writes: Mapping[Identifier, StagedTable],
        ahead: Ahead | None,
    ) -> Entry:
        changes: list[Change] = []
        requests: list[CommitTableRequest] = []
        txn_id = request.key.txn_id
        limits.check_tables(len(writes))
        now = replace(head, state=state)
        for staged in writes.values():
            known = ahead.change_of(staged, commit_ts) if ahead else None
            change, carried = known or change_builder.build(
                staged, txn_id, commit_ts, request.marks
            )
            entry = Entry(request.kind, txn_id, commit_ts, 0, commit_ts)
            logged = LoggedChange(entry, change)
            self._check_permitted(staged, logged, carried)
            self._check_fits(staged, change, carried, commit_ts, request)
            if self._is_born(request, now, logged, carried, ahead):
                changes.append(replace(change, born_applied=True))
                continue
            changes.append(change)
            requests.append(carried)
        payload = self._stored(request, requests, head)
        return Entry(
            kind=request.kind,
            txn_id=txn_id,
            upper=commit_ts,
            tidied_upto=state.tidied_upto,
            commit_ts=commit_ts,
            prev_ts=state.upper,
            read_ts=request.read_ts,
            isolation=request.isolation,
            engine=THIS_ENGINE,
            comment=request.comment,
            changes=tuple(changes),
            payload=payload,
        )

    def _is_born(
        self,
        request: CommitRequest,
        head: Head,
        logged: LoggedChange,
        carried: CommitTableRequest,
        ahead: Ahead | None,
    ) -> bool:
        """Whether the swap of the entry itself is to move a table: its row says so from then on."""
        if head.rows is None or logged.entry.kind is not Kind.COMMIT:
            return False
        try:
            return self._births.bear(head.rows, head, logged, carried, ahead)
        except StrangerMet:
            if request.adopts and request.key.attempts.adopts:
                raise
            return False  # who applies it keeps what they have, for an adoption after it

    def _stored(
        self, request: CommitRequest, requests: list[CommitTableRequest], head: Head
    ) -> Payload:
        if not requests:
            return NO_PAYLOAD
        text, now_ms = _payload.dump(requests), self._clock.now_ms()
        limits.check_payload(text)
        return request.leftovers.store(self._log, head, request.key.txn_id, text, now_ms)

    def _check_permitted(
        self, staged: StagedTable, logged: LoggedChange, carried: CommitTableRequest
    ) -> None:
        """Keep out of the log what nobody would carry out."""
        name = dotted_name(staged.identifier)
        if why := permitted.forbidden(logged, carried, self._log.identifier):
            raise InvalidUsage(
                "42602",
                "no transaction does such a thing: what begins with txns. or txns- is the"
                " protocol's own, leave it out, or give it another name; a property by which"
                " libraries load code or reach storage is set with the catalog itself, past the"
                " protocol; one that they parse has a value that they can parse;"
                f" update=`{why}` table=`{name}`",
            )
        base = None if staged.create else staged.base
        for path in places.misplaced_files(base, carried.updates):
            raise Unsupported(
                "the table's manifest lists, or statistics, do not lie below its metadata location,"
                " the only place where transactions read them: set write.metadata.path in place of"
                f" a location provider; file=`{path}` table=`{name}`"
            )
        if logged.change.operation is Operation.APPEND:
            return  # a snapshot, and main
        try:
            _payload.check_readable(carried)
        except ValueError as error:
            raise Unsupported(
                "no other reader would take such a change, leave it out; nothing was committed;"
                f" table=`{name}`: {error}"
            ) from error

    def _check_fits(
        self,
        staged: StagedTable,
        change: Change,
        carried: CommitTableRequest,
        commit_ts: int,
        request: CommitRequest,
    ) -> None:
        """Keep out of the log what does not fit its own base: it would quarantine the table."""
        if change.operation is Operation.APPEND:
            return  # snapshots and main only, laid over this very base when they were staged
        probe = Entry(Kind.COMMIT, request.key.txn_id, commit_ts, 0, commit_ts)
        logged = LoggedChange(probe, change)
        now_ms = self._clock.now_ms()
        try:
            if staged.create:
                replay.create(logged, carried, now_ms)
            else:
                replay.replay(staged.base, logged, carried, now_ms, replay.renumber_in_memory)
        except (TxnsError, ValueError) as error:
            raise Conflict(
                f"its change does not fit the table: {error}",
                table=dotted_name(staged.identifier),
                txn_id=request.key.txn_id,
                least_ts=commit_ts,
            ) from error
