"""
Replays a history in the order in which it committed, which the log tells.

Each transaction has to have seen what stood where it began, also one that has not committed; at
its level it has to see the same where it committed; and the tables have to hold in the end what one
after the other leaves. Nothing is known of what one saw that was killed before its COMMIT, nor of
what a statement saw that got an error.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from txns._verify.history import Outcome
from txns._verify.model import LOOKS, State, ran

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from txns._log.entry import Isolation
    from txns._verify.history import Deed


_MISSING = re.compile(r"\bFile_?Not_?(?:Found|Exist)|\bNotFoundException", re.IGNORECASE)
"""What Python, Hadoop, Iceberg and Spark call a file that is not there."""


@dataclass(frozen=True)
class Anomaly:
    """
    Something that the level forbids.

    Attributes:
        name: What it is called.
        txn_id: Of the transaction that shows it.
        words: What was seen, and what should have been.
    """

    name: str
    txn_id: str
    words: str


class Replay:
    """The tables at every `commit_ts`, as the model has them."""

    def __init__(self, initial: State, deeds: Sequence[Deed]) -> None:
        """
        Replay what has committed.

        Args:
            initial: What the tables held before.
            deeds: Everything that was tried; what became of it is settled.
        """
        self._deeds = deeds
        self._times: list[int] = []
        self._states = [initial]
        standing = [deed for deed in deeds if deed.commit_ts is not None and deed.wrote]
        for deed in sorted(standing, key=lambda deed: deed.commit_ts or 0):
            state, _ = ran(deed.steps, self._states[-1])
            self._times.append(deed.commit_ts or 0)
            self._states.append(state)

    @property
    def final(self) -> State:
        """What the tables hold in the end."""
        return self._states[-1]

    def at(self, ts: int) -> State:
        """Give the tables as of a timestamp in ms."""
        return self._states[bisect_right(self._times, ts)]

    def anomalies(self, level: Isolation, found: State) -> Iterator[Anomaly]:
        """
        Give what a level forbids, and was seen.

        Args:
            level: Of all transactions.
            found: What the tables hold.
        """
        for deed in self._deeds:
            yield from self._of(deed, level)
        yield from self._stale()
        for table, rows in self.final.items():
            if found[table] != rows:
                wanted, there = Counter(rows), Counter(found[table])
                lost, more = [*(wanted - there).elements()], [*(there - wanted).elements()]
                yield Anomaly("other rows in the end", "", f"{table}: lost {lost}, more {more}")

    def _of(self, deed: Deed, level: Isolation) -> Iterator[Anomaly]:
        yield from self._differences("snapshot read", deed, self.at(deed.read_ts), None)
        if deed.outcome is Outcome.FAILED and _MISSING.search(deed.why):
            yield Anomaly("missing file", deed.txn_id, deed.why)
        if deed.commit_ts is None or not deed.wrote:
            return
        written = {step.table for step in deed.steps if step.verb not in LOOKS}
        before = self.at(deed.commit_ts - 1)
        yield from self._differences("lost update", deed, before, written)
        if level.validates_reads:
            others = {step.table for step in deed.steps} - written
            yield from self._differences("write skew or phantom", deed, before, others)

    @staticmethod
    def _differences(
        name: str, deed: Deed, state: State, tables: set[str] | None
    ) -> Iterator[Anomaly]:
        _, expected = ran(deed.steps, state)
        for number, (step, seen) in enumerate(zip(deed.steps, deed.seen, strict=True)):
            if (tables is None or step.table in tables) and seen != expected[number]:
                words = f"{step.verb} of {step.table} where {step.where}: {seen}"
                yield Anomaly(name, deed.txn_id, f"{words}, expected {expected[number]}")

    def _stale(self) -> Iterator[Anomaly]:
        """Give who did not see what its session, or another, had been told before it began."""
        told = sorted(
            (deed.ended_ms, deed.commit_ts)
            for deed in self._deeds
            if deed.ended_ms is not None
            and deed.commit_ts is not None
            and deed.outcome is Outcome.COMMITTED
        )
        newest, at = 0, 0
        for deed in sorted(self._deeds, key=lambda deed: deed.began_ms):
            while at < len(told) and told[at][0] < deed.began_ms:
                newest, at = max(newest, told[at][1]), at + 1
            if deed.read_ts < newest:
                words = f"reads at {deed.read_ts}, and {newest} had been told"
                yield Anomaly("stale read", deed.txn_id, words)
