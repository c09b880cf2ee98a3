"""
The small files of the archive, which a tidy merges into the one that it writes.

Docs/spec.md 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table

SMALL_FILE_BYTES = 256 * 1024
"""Files of the archive below this size are merged into the next one, once there are enough."""

SMALL_FILES = 4
"""How many there are then: to merge each time would write all of them at each tidy."""


def to_merge(table: Table) -> list[FileScanTask]:
    """Give the small files of a commit table of which no row is deleted, once there are enough."""
    tasks = table.scan().plan_files()
    small = [
        task
        for task in tasks
        if task.file.file_size_in_bytes < SMALL_FILE_BYTES and not task.delete_files
    ]
    return small if len(small) >= SMALL_FILES else []
