"""Run a transaction again when it lost a race."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar, cast

from sqlalchemy import event, exc
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.orm import sessionmaker

from txns_spark import dbapi
from txns_spark.errors import ConfigurationError
from txns_spark.retries import check_has_run, check_runs, wait_before_attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from sqlalchemy.orm import Session

    _Scope = AbstractContextManager[Any]
    _Begin = Callable[["_Used"], _Scope]

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_FIRST_WAIT_MS = 40
_WAIT_MS_MAX = 2_000
_STANDS = "a transaction that the callback has committed itself stands: it is not run again"


def run_transaction(
    transactor: Engine | sessionmaker[Any],
    callback: Callable[[Any], _Result],
    *,
    isolation: str | None = None,
    max_attempts: int = 10,
) -> _Result:
    """
    Call `callback` in a transaction and commit; again, from its beginning, after a conflict.

    Args:
        transactor: An Engine, then the callback gets a Connection; or a sessionmaker, then it
            gets a new Session in each attempt, so no object of a failed one is left.
        callback: It may run several times, so it changes nothing but the database, and neither
            commits nor rolls back: one that has committed is not run again.
        isolation: A level of docs/isolation.md; None: the engine's.
        max_attempts: How often it is called at most.

    Returns:
        What the callback returned in the attempt that committed.

    Raises:
        OperationalError: Its `orig` is a TransactionConflict: all attempts have lost; nothing
            is committed, but for what the callback has committed itself, then a note says so. Or a
            CommitStateUnknown:
            nobody knows, also where the callback has caught it, and it is not tried again;
            `dbapi.Connection.outcome` tells.
        ArgumentError: No attempt is allowed, a call of the callback runs nothing yet, as that of a
            coroutine or a generator does, each of its statements would commit by itself, or its
            session uses the tables of two engines, of which one may commit and the other lose.
    """
    _check(check_runs, callback)
    if not isinstance(transactor, (Engine, sessionmaker)):
        raise exc.ArgumentError(
            "run_transaction takes an Engine or a sessionmaker, which can begin anew; "
            f"got a {type(transactor).__name__}"
        )
    if max_attempts < 1:
        raise exc.ArgumentError(f"run_transaction needs at least one attempt: {max_attempts=}")
    with _beginning(transactor, isolation) as begin:
        for attempt in range(1, max_attempts + 1):
            used = _Used()
            try:
                return _called(callback, begin, used)
            except exc.DBAPIError as error:
                if not isinstance(error.orig, dbapi.TransactionConflict):
                    raise
                used.check_known(error)
                if used.has_committed:  # by the callback, which has lost another one
                    error.add_note(_STANDS)
                    raise
                if attempt == max_attempts:
                    raise
            wait_before_attempt(attempt, first_ms=_FIRST_WAIT_MS, wait_ms_max=_WAIT_MS_MAX)
    raise AssertionError


def transactional(
    *, isolation: str | None = None, max_attempts: int = 10
) -> Callable[
    [Callable[Concatenate[Any, _Arguments], _Result]],
    Callable[Concatenate[Engine | sessionmaker[Any], _Arguments], _Result],
]:
    """
    Have each call of a function be a transaction, of the engine that is its first argument.

    Or of a sessionmaker: as for `run_transaction`, which has the options, and what is raised.

    ::

        @transactional(isolation="SERIALIZABLE")
        def move(session, amount): ...

        move(Session, 10)  # a sessionmaker
    """

    def decorated(
        function: Callable[Concatenate[Any, _Arguments], _Result],
    ) -> Callable[Concatenate[Engine | sessionmaker[Any], _Arguments], _Result]:
        _check(check_runs, function)

        @wraps(function)
        def run(
            transactor: Engine | sessionmaker[Any],
            /,
            *args: _Arguments.args,
            **kwargs: _Arguments.kwargs,
        ) -> _Result:
            return run_transaction(
                transactor,
                lambda scope: function(scope, *args, **kwargs),
                isolation=isolation,
                max_attempts=max_attempts,
            )

        return run

    return decorated


def _check(refuse: Callable[[Any], None], what: object) -> None:
    try:
        refuse(what)
    except ConfigurationError as error:
        raise exc.ArgumentError(str(error)) from error


class _Used:
    """The one connection of an attempt, and what has been committed on it since."""

    def __init__(self) -> None:
        self._driver: Any = None
        self._commits = 0
        self._unknown: dbapi.CommitStateUnknown | None = None
        self._refused: exc.ArgumentError | None = None

    def note(self, connection: Connection) -> None:
        """
        Know the connection.

        Raises:
            ArgumentError: There is another one, whose COMMIT may fail when the first one's has
                not; or each of its statements would commit by itself, and be done once more.
        """
        driver: Any = connection.connection.dbapi_connection
        if getattr(driver, "autocommit", False) is True:
            self._refuse(
                "run_transaction cannot undo what AUTOCOMMIT has committed: take an engine, or an"
                " isolation, of another level"
            )
        if self._driver is None:
            self._driver = driver
            self._commits, self._unknown = getattr(driver, "commits", 0), self._last_unknown
        if driver is not self._driver:
            self._refuse(
                "run_transaction commits on one connection, and the session has begun on another"
                " one: of two that commit one may have lost. Use the tables of one engine in the"
                " callback, and others in a session of its own; "
                f"engine={connection.engine.url!r}"
            )

    def check_allowed(self) -> None:
        """Refuse once more: the callback may have kept it to itself."""
        if self._refused is not None:
            raise self._refused

    def check_known(self, cause: BaseException | None = None) -> None:
        """
        Refuse to go on after an outcome that the callback has kept to itself.

        Raises:
            OperationalError: Its `orig` is the CommitStateUnknown.
        """
        unknown = self._last_unknown
        if unknown is not None and unknown is not self._unknown:
            raise exc.OperationalError("COMMIT", None, unknown) from cause or unknown

    @property
    def has_committed(self) -> bool:
        """Whether something stands that another attempt would do once more."""
        return bool(getattr(self._driver, "commits", 0) > self._commits)

    @property
    def _last_unknown(self) -> dbapi.CommitStateUnknown | None:
        found: dbapi.CommitStateUnknown | None = getattr(self._driver, "unknown", None)
        return found

    def _refuse(self, what: str) -> NoReturn:
        self._refused = exc.ArgumentError(what)
        raise self._refused


def _called(callback: Callable[[Any], _Result], begin: _Begin, used: _Used) -> _Result:
    with begin(used) as scope:
        result = callback(scope)
        used.check_allowed()
        used.check_known()
        _check(check_has_run, result)
        return result


@contextmanager
def _beginning(transactor: Engine | sessionmaker[Any], isolation: str | None) -> Iterator[_Begin]:
    """
    Give what begins an attempt at a level, which ends with its commit, or is rolled back.

    All have one connection, and so one session of Spark, whose next BEGIN is known for the next
    try of what has lost: the pool would give each another one. But for sessions that choose theirs.
    """
    level = {} if isolation is None else {"isolation_level": _level(isolation)}
    maker = None if isinstance(transactor, Engine) else transactor
    bind = maker.kw.get("bind") if maker else transactor
    if isinstance(bind, Engine):
        with bind.execution_options(**cast("Any", level)).connect() as connection:
            if maker:
                yield partial(_session, partial(maker, bind=connection), {})
            else:
                yield partial(_transaction, connection)
    elif maker:
        yield partial(_session, maker, level)


@contextmanager
def _transaction(connection: Connection, used: _Used) -> Iterator[Connection]:
    with connection.begin():
        used.note(connection)
        yield connection


@contextmanager
def _session(maker: Callable[[], Session], level: dict[str, str], used: _Used) -> Iterator[Session]:
    with maker() as session, session.begin():
        event.listen(session, "after_begin", lambda *begun: used.note(begun[-1]))
        if level:
            session.connection(execution_options=cast("Any", level))
        yield session


def _level(isolation: str) -> str:
    """Give the name of a level as SQLAlchemy takes it."""
    return " ".join(re.split(r"[\s_-]+", isolation.strip())).upper()
