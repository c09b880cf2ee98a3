"""What dbt sees of a connection: cursors whose statements may end with a semicolon."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dbt.adapters.spark.connections import build_ssl_transport

from txns_spark import dbapi

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from dbt.adapters.txns.credentials import TxnsCredentials


_CANCEL_PAUSE_S = 0.2
# The class of a statement's answers where a transaction is open, aborted or expired.
_LEFT_OPEN = "25"


def connect(credentials: TxnsCredentials) -> Handle:
    """
    Open a Spark session of its own; transactions are begun by dbt, not by statements.

    Raises:
        dbapi.Error: Spark cannot be reached; the message says what to do.
    """
    common: dict[str, Any] = {"catalog": credentials.database, "autocommit": True}
    settings = credentials.server_side_parameters
    match credentials.method:
        case "session":
            made = dbapi.connect(
                uri=credentials.uri,
                warehouse=credentials.warehouse,
                config={**_catalog_options(credentials), **credentials.config, **settings},
                **common,
            )
        case "connect":
            parameters = {"token": credentials.token} if credentials.token else {}
            parameters |= {"use_ssl": "true"} if credentials.use_ssl else {}
            made = dbapi.connect_remote(
                credentials.host or "localhost",
                credentials.port,
                parameters=parameters,
                config=settings,
                **common,
            )
        case _:
            made = dbapi.connect_thrift(
                credentials.host or "localhost",
                credentials.port,
                username=credentials.user,
                password=credentials.password,
                auth=credentials.auth,
                kerberos_service_name=credentials.kerberos_service_name,
                transport=_encrypted(credentials) if credentials.use_ssl else None,
                config=settings,
                **common,
            )
    return Handle(made, credentials.database)


def _encrypted(credentials: TxnsCredentials) -> Any:
    """Give dbt-spark's transport of Thrift over TLS, which checks no certificate."""
    # Its annotations promise more than it needs: it has defaults for all but the host.
    keys: dict[str, Any] = {
        "host": credentials.host,
        "port": credentials.port,
        "username": credentials.user,
        "auth": credentials.auth,
        "kerberos_service_name": credentials.kerberos_service_name,
        "password": credentials.password,
    }
    return build_ssl_transport(**keys)


def _catalog_options(credentials: TxnsCredentials) -> dict[str, str]:
    if credentials.commit_table is None:
        return {}
    prefix = f"spark.sql.catalog.{credentials.database}."
    return {f"{prefix}txns.commit-table": credentials.commit_table}


class Handle:
    """
    A connection as dbt's connection manager uses it.

    Attributes:
        catalog: That of its transactions.
    """

    def __init__(self, connection: dbapi.Connection, catalog: str) -> None:
        self.connection = connection
        self.catalog = catalog
        self._running = False
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether dbt has cancelled it: it runs nothing any more."""
        return self._cancelled

    def cursor(self) -> HandleCursor:
        """Give a new cursor."""
        return HandleCursor(self, self.connection.cursor())

    def begin(self, isolation: str, comment: str, catalog: str) -> dbapi.Status:
        """
        Begin a transaction of a catalog, which becomes the session's current one.

        One that an earlier user of the session left open is undone.
        """
        with self.statement():
            return self._begin(isolation, comment, catalog)

    def _begin(self, isolation: str, comment: str, catalog: str) -> dbapi.Status:
        self.connection.rollback()
        self.connection.isolation_level = isolation
        try:
            return self._begin_in(catalog, comment)
        except dbapi.Error as error:
            if not (error.sqlstate or "").startswith(_LEFT_OPEN):
                raise
        # Who had the session before us, on a server that pools them, has left it so.
        with self.connection.cursor() as cursor:
            cursor.execute("ROLLBACK")
        return self._begin_in(catalog, comment)

    def _begin_in(self, catalog: str, comment: str) -> dbapi.Status:
        self._use(catalog)
        return self.connection.begin(comment=comment)

    def _use(self, catalog: str) -> None:
        if catalog != self.catalog:
            with self.connection.cursor() as cursor:
                cursor.execute(f"USE `{catalog}`")
            self.catalog = catalog

    def commit(self) -> dbapi.Status:
        """Commit; see `txns_spark.dbapi.Connection.commit` for its errors."""
        self._check_not_cancelled()
        self.connection.commit()
        assert self.connection.last_status is not None
        return self.connection.last_status

    def rollback(self) -> None:
        """Undo what is open."""
        self.connection.rollback()

    def outcome(self, txn_id: str, catalog: str) -> dbapi.Status | None:
        """Give the status of a transaction of a catalog that has committed; None if it has not."""
        self._use(catalog)
        return self.connection.outcome(txn_id)

    @property
    def is_lost(self) -> bool:
        """Whether the session was lost: each statement may be tried for minutes there."""
        return self.connection.is_lost

    def is_in(self, txn_id: str | None) -> bool:
        """
        Whether a transaction is open still; the server is asked after an error, or a script.

        Raises:
            dbapi.Error: It does not answer.
        """
        session = self.connection
        return session.in_transaction and session.transaction_id == txn_id

    def ended(self, txn_id: str) -> tuple[bool, dbapi.Status | None]:
        """
        Say what became of a transaction that is not open any more.

        Returns:
            Whether another one is open, of which nothing else is asked then; and the status if it
            has committed, None if it was rolled back.

        Raises:
            dbapi.Error: The server does not answer.
        """
        session = self.connection
        if session.in_transaction:
            return True, None
        last = session.last_status
        if last is not None and last.txn_id == txn_id and last.state == "committed":
            return False, last
        return False, session.outcome(txn_id)

    def cancel(self) -> None:
        """
        Stop the statement that runs, and refuse those after it; called by another thread.

        dbt cancels once and then waits for its threads, so what begins later must not run. A
        COMMIT that has been sent is left to end.
        """
        self._cancelled = True
        threading.Thread(target=self._stop_running, daemon=True).start()

    @contextmanager
    def statement(self) -> Iterator[None]:
        """
        Run a statement that `cancel` is to stop.

        Raises:
            dbapi.OperationalError: dbt has cancelled the connection.
        """
        self._running = True
        try:
            self._check_not_cancelled()
            yield
        finally:
            self._running = False

    def _stop_running(self) -> None:
        # Spark stops jobs, and a statement that has just begun has none yet.
        while self._running:
            try:
                self.connection.cancel()
            except dbapi.Error:
                return
            time.sleep(_CANCEL_PAUSE_S)

    def _check_not_cancelled(self) -> None:
        if self._cancelled:
            raise dbapi.OperationalError("dbt has cancelled the connection", sqlstate="57014")

    def close(self) -> None:
        """Roll back, and give the session back."""
        self.connection.close()

    def upload(self, name: str, rows: pa.Table) -> bool:
        """Make rows a temporary view; False where the server takes none."""
        return self.connection.upload(name, rows)


def unknown_end(txn_id: str | None, error: dbapi.Error) -> dbapi.CommitStateUnknown:
    """Give what is raised where a statement may have committed, and the server does not answer."""
    return dbapi.CommitStateUnknown(
        "a statement may have committed the transaction, and the server does not say so; ask for"
        f" its outcome by its id: txn_id={txn_id}; {error}",
        sqlstate="08007",
        txn_id=txn_id,
    )


class HandleCursor:
    """A DB-API cursor that takes dbt's statements: with a semicolon, and bindings or None."""

    def __init__(self, handle: Handle, cursor: dbapi.Cursor) -> None:
        self._handle = handle
        self._cursor = cursor

    def execute(self, sql: str, bindings: Sequence[Any] | None = None) -> None:
        """Run one statement."""
        with self._handle.statement():
            self._cursor.execute(sql.strip().rstrip(";"), bindings or ())

    @property
    def description(self) -> list[dbapi.Column] | None:
        """The columns of the last query; None after a statement without rows."""
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        """Rows of the last query, or that the last DML changed; -1 if nobody knows."""
        return self._cursor.rowcount

    def fetchone(self) -> tuple[Any, ...] | None:
        """Give the next row."""
        return self._cursor.fetchone()

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        """Give the next rows."""
        return self._cursor.fetchmany(size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Give the rows that are left."""
        return self._cursor.fetchall()

    def close(self) -> None:
        """Give up the rows."""
        self._cursor.close()
