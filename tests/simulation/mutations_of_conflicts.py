"""Protections of transactions from each other, taken away (docs/spec.md 11.1)."""

from __future__ import annotations

from typing import Any

from pyiceberg.table import Transaction

from txns._commit import conflict, validation
from txns._log import entry as _entry
from txns._log.change import Operation
from txns._stage import change_builder, txn_table
from txns._stage.staged_table import StagedTable

Patch = tuple[Any, str, Any]


def read_check_dropped() -> list[Patch]:
    """Validate nothing that was read."""
    return [(_entry.Isolation, "validates_reads", property(lambda _self: False))]


def write_check_dropped() -> list[Patch]:
    """Validate nothing that was written over: whoever comes last wins."""

    def on_top(self: Any, request: Any, head: Any, staged: Any, *rest: Any) -> Any:
        if staged.append_only:
            return restaged(self, request, head, staged, *rest)
        newer = self._tables.load(staged.identifier, head, head.upper).metadata
        moved = StagedTable(staged.identifier, staged.io.inner, newer)
        change_builder.stage_copy(
            moved,
            self._clock,
            source=staged.current.current_snapshot(),
            parent=newer.current_snapshot(),
        )
        return moved

    restaged = validation.Validation._restaged
    return [
        (conflict.ConflictChecker, "_write_clash", lambda *_a: None),
        (validation.Validation, "_restaged", on_top),
    ]


def conditional_write_counts_as_append() -> list[Patch]:
    """Take an upsert, or an overwrite with a filter, for what its snapshots are called."""

    def unseen(self: Any, row_filter: str) -> None:
        pass

    noting = txn_table._NotingTransaction
    return [(noting, "_note_conditional", unseen), (noting, "_scan", Transaction._scan)]


def absence_check_dropped() -> list[Patch]:
    """Let two creators of one name commit."""
    clash = conflict.ConflictChecker._clash

    def careless(self: Any, entry: Any, change: Any) -> str | None:
        if change.operation is Operation.CREATE:
            return None
        return clash(self, entry, change)

    return [(conflict.ConflictChecker, "_clash", careless)]


def everything_clashes() -> list[Patch]:
    """Refuse a transaction whatever others have committed since: no other promise is broken."""
    return [(conflict.ConflictChecker, "_clash", lambda *_a: "something was written")]
