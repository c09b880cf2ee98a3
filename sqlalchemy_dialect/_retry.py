"""Run a transaction again when it lost a race."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

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

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_FIRST_WAIT_MS = 40
_WAIT_MS_MAX = 2_000


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
            is committed, but for what the callback has committed itself. Or a CommitStateUnknown:
            nobody knows, also where the callback has caught it, and it is not tried again;
            `dbapi.Connection.outcome` tells.
        ArgumentError: No attempt is allowed, a call of the callback runs nothing yet, as that of a
            coroutine or a generator does, or each of its statements would commit by itself.
    """
    _check(check_runs, callback)
    if not isinstance(transactor, (Engine, sessionmaker)):
        raise exc.ArgumentError(
            "run_transaction takes an Engine or a sessionmaker, which can begin anew; "
            f"got a {type(transactor).__name__}"
        )
    if max_attempts < 1:
        raise exc.ArgumentError(f"run_transaction needs at least one attempt: {max_attempts=}")
    with _beginning(transactor, isolation) as (begin, used):
        for attempt in range(1, max_attempts):
            before = used.commits if used else 0
            try:
                return _called(callback, begin, used)
            except exc.DBAPIError as error:
                if not isinstance(error.orig, dbapi.TransactionConflict):
                    raise
                if used and used.commits > before:  # by the callback, which has lost another one
                    raise
            wait_before_attempt(attempt, first_ms=_FIRST_WAIT_MS, wait_ms_max=_WAIT_MS_MAX)
        return _called(callback, begin, used)


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


def _called(
    callback: Callable[[Any], _Result],
    begin: Callable[[], _Scope],
    used: dbapi.Connection | None,
) -> _Result:
    before = used.unknown if used else None
    with begin() as scope:
        result = callback(scope)
        if used and used.unknown and used.unknown is not before:  # the callback keeps it to itself
            raise exc.OperationalError("COMMIT", None, used.unknown) from used.unknown
        _check(check_has_run, result)
        return result


@contextmanager
def _beginning(
    transactor: Engine | sessionmaker[Any], isolation: str | None
) -> Iterator[tuple[Callable[[], _Scope], dbapi.Connection | None]]:
    """
    Give what begins an attempt at a level, which ends with its commit, or is rolled back.

    And the connection of all of them.

    All have one connection, and so one session of Spark, whose next BEGIN is known for the next
    try of what has lost: the pool would give each another one. But for sessions that choose theirs.
    """
    level = {} if isolation is None else {"isolation_level": _level(isolation)}
    maker = None if isinstance(transactor, Engine) else transactor
    bind = maker.kw.get("bind") if maker else transactor
    if isinstance(bind, Engine):
        with bind.execution_options(**cast("Any", level)).connect() as connection:
            used = cast("dbapi.Connection", connection.connection.dbapi_connection)
            if maker:
                yield lambda: _session(partial(maker, bind=connection), {}), used
            else:
                yield lambda: _transaction(connection), used
    elif maker:
        yield lambda: _session(maker, level), None


@contextmanager
def _transaction(connection: Connection) -> Iterator[Connection]:
    with connection.begin():
        _check_transactional(connection)
        yield connection


@contextmanager
def _session(maker: Callable[[], Session], level: dict[str, str]) -> Iterator[Session]:
    with maker() as session, session.begin():
        event.listen(session, "after_begin", lambda *begun: _check_transactional(begun[-1]))
        if level:
            session.connection(execution_options=cast("Any", level))
        yield session


def _level(isolation: str) -> str:
    """Give the name of a level as SQLAlchemy takes it."""
    return " ".join(re.split(r"[\s_-]+", isolation.strip())).upper()


def _check_transactional(connection: Connection) -> None:
    """Refuse AUTOCOMMIT: what was done before a conflict would stay, and be done once more."""
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise exc.ArgumentError(
            "run_transaction cannot undo what AUTOCOMMIT has committed: take an engine, or an"
            " isolation, of another level"
        )
