"""Subscribers: a table's changes, replayed, are the table at each timestamp."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.simulation.attempts import ABSENT, Identifier, show
from tests.simulation.scheduler import Violation
from txns.errors import Conflict

if TYPE_CHECKING:
    from tests.simulation.rows import Rows
    from tests.simulation.worker import Lake, Worker

_BREAKS_MAX = 3
"""How often a subscriber goes on from what it has stored."""


def subscribe(worker: Worker) -> None:
    """Follow two tables from a timestamp on, and go on after errors."""
    lake, rng = worker.lake, worker.rng
    history = lake.observer.history
    known = sorted(lake.observer.entries)
    as_of = rng.choice((0, *known))
    until = max(as_of, rng.choice((*known, history.upper)))
    replay = Replay(lake, tuple(rng.sample(lake.tables + lake.creatable, 2)), as_of)
    for _ in range(_BREAKS_MAX):
        with suppress(OSError):
            replay.follow(worker.command_line(), until)
            break


class Replay:
    """
    What a subscriber has made of the deliveries so far.

    Attributes:
        done: `commit_ts` of the last one, in ms.
    """

    def __init__(self, lake: Lake, tables: tuple[Identifier, ...], as_of: int) -> None:
        self._lake = lake
        self._as_of = self.done = as_of
        self._began = self._now()
        history = lake.observer.history
        self._rows = {name: (history.at(name, as_of) or ABSENT).rows for name in tables}

    def _now(self) -> tuple[int, bool]:
        """Give how often the log has been recovered, and whether it has to be."""
        return self._lake.world.actor.epoch, self._lake.judges(self._lake.world.actor)

    def follow(self, handle: Any, until: int) -> None:
        """Take deliveries up to a timestamp."""
        try:
            for delivery in handle.subscribe(list(self._rows), as_of=self.done, until=until):
                self._take(delivery)
        except Conflict:
            history = self._lake.observer.history
            known = (*history.since, *history.upset, *history.lost)
            judged = self._began == self._now() and self._began[1]  # a table may be set back now
            if judged and not any(name in known for name in self._rows):
                raise Violation(
                    "subscribe", "too old, and nothing was expired or set back"
                ) from None
            raise
        if self.done != until and self._began == self._now():
            raise Violation("subscribe", f"ends at {self.done}, and until was {until}")

    def _take(self, delivery: Any) -> None:
        ordered = delivery.commit_ts > self.done
        if not ordered and (delivery.txn_id is not None or delivery.commit_ts < self.done):
            raise Violation("subscribe", f"{delivery.commit_ts} comes after {self.done}")
        for each in delivery.tables:
            self._rows[each.table] = self._replayed(delivery.commit_ts, each)
        self.done = delivery.commit_ts
        for name in self._rows:
            self._judge(name)

    def _replayed(self, commit_ts: int, each: Any) -> Rows:
        before = self._rows[each.table]
        appended, removed = (table["id"].to_pylist() for table in (each.appended, each.removed))
        if len(set(appended)) < len(appended) or len(set(removed)) < len(removed):
            raise Violation("subscribe", f"{each.table} at {commit_ts}: a row is delivered twice")
        fits = before >= set(removed) and not before & set(appended)
        if self._is_followed(each.table) and not fits:
            raise Violation(
                "subscribe",
                f"{each.table} at {commit_ts}: {removed} go and {appended} come to {show(before)}",
            )
        return frozenset(before - set(removed) | set(appended))

    def _judge(self, name: Identifier) -> None:
        """What was replayed is the table, with no change of it left out."""
        version = self._lake.observer.history.at(name, self.done) or ABSENT
        judged = self._is_followed(name) and not self._lake.observer.history.is_moved(
            name, self.done
        )
        if judged and self._rows[name] != version.rows:
            raise Violation(
                "subscribe",
                f"{name} at {self.done} is {show(version.rows)}, replayed {show(self._rows[name])}",
            )

    def _is_followed(self, name: Identifier) -> bool:
        """Whether a table was under care all the time: others' writes are not delivered."""
        history = self._lake.observer.history
        if name in history.unmarked or name in history.lost or self._began != self._now():
            return False
        if history.is_moved(name, self._as_of):
            return False  # it begins with what is delivered once more
        if history.at(name, self._as_of) is None:
            return name in self._lake.creatable
        return history.cared_since(name, self._as_of)
