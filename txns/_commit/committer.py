"""
The phases of a commit in their order: apply what is outstanding, swap, apply, tidy.

Docs/spec.md 11.1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from txns._commit import new_names
from txns._commit.adoption import StrangerMet
from txns._commit.group import Origin
from txns._commit.turns import NO_CLAIM, MustWait, never
from txns._iceberg.known_tables import load_table
from txns._log.entry import Entry, Kind
from txns._logger import about, fields, logger
from txns._metrics import Count, Phase
from txns._stage import change_builder, kept_tags
from txns.errors import (
    CommitStateUnknown,
    Conflict,
    ForeignWrite,
    TxnsError,
    Unsupported,
    is_final,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.catalog import Catalog

    from txns._clock import Clock
    from txns._commit.adoption import Adoption
    from txns._commit.apply import Applier
    from txns._commit.born_applied import Births
    from txns._commit.commit_request import CommitRequest
    from txns._commit.group import Attempt, Attempts
    from txns._commit.group_commit import CommitLoop
    from txns._commit.tidy import Tidier
    from txns._commit.turns import Claim
    from txns._commit.validation import Validation
    from txns._identifier import Identifier
    from txns._log.commit_log import CommitLog
    from txns._log.head import Head
    from txns._log.state import LogState
    from txns._metrics import Metrics

_LOG = logger(__name__)

_ROUNDS = 5
"""So often somebody looks for more to adopt on one table, at most."""

_BACK_OFF_MS = 10
"""Times two for each round: who writes the table meanwhile is not in step with it."""


class Committer:
    """Commits what was staged, and carries it over to its tables."""

    def __init__(
        self,
        catalog: Catalog,
        log: CommitLog,
        loop: CommitLoop,
        validation: Validation,
        applier: Applier,
        births: Births,
        adoption: Adoption,
        tidier: Tidier,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._catalog = catalog
        self._log = log
        self._loop = loop
        self._validation = validation
        self._applier = applier
        self._births = births
        self._adoption = adoption
        self._tidier = tidier
        self._clock = clock
        self.metrics = metrics

    def commit(self, request: CommitRequest) -> Entry:
        """
        Append the entry: the moment of durability. Nothing is applied yet.

        Raises:
            Conflict: Definitely not committed; under the caller's own id neither by a try that
                began before.
            CommitStateUnknown: Nothing that was written is deleted.
            InvalidUsage: The wanted `commit_ts` does not work, what was staged stays; or 25P04, it
                is too old.
            Quarantined: A table that it overwrites has changes that cannot be applied; or it has
                rows of strangers that cannot be adopted.
            Exception: Of the catalog or the storage, which is no outcome: what was staged stays.
        """
        with about(txn=request.key.txn_id):
            return self._counted(request) if request.kind is Kind.COMMIT else self._commit(request)

    def check_standing(self, request: CommitRequest) -> None:
        """
        Look whether a transaction can still commit, as the log is now.

        A table that came under care may have come for what it is about to write.

        Raises:
            Conflict: It never will.
            Exception: Of the catalog or the storage: nobody knows.
        """
        head = self._log.load()
        if head.upper <= request.read_ts:
            return
        key = request.key
        if key.origin is Origin.CALLERS and self._loop.find(head, key.txn_id, key.since_ts):
            return  # another try under its id has committed: its commit says so
        self._validation.newer(request, head.state, head, but=Kind.REGISTER)

    def _counted(self, request: CommitRequest) -> Entry:
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

    def _commit(self, request: CommitRequest) -> Entry:
        refusal = self._prepare(request)
        leftovers = request.leftovers
        ahead = None
        if request.kind is Kind.COMMIT and refusal is None:
            ahead = self._births.ahead(request.key, request.writes, request.marks)

        def attempt(state: LogState, head: Head, commit_ts: int) -> Entry:
            if refusal is not None:
                raise refusal
            return self._validation.entry(request, state, head, commit_ts, ahead)

        try:
            moves = request.kind is Kind.COMMIT and self._births.rows is not None
            tables = request.writes if moves else ()
            proposed_ts = ahead.commit_ts if ahead else 0
            entry = self._append_adopting(request, attempt, tables, proposed_ts)
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

    def _append_adopting(
        self,
        request: CommitRequest,
        attempt: Attempt,
        tables: Iterable[Identifier],
        proposed_ts: int,
    ) -> Entry:
        """Append an entry; adopt, without any lock, what its attempts find of strangers."""
        while True:
            try:
                return self._append(request, attempt, tables, proposed_ts)
            except StrangerMet as met:
                request.key.attempts.adoptions += 1
                try:
                    self._adopt_on_the_way(request, met.table)
                except TxnsError as refusal:
                    if not is_final(refusal):
                        raise
                    attempt = _refusing(refusal)  # which is the loop's to tell

    def _append(
        self,
        request: CommitRequest,
        attempt: Attempt,
        tables: Iterable[Identifier],
        proposed_ts: int,
    ) -> Entry:
        """Append an entry; note how long its attempts took, and what validated them."""
        key, spent_ms = request.key, list[int]()

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
                return self._loop.append(key, measured, tables, proposed_ts, request.claim)
        finally:
            took_ms = self._clock.now_ms() - began_ms - sum(spent_ms)
            self.metrics.took(Phase.SWAP, took_ms)
            self.metrics.count(Count.RETRIED, max(0, len(spent_ms) - 1))

    def commit_once(self, request: CommitRequest) -> Entry:
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

    def _prepare(self, request: CommitRequest) -> TxnsError | None:
        """
        Complete what was staged.

        Give what refuses it, which is the loop's to tell: earlier attempts and tries may land.
        """
        try:
            self._adopt_due(request)
            self._create_alike(request)
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
            head = self._log.load()  # and is told where the log is gone
            tables = [*map(head.state.name_of, entry.carried)]
            with self.metrics.phase(Phase.APPLY):
                left = self._applier.apply_all(head, tables)
            if entry.kind is Kind.COMMIT:
                self._adopt_kept(tables)
        self._tidier.tidy_when_due(head)
        return not left

    def leave(self) -> None:
        """Leave applying to the next writer; tidy what others have applied when it is due."""
        self._tidier.tidy_when_due(self._log.newest)

    def _create_alike(self, request: CommitRequest) -> None:
        """Let new tables of the log be created whose names may be those of its own new ones."""
        new_names.refuse_alike(request.writes.values())
        head = self._log.newest  # what is newer clashes
        for write in request.writes.values():
            others = head.state.created_alike(write.identifier) if write.create else []
            if others and not self._is_absent(head, write.identifier, others):
                raise Conflict(
                    "a table that it creates was created",
                    table=write.identifier,
                    txn_id=request.key.txn_id,
                    least_ts=head.upper,
                )

    def _is_absent(self, head: Head, name: Identifier, others: list[Identifier]) -> bool:
        """Whether the catalog has no table of a name when it has those of other letters."""
        self._applier.apply_all(head, others)
        try:
            load_table(self._catalog, name)
        except NoSuchTableError:
            return True
        return False

    def adopt(self, table: Identifier) -> list[Entry]:
        """
        Make entries of what strangers have appended to a table, and apply them.

        Who does so at the same time makes the same ones. If strangers go on meanwhile, or others
        write the table each time, or once after it was waited for them, the rest is left to who
        comes next.

        Returns:
            What it has made; empty where there was nothing to adopt, or others have adopted it.

        Raises:
            ForeignWrite: It cannot be adopted: the message says why.
            Exception: Of the catalog or the storage.
        """
        return [made for made in self._rounds(table) if isinstance(made, Entry)]

    def _adopt_on_the_way(self, request: CommitRequest, table: Identifier) -> None:
        """Adopt for a commit, which is as old as it is, and has waited where the adoption has."""
        for _made in self._rounds(table, request.adopting, request.key.attempts):
            pass

    def adopting(
        self, table: Identifier, is_given_up: Callable[[], bool] = never
    ) -> Iterator[Entry]:
        """
        Do the same; give each entry when it is made, and say so where the last one is not.

        Args:
            table: Its name.
            is_given_up: Asked while it is waited for others, which may take minutes.

        Raises:
            Conflict: Others have written the table each time: something is still to be adopted.
            CommitStateUnknown: The same, where nobody knows of the last attempt.
            Exception: As for `adopt`.
        """
        lost: TxnsError | None = None
        try:
            for made in self._rounds(table, is_given_up=is_given_up):
                lost = None if isinstance(made, Entry) else made
                if isinstance(made, Entry):
                    yield made
        except MustWait:
            return
        request = self._due(table) if lost else None
        if lost and request:
            _delete_staged(request)
            raise lost

    def _rounds(
        self,
        table: Identifier,
        adopter: Claim | None = None,
        attempts: Attempts | None = None,
        is_given_up: Callable[[], bool] = never,
    ) -> Iterator[Entry | TxnsError]:
        """
        Adopt, round by round, until nothing is due: give what each has made, or lost by.

        Before a swap it is waited for the older: adoptions in turn would keep these from theirs.
        Who has lost all the same leaves it: other tables may be waiting for who adopts.

        Args:
            table: Its name.
            adopter: How old who adopts is; None where he does nothing else, and is the youngest.
            attempts: Of what it is done for, which has waited where the adoption has.
            is_given_up: Asked while it is waited.

        Raises:
            MustWait: It was given up.
            Exception: As for `adopt`.
        """
        lost, waited_ms = False, 0
        for number in range(_ROUNDS):
            if lost and waited_ms:
                return
            if lost:
                self._clock.back_off(_BACK_OFF_MS * 2**number)
            request = self._due(table)
            if request is None:
                return
            alone = replace(request.adopting, is_given_up=is_given_up)
            request = replace(request, adopter=adopter or alone)
            try:
                entry = self.commit_once(request)
            except (Conflict, CommitStateUnknown) as error:  # the next round tells
                _LOG.debug("not adopted, looking again", exc_info=True, extra=fields(table=table))
                lost = True
                yield error
                continue
            finally:
                waited_ms = request.key.attempts.waited_ms
                if attempts:
                    attempts.waited_ms += waited_ms
            _LOG.info("adopted what was appended past the log", extra=fields(table=table))
            lost = False
            self.apply(entry)
            yield entry

    def _due(self, table: Identifier) -> CommitRequest | None:
        """Prepare the adoption of what strangers have appended to a table, if there is anything."""
        try:
            return self._adoption.due(table)
        except NoSuchTableError:
            return None
        except Unsupported as why:
            raise ForeignWrite(table, f"somebody has appended to the table, and {why}") from why

    def _adopt_due(self, request: CommitRequest) -> None:
        """
        Adopt what strangers have appended to the tables that a transaction writes.

        Who only appends and has read nothing does not ask a catalog for it: those rows and his do
        not meet, whichever come first.
        """
        if request.kind is not Kind.COMMIT or not request.adopts:
            return
        looks = not self._births.shows(self._log.newest)  # at its swap it sees them, else
        for table, write in request.writes.items():
            if write.create or write.real is None:
                continue
            now = write.real.metadata
            blind = write.append_only and request.reads.is_blind
            if looks and not blind and not self._adoption.is_due(now):
                try:
                    now = load_table(self._catalog, table).metadata
                except NoSuchTableError:
                    continue
            if self._adoption.is_due(now):
                self._adopt_on_the_way(request, table)

    def _adopt_kept(self, tables: list[Identifier]) -> None:
        """Adopt what applying has put aside just now, whose turn it was; else who writes next."""
        for table in self._applier.take_kept(tables):
            try:
                for _made in self._rounds(table, NO_CLAIM):
                    pass
            except Exception:  # noqa: BLE001 -- what it is about has committed
                _LOG.warning(
                    "what strangers appended is not adopted yet",
                    exc_info=True,
                    extra=fields(table=table),
                )

    def _apply_outstanding(self, request: CommitRequest) -> None:
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


def _refusing(refusal: TxnsError) -> Attempt:
    def refused(_state: LogState, _head: Head, _commit_ts: int) -> Entry:
        raise refusal

    return refused


def _delete_staged(request: CommitRequest) -> None:
    for staged in request.writes.values():
        staged.io.delete_created()
