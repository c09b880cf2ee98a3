"""What is to be committed, by whom, and as of when."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from txns._commit.file_conflicts import Meetings
from txns._commit.leftovers import Leftovers
from txns._commit.turns import APPENDS_WAIT_FROM, Claim
from txns._log.entry import Isolation, Kind
from txns._stage.read_set import ReadSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from txns._commit.group import Key
    from txns._identifier import Identifier
    from txns._log.reservation import Turn
    from txns._log.state import LogState
    from txns._stage.staged_table import StagedTable

BESIDE_STRANGERS_FROM = 2
"""How often who goes on beside strangers has reserved: to them he may have lost each time."""


@dataclass(frozen=True)
class CommitRequest:
    """
    What is to be committed.

    Attributes:
        kind: Of the entry.
        key: The idempotence key.
        read_ts: What everything was read at, in ms.
        born_ms: When it began, in ms of the wall clock.
        writes: What was staged, by table; at least one.
        isolation: What is validated.
        reads: What was read.
        by_file: Whether only what meets in files clashes, and not all of one table.
        comment: The user's words.
        marks: Summary keys for the data tables' snapshots.
        judge: Raises what forbids it as of a state that it is validated against.
        turn: How old it is; None for as old as `read_ts`.
        adopter: Of an adoption how old who makes it is, as his claim says; None where a person
            does, who waits for nobody.
        leftovers: Of its attempts; whoever may commit again hands them on.
        met: What they have found of others; handed on as well.
    """

    kind: Kind
    key: Key
    read_ts: int
    born_ms: int
    writes: Mapping[Identifier, StagedTable]
    isolation: Isolation = Isolation.SNAPSHOT
    reads: ReadSet = field(default_factory=ReadSet)
    by_file: bool = False
    comment: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)
    judge: Callable[[LogState], object] | None = None
    turn: Turn | None = None
    adopter: Claim | None = None
    leftovers: Leftovers = field(default_factory=Leftovers)
    met: Meetings = field(default_factory=Meetings)

    @property
    def adopts(self) -> bool:
        """Whether strangers' rows that it meets come first; else it goes on beside them."""
        return self.turn is None or self.turn.number < BESIDE_STRANGERS_FROM

    @property
    def claim(self) -> Claim:
        """For whom it waits: nobody where it is no transaction, or has its own time.

        A blind append cannot lose, so it waits for those alone who have lost again and again.

        What its tries before have reserved it takes out; its own is out with its entry, which an
        abort is not.
        """
        writes = self.writes.values()
        if self.adopter:
            return replace(self.adopter, uuids=_uuids(writes))
        if self.kind is not Kind.COMMIT or self.key.commit_ts is not None:  # whose time would go by
            return Claim(leaves=self._leaves)
        appends = all(staged.append_only and not staged.create for staged in writes)
        return Claim(
            age=self._age,
            uuids=_uuids(writes),
            waits_from=APPENDS_WAIT_FROM if appends and self.reads.is_blind else 1,
            leaves=self._leaves,
        )

    @property
    def _age(self) -> tuple[int, str]:
        return self.turn.ticket if self.turn else self.read_ts, self.key.txn_id

    @property
    def _leaves(self) -> frozenset[str]:
        return self.turn.held - {self.key.txn_id} if self.turn else frozenset()

    @property
    def adopting(self) -> Claim:
        """How old an adoption is that it makes: as it is itself; an append like others.

        It does not wait for what its own tries before have reserved, and takes that out.
        """
        if self.key.commit_ts is not None:
            return Claim(leaves=self._leaves)
        return Claim(age=self._age, waits_from=APPENDS_WAIT_FROM, leaves=self._leaves)


def _uuids(writes: Iterable[StagedTable]) -> frozenset[str]:
    return frozenset(str(staged.base.table_uuid) for staged in writes if not staged.create)
