"""
What can be told of a record that is made void, for the archive.

Docs/spec.md 9.6.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, EqualTo, NotEqualTo, Or, Reference

from txns._admin.shown import shown_tables
from txns._iceberg.snapshots import summary_value
from txns._log import change as _change
from txns._log import entry as _entry
from txns._log.archive_scan import ArchiveScan
from txns._log.change import Change, Operation
from txns._log.entry import APPLIED_KINDS, THIS_ENGINE, Entry, Kind, LoggedChange
from txns._log.stored import number
from txns.errors import CorruptLog, InvalidUsage, Unsupported

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from txns._admin.shown import ShownTable
    from txns._identifier import Identifier
    from txns._log.state import LogState
    from txns._services import Parts


_APPLIED_TO_NONE = {Kind.REGISTER.value, Kind.QUARANTINE.value}
"""Kinds of records that name tables which are to show nothing of them, and so lack nothing."""


def told_of(parts: Parts, table: Table, bad: Snapshot) -> Entry | None:
    """
    Make an entry of what can be told of a record: when, under which id, and which tables.

    Where it does not say which it changed, those that show it: the archive has to have that. A
    table that was never in care is left out: no row of the archive makes it one that lacks
    something, and that an adoption would take into care. So is one that is not there, which would
    be missing for ever.

    Args:
        parts: The lake's.
        table: The commit table.
        bad: The record.
    """
    told = _said(bad)
    if told is None or _is_anothers(table, bad, told):
        return None
    shown = shown_tables(parts)
    if not told.changes:
        return replace(told, changes=_shown(shown.tables, told))
    there = {each.line.uuid for each in shown.tables}
    cared = in_care(table, shown.tables, {each.uuid for each in told.changes})
    left = (
        each
        for each in told.changes
        if each.table in shown.unread
        or (each.uuid in cared and (each.uuid in there or parts.catalog.table_exists(each.table)))
    )
    return replace(told, changes=tuple(left))


def in_care(table: Table, tables: list[ShownTable], uuids: set[str]) -> set[str]:
    """Give those of some tables that were in care: by a mark, or by what the archive has."""
    marked = uuids.intersection(each.line.uuid for each in tables)
    return marked | _archived(table, uuids - marked)


def advanced(parts: Parts, read_ts: int, upper: int) -> Entry:
    """Give an entry for the archive that stands where nothing is told of what was at a time."""
    return Entry(
        Kind.ADVANCE,
        parts.clock.new_txn_id(),
        upper=upper,
        tidied_upto=0,
        commit_ts=upper,
        read_ts=read_ts,
        engine=THIS_ENGINE,
    )


def stranded(parts: Parts, state: LogState) -> list[LoggedChange]:
    """
    Give what a head holds for tables that are not there, and that it does not create; ascending.

    That stands on a creation that is void: nobody ever applies it. A table that the log has had in
    care, as a registered one, somebody has dropped or renamed: what it shows stays applied.
    """
    changes = [LoggedChange(entry, each) for entry in state.entries for each in entry.carried]
    names = {one.change.uuid: state.name_of(one.change) for one in changes}
    known = {
        each.uuid
        for entry in state.entries
        for each in entry.changes
        if entry.kind is Kind.REGISTER
        or each.operation is Operation.CREATE
        or state.forgotten_ts(each.uuid)
    }
    gone = {
        uuid for uuid, name in names.items() if uuid not in known and _is_missing(parts, name, uuid)
    }
    if gone:
        gone -= _archived(parts.log.load_table(), gone, {*APPLIED_KINDS, Kind.REGISTER})
    return [one for one in changes if one.change.uuid in gone]


def _is_missing(parts: Parts, name: Identifier, uuid: str) -> bool:
    """Whether the catalog has no table of a uuid under a name; one that cannot be read is there."""
    try:
        return parts.tables.applied_ts(name, uuid) < 0
    except Exception:  # noqa: BLE001 -- a survey says why
        return False


def _archived(table: Table, uuids: set[str], kinds: Collection[Kind] = APPLIED_KINDS) -> set[str]:
    """Give the uuids of tables of which the archive has an entry of some kinds."""
    if not uuids:
        return set()
    found: set[str] = set()
    wanted = pa.array(sorted(each.value for each in kinds), pa.string())
    for rows in ArchiveScan(table).newest_first(("commit_ts", "kind", "table_uuid")):
        at = pc.is_in(rows["kind"].cast(pa.string()), wanted)
        found |= uuids.intersection(rows.filter(at)["table_uuid"].to_pylist())
    return found


def _said(bad: Snapshot) -> Entry | None:
    summary = texts_of(bad)
    try:
        commit_ts = number(summary.get(_entry.COMMIT_TS) or "", _entry.COMMIT_TS)
        txn_id = summary.get(_entry.TXN_ID) or ""
        _entry.check_txn_id(txn_id)
    except (CorruptLog, InvalidUsage):
        return None
    applies = summary.get(_entry.KIND) not in _APPLIED_TO_NONE
    return Entry(
        Kind.COMMIT,
        txn_id,
        upper=commit_ts,
        tidied_upto=0,
        commit_ts=commit_ts,
        read_ts=max(commit_ts - 1, 0),
        engine=THIS_ENGINE,
        comment="void: the record could not be read",
        changes=_tables(summary.get(_change.TABLES) or "") if applies else (),
    )


def _is_anothers(table: Table, bad: Snapshot, told: Entry) -> bool:
    """
    Whether the log has another entry at what is told of a record: that one counts.

    A forger gives his the `commit_ts` or the id of an entry, which no archive has twice. Aborts
    under its id stand below an entry.
    """
    for each in records_of(table):
        said = texts_of(each)
        at, under = said.get(_entry.COMMIT_TS), said.get(_entry.TXN_ID)
        if each is bad or said.get(_entry.KIND) == Kind.TIDY.value:
            continue
        abort = said.get(_entry.KIND) == Kind.ABORT.value
        if at == str(told.commit_ts) or (under == told.txn_id and not abort):
            return True
    condition = Or(
        EqualTo(term=Reference("commit_ts"), value=told.commit_ts),
        And(
            EqualTo(term=Reference("txn_id"), value=told.txn_id),
            NotEqualTo(term=Reference("kind"), value=Kind.ABORT.value),
        ),
    )
    with suppress(FileNotFoundError):  # of files that are gone a recovery tells
        return any(len(each) for each in ArchiveScan(table, condition).newest_first())
    return False


def _shown(tables: list[ShownTable], told: Entry) -> tuple[Change, ...]:
    """Give what tables show of an entry whose record does not say which ones it changed."""
    key = (told.commit_ts, told.txn_id)
    return tuple(one.entries[key] for one in tables if key in one.entries)


def _tables(stored: str) -> tuple[Change, ...]:
    try:
        return _change.parsed(stored)
    except (CorruptLog, Unsupported):
        return ()


def records_of(table: Table) -> list[Snapshot]:
    """Give the snapshots of a commit table that are records, in their order."""
    every = table.metadata.snapshots
    found = (each for each in every if summary_value(each, _entry.KIND) is not None)
    return sorted(found, key=lambda each: each.sequence_number or 0)


def texts_of(record: Snapshot) -> dict[str, str]:
    """Give what stands in a record under keys whose values are texts."""
    assert record.summary is not None
    stored: dict[str, object] = dict(record.summary.additional_properties)
    return {key: text for key, text in stored.items() if isinstance(text, str)}
