"""What has committed: head and archive together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from txns._log.archive import rows_of

if TYPE_CHECKING:
    from txns._services import Parts


def transactions(parts: Parts) -> list[dict[str, Any]]:
    """Give a row per entry and table, ascending by `commit_ts`, with a column `applied`."""
    head = parts.log.load()
    rows = [{**row, "applied": True} for row in parts.archive.rows()]
    archived = {row["commit_ts"] for row in rows}
    applied: dict[str, int] = {}
    for entry in head.state.entries:
        if entry.commit_ts in archived:
            continue
        for row, change in zip(rows_of(entry), entry.changes or (None,), strict=True):
            done = not entry.applies
            if change is not None and not done:
                if change.uuid not in applied:
                    name = head.state.name_of(change)
                    applied[change.uuid] = parts.tables.applied_ts(name, change.uuid)
                done = applied[change.uuid] >= entry.commit_ts
            rows.append({**row, "applied": done})
    return sorted(rows, key=lambda row: row["commit_ts"])
