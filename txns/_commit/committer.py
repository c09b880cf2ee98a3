"""
The phases of a commit in their order: apply what is outstanding, swap, apply, tidy.

Docs/spec.md 11.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from txns._commit.conflict import ConflictChecker
from txns._commit.leftovers import Leftovers
from txns._iceberg import places
from txns._identifier import dotted_name
from txns._log import limits, permitted
from txns._log import payload as _payload
from txns._log.entry import (
    NO_PAYLOAD,
    THIS_ENGINE,
    Change,
    Entry,
    Isolation,
    Kind,
    LoggedChange,
    Operation,
)
from txns._logger import about, logger
from txns._metrics import Count, Metrics, Phase
from txns._stage import change_builder, kept_tags, restage
from txns._stage.read_set import ReadSet
from txns._table import replay
from txns.errors import (
    NOBODY,
    TOO_OLD,
    CommitStateUnknown,
    Conflict,
    InvalidUsage,
    TxnsError,
    Unsupported,
    is_final,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import CommitTableRequest

    from txns._clock import Clock
    from txns._commit.apply import Applier
    from txns._commit.born_applied import Ahead, Births
    from txns._commit.group import Attempt, Key
    from txns._commit.group_commit import CommitLoop
    from txns._commit.tidy import Tidier
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

_LOG = logger(__name__)

_VOID = "a table that it wrote lacks what it was read with: a record of the log was made void"


@dataclass(frozen=True)
class Request:
    """
    What is to be committed.

    Attributes:
        kind: Of the entry.
        key: The idempotence key.
        read_ts: What everything was read at, in ms.
        born_ms: When it began, in ms of the wall clock.
        writes: What was staged, by table; at least one.
        isolation: What is validated.
        reads: What was read.
        comment: The user's words.
        marks: Summary keys for the data tables' snapshots.
        judge: Raises what forbids it as of a state that it is validated against.
        leftovers: Of its attempts; whoever may commit again hands them on.
    """

    kind: Kind
    key: Key
    read_ts: int
    born_ms: int
    writes: Mapping[Identifier, StagedTable]
    isolation: Isolation = Isolation.SNAPSHOT
    reads: ReadSet = field(default_factory=ReadSet)
    comment: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)
    judge: Callable[[LogState], object] | None = None
    leftovers: Leftovers = field(default_factory=Leftovers)


class Committer:
    """Commits what was staged, and carries it over to its tables."""

    def __init__(
        self,
        catalog: Catalog,
        config: Config,
        log: CommitLog,
        loop: CommitLoop,
        timeline: Timeline,
        tables: DataTables,
        places: AllowedPlaces,
        applier: Applier,
        births: Births,
        tidier: Tidier,
        clock: Clock,
    ) -> None:
        self._catalog = catalog
        self._config = config
        self._log = log
        self._loop = loop
        self._timeline = timeline
        self._tables = tables
        self._places = places
        self._applier = applier
        self._births = births
        self._tidier = tidier
        self._clock = clock
        self.metrics = Metrics(clock)

    def commit(self, request: Request) -> Entry:
        """
        Append the entry: the moment of durability. Nothing is applied yet.

        Raises:
            Conflict: Definitely not committed; under the caller's own id neither by a try that
                began before.
            CommitStateUnknown: Nothing that was written is deleted.
            InvalidUsage: The wanted `commit_ts` does not work, what was staged stays; or 25P04, it
                is too old.
            Quarantined: A table that it overwrites has changes that cannot be applied.
            Exception: Of the catalog or the storage, which is no outcome: what was staged stays.
        """
        with about(txn=request.key.txn_id):
            return self._counted(request) if request.kind is Kind.COMMIT else self._commit(request)

    def _counted(self, request: Request) -> Entry:
        self.metrics.took(Phase.STAGE, self._clock.now_ms() - request.born_ms)
        try:
            entry = self._commit(request)
        except Conflict as conflict:
            self.metrics.count(Count.CONFLICTED)
            _LOG.info("not committed: %s", conflict)
            raise
        except CommitStateUnknown:
            self.metrics.count(Count.UNKNOWN)
            _LOG.warning("nobody knows yet whether it has committed", exc_info=True)
            raise
        self.metrics.count(Count.COMMITTED)
        _LOG.debug("committed at %d", entry.commit_ts)
        return entry

    def _commit(self, request: Request) -> Entry:
        refusal = self._prepare(request)
        leftovers = request.leftovers
        ahead = None
        if request.kind is Kind.COMMIT and refusal is None:
            ahead = self._births.ahead(request.key, request.writes, request.marks)

        def attempt(state: LogState, head: Head, commit_ts: int) -> Entry:
            if refusal is not None:
                raise refusal
            self._refuse_old(request, state)
            if request.judge:
                request.judge(state)
            writes = self._validated(request, state, head, leftovers)
            return self._entry(request, state, head, commit_ts, writes, leftovers, ahead)

        try:
            tables = request.writes if request.kind is Kind.COMMIT else ()
            entry = self._append(request.key, attempt, tables, ahead.commit_ts if ahead else 0)
        except TxnsError as error:
            if is_final(error):
                leftovers.remove(self._log, None)
            raise
        finally:
            if ahead:
                ahead.end()
        ours = leftovers.made(entry, request.writes.values())
        leftovers.remove(self._log, entry)
        if ours:
            self._applier.lists.wrote(entry)
        else:
            _delete_staged(request)
        return entry

    def _append(
        self, key: Key, attempt: Attempt, tables: Iterable[Identifier], proposed_ts: int
    ) -> Entry:
        """Append an entry; note how long its attempts took, and what validated them."""
        spent_ms: list[int] = []

        def measured(state: LogState, head: Head, commit_ts: int) -> Entry:
            began_ms = self._clock.now_ms()
            with about(txn=key.txn_id, phase=Phase.VALIDATE):  # it may be another's thread
                try:
                    return attempt(state, head, commit_ts)
                finally:
                    spent_ms.append(self._clock.now_ms() - began_ms)
                    self.metrics.took(Phase.VALIDATE, spent_ms[-1])

        began_ms = self._clock.now_ms()
        try:
            with about(phase=Phase.SWAP):
                return self._loop.append(key, measured, tables, proposed_ts)
        finally:
            took_ms = self._clock.now_ms() - began_ms - sum(spent_ms)
            self.metrics.took(Phase.SWAP, took_ms)
            self.metrics.count(Count.RETRIED, max(0, len(spent_ms) - 1))

    def commit_once(self, request: Request) -> Entry:
        """
        Commit what nobody commits again: what was written for it goes unless it may land.

        Raises:
            Exception: See `commit`.
        """
        if request.kind is Kind.COMMIT:
            self.metrics.count(Count.STARTED)
        try:
            return self.commit(request)
        except CommitStateUnknown:
            raise
        except Exception:
            if request.key.attempts.stood_on is None:
                with about(txn=request.key.txn_id):
                    request.leftovers.remove(self._log, None)
                    _delete_staged(request)
            raise

    def _prepare(self, request: Request) -> TxnsError | None:
        """
        Complete what was staged.

        Give what refuses it, which is the loop's to tell: earlier attempts and tries may land.
        """
        try:
            self._apply_outstanding(request)
            for staged in request.writes.values():
                kept_tags.protect(
                    self._catalog,
                    self._clock,
                    staged,
                    read_ts=request.read_ts,
                    txn_id=request.key.txn_id,
                )
                change_builder.complete(staged, self._clock)
        except TxnsError as refusal:
            if not is_final(refusal):
                raise
            return refusal
        return None

    def apply(self, entry: Entry) -> bool:
        """
        Apply a committed entry, then tidy when it is due, whatever is left of this one.

        Returns:
            Whether it is applied everywhere. It has committed whatever happens here.
        """
        with about(txn=entry.txn_id):
            try:
                return self._applied(entry)
            except Exception:  # noqa: BLE001 -- it has committed, whatever happens here
                _LOG.warning("committed, but not applied: the next writer does", exc_info=True)
                return False

    def _applied(self, entry: Entry) -> bool:
        head, left = self._log.newest, []
        if entry.carried:
            head = self._log.load()
            with self.metrics.phase(Phase.APPLY):
                left = self._applier.apply_all(head, map(head.state.name_of, entry.carried))
        began_ms = self._clock.now_ms()
        if self._tidier.tidy_when_due(head):
            self.metrics.took(Phase.TIDY, self._clock.now_ms() - began_ms)
        return not left

    def leave(self) -> None:
        """Leave applying to the next writer; tidy what others have applied when it is due."""
        self._tidier.tidy_when_due(self._log.newest)

    def _apply_outstanding(self, request: Request) -> None:
        """Apply what stands before an overwrite: it names files that expiry may take."""
        overwrites = [
            write
            for write in request.writes.values()
            if request.kind is Kind.COMMIT and not write.append_only and not write.create
        ]
        if not overwrites:
            return
        head = self._log.load_if_exists()
        for write in overwrites:
            uuid = str(write.base.table_uuid)
            if head.state.changes(uuid, after=write.applied_ts, upto=head.upper):
                self._applier.apply_run(head, write.identifier)

    def _refuse_old(self, request: Request, state: LogState) -> None:
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

    def _validated(
        self, request: Request, state: LogState, head: Head, leftovers: Leftovers
    ) -> dict[Identifier, StagedTable]:
        """
        Give what is to be written on top of a state: as it was staged, or restaged.

        Every attempt starts from what was staged, since the head of a lost one may have held
        entries that never landed.
        """
        writes = dict(request.writes)
        newer = self._timeline.above(state, request.read_ts)
        checker = ConflictChecker(request.key.txn_id, request.isolation, request.reads, writes)
        checker.validate(newer)
        moved = {change.table: entry.winner for entry in newer for change in entry.changes}
        standing = {entry.commit_ts for entry in state.entries}
        at = replace(head, state=state)
        for table, staged in request.writes.items():
            if table in moved or not staged.stands_on_unapplied <= standing:
                winner = moved.get(table, NOBODY)
                writes[table] = self._restaged(request, at, staged, winner, leftovers)
        return writes

    def _restaged(
        self,
        request: Request,
        head: Head,
        staged: StagedTable,
        winner: Winner,
        leftovers: Leftovers,
    ) -> StagedTable:
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
        if not staged.append_only or request.kind is Kind.ADOPT:
            raise Conflict(
                "a table that it wrote was written" if winner.txn_id else _VOID,
                table=table,
                txn_id=txn_id,
                winner=winner,
                least_ts=head.upper,
            )
        self._places.refuse_to_write(loaded)
        restaged = restage.restage(
            staged,
            newer,
            self._clock,
            txn_id=txn_id,
            winner=winner,
            least_ts=head.upper,
        )
        leftovers.restaged(restaged)
        return restaged

    def _standing(self, staged: StagedTable, head: Head) -> Loaded:
        """Give a table as a head has it; under a lock with what the swap makes of it so far."""
        table = staged.identifier
        if head.rows and head.rows.has(table):
            loaded = self._tables.live(table, head.rows.load_table(table), head)
        else:
            loaded = self._tables.load(table, head, head.upper)
        if loaded.metadata.table_uuid != staged.base.table_uuid:  # somebody has taken its name
            raise NoSuchTableError(f"Table does not exist: {dotted_name(table)}")
        return loaded

    def _entry(
        self,
        request: Request,
        state: LogState,
        head: Head,
        commit_ts: int,
        writes: Mapping[Identifier, StagedTable],
        leftovers: Leftovers,
        ahead: Ahead | None,
    ) -> Entry:
        changes: list[Change] = []
        requests: list[CommitTableRequest] = []
        txn_id = request.key.txn_id
        limits.check_tables(len(writes))
        for staged in writes.values():
            change, carried = change_builder.build(staged, txn_id, commit_ts, request.marks)
            self._check_permitted(staged, change, carried, commit_ts, request)
            self._check_fits(staged, change, carried, commit_ts, request)
            now = replace(head, state=state)
            if self._is_born(request, now, commit_ts, change, carried, ahead):
                changes.append(replace(change, born_applied=True))
                continue
            changes.append(change)
            requests.append(carried)
        payload = self._stored(requests, head, txn_id, leftovers)
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
        request: Request,
        head: Head,
        commit_ts: int,
        change: Change,
        carried: CommitTableRequest,
        ahead: Ahead | None,
    ) -> bool:
        """Whether the swap of the entry itself is to move a table: its row says so from then on."""
        if head.rows is None or request.kind is not Kind.COMMIT:
            return False
        entry = Entry(Kind.COMMIT, request.key.txn_id, commit_ts, 0, commit_ts)
        return self._births.bear(head.rows, head, LoggedChange(entry, change), carried, ahead)

    def _stored(
        self,
        requests: list[CommitTableRequest],
        head: Head,
        txn_id: str,
        leftovers: Leftovers,
    ) -> Payload:
        if not requests:
            return NO_PAYLOAD
        text, now_ms = _payload.dump(requests), self._clock.now_ms()
        limits.check_payload(text)
        return leftovers.store(self._log, head, txn_id, text, now_ms)

    def _check_permitted(
        self,
        staged: StagedTable,
        change: Change,
        carried: CommitTableRequest,
        commit_ts: int,
        request: Request,
    ) -> None:
        """Keep out of the log what nobody would carry out."""
        probe = LoggedChange(
            Entry(request.kind, request.key.txn_id, commit_ts, 0, commit_ts), change
        )
        name = dotted_name(staged.identifier)
        if why := permitted.forbidden(probe, carried, self._log.identifier):
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

    def _check_fits(
        self,
        staged: StagedTable,
        change: Change,
        carried: CommitTableRequest,
        commit_ts: int,
        request: Request,
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


def _delete_staged(request: Request) -> None:
    for staged in request.writes.values():
        staged.io.delete_created()
