"""
Tables whose creation arrives after a recovery that says that it is gone, and what is known of them.

Nothing of a table that is not there is asserted but that, so nothing bars the request. Everybody is
refused who meets the table, whose mark is of the epoch before, until another recovery has brought
in what it shows (docs/spec.md 9.6).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.simulation.attempts import NEWEST, Identifier, Version
from tests.simulation.scheduler import Violation
from tests.simulation.table_checks import applied_of

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from tests.simulation.observer import Observer


def arrives(observer: Observer, name: Identifier, created: TableMetadata) -> None:
    """
    Let the model have a table, and its entry again, which the next recovery finds.

    Until that has come to its end, and below where the log stands then, nothing is judged of it.
    """
    uuid, ts = str(created.table_uuid), applied_of(created)
    entry = observer.gone.get(ts)
    tables = [one for one in entry.tables if one["uuid"] == uuid] if entry else []
    if entry is None or not tables or tables[0]["operation"] != "create":
        raise Violation("recovery", f"{name} arrives at {ts}, which no recovery has told of")
    before = observer.entries.get(ts)
    if before is not None and before.txn_id != entry.txn_id:
        raise Violation("recovery", f"{name} arrives at {ts}, where {before.txn_id} stands by now")
    changes = [entry.changes[entry.tables.index(tables[0])]]
    alone = replace(entry, tables=tables, changes=changes)
    if before is not None:
        alone = replace(
            before, tables=[*before.tables, *tables], changes=[*before.changes, *changes]
        )
    observer.entries[ts] = observer.under[entry.txn_id] = alone
    history = observer.history
    rows = observer.contents.rows(created.current_snapshot())
    history.add(name, Version(ts, exists=True, rows=rows))
    history.lost.setdefault(name, []).append((ts - 1, NEWEST))
    for attempt in history.same_txn(entry.txn_id):
        if any(one.table == name for one in attempt.operations):
            attempt.logged_ts = ts


def is_told(observer: Observer) -> None:
    """Let reads be judged again above where the log stands now: a recovery has come to its end."""
    history = observer.history
    for name, spans in history.lost.items():
        history.lost[name] = [(low, min(high, history.upper)) for low, high in spans]
