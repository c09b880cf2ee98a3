"""Protections against who may write the commit table, taken away (docs/security.md)."""

from __future__ import annotations

from typing import Any

from txns._admin import void_told
from txns._commit import manifest_lists
from txns._iceberg import places
from txns._log import permitted
from txns._table import allowed_places, mark, replay

Patch = tuple[Any, str, Any]


def forbidden_updates_carried_out() -> list[Patch]:
    """Carry out whatever updates a record has (docs/spec.md 7)."""
    return [(permitted, "forbidden", lambda _logged, _request, _log: "")]


def never_under_care_forgotten() -> list[Patch]:
    """Take a table that records name for one that was under care (8.1)."""
    return [(mark, "was_under_care", lambda _metadata: True)]


def void_tables_taken_for_cared() -> list[Patch]:
    """Archive of a void record all tables that it names (9.6)."""
    return [(void_told, "in_care", lambda _table, _tables, uuids: uuids)]


def places_unchecked() -> list[Patch]:
    """Put tables where records say (7)."""
    return [(allowed_places, "elsewhere", lambda *_given: None)]


def misplaced_lists_read() -> list[Patch]:
    """Have tables read manifests of others (7)."""
    return [(module, "misplaced_files", lambda _base, _updates: []) for module in (places, replay)]


def missing_lists_applied() -> list[Patch]:
    """Put lists on tables that are not there (8.1)."""

    def anyhow(self: Any, table: Any, io: Any, logged: Any, request: Any, *always: str) -> None:
        del self, table, io, logged, request, always

    return [(manifest_lists.ManifestLists, "refuse_missing", anyhow)]


def log_steers_libraries() -> list[Patch]:
    """Write by what the commit table's own properties name (3.1)."""
    return [(permitted, "refuse_steered", lambda _properties: None)]
