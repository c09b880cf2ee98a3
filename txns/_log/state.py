"""What a head of the commit table says: plain data with rules, no I/O."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from txns._identifier import Identifier, dotted_name, folded
from txns._log.change import Change, Operation
from txns._log.entry import Entry, Kind, LoggedChange
from txns._log.settings import DEFAULTS, Settings
from txns.errors import CorruptLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from txns._log.reservation import Reservation


@dataclass(frozen=True)
class LogState:
    """
    The entries that stand in a head, with what follows from them.

    Entries above `tidied_upto` are complete. Those at or below it are the ones that
    could not leave yet; the others of them are in the archive.

    `reserved` is what the newest record says of reservations: whoever writes the next one repeats
    it (`carried`).

    Invariant: `entries` ascend by `commit_ts`.
    """

    entries: tuple[Entry, ...]
    upper: int
    tidied_upto: int
    reserved: tuple[Reservation, ...] = ()

    @staticmethod
    def of(records: Mapping[int, Entry], newest: Entry) -> LogState:
        """
        Make the state that a head stands for.

        Args:
            records: The records of all snapshots of the commit table, by snapshot id.
            newest: The record that `main` stands on: it says upper and tidied-upto.

        Raises:
            CorruptLog: An invariant does not hold.
        """
        entries = [entry for entry in records.values() if entry.kind is not Kind.TIDY]
        entries.sort(key=lambda entry: entry.commit_ts)
        state = LogState(tuple(entries), newest.upper, newest.tidied_upto, newest.reserved)
        state.validate()
        return state

    def validate(self) -> None:
        """
        Check every invariant that a head alone can show (docs/spec.md, section 12).

        Raises:
            CorruptLog: Naming the invariant.
        """
        previous = self.tidied_upto
        last = 0
        under: dict[str, Entry] = {}
        ends: set[object] = set()
        for entry in self.entries:
            _check_id(entry, under.get(entry.txn_id))
            under[entry.txn_id] = entry
            if entry.commit_ts <= last:
                raise _corrupt("I1", f"commit-ts does not increase: {entry.commit_ts}")
            last = entry.commit_ts
            if entry.commit_ts > self.tidied_upto:
                if entry.prev_ts != previous:
                    raise _corrupt(
                        "I1",
                        f"an entry is missing before commit-ts {entry.commit_ts}: prev-ts is"
                        f" {entry.prev_ts}, found {previous}",
                    )
                previous = entry.commit_ts
            _check_changes(entry, ends)
        if self.upper != previous:
            raise _corrupt("I6", f"upper is {self.upper}, the newest entry is {previous}")

    def with_entry(self, entry: Entry) -> LogState:
        """Give this state with one more entry, the newest."""
        return replace(
            self, entries=(*self.entries, entry), upper=entry.upper, reserved=entry.reserved
        )

    def carried(self, entry: Entry) -> tuple[Reservation, ...]:
        """Give what the next entry says of reservations: one of its own id has been used."""
        used = None if entry.is_abort else entry.txn_id
        return tuple(each for each in self.reserved if each.txn_id != used)

    @property
    def archived_upto(self) -> int:
        """
        The greatest timestamp in ms at and below which all that names a table is in the archive.

        The newest settings, which name none, stay in the head for good.
        """
        oldest = next((entry.commit_ts for entry in self.entries if entry.changes), None)
        return self.tidied_upto if oldest is None else min(self.tidied_upto, oldest - 1)

    def has_left(self, ts: int) -> bool:
        """Whether an archived `commit_ts` in ms had left this head: a newer one may have since."""
        return ts <= self.tidied_upto and all(entry.commit_ts != ts for entry in self.entries)

    def after(self, ts: int) -> tuple[Entry, ...]:
        """Give the entries with `commit_ts` above `ts`, ascending."""
        return tuple(entry for entry in self.entries if entry.commit_ts > ts)

    def under(self, txn_id: str) -> list[Entry]:
        """Give the entries under an id that stand in the head, ascending; see `committed`."""
        return self._by_txn_id.get(txn_id, [])

    @cached_property
    def _by_txn_id(self) -> dict[str, list[Entry]]:
        by_txn_id: dict[str, list[Entry]] = {}
        for entry in self.entries:
            by_txn_id.setdefault(entry.txn_id, []).append(entry)
        return by_txn_id

    @cached_property
    def _by_uuid(self) -> dict[str, list[LoggedChange]]:
        changes: dict[str, list[LoggedChange]] = {}
        for entry in self.entries:
            for change in entry.carried:
                changes.setdefault(change.uuid, []).append(LoggedChange(entry, change))
        return changes

    def changes(self, uuid: str, *, after: int, upto: int) -> list[LoggedChange]:
        """
        Give the changes of one data table that have to be applied, ascending.

        Not those that a repair has ended (`without_ended`).

        Args:
            uuid: The table's uuid.
            after: Exclusive bound in ms: the table's `txns.applied`.
            upto: Inclusive bound in ms.
        """
        return without_ended(
            [logged for logged in self._by_uuid.get(uuid, ()) if after < logged.commit_ts <= upto]
        )

    def born_ts(self, uuid: str) -> int:
        """Give the newest `commit_ts` in ms of what was born applied to a table; 0 for none."""
        return self._born.get(uuid, 0)

    @cached_property
    def _born(self) -> dict[str, int]:
        return {
            change.uuid: entry.commit_ts
            for entry in self.entries
            for change in entry.changes
            if change.born_applied
        }

    @cached_property
    def _names(self) -> dict[str, Identifier]:
        return {change.uuid: change.table for entry in self.entries for change in entry.changes}

    def name_of(self, change: Change) -> Identifier:
        """
        Give the name that a change's table was given last: by it that table is looked for.

        A rename that lands late leaves entries behind which name the old one.
        """
        return self._names.get(change.uuid, change.table)

    def first(self, uuid: str) -> LoggedChange:
        """Give the oldest change of the head that moves a table which one of it creates."""
        return next(
            LoggedChange(entry, change)
            for entry in self.entries
            for change in entry.moved
            if change.uuid == uuid
        )

    def creation(self, table: Identifier, upto: int) -> LoggedChange | None:
        """
        Give the newest creation of a table under a name at or below a bound in ms.

        None where the table has left care since, or is known by another name.
        """
        found = None
        for entry in self.entries:
            for change in entry.moved:
                creates = change.operation is Operation.CREATE and change.table == table
                if entry.commit_ts <= upto and creates:
                    found = LoggedChange(entry, change)
        if found is None or self.forgotten_ts(found.change.uuid) >= found.commit_ts:
            return None
        return found if folded(self.name_of(found.change)) == folded(table) else None

    def created_alike(self, table: Identifier) -> list[Identifier]:
        """
        Give the names of tables that an entry creates, other than one in letters alone.

        A catalog may take one for the other, once it has either; it may have them already.
        """
        letters = folded(table)
        return [
            self.name_of(change)
            for entry in self.entries
            for change in entry.carried
            if change.operation is Operation.CREATE
            and change.table != table
            and folded(change.table) == letters
        ]

    def forgotten_ts(self, uuid: str) -> int:
        """
        Give the `commit_ts` at which a table was taken from care; 0 where it was not.

        Everything before it was applied then: what the catalog says since is the truth.
        """
        return self._forgotten.get(uuid, 0)

    @cached_property
    def _forgotten(self) -> dict[str, int]:
        return {
            change.uuid: entry.commit_ts
            for entry in self.entries
            if entry.kind is Kind.FORGET
            for change in entry.changes
        }

    def after_forget_ts(self, run: list[LoggedChange]) -> int | None:
        """
        Give the `commit_ts` in ms of what names a table again after the first forget of a run.

        It has been registered since, and shows the forget: who finds it in a run (`changes`) has
        an older state of the table.
        """
        forget = next((one for one in run if one.entry.kind is Kind.FORGET), None)
        if forget is None:
            return None
        later = (
            entry.commit_ts
            for entry in self.after(forget.commit_ts)
            if any(change.uuid == forget.change.uuid for change in entry.changes)
        )
        return next(later, None)

    @cached_property
    def settings_entry(self) -> Entry | None:
        """The entry that says what the log is set to; None where all is as by default."""
        found = (entry for entry in reversed(self.entries) if entry.kind is Kind.SETTINGS)
        return next(found, None)

    @property
    def settings(self) -> Settings:
        """What the log is set to."""
        said = self.settings_entry.settings if self.settings_entry else None
        return said or DEFAULTS

    @cached_property
    def off(self) -> bool:
        """Whether the protocol's writers are turned away."""
        off = False
        for entry in self.entries:
            if entry.kind in {Kind.OFF, Kind.ON}:
                off = entry.kind is Kind.OFF
        return off


EMPTY = LogState((), 0, 0)
"""The state of a log that has not been created: nothing has committed."""


def committed(under: Sequence[Entry]) -> Entry | None:
    """Give the newest of the entries under one id that is no abort: its transaction's."""
    return next((entry for entry in reversed(under) if not entry.is_abort), None)


def aborted_ts(under: Iterable[Entry]) -> int:
    """Give the newest abort's `commit_ts` in ms, of the entries under one id; 0 without one."""
    return max((entry.commit_ts for entry in under if entry.is_abort), default=0)


def _check_id(entry: Entry, before: Entry | None) -> None:
    """Check I8 of one entry; `before` is the one under its id before it."""
    if before is None:
        return
    which = f"{entry.txn_id}, at {before.commit_ts} and {entry.commit_ts}"
    if not before.is_abort:
        raise _corrupt("I8", f"a transaction id after its entry: {which}")
    if not entry.is_abort and entry.read_ts < before.commit_ts:
        raise _corrupt("I8", f"a try that was refused has committed: {which}")


def without_ended(run: list[LoggedChange]) -> list[LoggedChange]:
    """
    Give changes without those that a repair has ended, whose table was set back below them.

    Such a repair stands on what the table has, not on the change before it.
    """
    last: dict[str, LoggedChange] = {}
    ended: dict[str, int] = {}
    for logged in run:
        before = last.get(logged.change.uuid)
        stands_on = before.change.to_snapshot_id if before else logged.change.from_snapshot_id
        if logged.entry.kind is Kind.REPAIR and logged.change.from_snapshot_id != stands_on:
            ended[logged.change.uuid] = logged.commit_ts
        last[logged.change.uuid] = logged
    return [logged for logged in run if logged.commit_ts >= ended.get(logged.change.uuid, 0)]


def _check_changes(entry: Entry, ends: set[object]) -> None:
    """Check I2 and I3 of one entry; `ends` holds from- and to-snapshots of those before it."""
    for change in entry.moved:
        target, source = change.to_snapshot_id, (change.uuid, change.from_snapshot_id)
        if target is None:
            raise _broken("I2", "a change does not move main", entry, change)
        if target == change.from_snapshot_id:
            raise _broken("I3", "a change stands on itself", entry, change)
        if target in ends:
            raise _broken("I3", "two changes have one to-snapshot", entry, change)
        # A repair of a table that was set back stands on what is there, as others have before it.
        if entry.kind is not Kind.REPAIR and source in ends:
            raise _broken("I3", "two changes stand on one snapshot", entry, change)
        ends.update((target, source))


def _broken(invariant: str, what: str, entry: Entry, change: Change) -> CorruptLog:
    return _corrupt(invariant, f"{what}: {dotted_name(change.table)} at {entry.commit_ts}")


def _corrupt(invariant: str, message: str) -> CorruptLog:
    return CorruptLog(
        f"invariant {invariant} does not hold: {message}; if one record is to blame, `txns"
        " recover --void` with its commit_ts goes on without it"
    )
