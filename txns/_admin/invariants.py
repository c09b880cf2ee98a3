"""
Every invariant of docs/spec.md, section 12, held against a real catalog.

The log here; data tables in `table_invariants`. Nothing stops at the first violation.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.refs import MAIN_BRANCH

from txns._admin.archive_invariants import check_archive
from txns._admin.findings import Findings
from txns._admin.health import NAMELESS, place_warnings
from txns._admin.inventory import has_nameless, survey
from txns._admin.table_invariants import LoggedTables, check_table, stored
from txns._admin.void_told import stranded
from txns._iceberg import snapshots
from txns._identifier import dotted_name
from txns._log import commit_table
from txns._log import entry as _entry
from txns._log.change import Operation
from txns._log.entry import Entry, Kind
from txns._message import said
from txns._table import mark
from txns.errors import InvalidUsage, TxnsError

if TYPE_CHECKING:
    from txns._log.head import Head
    from txns._services import Parts

INVARIANTS = {
    "I1": "commit_ts increases, and entries chain",
    "I2": "every change moves main to one new snapshot, with a list of its own",
    "I3": "changes of a table are a chain",
    "I4": "txns.applied says what is applied",
    "I5": "changes are applied in order, none skipped",
    "I6": "an entry leaves the head only when it is applied everywhere and archived",
    "I7": "every snapshot of the protocol carries its commit_ts and id",
    "I8": "a transaction id is in one entry, aborts before it aside",
    "I9": "nothing that has not committed is reachable",
    "I10": "all tables of an entry are seen at its commit_ts",
    "I11": "a read before all that is left is an error",
}


def check_all(parts: Parts) -> Findings:
    """
    Check the commit table, then every table under care.

    Raises:
        InvalidUsage: 55000, there is no commit table.
        Unsupported: The log asks for a version or feature that this program does not know.
    """
    found = Findings()
    name = dotted_name(parts.log.identifier)
    try:
        table = parts.log.load_table()
    except NoSuchTableError:
        raise InvalidUsage("55000", f"there is no commit table `{name}`") from None
    _check_records(found, name, table.metadata)
    try:
        head = parts.log.load()
    except TxnsError as error:
        if error.sqlstate != "XX001":
            raise
        if not found.violations:
            found.add(_named(str(error)), name, str(error))
        return found
    surveyed = [(each, stored(parts, each)) for each in survey(parts, head)]
    logged = LoggedTables.of(metadata for _, metadata in surveyed)
    check_archive(found, parts, head, logged)
    _check_payloads(found, parts, head)
    found.warnings.extend(place_warnings(parts, head))
    found.checked["entries in the head"] = len(head.state.entries)
    if has_nameless(parts.catalog):
        found.add("unreadable", parts.catalog.name, NAMELESS.format(catalog=parts.catalog.name))
    for each, metadata in surveyed:
        found.violations.extend(check_table(parts, head, each, metadata, logged))
    _check_missing(found, parts, head, logged)
    found.checked["tables"] = len(surveyed)
    return found


def _named(message: str) -> str:
    """Give the invariant that an error's message names; `log` for none."""
    found = re.search(r"\bI[0-9]+\b", message)
    return found[0] if found and found[0] in INVARIANTS else "log"


def _check_records(found: Findings, name: str, metadata: Any) -> None:
    """Check each record on its own, and the commit table around them (3.1, I1, I2, I6)."""
    for snapshot in metadata.snapshots:
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        if _entry.KIND not in summary:
            continue
        try:
            _entry.from_summary(summary)
        except TxnsError as error:
            if error.sqlstate != "XX001":
                raise
            found.add(_named(str(error)), f"{name} snapshot {snapshot.snapshot_id}", str(error))
    for key, wanted in commit_table.PROPERTIES.items():
        if metadata.properties.get(key) != wanted:
            found.add("3.1", name, f"{key} is {metadata.properties.get(key)}, not {wanted}")
    for ref in metadata.refs:
        if ref != MAIN_BRANCH:
            found.add("3.1", name, f"it has the ref {ref}; only main is allowed")
    wanted_columns = [(f.field_id, f.name, str(f.field_type)) for f in commit_table.SCHEMA.fields]
    columns = [(f.field_id, f.name, str(f.field_type)) for f in metadata.schema().fields]
    if columns[: len(wanted_columns)] != wanted_columns:
        found.add("3.1", name, "its columns are not those of the archive")


def _check_payloads(found: Findings, parts: Parts, head: Head) -> None:
    """Check that the payload of each entry says what the entry says (I2, I3, I7)."""
    for entry in head.state.entries:
        if not entry.applies:
            continue
        where = f"entry {entry.commit_ts}"
        try:
            requests = parts.log.requests(entry)
        except Exception as error:  # noqa: BLE001 -- said, and the rest is checked
            found.add("payload", where, said(error))
            continue
        for change, request in zip(entry.carried, requests, strict=True):
            for invariant, words in _payload_problems(entry, change, request):
                found.add(invariant, f"{where}, {dotted_name(change.table)}", words)


def _payload_problems(entry: Entry, change: Any, request: Any) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    named = (*request.identifier.namespace.root, request.identifier.name)
    if named != change.table:
        found.append(("4.5", f"its request names {dotted_name(named)}"))
    refs = [each.ref_name for each in request.updates if each.action == "set-snapshot-ref"]
    found += [
        ("I2", f"it sets {ref} {count} times") for ref, count in Counter(refs).items() if count > 1
    ]
    mains = [
        each.snapshot_id
        for each in request.updates
        if each.action == "set-snapshot-ref" and each.ref_name == MAIN_BRANCH
    ]
    if mains != [change.to_snapshot_id]:
        found.append(("I2", f"it moves main to {mains}, the entry says {change.to_snapshot_id}"))
    guards = [
        each.snapshot_id
        for each in request.requirements
        if each.type == "assert-ref-snapshot-id" and each.ref == MAIN_BRANCH
    ]
    if guards and guards != [change.from_snapshot_id]:
        found.append(("I3", f"it stands on {guards}, the entry says {change.from_snapshot_id}"))
    for each in request.updates:
        if each.action != "add-snapshot":
            continue
        snapshot = each.snapshot
        marks = (
            snapshots.summary_value(snapshot, mark.SNAPSHOT_COMMIT_TS),
            snapshots.summary_value(snapshot, mark.SNAPSHOT_TXN_ID),
            snapshot.timestamp_ms,
        )
        if marks != (str(entry.commit_ts), entry.txn_id, entry.commit_ts):
            found.append(("I7", f"its snapshot {snapshot.snapshot_id} carries {marks}"))
    return found


def _is_adopted(head: Head, uuid: str, applied_ts: int) -> bool:
    """Whether a repair is the first outstanding change; whether it fits, the survey has said."""
    run = head.state.changes(uuid, after=applied_ts, upto=head.upper)
    return bool(run) and run[0].entry.kind is Kind.REPAIR


def _check_missing(found: Findings, parts: Parts, head: Head, logged: LoggedTables) -> None:
    """Check that every table whose entries have left the head shows them (I6)."""
    for uuid, newest in logged.newest.items():
        if newest.kind is Kind.FORGET or head.state.forgotten_ts(uuid) >= newest.commit_ts:
            continue
        change = next(each for each in newest.changes if each.uuid == uuid)
        archived_ts = logged.archived_ts.get(uuid)
        if change.operation is Operation.DROP or archived_ts is None:
            continue
        if not change.table[:-1]:
            continue  # it cannot be read, which is said once
        where = dotted_name(change.table)
        applied = parts.tables.applied_ts(change.table, uuid)
        if applied < 0:
            found.add(
                "I6",
                where,
                "its entries have left the head, and the catalog has no such table: it was dropped,"
                " replaced or renamed by somebody",
            )
        elif applied < archived_ts and not _is_adopted(head, uuid, applied):
            found.add("I6", where, f"{archived_ts} has left the head, txns.applied is {applied}")
    for one in stranded(parts, head.state):
        words = f"nobody can apply {one.commit_ts}: the catalog has no such table, and the log"
        words += " does not create it (that entry may be void)"
        where, cure = dotted_name(one.change.table), f"`txns recover --void {one.commit_ts}`"
        found.add("8.1", where, f"{words}: {cure}")
