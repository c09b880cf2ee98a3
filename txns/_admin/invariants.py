"""
Every invariant of docs/spec.md, section 12, held against a real catalog.

The log here; data tables in `table_invariants`. Nothing stops at the first violation.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.refs import MAIN_BRANCH

from txns._admin.health import NAMELESS
from txns._admin.inventory import has_nameless, survey
from txns._admin.table_invariants import LoggedTables, Violation, check_table
from txns._iceberg import snapshots
from txns._identifier import dotted_name
from txns._log import commit_table
from txns._log import entry as _entry
from txns._log.archive import entries_of
from txns._log.entry import APPLIED_KINDS, Entry, Isolation, Kind, Operation
from txns._table import mark
from txns.errors import InvalidUsage, TxnsError

if TYPE_CHECKING:
    from txns._log.commit_log import Head
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


@dataclass
class Findings:
    """What was looked at, and what does not hold."""

    violations: list[Violation] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)

    def add(self, invariant: str, where: str, words: str) -> None:
        """Note a violation."""
        self.violations.append(Violation(invariant, where, words))


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
        table = parts.catalog.load_table(parts.log.identifier)
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
    archived = _check_archive(found, parts, head)
    _check_payloads(found, parts, head)
    found.checked["entries in the head"] = len(head.state.entries)
    found.checked["archived entries"] = len(archived)
    logged = LoggedTables.of([*archived, *head.state.entries])
    if has_nameless(parts.catalog):
        words = NAMELESS.format(catalog=parts.catalog.name)
        found.violations.append(Violation("unreadable", parts.catalog.name, words))
    surveyed = survey(parts, head)
    for each in surveyed:
        found.violations.extend(check_table(parts, head, each, logged))
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


def _check_archive(found: Findings, parts: Parts, head: Head) -> list[Entry]:
    """Check rows against each other and against the head (I1, I6, I8); give their entries."""
    name = dotted_name(parts.log.identifier)
    assert head.table is not None
    try:
        # Of this very head: a tidy that comes now moves entries from the one to the other.
        rows = head.table.scan().to_arrow().to_pylist()
    except Exception as error:  # noqa: BLE001 -- said, and the rest is checked
        found.add("I6", name, f"the archive cannot be read: {error}")
        return []
    good = [row for row in rows if _check_row(found, name, row)]
    _check_rows(found, name, good)
    _check_tidied(found, name, good, head)
    archived = entries_of(good)
    _check_ids(found, name, [*archived, *head.state.entries], parts.config.id_retention_ms)
    return archived


def _check_rows(found: Findings, name: str, rows: list[dict[str, Any]]) -> None:
    """Check that one `commit_ts` is one id, and that a row is there once."""
    pairs = {(row["txn_id"], row["commit_ts"]) for row in rows}
    for commit_ts, count in Counter(commit_ts for _, commit_ts in pairs).items():
        if count > 1:
            found.add("I1", name, f"{commit_ts} is of {count} entries")
    twice = Counter((row["commit_ts"], row["txn_id"], row["table_name"]) for row in rows)
    for (commit_ts, _, table), count in twice.items():
        if count > 1:
            found.add("I6", name, f"the row of {commit_ts} and {table} is there {count} times")


def _check_ids(found: Findings, name: str, entries: list[Entry], retention_ms: int) -> None:
    """Check each id over head and archive; it may come again when it is not looked for any more."""
    under: dict[str, Entry] = {}
    for entry in sorted(entries, key=lambda each: each.commit_ts):
        txn_id, before = entry.txn_id, under.get(entry.txn_id)
        under[txn_id] = entry
        if before is None or entry.commit_ts - before.commit_ts > retention_ms:
            continue
        if not before.is_abort:
            found.add("I8", name, f"the id {txn_id} stands above its entry {before.commit_ts}")
        elif not entry.is_abort and entry.read_ts < before.commit_ts:
            found.add("I8", name, f"the id {txn_id} has committed from before its abort")


def _check_tidied(found: Findings, name: str, rows: list[dict[str, Any]], head: Head) -> None:
    """Check that head and archive are one log: nothing in both, nothing in neither."""
    state = head.state
    archived = {row["commit_ts"] for row in rows}
    for entry in state.entries:
        if entry.commit_ts in archived:
            found.add("I6", name, f"{entry.commit_ts} is in the head and in the archive")
        known = not entry.prev_ts or entry.prev_ts in archived or _stands(head, entry.prev_ts)
        if entry.commit_ts <= state.tidied_upto and not known:
            found.add("I1", name, f"the entry before {entry.commit_ts}, {entry.prev_ts}, is gone")
    above = sorted(commit_ts for commit_ts in archived if commit_ts > state.tidied_upto)
    if above:
        found.add("I6", name, f"rows above tidied-upto {state.tidied_upto}: {above}")
    tidied = state.tidied_upto  # where a recovery has put it, its entry may stand
    if tidied and tidied not in archived and not _stands(head, tidied):
        found.add("I6", name, f"the entry at tidied-upto {tidied} has no row")


def _stands(head: Head, commit_ts: int) -> bool:
    return any(entry.commit_ts == commit_ts for entry in head.state.entries)


def _check_row(found: Findings, name: str, row: dict[str, Any]) -> bool:
    """Check one row of the archive on its own; give whether it can be used."""
    where = f"{name} row {row['commit_ts']}"
    try:
        Kind(row["kind"])
        Isolation(row["isolation"])
        if row["operation"] is not None:
            Operation(row["operation"])
    except ValueError as error:
        found.add("3.1", where, str(error))
        return False
    at_ms = round(row["committed_at"].timestamp() * 1000)
    if at_ms != row["commit_ts"]:
        found.add("3.1", where, f"committed_at is {row['committed_at']}")
    if row["read_ts"] >= row["commit_ts"]:
        found.add("I1", where, f"read_ts {row['read_ts']} is not below it")
    return True


def _check_payloads(found: Findings, parts: Parts, head: Head) -> None:
    """Check that the payload of each entry says what the entry says (I2, I3, I7)."""
    for entry in head.state.entries:
        if not entry.applies:
            continue
        where = f"entry {entry.commit_ts}"
        try:
            requests = parts.log.requests(entry)
        except Exception as error:  # noqa: BLE001 -- said, and the rest is checked
            found.add("payload", where, str(error))
            continue
        for change, request in zip(entry.changes, requests, strict=True):
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


def _check_missing(found: Findings, parts: Parts, head: Head, logged: LoggedTables) -> None:
    """Check that every table whose entries have left the head shows them (I6)."""
    for uuid, entries in logged.of_uuid.items():
        newest = entries[-1]
        if newest.kind is Kind.FORGET or head.state.forgotten_ts(uuid) >= newest.commit_ts:
            continue
        change = next(each for each in newest.changes if each.uuid == uuid)
        archived = [
            each.commit_ts
            for each in entries
            if each.kind in APPLIED_KINDS and not _stands(head, each.commit_ts)
        ]
        if change.operation is Operation.DROP or not archived:
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
        elif applied < archived[-1]:
            found.add("I6", where, f"{archived[-1]} has left the head, txns.applied is {applied}")
