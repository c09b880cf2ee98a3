"""What has committed, a row per entry and table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from txns._commit.outstanding import AppliedTo

if TYPE_CHECKING:
    from txns._services import Parts


def transactions(parts: Parts) -> list[dict[str, Any]]:
    """Give a row per entry and table, ascending by `commit_ts`, with a column `applied`."""
    head = parts.log.load()
    applied = AppliedTo(parts.tables, head.state)
    return [
        {**row, "applied": entry is None or change is None or applied.shows(entry, change)}
        for row, entry, change in parts.timeline.rows(head.state)
    ]
