"""Run a transaction again when it lost a race, after a pause that grows."""

from __future__ import annotations

import inspect
import random  # noqa: TID251  (no protocol depends on it)
import re
import time
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from txns_spark.errors import (
    ConfigurationError,
    TransactionConflict,
    TransactionError,
    translated,
    translation,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Row, SparkSession

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")

_SYSTEM = random.SystemRandom()
_FIRST_WAIT_MS = 400
_WAIT_MS_MAX = 5000
_STANDS = "the callback has ended its transaction {} itself, which may stand: it is not run again"


def run_transaction(
    spark: SparkSession,
    callback: Callable[[SparkSession], _Result],
    *,
    isolation: str | None = None,
    max_attempts: int = 10,
) -> _Result:
    """
    Call `callback` between BEGIN and COMMIT; again, from its beginning, after a conflict.

    Args:
        spark: A session without a transaction.
        callback: Gets the session; it may run several times, so it changes nothing but tables
            of the catalog, and neither commits nor rolls back: one that does is not run again,
            whatever it raises. What a DataFrame read in an
            attempt that has lost is not what the next one reads: make it in the callback.
        isolation: A level of docs/isolation.md; None: the catalog's.
        max_attempts: How often it is called at most.

    Returns:
        What the callback returned in the attempt that committed.

    Raises:
        TransactionConflict: All attempts have lost; nothing is committed. Or the callback has
            ended the transaction, and lost another one: a note says so.
        CommitStateUnknown: Nobody knows, and it is not run again: `BEGIN ID` tells, where the
            transaction has an id of its own.
        ConfigurationError: No attempt is allowed, `isolation` is no name of a level, `spark` is no
            session, or a call of the callback runs nothing yet, as that of a coroutine or a
            generator does.
        TransactionError: Another one, as what the callback raises: rolled back, not run again.
    """
    if max_attempts < 1:
        raise ConfigurationError(f"run_transaction needs at least one attempt: {max_attempts=}")
    if not hasattr(spark, "sql"):
        raise ConfigurationError(
            "the first argument is a session of Spark: of a method that is decorated it would be "
            "the object, so call run_transaction(spark, self.method) there; "
            f"got={type(spark).__name__}"
        )
    check_runs(callback)
    begin = _begin(isolation)

    is_over = False

    def run() -> _Result:
        nonlocal is_over
        begun: Row | None = None
        at_commit = False
        try:
            with translated(), between_begin_and_commit(spark, begin) as begun:
                try:
                    with translated():
                        result = callback(spark)
                except TransactionConflict:
                    is_over = _is_over(spark, begun)
                    raise
                check_has_run(result)
                at_commit = True
                return result
        except TransactionConflict as lost:
            # The callback may have ended the transaction, and begun another one, which has lost.
            is_over = is_over or (at_commit and _is_other(lost, begun))
            if is_over:
                lost.add_note(_STANDS.format(begun.txn_id if begun is not None else None))
            raise

    return run_again(
        run, attempts=max_attempts, lost=(TransactionConflict,), is_over=lambda: is_over
    )


def transactional(
    *, isolation: str | None = None, max_attempts: int = 10
) -> Callable[
    [Callable[Concatenate[SparkSession, _Arguments], _Result]],
    Callable[Concatenate[SparkSession, _Arguments], _Result],
]:
    """
    Have each call of a function be a transaction, of the session that is its first argument.

    ::

        @transactional(isolation="serializable")
        def move(spark, amount): ...

        move(spark, 10)

    `run_transaction` has the options, and what is raised.
    """

    def decorated(
        function: Callable[Concatenate[SparkSession, _Arguments], _Result],
    ) -> Callable[Concatenate[SparkSession, _Arguments], _Result]:
        check_runs(function)

        @wraps(function)
        def run(
            spark: SparkSession, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
        ) -> _Result:
            return run_transaction(
                spark,
                lambda session: function(session, *args, **kwargs),
                isolation=isolation,
                max_attempts=max_attempts,
            )

        return run

    return decorated


def check_runs(callback: Callable[..., object]) -> None:
    """
    Refuse a callback that would run after the COMMIT: its statements would be on their own.

    Raises:
        ConfigurationError: A call of it runs nothing yet.
    """
    if (
        inspect.iscoroutinefunction(callback)
        or inspect.isgeneratorfunction(callback)
        or inspect.isasyncgenfunction(callback)
    ):
        raise _runs_later(callback)


def check_has_run(result: object) -> None:
    """
    Refuse what is to run after the COMMIT, as a lambda gives it that calls a coroutine.

    Raises:
        ConfigurationError: Nothing has run yet.
    """
    if inspect.iscoroutine(result) or inspect.isgenerator(result):
        result.close()  # or Python warns that nobody has awaited a coroutine
        raise _runs_later(result)
    if inspect.isasyncgen(result):
        raise _runs_later(result)


def run_again(
    run: Callable[[], _Result],
    *,
    attempts: int,
    lost: tuple[type[TransactionError], ...],
    is_over: Callable[[], bool] = lambda: False,
) -> _Result:
    """
    Call `run` until it raises none of `lost`, `attempts` times at most, at least 1.

    Args:
        run: One attempt.
        attempts: How many there are.
        lost: What an attempt raises that is made again.
        is_over: Asked after one of them: whether it may have committed, and is not made again.

    Raises:
        TransactionError: Of the last attempt; whatever else an attempt raises.
    """
    for attempt in range(1, attempts):
        try:
            return run()
        except lost:
            if is_over():
                raise
            wait_before_attempt(attempt, first_ms=_FIRST_WAIT_MS, wait_ms_max=_WAIT_MS_MAX)
    return run()


@contextmanager
def between_begin_and_commit(spark: SparkSession, begin: str) -> Iterator[Row | None]:
    """
    Send a BEGIN, whose row is given, and COMMIT at the end of the block; undo on any error.

    A COMMIT that was refused and has landed all the same, as the rollback finds out, is no error.
    """
    begun = spark.sql(begin).first()
    is_commit = False
    try:
        yield begun
        is_commit = True
        spark.sql("COMMIT")
    except BaseException as error:
        try:
            spark.sql("ROLLBACK")  # harmless after a COMMIT; 08007 where that may have landed
        except Exception as told:
            if is_commit and isinstance(error, Exception) and _has_landed(told):
                return
            raise
        raise


def _has_landed(at_rollback: Exception) -> bool:
    found = translation(at_rollback)
    return found is not None and found.sqlstate == "25000"


def wait_before_attempt(attempt: int, *, first_ms: int, wait_ms_max: int) -> None:
    """
    Wait a random time, longer from attempt to attempt, and never longer than the bound.

    Two transactions that take equally long would lose to each other in turns for ever.

    Args:
        attempt: The number of the one that has lost, from 1.
        first_ms: The most after the first one, in ms, about what an attempt takes; it doubles.
        wait_ms_max: The bound of all, in ms.
    """
    bound_ms = min(wait_ms_max, first_ms * 2 ** (attempt - 1))
    time.sleep(_SYSTEM.uniform(bound_ms / 2, bound_ms) / 1000)  # noqa: TID251  (as above)


def _is_over(spark: SparkSession, begun: Row | None) -> bool:
    """Whether a callback has ended its transaction itself, by a COMMIT perhaps."""
    shown = spark.sql("SHOW TRANSACTION").first()
    if shown is None or shown.state == "none":
        return True
    return begun is not None and begun.txn_id not in {None, shown.txn_id}


def _is_other(lost: TransactionConflict, begun: Row | None) -> bool:
    """Whether what has lost is another transaction than the one that was begun."""
    return begun is not None and begun.txn_id not in {None, lost.txn_id}


def _runs_later(what: object) -> ConfigurationError:
    return ConfigurationError(
        "a coroutine or a generator runs after the COMMIT: call a plain function that does all of "
        f"it; callback={getattr(what, '__qualname__', what)}"
    )


def _begin(isolation: str | None) -> str:
    if isolation is None:
        return "BEGIN"
    level = " ".join(re.split(r"[\s_-]+", isolation.strip())).upper()
    if not re.fullmatch("[A-Z ]+", level):
        raise ConfigurationError(
            f"there is no such isolation level; docs/isolation.md has them: {isolation=}"
        )
    return f"BEGIN ISOLATION LEVEL {level}"
