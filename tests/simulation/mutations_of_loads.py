"""
Protections from what catalogs answer, taken away.

Of replicas, refusals, letters, clocks, old tables.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from txns._iceberg import free_ids, timestamps
from txns._log import commit_log, commit_table
from txns._log.head import NO_HEAD, Head
from txns._stage import kept_tags
from txns._stage.read_set import ReadSet
from txns._table import data_tables
from txns._table.complete_tables import CompleteTables

Patch = tuple[Any, str, Any]


def head_from_a_cache() -> list[Patch]:
    """Read the log as it was when the process last looked."""
    load = commit_log.CommitLog.load

    def cached(self: Any, rows: Any = None) -> Any:
        return self._last if self._last.exists else load(self, rows)

    return [(commit_log.CommitLog, "load", cached)]


def settled_by_a_stale_head() -> list[Patch]:
    """Take another head for a newer one: a replica's is older (I8)."""

    def another(self: Any, other: Any) -> bool:
        return bool(self.main_id != other.main_id)

    def forgetful(self: Any, table: Any, made: Any = MappingProxyType({})) -> Any:
        self._last = NO_HEAD
        return remember(self, table, made)

    remember = commit_log.CommitLog._remember
    return [
        (Head, "is_past", another),
        (commit_log.CommitLog, "_is_older", lambda *_a: False),
        (commit_log.CommitLog, "_remember", forgetful),
    ]


def refusal_believed() -> list[Patch]:
    """Take a refusal for the truth: nothing has been carried out (I8)."""
    replace_head = commit_log.CommitLog.replace

    def believing(self: Any, head: Any, updates: Any, made: Any = MappingProxyType({})) -> Any:
        swap = replace_head(self, head, updates, made)
        if swap.outcome is swap.Outcome.REFUSED:
            raise swap.cause
        return swap

    return [(commit_log.CommitLog, "replace", believing)]


def log_created_in_the_loop() -> list[Patch]:
    """Create the commit table wherever it is missing, and take any for the one that was."""

    def made(self: Any, rows: Any = None) -> Any:
        head = self.load_if_exists(rows)
        if head.exists:
            return head
        commit_table.create(self.catalog, self.identifier, self._clock)
        return self.load_if_exists()

    return [
        (commit_log.CommitLog, "load", made),
        (commit_log.CommitLog, "_is_older", lambda *_a: False),
    ]


def applied_not_held_against_archive() -> list[Patch]:
    """Take a table as it was loaded, whatever has left the head since it was so (spec 11.2)."""

    def as_it_comes(self: Any, identifier: Any, _head: Any) -> Any:
        return self.catalog.load_table(identifier), None

    return [(CompleteTables, "load", as_it_comes)]


def set_back_read_as_it_is() -> list[Patch]:
    """Give a table that was set back to readers, without what it lacks (spec 9.1)."""
    return [(data_tables, "_check_complete", lambda *_a: None)]


def reads_by_name_only() -> list[Patch]:
    """Look for what was read under the names of entries, which others may have written it by."""
    return [(ReadSet, "known_as", lambda _self, table, _uuid: {table})]


def timestamp_of_the_clock() -> list[Patch]:
    """Give snapshots of tables the clock's time, above the table's newest one or not (8.3)."""

    def clocks(_base: Any, commit_ts: int, now_ms: int) -> int:
        return min(commit_ts, now_ms + timestamps.TOLERANCE_MS)

    return [(timestamps, "acceptable_ts", clocks)]


def kept_tag_forgotten() -> list[Patch]:
    """Make removed files live again without a tag that keeps them from an expiry (6.9)."""
    return [(kept_tags, "protect", lambda *_a, **_k: None)]


def ids_as_staged() -> list[Patch]:
    """Take the ids of schemas that a change names for the table's (docs/spec.md 7)."""
    by_ids_of = free_ids.by_ids_of

    def as_staged(base: Any, request: Any, source: Any) -> Any:
        del source
        return by_ids_of(base, request, None)

    return [(free_ids, "by_ids_of", as_staged)]
