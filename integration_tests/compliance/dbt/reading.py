"""What a project's tables and the log hold, for tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txns_spark import dbapi


def rows(project: Any, table: str) -> list[tuple[Any, ...]]:
    """Return a table of the project, sorted."""
    found = project.run_sql(f"select * from {{database}}.{{schema}}.{table}", fetch="all")
    return sorted(tuple(row) for row in found)


def logged(connection: dbapi.Connection) -> list[dict[str, Any]]:
    """Return what has committed in the whole catalog; each comment of dbt's is unpacked."""
    cursor = connection.cursor()
    cursor.execute("call lake.system.transactions()")
    names = [column.name for column in cursor.description or ()]
    found = [dict(zip(names, values, strict=True)) for values in cursor]
    return [row | {"comment": json.loads(row["comment"] or "{}")} for row in found]
