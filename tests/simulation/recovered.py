"""
What must be there after a recovery, and what may be gone: exactly what docs/operations.md says.

The model goes on from there. It is compared with the log as it is stored, and with each table as
somebody reads it who comes then.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyiceberg.exceptions import NoSuchTableError

from tests.simulation import late_creations, schemas
from tests.simulation.attempts import Version, folded, show
from tests.simulation.disaster import Disaster, Drill, EntryId, has_gone_on
from tests.simulation.scheduler import Violation
from tests.simulation.table_checks import is_mark, is_marked
from txns._admin.invariants import check_all

if TYPE_CHECKING:
    from tests.simulation.attempts import Identifier
    from tests.simulation.history import History
    from tests.simulation.observer import Logged, Observer
    from tests.simulation.worker import Lake

_COLUMNS = ["commit_ts", "txn_id", "table_uuid"]


@dataclass(frozen=True)
class Stored:
    """
    The log as it is stored, decoded here.

    Attributes:
        tables: Uuids of the tables that each entry names, of the head and of the archive.
        head: The `commit_ts` in ms of those that stand in the head.
        upper: The greatest `commit_ts` in ms.
    """

    tables: dict[EntryId, set[str]]
    head: set[int]
    upper: int

    @staticmethod
    def of(observer: Observer, name: Identifier) -> Stored:
        """Decode it."""
        metadata = observer.registry.metadata(name)
        tables: dict[EntryId, set[str]] = {}
        for file in observer.contents.files(metadata.current_snapshot()):
            content = io.BytesIO(observer.registry.storage.bytes_of(file))
            for row in pq.read_table(content, columns=_COLUMNS).to_pylist():
                uuids = tables.setdefault((row["commit_ts"], row["txn_id"]), set())
                uuids.update({row["table_uuid"]} - {None})
        head = observer.decoded(metadata)
        for each in head:
            tables[each.commit_ts, each.txn_id] = {table["uuid"] for table in each.tables}
        return Stored(tables, {each.commit_ts for each in head}, observer.upper_of(metadata))


def resume(lake: Lake, disaster: Disaster) -> None:
    """Judge what a recovery has left, and let the model go on from it."""
    observer = lake.observer
    stored, before = Stored.of(observer, disaster.log), dict(observer.entries)
    if disaster.drill is Drill.CATALOG_SET_BACK and not _has_more(observer, disaster, stored):
        assert disaster.backup is not None
        disaster.backup.model.restore(observer)
    _follow_what_moved(observer, disaster, stored)
    disaster.known = {(each.commit_ts, each.txn_id): each for each in observer.entries.values()}
    gone = _judge_entries(observer, disaster, stored)
    unsure = _unsure(observer, disaster, gone)
    _take_in(observer, disaster, stored, gone)
    _check(lake, disaster)
    _judge_given_up(observer, disaster)
    forgotten = {name for each in gone.values() if each.kind == "forget" for name in each.names}
    for name in forgotten:  # no log says any more that it was under care
        observer.history.lost.setdefault(name, []).append((-1, stored.upper))
    _go_on_with_tables(lake, disaster, stored, unsure, _came_back(observer, gone))
    for each in list(observer.entries.values()):
        observer.entries[each.commit_ts] = _what_is_left(observer, disaster, stored, each)
    observer.disaster = None
    observer.gone = {
        ts: each for ts, each in before.items() if (ts, each.txn_id) not in stored.tables
    }
    late_creations.is_told(observer)
    _forget_what_is_gone(
        observer.history, stored, {name for one in gone.values() for name in one.names}
    )


def _has_more(observer: Observer, disaster: Disaster, stored: Stored) -> bool:
    """Whether a log has what its backup has not, since a table shows more than its own."""
    assert disaster.backup is not None
    then = disaster.backup.model.of_history["upper"]
    later = (each for ts, each in observer.entries.items() if ts > then)
    return disaster.brought_forward and any(
        (each.commit_ts, each.txn_id) in stored.tables for each in later
    )


def _follow_what_moved(observer: Observer, disaster: Disaster, stored: Stored) -> None:
    """
    Let entries stand where they are since the log went on to another one at their `commit_ts`.

    They are in the archive with the tables that show them, and a recovery has said so, if it came
    to. What a table was from their own `commit_ts` on it is still.
    """
    under = {txn_id: ts for (ts, txn_id), tables in sorted(stored.tables.items()) if tables}
    for ts, each in sorted(observer.entries.items()):
        key, now = (ts, each.txn_id), (under.get(each.txn_id, 0), each.txn_id)
        if key in stored.tables or now not in stored.tables or not each.changes:
            continue
        if now in disaster.written:  # another attempt, which has landed since the strike
            _follow_attempt(observer, disaster, each, now[0])
            continue
        if not (now in disaster.told_by_tables or disaster.unseen):
            raise Violation("recovery", f"{key} moves to {now[0]}, and nobody was told")
        if more := stored.tables[now] - {table["uuid"] for table in each.tables}:
            raise Violation("recovery", f"{key} moves to {now[0]} with {sorted(more)}")
        shown = [table["uuid"] in stored.tables[now] for table in each.tables]
        hidden = [not one for one in shown]
        disaster.moved.append(_with_some(each, hidden))
        del observer.entries[ts]
        observer.entries[now[0]] = replace(_with_some(each, shown), commit_ts=now[0])
        for uuid in (table["uuid"] for table in observer.entries[now[0]].tables):
            name = observer.stood[now[0], uuid] = observer.stood[ts, uuid]
            newest = observer.history.newest(name)
            assert newest is not None
            observer.history.add(name, replace(newest, ts=now[0]))
            observer.history.moved.setdefault(name, []).append((ts, now[0]))
        _follow_in_history(observer, each, now[0])


def _follow_attempt(observer: Observer, disaster: Disaster, entry: Logged, now_ts: int) -> None:
    """
    Let another attempt of a transaction stand in the log for the one that tables show.

    They show that until then, if it was earlier, and from a recovery on, if it was later: between,
    they can be read no more. One that no table shows is gone.
    """
    shown = [_shows(observer, entry, table["uuid"]) for table in entry.tables]
    if not any(shown):
        return
    disaster.moved.append(_with_some(entry, [not one for one in shown]))
    del observer.entries[entry.commit_ts]
    for table in _with_some(entry, shown).tables if now_ts > entry.commit_ts else ():
        name = observer.stood[entry.commit_ts, table["uuid"]]
        newest = observer.history.newest(name)
        assert newest is not None
        observer.history.add(name, replace(newest, ts=now_ts))
        observer.history.moved.setdefault(name, []).append((entry.commit_ts, now_ts))
    _follow_in_history(observer, entry, now_ts)


def _follow_in_history(observer: Observer, entry: Logged, now_ts: int) -> None:
    for attempt in observer.history.same_txn(entry.txn_id):
        if attempt.logged_ts in {entry.commit_ts, now_ts}:  # the latter of one that has landed
            attempt.logged_ts = now_ts
            attempt.acknowledged = attempt.acknowledged and now_ts


def _with_some(entry: Logged, which: list[bool]) -> Logged:
    """Give an entry with some of its tables."""
    return replace(
        entry,
        tables=list(compress(entry.tables, which)),
        changes=list(compress(entry.changes, which)),
    )


def _judge_entries(observer: Observer, disaster: Disaster, stored: Stored) -> dict[EntryId, Logged]:
    """Give the entries that the log lacks, all of which may be gone."""
    gone = {key: each for key, each in disaster.known.items() if key not in stored.tables}
    for key, each in gone.items():
        if not _may_be_gone(observer, disaster, key, each):
            raise Violation(
                "recovery",
                f"{each.kind} {each.commit_ts} {each.txn_id} is gone after {disaster.drill}",
            )
    for each in disaster.written_by_users():
        if (each.commit_ts, each.txn_id) not in stored.tables:
            raise Violation("recovery", f"{each.commit_ts}, written since the strike, is gone")
    return gone


def _may_be_gone(observer: Observer, disaster: Disaster, key: EntryId, entry: Logged) -> bool:
    """
    Whether the log may lack an entry.

    Where its files are gone, what no table shows. Else what was about to be committed, as the last
    version of all: nothing but a table can tell of that; a recovery has to say so, if it came to.
    """
    if entry.changes and any(_shows(observer, entry, table["uuid"]) for table in entry.tables):
        return False
    if disaster.drill is Drill.LOG_AND_FILES_LOST:
        return True
    if disaster.drill is Drill.VOID:
        return False
    gone_on = disaster.written_by_users() or has_gone_on(disaster, observer)
    if gone_on and key in disaster.last:
        return True  # without it
    return key in disaster.named or disaster.unseen


def _shows(observer: Observer, entry: Logged, uuid: str) -> bool:
    """Whether a table under care has a snapshot of an entry, since it came under care."""
    for name in observer.registry.pointers:
        metadata = observer.registry.metadata(name)
        if str(metadata.table_uuid) == uuid and is_marked(metadata):
            return observer.checks.shows(metadata, entry.commit_ts, entry.txn_id)
    return False


def _unsure(observer: Observer, disaster: Disaster, gone: dict[EntryId, Logged]) -> set[Identifier]:
    """
    Give the tables of which nobody knows what they hold: the log has gone on without an entry.

    Whoever wrote them then did not see it. Docs/operations.md has somebody compare them.
    """
    users = disaster.written_by_users()
    if not users:
        return set()
    return disaster.unsure | {
        observer.stood.get((each.commit_ts, table["uuid"]), ())
        for each in gone.values()
        for table in each.tables
    }


def _came_back(observer: Observer, gone: dict[EntryId, Logged]) -> set[Identifier]:
    """
    Give the tables that were marked again after a forget that is gone with the log.

    They came into care with what their owner had in them by then.
    """
    pointers = observer.registry.pointers
    return {
        name
        for each in gone.values()
        if each.kind == "forget"
        for name in each.names & pointers.keys()
        for metadata in [observer.registry.metadata(name)]
        for one in metadata.snapshots
        if is_mark(metadata, one) and one.summary
        if int(one.summary.additional_properties["txns.commit-ts"]) >= each.commit_ts
    }


def _take_in(
    observer: Observer, disaster: Disaster, stored: Stored, gone: dict[EntryId, Logged]
) -> None:
    """Let the model have the entries that the log has, and no other."""
    for commit_ts, _txn_id in gone:
        del observer.entries[commit_ts]
    for (commit_ts, _txn_id), each in disaster.written.items():
        observer.entries[commit_ts] = each
        for table in each.tables:
            named = table["identifier"]
            name = folded((*named["namespace"], named["name"]))
            observer.stood.setdefault((commit_ts, table["uuid"]), name)
    observer.standing = set(stored.head)
    history = observer.history
    for name, ts in history.renamed.items():  # since the strike the model's upper stood still
        history.renamed[name] = stored.upper if ts >= history.upper else ts
    history.upper = stored.upper
    observer.under.clear()
    observer.off = False
    for _ts, each in sorted(observer.entries.items()):
        observer.under[each.txn_id] = each
        if each.kind in {"off", "on"}:
            observer.off = each.kind == "off"
            observer.on_ts = each.commit_ts if each.kind == "on" else observer.on_ts


def _check(lake: Lake, disaster: Disaster) -> None:
    """Hold the log and its tables against all invariants, as `txns check`."""
    found = check_all(lake.open().parts)
    if found.violations:
        raise Violation("recovery", f"txns check after {disaster.drill}: {found.violations}")


# ---------------------------------------------------------------- tables


def _go_on_with_tables(
    lake: Lake,
    disaster: Disaster,
    stored: Stored,
    unsure: set[Identifier],
    back: set[Identifier],
) -> None:
    observer, history = lake.observer, lake.observer.history
    catalog = lake.open().snapshot()
    for name in sorted(observer.registry.pointers):  # its mark was set since the strike
        if name not in history.tables() and is_cared(observer, name, Version(0, cared=False)):
            history.add(name, replace(_read(lake, catalog, name) or Version(0), ts=stored.upper))
    for name in history.tables():
        expected = _expected(observer, disaster, stored, name)
        actual = _read(lake, catalog, name)
        expected = replace(expected, cared=is_cared(observer, name, expected))
        if name in unsure:
            since = min(each.commit_ts for each in disaster.written_by_users())
            history.lost.setdefault(name, []).append((since - 1, stored.upper))
        if name in unsure or name in back or not expected.cared:
            history.add(name, replace(actual or Version(0), ts=stored.upper))
            continue
        if (actual is None and history.called.get(name)) or name in history.renamed:
            history.add(name, replace(actual or Version(0, cared=False), ts=stored.upper))
            continue
        shown = actual.rows if actual else None
        if shown != (expected.rows if expected.exists else None):
            raise Violation(
                "recovery",
                f"{name} shows {show(shown)} after {disaster.drill}, expected {expected}",
            )
        if actual is not None:
            where = f"{name} after {disaster.drill}"
            history.judge_columns("recovery", where, actual.columns, expected, name)


def is_cared(observer: Observer, name: Identifier, expected: Version) -> bool:
    """Whether a table is under care: its mark says so, or the log is to create it."""
    pointers = observer.registry.pointers
    return is_marked(observer.registry.metadata(name)) if name in pointers else expected.cared


def _expected(observer: Observer, disaster: Disaster, stored: Stored, name: Identifier) -> Version:
    """Give a table as the model has it now: what is gone of it is left out."""
    history, taken = observer.history, disaster.taken.get(name)
    lost = {
        each.commit_ts
        for each in (*disaster_entries(observer, disaster),)
        for table in each.tables
        if observer.stood.get((each.commit_ts, table["uuid"])) == name
        if _is_lost(observer, disaster, stored, each, table["uuid"])
    }
    versions = [each for each in history.versions(name) if each.ts not in lost]
    if taken is not None:
        adopted_ts = _adopted_ts(disaster, name)
        history.lost.setdefault(name, []).append((taken, adopted_ts))
        versions = [each for each in versions if each.ts <= taken]
        newest = versions[-1] if versions else Version(0)
        versions.append(replace(newest, ts=adopted_ts))
    elif lost:
        history.lost.setdefault(name, []).append((min(lost) - 1, stored.upper))
    history.replace(name, versions)
    return versions[-1] if versions else Version(0)


def disaster_entries(observer: Observer, disaster: Disaster) -> list[Logged]:
    """Give all entries that there were, those that are gone included."""
    return [*disaster.known.values(), *disaster.moved, *observer.entries.values()]


def _what_is_left(observer: Observer, disaster: Disaster, stored: Stored, entry: Logged) -> Logged:
    """Give an entry with the tables that still have what it did to them."""
    kept = [
        not _is_lost(observer, disaster, stored, entry, table["uuid"]) for table in entry.tables
    ]
    return _with_some(entry, kept)


def _is_lost(
    observer: Observer, disaster: Disaster, stored: Stored, entry: Logged, uuid: str
) -> bool:
    """Whether nothing is left of what an entry did to a table."""
    key = (entry.commit_ts, entry.txn_id)
    if disaster.void is not None and key == (disaster.void.commit_ts, disaster.void.txn_id):
        return not any(
            observer.checks.is_applied(entry, table)
            for table in entry.tables
            if table["uuid"] == uuid
        )
    name = observer.stood.get((entry.commit_ts, uuid), ())
    if name in disaster.taken:  # its adoption may be logged, and not applied yet
        given_up = disaster.taken[name] < entry.commit_ts < _adopted_ts(disaster, name)
        return given_up or uuid not in stored.tables.get(key, set())
    return uuid not in stored.tables.get(key, set()) or _is_given_up(observer, entry, uuid)


def _adopted_ts(disaster: Disaster, name: Identifier) -> int:
    """Give at which `commit_ts` in ms the administrator has adopted a table."""
    return max(
        each.commit_ts
        for key, each in disaster.written.items()
        if key in disaster.by_admin and name in each.names
    )


def _judge_given_up(observer: Observer, disaster: Disaster) -> None:
    """Judge that a recovery has given up what others stand in the way of, which it has lacked."""
    by_users = {each.commit_ts for each in disaster.written_by_users()}
    for each in observer.entries.values() if not disaster.taken else ():
        given_up = any(_is_given_up(observer, each, table["uuid"]) for table in each.tables)
        key = (each.commit_ts, each.txn_id)
        if given_up and each.commit_ts not in by_users:
            raise Violation("recovery", f"{key} is given up after {disaster.drill}")
        if given_up and not (key in disaster.named or disaster.unseen):
            raise Violation("recovery", f"{key} is given up, and nobody was told")


def _is_given_up(observer: Observer, entry: Logged, uuid: str) -> bool:
    """Whether a table says that nothing is left of what an entry did to it, and shows nothing."""
    for name in observer.registry.pointers:
        metadata = observer.registry.metadata(name)
        if str(metadata.table_uuid) != uuid:
            continue
        summaries = [
            each.summary.additional_properties for each in metadata.snapshots if each.summary
        ]
        return any(
            int(each["txns.lost-above"]) < entry.commit_ts < int(each["txns.commit-ts"])
            for each in summaries
            if "txns.lost-above" in each
        ) and not observer.checks.shows(metadata, entry.commit_ts, entry.txn_id)
    return False


def _read(lake: Lake, catalog: Any, name: Identifier) -> Version | None:
    """Read a table as somebody does who comes now."""
    observer = lake.observer
    try:
        table = catalog.load_table(name)
    except NoSuchTableError:
        return None
    pointers = observer.registry.pointers
    cared = name not in pointers or is_marked(observer.registry.metadata(name))
    metadata = table.metadata
    branches = tuple(
        (ref, observer.contents.rows(metadata.snapshot_by_id(at.snapshot_id)))
        for ref, at in sorted(metadata.refs.items())
        if ref != "main" and at.snapshot_ref_type.value == "branch"
        if not ref.startswith("txns-")
    )
    return Version(
        0,
        exists=True,
        cared=cared,
        rows=lake.rows(table),
        columns=schemas.columns(table.schema(), table.spec()),
        branches=branches,
    )


def _forget_what_is_gone(history: History, stored: Stored, names: set[Identifier]) -> None:
    """
    Let a transaction that is gone count as one that never was; its process may try again.

    Tags of a hold are gone with the tables, or with the entry that has set them.
    """
    names |= history.lost.keys()
    history.holds = {
        name: each for name, each in history.holds.items() if names.isdisjoint(each[0])
    }
    for attempt in history.attempts:
        if attempt.logged_ts and (attempt.logged_ts, attempt.txn_id) not in stored.tables:
            attempt.logged_ts = attempt.acknowledged = None
        if attempt.acknowledged and (attempt.acknowledged, attempt.txn_id) not in stored.tables:
            attempt.acknowledged = attempt.logged_ts  # an earlier request has landed since
