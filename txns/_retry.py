"""Run a transaction again when it lost a race, and commit again what a failure left staged."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from txns._catalog.outcome import State
from txns._log.swap import is_transient
from txns.errors import CommitStateUnknown, Conflict, InvalidUsage

if TYPE_CHECKING:
    from collections.abc import Callable

    from txns._catalog.transaction import Transaction

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
_BACK_OFF_MS = 10
_BACK_OFF_MAX_MS = 1000
_STANDS = "the callback's own transaction {} has committed: it is not run again"


class Begins(Protocol):
    """What begins transactions: a `Handle`."""

    @property
    def begin(self) -> Callable[..., Transaction]:
        """Begin one; the options are `Handle.begin`'s."""

    def give_up(self, lost: Transaction) -> None:
        """Take back what was reserved for one that has lost, and is not tried again."""

    def back_off(self, max_ms: int) -> None:
        """Pause 1 to `max_ms` ms, jittered."""


def run_transaction(
    handle: Begins,
    callback: Callable[[Transaction], Result],
    *,
    max_attempts: int = 10,
    **options: Any,
) -> Result:
    """
    Run a callback in a transaction, again on a conflict, with jittered pauses.

    From the second attempt on it reserves the tables of the one before: younger transactions that
    write these by what they hold wait for it, for half as long again as that one took.

    The callback may run more than once: what it does besides the transaction must not matter.
    A commit that failed for the catalog or the storage is tried again with what was staged; one
    that was refused and has landed all the same is a success. An unknown outcome is never run
    again.

    Args:
        handle: Over the catalog.
        callback: Gets the transaction; its result is given back after the commit.
        max_attempts: How often to run it at most.
        options: As for `Handle.begin`.

    Raises:
        Conflict: Of the last attempt; or another transaction's, which the callback has lost after
            its own had committed: a note says so.
        CommitStateUnknown: Ask with `begin(txn_id=...)`.
        InvalidUsage: 42000, no attempt is allowed, what is given begins no transactions, or a call
            of the callback runs nothing yet, as that of a coroutine or a generator does.
    """
    if max_attempts < 1:
        raise InvalidUsage("42000", f"max_attempts is at least 1; max_attempts=`{max_attempts}`")
    _check_begins(handle)
    _check_runs(callback)
    for attempt in range(1, max_attempts + 1):
        txn = handle.begin(**options)
        try:
            try:
                result = callback(txn)
                _check_has_run(result)
                _commit(handle, txn, max_attempts)
            except Conflict as conflict:
                txn.rollback()
                if txn.state is State.COMMITTED:  # by the callback, which has lost another one
                    conflict.add_note(_STANDS.format(txn.txn_id))
                    raise
                if attempt == max_attempts:
                    raise
                options = options | {"after": txn}
                _back_off(handle, attempt)
                continue
        except BaseException as error:  # also one in the pause: nobody has to wait for it
            txn.rollback_after(error)
            handle.give_up(txn)
            raise
        if txn.state is State.ROLLED_BACK:  # by itself: no record takes out what is reserved
            handle.give_up(txn)
        return result
    raise AssertionError


def transactional(
    *, max_attempts: int = 10, **options: Any
) -> Callable[
    [Callable[Concatenate[Transaction, Arguments], Result]],
    Callable[Concatenate[Begins, Arguments], Result],
]:
    """
    Have each call of a function be a transaction, of the handle that is its first argument.

    ::

        @transactional(isolation="serializable")
        def move(txn, amount): ...

        move(handle, 10)

    Args:
        max_attempts: As for `run_transaction`, which has what is raised.
        options: As for `Handle.begin`.
    """

    def decorated(
        function: Callable[Concatenate[Transaction, Arguments], Result],
    ) -> Callable[Concatenate[Begins, Arguments], Result]:
        _check_runs(function)

        @wraps(function)
        def run(handle: Begins, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            return run_transaction(
                handle,
                lambda txn: function(txn, *args, **kwargs),
                max_attempts=max_attempts,
                **options,
            )

        return run

    return decorated


def _check_begins(handle: object) -> None:
    """Refuse a catalog, a transaction, and the object of a method that is decorated."""
    if not (hasattr(handle, "begin") and hasattr(handle, "give_up")):
        raise InvalidUsage(
            "42000",
            "the first argument is what begins transactions, a handle of txns.open: of a method"
            " that is decorated it would be the object, so call run_transaction(handle,"
            f" self.method) there; got=`{type(handle).__name__}`",
        )


def _check_runs(callback: Callable[..., object]) -> None:
    """Refuse what would run after the commit."""
    if (
        inspect.iscoroutinefunction(callback)
        or inspect.isgeneratorfunction(callback)
        or inspect.isasyncgenfunction(callback)
    ):
        raise _runs_later(callback)


def _check_has_run(result: object) -> None:
    """Refuse what is to run after the commit, as a lambda gives it that calls a coroutine."""
    if inspect.iscoroutine(result) or inspect.isgenerator(result):
        result.close()  # or Python warns that nobody has awaited a coroutine
        raise _runs_later(result)
    if inspect.isasyncgen(result):
        raise _runs_later(result)


def _runs_later(what: object) -> InvalidUsage:
    return InvalidUsage(
        "42000",
        "a coroutine or a generator runs after the commit, call a plain function that does all of"
        f" it; callback=`{getattr(what, '__qualname__', what)}`",
    )


def _commit(handle: Begins, txn: Transaction, max_attempts: int) -> None:
    for attempt in range(1, max_attempts + 1):
        if txn.state is State.UNKNOWN:  # which the callback has kept to itself
            raise CommitStateUnknown(txn.txn_id)
        if txn.state is not State.ACTIVE:
            return  # the callback has ended it
        try:
            txn.commit()
        except Exception as error:
            again = txn.state is State.ACTIVE and is_transient(error)
            if not again or attempt == max_attempts:
                if _has_landed(txn):
                    return
                raise
            _back_off(handle, attempt)


def _has_landed(txn: Transaction) -> bool:
    """Whether a commit that failed has committed all the same: a rollback finds out."""
    try:
        txn.rollback()
    except InvalidUsage:
        if txn.state is not State.COMMITTED:
            raise
    return txn.state is State.COMMITTED


def _back_off(handle: Begins, attempt: int) -> None:
    handle.back_off(min(_BACK_OFF_MS * 2**attempt, _BACK_OFF_MAX_MS))
