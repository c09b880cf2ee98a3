"""Protections of a log that was lost or set back, taken away (docs/spec.md 9.6)."""

from __future__ import annotations

from typing import Any

from txns._admin import found_log
from txns._commit import due_tables
from txns._stage.staged_table import StagedTable

Patch = tuple[Any, str, Any]


def told_by_nobody() -> list[Patch]:
    """Archive nothing of what tables alone show."""
    return [(found_log, "told_by", lambda *_given: [])]


def passed_over_written_over() -> list[Patch]:
    """Carry out what stands on a table as it was before it showed what the log has lacked."""
    return [(found_log, "passed_over", lambda *_given: [])]


def applied_over_a_recovery() -> list[Patch]:
    """Apply what was loaded before a recovery to tables of the recovered log."""
    return [(due_tables.DueTables, "check_mark", lambda *_given: None)]


def void_reads_committed() -> list[Patch]:
    """Commit on what a transaction has read, though it was made void since."""
    return [(StagedTable, "stands_on_unapplied", frozenset())]
