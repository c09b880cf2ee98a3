"""
Files that take rows away, which engines on the JVM write and pyiceberg does not.

A file's path says which rows, as that of a data file which it holds.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from tests.simulation.keys import KEYS
from tests.simulation.rows import held, rows_of
from tests.simulation.settings import Switch
from tests.simulation.where import PART

if TYPE_CHECKING:
    from random import Random

    from tests.simulation.rows import Row, Rows
    from tests.simulation.settings import Settings


class Deletes(Enum):
    """Their kinds, by the folders of theirs."""

    POSITION = "position-deletes"
    VECTOR = "vectors"
    """Of format 3, one for a data file."""
    EQUALITY = "equality-deletes"


_SWITCHES = frozenset({Switch.DELETE_FILES, Switch.EQUALITY_DELETES, Switch.FORMAT_3})


def are_written(settings: Settings) -> bool:
    """Whether a run has any."""
    return not _SWITCHES.isdisjoint(settings.switches)


def are_by_value(settings: Settings, table: Any) -> bool:
    """Whether rows of a table are taken away by value: files that do it are for all partitions."""
    specs = table.specs().values()
    in_parts = any(field.name == PART for each in specs for field in each.fields)
    return settings.has(Switch.EQUALITY_DELETES) and not in_parts


def choice(
    settings: Settings, rng: Random, table: Any, tasks: list[Any]
) -> tuple[Deletes, Any, Row] | None:
    """Choose how a row is taken away, of which scanned file, and which one; None: there is none."""
    kinds = [Deletes.EQUALITY] if are_by_value(settings, table) else []
    if table.metadata.format_version > 2:
        kinds.append(Deletes.VECTOR)
    elif settings.has(Switch.DELETE_FILES):
        kinds.append(Deletes.POSITION)
    if not kinds:
        return None
    kind = rng.choice(kinds)
    # A key may stand in a file that it was taken from before, where a name tells no position.
    by_name = kind is not Deletes.EQUALITY
    rows = [
        (task, row)
        for task in tasks
        for row in sorted(held([task]))
        if not (by_name and row in KEYS)
    ]
    return (kind, *rng.choice(rows)) if rows else None


def path(metadata: Any, kind: Deletes, rows: Rows, version: int) -> str:
    """Give the path of a file that takes rows away."""
    suffix = "puffin" if kind is Deletes.VECTOR else "parquet"
    name = "+".join(map(str, sorted(rows)))
    return f"{metadata.location}/data/{kind.value}/{name}-{version}.{suffix}"


def by_position(task: Any) -> Rows:
    """Give the rows that delete files of a scanned file take away by their positions."""
    return frozenset(
        row
        for each in task.delete_files
        if f"/{Deletes.EQUALITY.value}/" not in each.file_path
        for row in rows_of(each.file_path)
    )
