"""Garbage collection, put off while everybody waits for one thread."""

from __future__ import annotations

import gc
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Collection:
    """How many threads have put it off: the last one takes it up again, where it was on."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._was_enabled = False

    def put_off(self) -> None:
        with self._lock:
            if not self._threads:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._threads += 1

    def take_up(self) -> None:
        with self._lock:
            self._threads -= 1
            if not self._threads and self._was_enabled:
                gc.enable()

    def begin_child(self) -> None:
        """Take it up in a process that was forked meanwhile, which has none of those threads."""
        if self._threads and self._was_enabled:
            gc.enable()
        self._begin()  # with a lock that no thread holds which is not here


_COLLECTION = _Collection()
if hasattr(os, "register_at_fork"):  # not on Windows, which forks no processes
    os.register_at_fork(after_in_child=_COLLECTION.begin_child)


@contextmanager
def collected_later() -> Iterator[None]:
    """
    Put off garbage collection, as `timeit` does: everybody waits for who has the lock.

    A collection of all objects takes a tenth of a second with what pyarrow and pydantic bring.
    """
    _COLLECTION.put_off()
    try:
        yield
    finally:
        _COLLECTION.take_up()
