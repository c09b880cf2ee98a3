"""
What a lake does not survive by itself, and what the simulation knows of one until it is recovered.

From the strike on nothing is judged as it happens: what is promised is that an administrator makes
log and tables belong together again, and what may be gone then (`recovered`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from tests.simulation.backup import Backup, set_back
from tests.simulation.observer import COMMIT_TABLE
from tests.simulation.scheduler import Violation
from tests.simulation.table_checks import is_marked

if TYPE_CHECKING:
    import random

    from pyiceberg.table.metadata import TableMetadata

    from tests.simulation.attempts import Identifier
    from tests.simulation.observer import Logged, Observer

EntryId = tuple[int, str]
"""What tells an entry from all others: `commit_ts` in ms, and transaction id."""


class Drill(Enum):
    """What happens; the rows of the table of docs/operations.md."""

    LOG_LOST = "log-lost"
    """The catalog has no commit table any more; its files are there."""
    LOG_AND_FILES_LOST = "log-and-files-lost"
    """Nor has storage a file of it."""
    ENTRY_LOST = "entry-lost"
    """The commit table is back where it stood before its newest entry."""
    TIDY_LOST = "tidy-lost"
    """It is back where it stood before its newest tidy."""
    TABLE_SET_BACK = "table-set-back"
    """A data table is back at a backup."""
    CATALOG_SET_BACK = "catalog-set-back"
    """All tables are, and the log; that is what stands then."""
    CATALOG_TAKEN_FORWARD = "catalog-taken-forward"
    """All tables are, and the log; both are taken forward to what storage has."""
    VOID = "void-record"
    """A record of the log cannot be read."""

    @property
    def needs_backup(self) -> bool:
        """Whether it restores one."""
        return self in {
            Drill.TABLE_SET_BACK,
            Drill.CATALOG_SET_BACK,
            Drill.CATALOG_TAKEN_FORWARD,
        }


@dataclass
class Disaster:
    """
    A strike, and what became of it since.

    Attributes:
        drill: What has happened.
        log: Name of the commit table.
        log_id: What marks called the log by then.
        before: Where all tables stood.
        last: What the newest version of the log by then had more than the one before: where the log
            has gone on, nothing tells of it but a table.
        backup: What was restored of; None where nothing was.
        table: The table that was set back alone.
        void: The entry whose record cannot be read; None for what nobody wrote.
        void_ids: That record's snapshot, and its `commit_ts` in ms.
        told: How many actions ended with the error that detects it.
        named: Entries that a recovery has called gone, unknown, or given up in some table.
        told_by_tables: Entries that a recovery has archived on the word of tables.
        moved: Entries that stand at another `commit_ts`, with the tables that do not show them.
        written: What was appended to the log since, by users whose requests were on the way or who
            did not notice.
        landed: The tables under care that such requests have changed since.
        by_admin: Which of these the administrator wrote.
        taken: Where the tables stood that were taken as they stand: `txns.applied` in ms, by name.
        unseen: Whether a recovery has ended before it could say what it found.
        forward: Whether the log was taken forward already.
        registers: Whether the newest metadata of the table is put back; None while nobody knows.
        put_back: The tables of which it was.
        went_forward: Those that a recovery has taken forward by itself.
        voided: Whether somebody has begun to make the record void.
        known: The entries that the model knew when the recovery had ended.
        unsure: The tables that somebody has written since who did not see what was lost.
        tries: How often the administrator has begun.
        stood: Which version of the log was put in the place of the newest; None for none.
    """

    drill: Drill
    log: Identifier
    log_id: str
    before: dict[Identifier, str]
    last: frozenset[EntryId] = frozenset()
    backup: Backup | None = None
    table: Identifier | None = None
    void: Logged | None = None
    void_ids: tuple[int, int] = (0, 0)
    told: int = 0
    named: set[EntryId] = field(default_factory=set)
    told_by_tables: set[EntryId] = field(default_factory=set)
    moved: list[Logged] = field(default_factory=list)
    written: dict[EntryId, Logged] = field(default_factory=dict)
    landed: set[Identifier] = field(default_factory=set)
    by_admin: set[EntryId] = field(default_factory=set)
    taken: dict[Identifier, int] = field(default_factory=dict)
    unseen: bool = False
    forward: bool = False
    registers: bool | None = None
    put_back: set[Identifier] = field(default_factory=set)
    went_forward: set[Identifier] = field(default_factory=set)
    voided: bool = False
    known: dict[EntryId, Logged] = field(default_factory=dict)
    unsure: set[Identifier] = field(default_factory=set)
    tries: int = 0
    stood: str | None = None

    @property
    def begins_epoch(self) -> bool:
        """Whether its recovery turns away who has seen the log before."""
        return self.drill is not Drill.VOID

    @property
    def brought_forward(self) -> bool:
        """
        Whether the log of a catalog that was set back may be taken forward by what a table shows.

        A request that was on its way has landed on a table that stands where it stood.
        """
        return self.drill is Drill.CATALOG_SET_BACK and bool(self.landed)

    def written_by_users(self) -> list[Logged]:
        """Give what others than the administrator have appended since."""
        return [each for key, each in self.written.items() if key not in self.by_admin]


def log_id_of(metadata: TableMetadata) -> str:
    """Give what marks name a log by."""
    return metadata.properties.get("txns.log-id", str(metadata.table_uuid))


def marked_late(observer: Observer) -> list[Identifier]:
    """
    Give the tables that were marked by who has not seen a recovery, after it.

    Nothing of a table that was not under care is asserted, so his request may arrive late. Another
    recovery ends that.
    """
    registry = observer.registry
    if COMMIT_TABLE not in registry.pointers:
        return []
    log_id = log_id_of(registry.metadata(COMMIT_TABLE))
    tables = ((name, registry.metadata(name)) for name in sorted(registry.pointers))
    return [
        name
        for name, each in tables
        if is_marked(each) and each.properties["txns.log-id"] != log_id
    ]


def strike(
    drill: Drill, observer: Observer, rng: random.Random, backup: Backup | None
) -> Disaster | None:
    """Let it happen; None where there is nothing that it could happen to."""
    log = COMMIT_TABLE
    before = dict(observer.registry.pointers)
    log_id = log_id_of(observer.registry.metadata(log))
    found = Disaster(drill, log, log_id, before, _last(observer), backup)
    if not _STRIKES[drill](found, observer, rng):
        return None
    found.stood = observer.registry.pointers.get(log)
    return found


def has_gone_on(found: Disaster, observer: Observer) -> bool:
    """Whether users have moved the log since it was set back, be it by a tidy alone."""
    registry = observer.registry
    past = [location for _ms, location in registry.past.get(found.log, ())]
    if found.stood not in past:
        return False
    since = past[len(past) - past[::-1].index(found.stood) :]
    return any(log_id_of(registry.metadata_at(each)) == found.log_id for each in since)


def _last(observer: Observer) -> frozenset[EntryId]:
    """Give what the newest version of the log has more than the one before."""
    registry = observer.registry
    before = registry.past.get(COMMIT_TABLE, ())
    older = registry.storage.files.get(before[-1][1]) if before else None
    known = {} if older is None else {each.commit_ts for each in observer.decoded(older)}
    newest = observer.decoded(registry.metadata(COMMIT_TABLE))
    return frozenset(
        (each.commit_ts, each.txn_id) for each in newest if each.commit_ts not in known
    )


def _lose_log(found: Disaster, observer: Observer, _rng: random.Random) -> bool:
    set_back(observer, found.log, None)
    return True


def _lose_log_and_files(found: Disaster, observer: Observer, rng: random.Random) -> bool:
    storage = observer.registry.storage
    folder = observer.registry.metadata(found.log).location
    _lose_log(found, observer, rng)
    for path in storage.below(folder):
        del storage.files[path]
    observer.registry.past.pop(found.log, None)
    return True


def _lose_entry(found: Disaster, observer: Observer, _rng: random.Random) -> bool:
    """Let the log stand where it stood before its newest entry."""
    upper = observer.history.upper
    return _lose_above(found, observer, lambda metadata: _upper(metadata) < upper)


def _lose_tidy(found: Disaster, observer: Observer, _rng: random.Random) -> bool:
    """Let it stand before its newest tidy; there may have been none."""
    newest = _tidied(observer.registry.metadata(found.log))
    return _lose_above(found, observer, lambda metadata: _tidied(metadata) < newest)


def _lose_above(found: Disaster, observer: Observer, is_older: object) -> bool:
    registry = observer.registry
    for _ms, location in reversed(registry.past.get(found.log, ())):
        if location not in registry.storage.files:
            return False
        if is_older(registry.metadata_at(location)):  # type: ignore[operator]
            set_back(observer, found.log, location)
            return True
    return False


def _set_table_back(found: Disaster, observer: Observer, rng: random.Random) -> bool:
    backup, registry = found.backup, observer.registry
    assert backup is not None
    names = [
        name
        for name, location in sorted(backup.pointers.items())
        if name != found.log and registry.pointers.get(name) not in {None, location}
        if _is_same_in_care(observer, name, backup)
    ]
    if not names:
        return False
    found.table = rng.choice(names)
    backup.restore(observer, [found.table])
    return True


def _is_same_in_care(observer: Observer, name: Identifier, backup: Backup) -> bool:
    """Whether a name has the table that it had at a backup, which was under care and is."""
    then, now = backup.files[backup.pointers[name]], observer.registry.metadata(name)
    assert not isinstance(then, bytes)
    same = then.table_uuid == now.table_uuid and is_marked(then)
    history = observer.history
    since = backup.model.of_history["upper"]
    return same and history.cared_since(name, since) and name not in history.upset


def _set_catalog_back(found: Disaster, observer: Observer, _rng: random.Random) -> bool:
    assert found.backup is not None
    found.backup.restore(observer)
    return True


def _break_record(found: Disaster, observer: Observer, rng: random.Random) -> bool:
    """Let a transaction's record have what nobody can read."""
    registry = observer.registry
    metadata = registry.metadata(found.log)
    records = [each for each in metadata.snapshots if _kind(each) == "commit"]
    if not records:
        return False
    bad = rng.choice(records)
    assert bad.summary is not None
    key, value = rng.choice(
        (("txns.tables", "{"), ("txns.read-ts", "x"), ("txns.isolation", "none"))
    )
    summary = bad.summary.model_copy(deep=True)
    summary._additional_properties[key] = value
    broken = bad.model_copy(update={"summary": summary})
    snapshots = [broken if each is bad else each for each in metadata.snapshots]
    # As whoever swaps it: who has the version before in memory does not go on from there.
    location = f"{metadata.location}/metadata/{rng.getrandbits(64):x}-broken.metadata.json"
    registry.storage.files[location] = metadata.model_copy(update={"snapshots": snapshots})
    registry.uppers[location] = registry.uppers[registry.pointers[found.log]]
    set_back(observer, found.log, location)
    commit_ts = int(bad.summary.additional_properties["txns.commit-ts"])
    found.void, found.void_ids = observer.entries[commit_ts], (bad.snapshot_id, commit_ts)
    return True


_STRIKES = {
    Drill.LOG_LOST: _lose_log,
    Drill.LOG_AND_FILES_LOST: _lose_log_and_files,
    Drill.ENTRY_LOST: _lose_entry,
    Drill.TIDY_LOST: _lose_tidy,
    Drill.TABLE_SET_BACK: _set_table_back,
    Drill.CATALOG_SET_BACK: _set_catalog_back,
    Drill.CATALOG_TAKEN_FORWARD: _set_catalog_back,
    Drill.VOID: _break_record,
}


def _kind(snapshot: object) -> str | None:
    summary = snapshot.summary  # type: ignore[attr-defined]
    return summary.additional_properties.get("txns.kind") if summary else None


def _upper(metadata: TableMetadata) -> int:
    return _newest_number(metadata, "txns.upper")


def _tidied(metadata: TableMetadata) -> int:
    return _newest_number(metadata, "txns.tidied-upto")


def _newest_number(metadata: TableMetadata, key: str) -> int:
    records = [each for each in metadata.snapshots if _kind(each)]
    if not records:
        raise Violation("log", "the commit table has no record")
    newest = max(records, key=lambda one: one.sequence_number or 0)
    assert newest.summary is not None
    return int(newest.summary.additional_properties[key])
