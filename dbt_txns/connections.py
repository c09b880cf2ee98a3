"""
Connections with real transactions: one Spark session each, BEGIN at the first statement.

A statement belongs to a transaction while its thread is inside a node's scope (between
`pre_model_hook` and `post_model_hook`); outside of one, such as when dbt lists schemas, it is
committed by itself. An error does not roll back here: Spark keeps the transaction aborted
(25P02), so that macros that go on after an error commit nothing, and whoever began it ends it.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from dbt.adapters.contracts.connection import Connection, ConnectionState
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.spark.connections import SparkConnectionManager
from dbt.adapters.txns.handle import Handle, connect, unknown_end
from dbt.adapters.txns.lost import explanation, is_sibling, without_advice
from dbt.adapters.txns.scope import Scope, TxnsResponse
from dbt_common.events.contextvars import get_node_info
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

from txns_spark import dbapi

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dbt.adapters.txns.credentials import TxnsCredentials

logger = AdapterLogger("txns")

_UNREGISTERED = "register("
_UNREGISTERED_CURE = (
    "\n  A table that existed before the project used transactions is put under care once;"
    " for all tables of the project: dbt run-operation txns_adopt_project"
)
_SYNTAX_ERROR = "42601"
# As dbt sends it, after its comment.
_GRANT = re.compile(
    r"(?:\s|/\*.*?\*/)*(?:grant|revoke|show\s+grants?)\b", re.DOTALL | re.IGNORECASE
)
_GRANT_CURE = (
    "\n  Spark itself has no grants, only some catalogs' extensions of its SQL have them:"
    " remove `grants` from the configuration, and give rights where the catalog's users are kept"
)
_NOT_RUN_AGAIN = (
    "\n  it is not run again by itself: it has committed a part of itself"
    " (docs/dbt.md#what-is-a-transaction)"
)
_COMPILING = "dbt_compiling"
# What a rollback says after a COMMIT that was refused and has landed all the same.
_HAS_LANDED = "25000"
_UNDONE = (
    "what the model wrote while it was compiled was undone before a hook with transaction: false,"
    " and its materialization does not compile it again: let that do its work in"
    " adapter.in_transaction(macro, this), or let a hook write it"
)
_OUTCOME_ASKED = 5
_OUTCOME_PAUSE_S = 1.0


class StatementError(DbtDatabaseError):
    """
    A statement that Spark refused.

    Attributes:
        cause: The DB-API's error.
        sqlstate: Five characters; None if Spark named none.
        sibling: Whether it lost a race to another batch of its model.
    """

    sibling = False

    def __init__(self, cause: dbapi.Error, sql: str = "", scope: Scope | None = None) -> None:
        message = str(cause)
        if cause.sqlstate and cause.sqlstate not in message:
            message += f" SQLSTATE: {cause.sqlstate}"
        if _UNREGISTERED in message:
            message += _UNREGISTERED_CURE
        if cause.sqlstate == _SYNTAX_ERROR and _GRANT.match(sql):
            message += _GRANT_CURE
        if isinstance(cause, dbapi.TransactionConflict):
            comment = scope.comment if scope is not None else ""
            builds = scope.builds if scope is not None else ""
            message = without_advice(message) + explanation(cause, comment, builds)
            self.sibling = is_sibling(cause, comment)
            if scope is not None and scope.has_committed:
                message += _NOT_RUN_AGAIN
        super().__init__(message)
        self.cause = cause
        self.sqlstate = cause.sqlstate

    @property
    def retryable(self) -> bool:
        """Whether it lost a race (40001) or its session: whatever else failed would do so again."""
        return isinstance(self.cause, (dbapi.TransactionConflict, dbapi.ConnectionLost))

    @property
    def is_lost(self) -> bool:
        """Whether its session is gone."""
        return isinstance(self.cause, dbapi.ConnectionLost)

    @property
    def may_have_committed(self) -> bool:
        """Whether nobody knows what came of a COMMIT: nothing of it is undone or run again."""
        return isinstance(self.cause, dbapi.CommitStateUnknown) or self.sqlstate == _HAS_LANDED


class CommitError(StatementError):
    """A COMMIT that was refused, or of which nobody knows what came (08007)."""

    @property
    def retryable(self) -> bool:
        """Whether it lost a race: what else a COMMIT answers may have come after the swap."""
        return isinstance(self.cause, dbapi.TransactionConflict)


class TxnsConnectionManager(SparkConnectionManager):
    """dbt-spark's, with the transactions that it leaves out."""

    TYPE = "txns"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._scopes: dict[Any, Scope] = {}

    # Scopes

    @property
    def scope(self) -> Scope | None:
        """The scope of the node that this thread builds; None between nodes."""
        return self._scopes.get(self.get_thread_identifier())

    def enter_scope(self, config: Mapping[str, Any], name: str | None = None) -> Scope:
        """Begin a node's scope."""
        node = name or (get_node_info() or {}).get("unique_id", "")
        made = Scope.of(
            cast("TxnsCredentials", self.profile.credentials),
            config,
            node,
            self.profile.target_name,
            getattr(self.profile, "project_root", "."),
        )
        self._scopes[self.get_thread_identifier()] = made
        return made

    def leave_scope(self) -> None:
        """End it; what is still open is rolled back."""
        connection = self.get_if_exists()
        # Asked first: a connection that nobody has used yet would open its session here.
        try:
            if connection is not None and connection.transaction_open:
                self.rollback_if_open()
        finally:
            self._scopes.pop(self.get_thread_identifier(), None)

    # Transactions

    def begin(self) -> Connection:
        """Begin the scope's transaction; outside of a scope statements commit by themselves."""
        self._renew_if_lost()
        connection = self.get_thread_connection()
        scope = self.scope
        if scope is None or not scope.transaction or connection.transaction_open:
            return connection
        if scope.undone:
            raise DbtRuntimeError(_UNDONE)
        with self.exception_handler("BEGIN"):
            status = connection.handle.begin(scope.isolation, scope.comment, scope.catalog)
        logger.debug(f"BEGIN: {status.txn_id} at {status.read_ts}, {scope.isolation}")
        connection.transaction_open = True
        scope.begun(status.txn_id)
        return connection

    @property
    def transaction_id(self) -> str | None:
        """The id of this thread's open transaction; None if none is open."""
        connection = self.get_thread_connection()
        if not connection.transaction_open:
            return None
        found: str | None = connection.handle.connection.transaction_id
        return found

    def commit(self) -> Connection:
        """
        Commit what is open; nothing if nothing is.

        Raises:
            CommitError: It has not committed; or nobody knows whether it has (08007).
        """
        connection, scope = self.get_thread_connection(), self.scope
        if not connection.transaction_open:
            if scope is not None and not scope.transaction:
                scope.touched.clear()  # each statement has committed by itself
            return connection
        connection.transaction_open = False
        try:
            status = connection.handle.commit()
        except dbapi.CommitStateUnknown as unknown:
            status = self._settled(connection, unknown)
        except dbapi.Error as error:
            raise CommitError(error, scope=self.scope) from error
        logger.debug(f"COMMIT: at {status.commit_ts}")
        if scope is not None:
            scope.committed(status)
        return connection

    def step_outside(self) -> None:
        """
        End what is open before something that belongs to no transaction, as a rename.

        What a model did while it was compiled is rolled back then, since the model is compiled
        again in its transaction: committed here, it would be done twice.
        """
        scope = self.scope
        if scope is not None and scope.is_compiled_only:
            scope.undone = scope.wrote
            self.rollback_if_open()
        elif self.get_thread_connection().transaction_open:
            self.commit()
        if scope is not None and scope.is_under_way:
            # What comes now is not undone by any rollback.
            scope.has_committed = True

    def rollback_if_open(self) -> None:
        """
        Roll back what is open.

        Raises:
            CommitError: A COMMIT that was refused before has landed, or may have.
        """
        connection = self.get_if_exists()
        if connection is None or not connection.handle or not connection.transaction_open:
            return
        connection.transaction_open = False
        try:
            connection.handle.rollback()
        except dbapi.Error as error:
            told = CommitError(error, scope=self.scope)
            if told.may_have_committed:
                raise told from error
            logger.debug(f"the rollback has failed: {error}")

    def _settled(self, connection: Connection, unknown: dbapi.CommitStateUnknown) -> dbapi.Status:
        """Ask, by the transaction's id, whether it has committed."""
        txn_id, catalog = unknown.txn_id, connection.handle.catalog
        for _ in range(_OUTCOME_ASKED if txn_id else 0):
            try:
                self.reconnect(connection)
                found: dbapi.Status | None = connection.handle.outcome(txn_id, catalog)
            except (dbapi.Error, DbtRuntimeError) as error:
                logger.debug(f"the outcome of {txn_id} is not known yet: {error}")
            else:
                if found is not None:
                    return found
            time.sleep(_OUTCOME_PAUSE_S)
        raise CommitError(unknown) from unknown

    def reconnect(self, connection: Connection) -> None:
        """Replace a connection's session by a new one, which is cancelled if the old one was."""
        lost = connection.handle
        try:
            if lost is not None:
                lost.close()
        except dbapi.Error as error:
            logger.debug(f"the lost session does not close: {error}")
        connection.transaction_open = False
        # Opened aside: Ctrl-C finds one to cancel all the while, the old one or the new one.
        opened = Connection(connection.type, connection.name, connection.credentials)
        connection.handle = self.open(opened).handle
        connection.state = ConnectionState.OPEN
        if lost is not None and lost.cancelled:
            connection.handle.cancel()

    def _renew_if_lost(self) -> None:
        """Replace a lost session, once nothing is open that was begun in it."""
        connection = self.get_thread_connection()
        if not connection.transaction_open and connection.handle.is_lost:
            self.reconnect(connection)

    def clear_transaction(self) -> None:
        """Roll back what is open; dbt's own sends an empty transaction after it."""
        self.rollback_if_open()

    # Connections and statements

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """
        Give a connection its session.

        Raises:
            FailedToConnectError: After `connect_retries` more attempts.
        """
        if connection.state == ConnectionState.OPEN:
            return connection
        credentials = cast("TxnsCredentials", connection.credentials)

        def opened() -> Handle:
            try:
                return connect(credentials)
            except dbapi.OperationalError:
                raise
            except dbapi.Error as error:
                raise FailedToConnectError(str(error)) from error

        return cls.retry_connection(
            connection,
            connect=opened,
            logger=logger,
            retryable_exceptions=[dbapi.OperationalError],
            retry_limit=credentials.connect_retries,
            retry_timeout=credentials.connect_timeout,
        )

    def cancel(self, connection: Connection) -> None:
        """Stop what a connection runs: Ctrl-C, or another node that failed fast."""
        connection.handle.cancel()

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """Make errors dbt's own, with their SQLSTATE."""
        try:
            yield
        except dbapi.Error as error:
            logger.debug(f"failed: {sql}\n{error}")
            raise StatementError(error, sql, self.scope) from error
        except DbtRuntimeError:
            raise
        except Exception as error:
            raise DbtRuntimeError(str(error)) from error

    def execute(
        self,
        sql: str,
        auto_begin: bool = False,
        fetch: bool = False,
        limit: int | None = None,
    ) -> Any:
        """Run a statement and give its response, which learns of the COMMIT later."""
        with self._compiling(), self._its_end_noticed():
            response, table = super().execute(sql, auto_begin, fetch, limit)
            assert isinstance(response, TxnsResponse)
            self.note(response)
        return response, table

    def add_query(self, sql: str, auto_begin: bool = True, *args: Any, **kwargs: Any) -> Any:
        """Run a statement, and note what the text of a model does besides reading."""
        self._renew_if_lost()
        connection, cursor = super().add_query(sql, auto_begin, *args, **kwargs)
        scope = self.scope
        if scope is not None and not scope.compiling:
            scope.went_on = True
        elif scope is not None and cursor.description is None:
            scope.wrote = True
            # Without a transaction it has committed already.
            scope.has_committed = scope.has_committed or not connection.transaction_open
        return connection, cursor

    @contextmanager
    def _its_end_noticed(self) -> Iterator[None]:
        """Know after a statement, failed or not, whether the transaction is still open."""
        try:
            yield
        except StatementError as error:
            told = self._notice_its_end()
            if told is not None:
                raise StatementError(told, scope=self.scope) from error
            raise
        told = self._notice_its_end()
        if told is not None:
            raise StatementError(told, scope=self.scope)

    def _notice_its_end(self) -> dbapi.Error | None:
        """
        Notice a COMMIT or ROLLBACK that a statement was or has hidden, as a hook's may be.

        Returns:
            What is to be raised: nobody knows what became of the transaction; else None.
        """
        connection, scope = self.get_thread_connection(), self.scope
        if scope is None or not connection.transaction_open:
            return None
        if connection.handle.is_lost:
            return None  # the driver has said all that is known
        try:
            if connection.handle.is_in(scope.txn_id):
                return None
        except dbapi.Error as error:
            connection.transaction_open = False
            told = isinstance(error, (dbapi.CommitStateUnknown, dbapi.ConnectionLost))
            return error if told else unknown_end(scope.txn_id, error)
        try:
            connection.transaction_open, status = connection.handle.ended(scope.txn_id)
        except dbapi.Error as error:
            connection.transaction_open = False
            told = isinstance(error, dbapi.CommitStateUnknown)
            return error if told else unknown_end(scope.txn_id, error)
        logger.debug(f"{scope.txn_id} was ended by a statement: {status or 'rolled back'}")
        if status is not None:
            scope.committed(status, by_itself=True)
        if connection.transaction_open:
            # One that the node's own statements have begun: what became of ours was not told.
            scope.has_committed = True
            scope.begun(connection.handle.connection.transaction_id)
        return None

    @contextmanager
    def _compiling(self) -> Iterator[None]:
        """Run a statement of a node that is being compiled in the node's transaction."""
        scope = self.scope
        if scope is None or not scope.compiling or not scope.transaction:
            yield
            return
        connection = self.begin()
        transaction = connection.handle.connection
        scope.compiled_in = scope.txn_id
        with self.exception_handler("SAVEPOINT"):
            transaction.savepoint(_COMPILING)
        try:
            yield
        except DbtRuntimeError:
            # dbt asks for what may be missing and goes on: that must not abort the transaction.
            if connection.transaction_open and not connection.handle.is_lost:
                with suppress(dbapi.Error):
                    transaction.rollback_to_savepoint(_COMPILING)
            raise

    def note(self, response: TxnsResponse) -> None:
        """Give a response the id of the open transaction, and later its commit_ts."""
        connection = self.get_thread_connection()
        scope = self.scope
        if connection.transaction_open and scope is not None:
            response.txn_id = connection.handle.connection.transaction_id
            scope.responses.append(response)

    @classmethod
    def get_response(cls, cursor: Any) -> TxnsResponse:
        """Say what a statement did."""
        rows = cursor.rowcount if cursor is not None else -1
        if rows < 0:
            return TxnsResponse(_message="OK")
        return TxnsResponse(_message=f"OK {rows}", rows_affected=rows)
