"""A connection: one Spark session, and the transaction that is open in it."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from txns_spark.dbapi import errors
from txns_spark.dbapi._cursor import Cursor
from txns_spark.dbapi._literals import identifier, inlined, literal
from txns_spark.dbapi._lost import uncommitted, unknown, unknown_statement
from txns_spark.dbapi._statements import ends, is_own, may_end, may_write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from txns_spark.dbapi._session import Answer, Session

LEVELS = (
    "STRICT SERIALIZABLE",
    "SERIALIZABLE",
    "SNAPSHOT",
    "REPEATABLE READ",
    "READ COMMITTED",
    "READ UNCOMMITTED",
)


class Status(NamedTuple):
    """The row that BEGIN, COMMIT and their like return; docs/spark.md, "Statements"."""

    state: str
    txn_id: str | None
    read_ts: int | None
    commit_ts: int | None
    tables: list[str]
    unprotected: list[str]
    applied: bool | None
    in_transaction: bool
    apply: str | None
    reserved: list[str]


class Connection:
    """
    PEP 249's connection; made by `txns_spark.dbapi.connect`.

    The first statement begins a transaction, which ends with `commit` or `rollback`; closing
    rolls back. One thread at a time may use a connection, but for `cancel`.

    As a context manager it commits at the end of the block, rolls back when the block raises,
    and stays open.

    Attributes:
        driver: "session", "connect" or "thrift".
        last_status: The row of the last BEGIN, COMMIT, ROLLBACK or savepoint; None before.
        commits: How many transactions have committed on it, or may have, in a script.
        unknown: What was raised of a COMMIT of which nobody knows whether it has; None if there is
            none, or after the next `begin`, which `outcome` does.
    """

    DataError = errors.DataError
    DatabaseError = errors.DatabaseError
    Error = errors.Error
    IntegrityError = errors.IntegrityError
    InterfaceError = errors.InterfaceError
    InternalError = errors.InternalError
    NotSupportedError = errors.NotSupportedError
    OperationalError = errors.OperationalError
    ProgrammingError = errors.ProgrammingError
    Warning = errors.Warning

    def __init__(
        self, session: Session, *, isolation_level: str | None = None, autocommit: bool = False
    ) -> None:
        self.driver = session.driver
        self.last_status: Status | None = None
        self.commits = 0
        self.unknown: errors.CommitStateUnknown | None = None
        self._session: Session | None = session
        # What the server has said last; None when only it knows.
        self._is_open: bool | None = False
        # Whether a statement may have committed what was open, of which the server was not asked.
        self._may_have_ended = False
        # What `commit` says of a transaction whose session was lost, until it is rolled back.
        self._lost: errors.Error | None = None
        # Whether what a lost session may have open is to be undone before the next statement.
        self._owes_rollback = False
        self._autocommit = autocommit
        self._isolation_level: str | None = None
        self._default_level: str | None = None
        self.isolation_level = isolation_level

    # Transactions

    @property
    def in_transaction(self) -> bool:
        """
        Whether a transaction is open, as the server says: asked after an error, or a script.

        Raises:
            Error: The server does not answer; or its session was lost before, which `commit`
                says, too. What is left open in one that comes back is nothing to go on with.
        """
        self._refuse_lost()
        if self._is_open is None:
            self._run("SHOW TRANSACTION")
        return self._is_open is True

    @property
    def is_lost(self) -> bool:
        """Whether its session was lost; asks nobody, and is false again when one has answered."""
        return self._lost is not None or self._owes_rollback

    @property
    def transaction_id(self) -> str | None:
        """The id of the open transaction, or of the last one; None before the first."""
        return self.last_status.txn_id if self.last_status is not None else None

    @property
    def autocommit(self) -> bool:
        """Whether each statement is a transaction of its own; may be set between transactions."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self._check_between_transactions("autocommit")
        self._autocommit = value

    @property
    def isolation_level(self) -> str | None:
        """The level of the next transactions; None for the catalog's default."""
        return self._isolation_level

    @isolation_level.setter
    def isolation_level(self, value: str | None) -> None:
        level = " ".join(value.upper().replace("_", " ").split()) if value is not None else None
        if level is not None and level not in LEVELS:
            raise errors.ProgrammingError(
                f"there is no such isolation level; choose one of {', '.join(LEVELS)}: "
                f"isolation_level={value}"
            )
        self._check_between_transactions("isolation_level")
        self._isolation_level = level

    def default_isolation_level(self) -> str:
        """Return the level of transactions that name none: the current catalog's option."""
        if self._default_level is None:
            answer = self._run("SELECT current_catalog()")
            key = f"spark.sql.catalog.{answer.columns.column(0)[0].as_py()}.txns.isolation"
            answer = self._run(f"SET `{key}`")
            found = str(answer.columns.column(1)[0].as_py()).upper().replace("_", " ")
            self._default_level = found if found in LEVELS else LEVELS[0]
        return self._default_level

    def begin(
        self,
        *,
        transaction_id: str | None = None,
        read_only: bool = False,
        as_of: int | str | None = None,
        comment: str | None = None,
    ) -> Status:
        """
        Begin a transaction with more than the defaults; otherwise the first statement does.

        Args:
            transaction_id: Your own id, which commits at most once for as long as ids are
                looked up (7 days, `CALL system.settings()`): when it has committed already,
                the status says "committed", and writes are skipped.
            read_only: Refuse writes.
            as_of: Read in the past: ms since the epoch, or a timestamp as text.
            comment: Words for the archive.

        Raises:
            ProgrammingError: A transaction is open.
        """
        self._check_between_transactions("begin")
        modes = [f"ISOLATION LEVEL {self._isolation_level}"] if self._isolation_level else []
        modes += ["READ ONLY"] if read_only else []
        modes += [f"ID {literal(transaction_id)}"] if transaction_id is not None else []
        if as_of is not None:
            modes += [f"AS OF {as_of if isinstance(as_of, int) else literal(as_of)}"]
        modes += [f"COMMENT {literal(comment)}"] if comment is not None else []
        self._run("BEGIN " + ", ".join(modes))
        self.unknown = self._lost = None
        assert self.last_status is not None
        return self.last_status

    def commit(self) -> None:
        """
        Commit what is open; nothing if nothing is.

        Raises:
            TransactionConflict: It has not committed; run the transaction again.
            ConnectionLost: Its session was lost before, and it with it; roll back first.
            CommitStateUnknown: It may have committed; `outcome` tells, on a connection that
                works. It is never tried again here.
            Error: It has not committed, and is rolled back here: run the transaction again.
        """
        try:
            self._commit()
        except errors.CommitStateUnknown as error:
            self.unknown = error
            raise

    def _commit(self) -> None:
        self._opened()
        if not self.in_transaction:
            return
        txn_id = self.transaction_id
        try:
            self._run("COMMIT")
        except errors.Error as error:
            if error.sqlstate == "25P01":
                # The session has been replaced behind our back, perhaps after a COMMIT.
                what = "the session no longer has the transaction that it was to commit"
                raise unknown(txn_id, error, what) from error
            told = isinstance(error, (errors.CommitStateUnknown, errors.TransactionConflict))
            if told or not self._has_landed(error):
                raise

    def _has_landed(self, refusal: errors.Error) -> bool:
        """
        Roll back what a COMMIT has left open: the next statement would be part of it.

        Returns:
            Whether it has committed although it was refused, as the rollback finds out.

        Raises:
            CommitStateUnknown: The rollback does not know, or was not answered.
        """
        txn_id, commits = self.transaction_id, self.commits
        try:
            self.rollback()
        except errors.CommitStateUnknown:
            raise
        except errors.Error as error:
            with suppress(errors.Error):
                if txn_id is not None and (found := self.outcome(txn_id)) is not None:
                    self.last_status = found
                    self.commits = commits + 1
                    return True
            what = f"it was refused ({refusal}), and its rollback does not say that it is undone"
            raise unknown(txn_id, error, what) from error
        refusal.add_note("the connection has rolled it back: run the transaction again")
        return False

    def rollback(self) -> None:
        """Undo what is open; harmless if nothing is, or if its session was lost."""
        self._opened()
        lost, self._lost = self._lost, None
        if lost is not None:
            # It has been told; a session that does not answer is not waited for once more.
            self._is_open, self._may_have_ended, self._owes_rollback = False, False, True
        elif self._is_open is not False:
            self._run("ROLLBACK")

    def outcome(self, txn_id: str) -> Status | None:
        """
        Return the status of a transaction that has committed; None if it has not.

        None is final only when nothing runs any more that could still commit it.
        """
        self._check_between_transactions("outcome")
        self._run(f"BEGIN ID {literal(txn_id)}")
        self.unknown = None
        assert self.last_status is not None
        found = self.last_status
        self._run("ROLLBACK")
        return found if found.state == "committed" else None

    def validate_reads(self) -> None:
        """
        Have COMMIT check that nothing which the transaction has read, or will, was written since.

        From SERIALIZABLE on it does so anyway. This begins a transaction if none is open; with
        autocommit there is none, and nothing to do.
        """
        if self._autocommit and not self.in_transaction:
            return
        self._begin_if_needed()
        self._run("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")

    def savepoint(self, name: str) -> None:
        """Mark a point in the transaction; a name used again moves it."""
        self._begin_if_needed()
        self._run(f"SAVEPOINT {identifier(name)}")

    def rollback_to_savepoint(self, name: str) -> None:
        """Undo what came after the point; this ends the aborted state, too."""
        self._run(f"ROLLBACK TO SAVEPOINT {identifier(name)}")

    def release_savepoint(self, name: str) -> None:
        """Forget the point, keep the changes."""
        self._run(f"RELEASE SAVEPOINT {identifier(name)}")

    # The rest of PEP 249

    def cursor(self, *, streaming: bool = False) -> Cursor:
        """Return a cursor; a streaming one takes rows in batches, instead of all at once."""
        self._opened()
        return Cursor(self, streaming=streaming)

    def cancel(self) -> None:
        """Stop the statement that runs; called by another thread."""
        with _translated():
            self._opened().cancel()

    def close(self) -> None:
        """Roll back, and give the session back; again: nothing."""
        session, self._session = self._session, None
        if session is None:
            return
        asks = self._is_open is not False and self._lost is None
        self._is_open = False
        # A session that is gone has rolled back.
        try:
            with suppress(errors.ConnectionLost), _translated():
                if asks:
                    session.run("ROLLBACK", ())
        except BaseException:
            with suppress(Exception):
                session.close()
            raise
        with suppress(errors.ConnectionLost), _translated():
            session.close()

    def upload(self, name: str, rows: pa.Table) -> bool:
        """Make Arrow rows a temporary view; False on Thrift, which cannot."""
        with self._noting(was_open=self._is_open):
            return self._opened().upload(name, rows)

    def has_table(self, name: str) -> bool | None:
        """
        Tell whether a table or temporary view is there, faster than a statement that fails.

        It sees the open transaction, and begins none.

        Args:
            name: As in SQL, with its backticks.

        Returns:
            None on Thrift, where only a statement can tell.
        """
        with self._noting(was_open=self._is_open):
            return self._opened().has_table(name)

    def __enter__(self) -> Self:
        """Return the connection."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Commit, or roll back if the block raised."""
        if kind is None:
            self.commit()
        else:
            self.rollback()

    # For cursors

    def _execute(
        self,
        sql: str,
        parameters: Sequence[Any],
        batch_rows: int | None,
        *,
        inline: bool = False,
    ) -> Answer:
        own = is_own(sql)
        if ends(sql):
            self._refuse_lost()
        if not own:
            self._begin_if_needed()
        # Transaction statements are not Spark's, which binds nothing for them.
        if inline or (own and parameters):
            sql, parameters = inlined(sql, parameters), ()
        return self._run(sql, parameters, batch_rows)

    def _translating(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield batches as they arrive; what goes wrong meanwhile, in our classes."""
        while True:
            # A transaction may end between two batches.
            with self._noting(was_open=self._is_open):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _refuse_lost(self) -> None:
        """Refuse to go on after a lost session as if what came before it stood."""
        if self._lost is not None:
            raise self._lost

    def _begin_if_needed(self) -> None:
        self._refuse_lost()
        if not self._autocommit and not self.in_transaction:
            self.begin()

    def _run(
        self, sql: str, parameters: Sequence[Any] = (), batch_rows: int | None = None
    ) -> Answer:
        session = self._opened()
        if self._owes_rollback:
            with self._noting(was_open=False):
                session.run("ROLLBACK", ())
            self._owes_rollback = False
        # Until it has answered, nobody knows what it has done.
        before, self._is_open = self._is_open, None
        may_have_ended = may_end(sql)
        self._may_have_ended |= may_have_ended and before is not False
        with self._noting(sql, was_open=before):
            if batch_rows is None:
                answer = session.run(sql, parameters)
            else:
                answer = session.stream(sql, parameters, batch_rows)
        if answer.is_command and answer.columns.column_names == list(Status._fields):
            self._take(sql, Status(**answer.columns.to_pylist()[0]))
        elif not may_have_ended:
            self._is_open = before
        return answer

    def _take(self, sql: str, status: Status) -> None:
        """Learn from a status what is open, and what has committed."""
        # Where a script may have ended it, what is told of another one, or none, tells that it has.
        is_other = self._may_have_ended and status.txn_id != self.transaction_id
        if is_other or (status.state == "committed" and may_end(sql)):
            self.commits += 1
        self._may_have_ended = False
        self.last_status = status if status.txn_id is not None else self.last_status
        self._is_open = status.in_transaction

    @contextmanager
    def _noting(self, sql: str = "", *, was_open: bool | None) -> Iterator[None]:
        """Raise errors in our classes; the server knows whether it has ended the transaction."""
        try:
            with _translated():
                yield
        except errors.Error as error:
            self._is_open = None
            told: errors.Error = error
            if isinstance(error, errors.ConnectionLost):
                told = self._told_of(error, sql, was_open=was_open)
            elif isinstance(error, errors.TransactionConflict) and ends(sql):
                self._may_have_ended = False
            if isinstance(told, errors.CommitStateUnknown):
                self.unknown = told
            if told is error:
                raise
            raise told from error

    def _told_of(
        self, lost: errors.ConnectionLost, sql: str, *, was_open: bool | None
    ) -> errors.Error:
        """Return what a statement says that has lost the session; `commit` is to say no less."""
        if isinstance(self._lost, errors.CommitStateUnknown):
            # What may have committed does so still, whatever is asked afterwards.
            return self._lost
        told: errors.Error = lost
        # Whether it may have been a transaction of its own.
        is_alone = was_open is False or (was_open is None and self._autocommit)
        txn_id = None if was_open is False else self.transaction_id
        if is_alone and may_write(sql):
            told = unknown_statement(lost)
        elif self._may_have_ended:
            told = unknown(txn_id, lost)
        if was_open is False and self._autocommit:
            # What it has begun, if it has, is nothing that the next statement may join.
            self._is_open, self._owes_rollback = False, True
        else:
            self._lost = uncommitted(txn_id, lost) if told is lost else told
        return told

    def _check_between_transactions(self, what: str) -> None:
        if self.in_transaction:
            raise errors.ProgrammingError(
                f"a transaction is open; commit or roll back first: {what}", sqlstate="25001"
            )

    def _opened(self) -> Session:
        if self._session is None:
            raise errors.InterfaceError("the connection is closed; connect again")
        return self._session


@contextmanager
def _translated() -> Iterator[None]:
    """Raise errors in our classes."""
    try:
        yield
    except errors.Error:
        raise
    except Exception as error:
        raise errors.of_spark(error) from error
