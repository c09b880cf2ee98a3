"""Batches of one model: side by side, and in turns from when one of them has lost to another."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Turns:
    """
    Who builds a relation in this run, one after the other where they have met over its files.

    Which files batches meet in nobody knows before: a table may be partitioned by their time, or
    sorted, or just written by batches; and a compaction may have put all of them into one file.
    """

    def __init__(self) -> None:
        self._locks: dict[str, threading.Lock] = {}

    def begin(self, relation: str) -> None:
        """From now on those who build the relation take turns."""
        self._locks.setdefault(relation, threading.Lock())

    @contextmanager
    def awaited(self, relation: str, *, before: Callable[[], object]) -> Iterator[None]:
        """
        Run the block in a turn, where those who build the relation take turns.

        Args:
            relation: What is built.
            before: Is called where the block has to wait for its turn.
        """
        lock = self._locks.get(relation)
        if lock is None:
            yield
            return
        before()
        with lock:
            yield
