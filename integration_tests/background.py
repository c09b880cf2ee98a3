"""Run something beside a test, in a thread of its own."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable


class Background:
    """
    Call a function again and again until the block ends or it says that it has finished.

    An error in the thread is raised where the block ends, or where somebody waits.

    Args:
        turn: What is called, with the number of turns before it.
        turns: After how many it has finished; None: never.
        pause_s: How long it rests at least between two turns; where it rests, it takes no more than
            a quarter of its time: what looks on leaves the processor to what it looks at.
    """

    def __init__(
        self, turn: Callable[[int], object], *, turns: int | None = None, pause_s: float = 0
    ) -> None:
        self.turns_done = 0
        self._turn = turn
        self._turns = turns
        self._pause_s = pause_s
        self._changed = threading.Condition()
        self._stopping = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._turns is None or kind is not None:
            self.stop()
        self._thread.join()
        if kind is None:
            self._raise()

    def stop(self) -> None:
        """End after the turn that is under way."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def wait_for_turns(self, count: int) -> None:
        """Wait until so many turns have both begun and ended from now on."""
        with self._changed:
            # The turn under way does not count.
            goal = self.turns_done + 1 + count
            self._changed.wait_for(
                lambda: self.turns_done >= goal or not self._thread.is_alive() or self._stopping
            )
        self._raise()

    def _run(self) -> None:
        try:
            while not self._stopping and self.turns_done != self._turns:
                begun_s = time.monotonic()
                self._turn(self.turns_done)
                rest_s = max(self._pause_s, 3 * (time.monotonic() - begun_s))
                with self._changed:
                    self.turns_done += 1
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._stopping, rest_s if self._pause_s else 0)
        except BaseException as error:  # noqa: BLE001  (raised again in the test's thread)
            self._error = error
        finally:
            self.stop()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
