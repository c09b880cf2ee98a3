"""A connection: one Spark session, and the transaction that is open in it."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from txns_spark.dbapi import errors
from txns_spark.dbapi._cursor import Cursor
from txns_spark.dbapi._literals import identifier, inlined, literal
from txns_spark.dbapi._markers import code_of

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
# Statements that begin no transaction before them: they begin, end or look at one themselves.
_OWN = re.compile(
    r"\s*(?:(?:COMMIT|END|ROLLBACK|ABORT|RELEASE|(?:START|SHOW|SET)\s+TRANSACTION"
    r"|SET\s+SESSION\s+CHARACTERISTICS)\b"
    r"|BEGIN\s*(?:;|\Z|(?:TRANSACTION|WORK|ATOMIC|READ|ISOLATION|ID|AS|BASIS|COMMENT(?!\s+ON))\b))",
    re.IGNORECASE,
)
# Those of them that commit.
_ENDS = re.compile(r"\A\s*(?:COMMIT|END|BEGIN\s+ATOMIC)\b", re.IGNORECASE)
_HEAD_CHARS = 1000
# Scripts hold statements whose answers nobody sees, and what a variable stands for, Spark knows.
_MAY_HIDE_STATEMENTS = re.compile(r"\b(?:BEGIN|EXECUTE)\b|\$\{", re.IGNORECASE)


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
        commits: How many transactions have committed on it.
        unknown: What a COMMIT has raised of whose outcome nobody knows; None if there is none, or
            after the next `begin`, which `outcome` does.
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
        # What `commit` says of a transaction whose session was lost, until it is rolled back.
        self._lost: errors.Error | None = None
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
            Error: The server does not answer.
        """
        if self._is_open is None:
            self._run("SHOW TRANSACTION")
        return self._is_open is True

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
        self.unknown = None
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
        except errors.CommitStateUnknown as unknown:
            self.unknown = unknown
            raise

    def _commit(self) -> None:
        if not self.in_transaction:
            self._opened()
            self._refuse_lost()
            return
        txn_id = self.transaction_id
        try:
            self._run("COMMIT")
        except errors.ConnectionLost as lost:
            raise _unknown(txn_id, lost) from lost
        except errors.Error as error:
            if error.sqlstate == "25P01":
                # The session has been replaced behind our back, perhaps after a COMMIT.
                what = "the session no longer has the transaction that it was to commit"
                raise _unknown(txn_id, error, what) from error
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
        txn_id = self.transaction_id
        try:
            self.rollback()
        except errors.CommitStateUnknown:
            raise
        except errors.Error as error:
            with suppress(errors.Error):
                if txn_id is not None and (found := self.outcome(txn_id)) is not None:
                    self.last_status = found
                    self.commits += 1
                    return True
            what = f"it was refused ({refusal}), and its rollback does not say that it is undone"
            raise _unknown(txn_id, error, what) from error
        refusal.add_note("the connection has rolled it back: run the transaction again")
        return False

    def rollback(self) -> None:
        """Undo what is open; harmless if nothing is."""
        self._opened()
        self._lost = None
        if self._is_open is not False:
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
        try:
            self._opened().cancel()
        except Exception as error:
            raise _error_of(error) from error

    def close(self) -> None:
        """Roll back, and give the session back; again: nothing."""
        session, self._session = self._session, None
        if session is None:
            return
        try:
            if self._is_open is not False:
                session.run("ROLLBACK", ())
            session.close()
        except Exception as error:
            found = _error_of(error)
            # A session that is gone has rolled back.
            if not isinstance(found, errors.ConnectionLost):
                raise found from error
        finally:
            self._is_open = False

    def upload(self, name: str, rows: pa.Table) -> bool:
        """Make Arrow rows a temporary view; False on Thrift, which cannot."""
        try:
            return self._opened().upload(name, rows)
        except Exception as error:
            raise self._noted(error, was_open=self._is_open) from error

    def has_table(self, name: str) -> bool | None:
        """
        Tell whether a table or temporary view is there, faster than a statement that fails.

        It sees the open transaction, and begins none.

        Args:
            name: As in SQL, with its backticks.

        Returns:
            None on Thrift, where only a statement can tell.
        """
        try:
            return self._opened().has_table(name)
        except Exception as error:
            raise self._noted(error, was_open=self._is_open) from error

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
        is_own = _is_own(sql)
        if not is_own:
            self._refuse_lost()
            self._begin_if_needed()
        # Transaction statements are not Spark's, which binds nothing for them.
        if inline or (is_own and parameters):
            sql, parameters = inlined(sql, parameters), ()
        return self._run(sql, parameters, batch_rows)

    def _translating(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield batches as they arrive; what goes wrong meanwhile, in our classes."""
        try:
            yield from batches
        except Exception as error:
            raise self._noted(error, was_open=self._is_open) from error

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
        # Until it has answered, nobody knows what it has done.
        before, self._is_open = self._is_open, None
        try:
            if batch_rows is None:
                answer = session.run(sql, parameters)
            else:
                answer = session.stream(sql, parameters, batch_rows)
        except errors.Error as error:
            self._noted(error, sql, was_open=before)
            raise
        except Exception as error:
            raise self._noted(error, sql, was_open=before) from error
        if answer.is_command and answer.columns.column_names == list(Status._fields):
            status = Status(**answer.columns.to_pylist()[0])
            self.last_status = status if status.txn_id is not None else self.last_status
            self._is_open = status.in_transaction
            self.commits += status.state == "committed" and _ends(sql)
            self._lost = None if self._is_open else self._lost
        elif not _MAY_HIDE_STATEMENTS.search(sql):
            self._is_open = before
        return answer

    def _of_lost(self, sql: str, lost: errors.Error) -> errors.Error:
        """Return what `commit` is to say after a statement that has lost the session."""
        if _may_commit(sql):
            return _unknown(self.transaction_id, lost)
        return errors.ConnectionLost(
            "the session was lost, and with it the transaction that was open: nothing of it is "
            "committed; roll back, connect again and run it from its beginning: "
            f"txn_id={self.transaction_id}; {lost}"
        )

    def _noted(self, error: Exception, sql: str = "", *, was_open: bool | None) -> errors.Error:
        """Return an error in our classes; the server knows whether it has ended the transaction."""
        found = _error_of(error)
        if isinstance(found, errors.CommitStateUnknown):
            self.unknown = found
        lost = isinstance(found, errors.ConnectionLost)
        if lost and (was_open is not False or not self._autocommit):
            self._lost = self._of_lost(sql, found)
        self._is_open = False if lost else None
        return found

    def _check_between_transactions(self, what: str) -> None:
        if self.in_transaction:
            raise errors.ProgrammingError(
                f"a transaction is open; commit or roll back first: {what}", sqlstate="25001"
            )

    def _opened(self) -> Session:
        if self._session is None:
            raise errors.InterfaceError("the connection is closed; connect again")
        return self._session


def _error_of(error: Exception) -> errors.Error:
    return error if isinstance(error, errors.Error) else errors.of_spark(error)


def _unknown(
    txn_id: str | None,
    error: errors.Error,
    what: str = "the session was lost while it committed, so nobody knows whether it has",
) -> errors.CommitStateUnknown:
    return errors.CommitStateUnknown(
        f"{what}; ask outcome(txn_id), on a connection that works: txn_id={txn_id}; {error}",
        condition="TXNS_COMMIT_STATE_UNKNOWN",
        sqlstate="08007",
        txn_id=txn_id,
    )


def _is_own(sql: str) -> bool:
    return _OWN.match(_code(sql)) is not None


def _ends(sql: str) -> bool:
    """Whether a statement commits what is open, or itself."""
    return _ENDS.match(_code(sql)) is not None


def _may_commit(sql: str) -> bool:
    """Whether a statement may have committed what was open before it."""
    ends = _ENDS if _is_own(sql) else _MAY_HIDE_STATEMENTS
    return ends.search(_code(sql)) is not None


def _code(sql: str) -> str:
    head = sql[:_HEAD_CHARS]
    return code_of(sql) if "--" in head or "/*" in head else sql
