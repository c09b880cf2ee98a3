"""What is outstanding and what is wrong in a catalog: the facts behind `txns status`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH

from txns._admin.inventory import has_nameless, survey
from txns._commit.outstanding import Outstanding, outstanding
from txns._identifier import dotted_name
from txns._log import commit_table
from txns._log.change import Operation
from txns._log.entry import LoggedChange
from txns._message import said
from txns._table import mark
from txns._table.logged_state import MISSING, NAME_TAKEN

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from txns._admin.inventory import Surveyed
    from txns._identifier import Identifier
    from txns._log.entry import Entry
    from txns._log.head import Head
    from txns._log.reservation import Reservation
    from txns._services import Parts
    from txns.errors import TxnsError

SKEW_MAX_MS = 60_000
NAMELESS = (
    "there are tables without a namespace, which only Spark can read: rename each of them there,"
    " ALTER TABLE {catalog}.t RENAME TO default.t"
)
_DEFAULT_REF_AGE_MS = 5 * 24 * 3600 * 1000
_GONE = (
    "the catalog has no such table under care: somebody dropped, replaced or renamed it; of one"
    " that was renamed, the next write tells the log its new name"
)


@dataclass(frozen=True, slots=True)
class TableHealth:
    """
    How one table under care is.

    Attributes:
        name: Its name.
        state: `ok`, `unapplied`, `foreign write`, `quarantine`, `dropped` or `unreadable`.
        applied: `txns.applied` in ms; None where it cannot be read.
        unapplied: How many entries are outstanding.
        words: What is wrong, and the cure.
    """

    name: str
    state: str
    applied: int | None
    unapplied: int
    words: str = ""


@dataclass(frozen=True)
class Health:
    """
    What a head and the tables say together.

    Attributes:
        head: The head.
        now_ms: The local clock's time, in ms.
        outstanding: Entries that are not applied everywhere, ascending.
        surveyed: The tables under care.
        tables: How each of them is.
        warnings: Settings and clocks that endanger the log.
    """

    head: Head
    now_ms: int
    outstanding: list[Outstanding]
    surveyed: list[Surveyed]
    tables: list[TableHealth] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def cut_ts(self) -> int:
        """The newest timestamp in ms at and below which all is applied; 0 for none."""
        return self.outstanding[0].entry.prev_ts if self.outstanding else self.head.upper

    @property
    def skew_ms(self) -> int:
        """How far the log is ahead of the local clock, in ms; negative for behind."""
        return self.head.upper - self.now_ms

    def names_of(self, reservation: Reservation) -> list[str]:
        """Give the tables that somebody has reserved, by their names; by uuid what is not there."""
        names = {
            str(each.loaded.metadata.table_uuid): dotted_name(each.identifier)
            for each in self.surveyed
            if each.loaded is not None
        }
        return [names.get(uuid, uuid) for uuid in reservation.uuids]

    def age_ms(self, entry: Entry) -> int:
        """Give an entry's age in ms; by the log's own time where some clock is fast."""
        newest = self.head.upper if self.skew_ms > SKEW_MAX_MS else self.now_ms
        return max(0, newest - entry.commit_ts)


def health(parts: Parts) -> Health:
    """Look at the log, then at every table under care."""
    head = parts.log.load()
    left = outstanding(parts.tables, head)
    surveyed = survey(parts, head)
    found = Health(head, parts.clock.now_ms(), left, surveyed)
    found.tables.extend(_table_health(parts, each, head, left) for each in surveyed)
    found.tables.extend(_missing(head, surveyed, left))
    if has_nameless(parts.catalog):
        found.warnings.append(NAMELESS.format(catalog=parts.catalog.name))
    found.warnings.extend(_commit_table_warnings(head.metadata))
    found.warnings.extend(place_warnings(parts, head))
    for each in surveyed:
        if each.loaded is not None and each.loaded.table is not None:
            found.warnings.extend(_retention_warnings(each.identifier, each.loaded.metadata))
    if found.skew_ms > SKEW_MAX_MS:
        found.warnings.append(
            f"the log is {found.skew_ms // 1000} s ahead of this clock: some clock is fast"
        )
    return found


def _table_health(parts: Parts, each: Surveyed, head: Head, left: list[Outstanding]) -> TableHealth:
    name = dotted_name(each.identifier)
    waiting = [one for one in left if each.identifier in one.tables]
    count = len(waiting)
    if each.loaded is None:
        kind = "quarantine" if getattr(each.error, "sqlstate", "") == "55000" else "unreadable"
        gone = waiting and getattr(each.error, "reason", "") == MISSING[0]
        cure = _forged(waiting[0].entry.commit_ts) if gone else ""
        return TableHealth(name, kind, None, count, f"{said(each.error)}{cure}")
    raw = each.loaded.table
    applied = mark.applied_ts(raw.metadata) if raw else None
    stranger = each.loaded.stranger
    if stranger:
        state = "foreign write" if stranger.adoptable else "quarantine"
        waits = stranger.adoptable and not each.dropped
        by_itself = "who writes it next adopts that, else " if waits else ""
        words = f"{stranger.reason}: {by_itself}{stranger.ended_by(name)}"
        return TableHealth(name, state, applied, count, words)
    if raw and (ts := _of_another(each.identifier, str(raw.metadata.table_uuid), head, left)):
        words = f"{': '.join(NAME_TAKEN)}{_forged(ts)}"
        return TableHealth(name, "quarantine", applied, count, words)
    if raw is None and waiting and (why := _not_created(parts, each, waiting[0])):
        return TableHealth(name, "quarantine", applied, count, said(why))
    branches = [ref for ref in each.loaded.metadata.refs if ref.startswith(mark.FOREIGN_BRANCH)]
    words = ""
    if branches:
        words = f"on {', '.join(branches)}: take it in with `txns repair adopt {name}`, or drop it"
    if mark.PURGING in each.loaded.metadata.properties and not words:
        words = f"it is being purged; if nobody does any more: `txns purge {name}`"
    state = "unapplied" if count else "dropped" if each.dropped else "ok"
    return TableHealth(name, state, applied, count, words)


def _not_created(parts: Parts, each: Surveyed, oldest: Outstanding) -> TxnsError | None:
    """Say why nobody can make a table that the log alone has; None where somebody can."""
    changes = (one for one in oldest.entry.changes if one.table == each.identifier)
    logged = next((LoggedChange(oldest.entry, one) for one in changes), None)
    return parts.applier.why_not_created(each.identifier, logged) if logged else None


def _of_another(table: Identifier, uuid: str, head: Head, left: list[Outstanding]) -> int | None:
    """Give the `commit_ts` in ms of the entry that lets others wait for another table there."""
    waiting = (change for one in left if table in one.tables for change in one.entry.changes)
    others = {one.uuid for one in waiting if one.uuid != uuid and head.state.name_of(one) == table}
    named = (
        entry.commit_ts
        for entry in reversed(head.state.entries)
        for change in entry.changes
        if change.uuid in others and change.table == table
    )
    return next(named, None)


def _forged(commit_ts: int) -> str:
    """Say how an entry goes that nobody of the protocol has logged."""
    return f"; where somebody has forged its entry, `txns recover --void {commit_ts} --sound`"


def _missing(head: Head, surveyed: list[Surveyed], left: list[Outstanding]) -> list[TableHealth]:
    """Give the tables that entries wait for and that the catalog does not have."""
    known = {each.identifier for each in surveyed}
    names = dict.fromkeys(
        name
        for one in left
        for change in one.entry.changes
        if (name := head.state.name_of(change)) in one.tables
        and name not in known
        and change.operation is not Operation.CREATE
    )
    found = []
    for name in names:
        waiting = [one for one in left if name in one.tables]
        words = f"{_GONE}{_forged(waiting[0].entry.commit_ts)}"
        found.append(
            TableHealth(
                dotted_name(name),
                "quarantine" if name[:-1] else "unreadable",
                None,
                len(waiting),
                words if name[:-1] else "it has no namespace",
            )
        )
    return found


def place_warnings(parts: Parts, head: Head) -> list[str]:
    """Say once where files of the commit table stay for ever, and how to end that."""
    why = parts.log.place.why_files_stay(head.metadata.location)
    return [f"commit table: {why}"] if why else []


def _commit_table_warnings(metadata: TableMetadata) -> list[str]:
    """Say which settings of the commit table let others remove what the log needs."""
    found = []
    for key, wanted in commit_table.PROPERTIES.items():
        value = metadata.properties.get(key)
        if value != wanted:
            found.append(f"commit table: {key} is {value}, and must be {wanted}")
    main = metadata.refs.get(MAIN_BRANCH)
    keep = (main.min_snapshots_to_keep if main else None) or 0
    age_ms = (main.max_snapshot_age_ms if main else None) or 0
    if keep < commit_table.MIN_SNAPSHOTS_TO_KEEP or age_ms < commit_table.MAX_SNAPSHOT_AGE_MS:
        found.append(
            f"commit table: main keeps {keep} snapshots and {age_ms} ms, so an expiry may take"
            " entries; the next commit puts it right"
        )
    others = sorted(set(metadata.refs) - {MAIN_BRANCH})
    if others:
        found.append(f"commit table: it has refs besides main: {', '.join(others)}")
    return found


def _retention_warnings(table: Identifier, metadata: TableMetadata) -> list[str]:
    """Say where expiry may take what an entry that is not applied stands on."""
    main = metadata.refs.get(MAIN_BRANCH)
    if main is None:
        return []
    keep = main.min_snapshots_to_keep or 1
    age_ms = main.max_snapshot_age_ms or _DEFAULT_REF_AGE_MS
    if keep >= mark.MIN_SNAPSHOTS_TO_KEEP and age_ms >= mark.MAX_SNAPSHOT_AGE_MS:
        return []
    words = (
        f"{dotted_name(table)}: main keeps {keep} snapshots and {age_ms} ms, and should keep"
        f" {mark.MIN_SNAPSHOTS_TO_KEEP} and a day; the next transaction that writes it puts it"
        " right"
    )
    return [words]
