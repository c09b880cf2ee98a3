"""
What Iceberg Java asks of metadata before it loads a table.

Source: the constructor of org.apache.iceberg.TableMetadata. pyiceberg asks for none of it, so
a table may be fine here and unreadable for every engine on the JVM.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tests.simulation.scheduler import MINUTE_MS, Violation

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


def check(name: tuple[str, ...], old: TableMetadata | None, new: TableMetadata) -> None:
    """Fail where Java would refuse to load a table, and would not before; pyiceberg's users may."""
    if why := breaks(old, new):
        raise Violation("java", f"{name}: {why}")


def breaks(old: TableMetadata | None, new: TableMetadata) -> str:
    """Say why Java would refuse to load a table that it could load before; else nothing."""
    return "" if old is not None and _reason(old) else _reason(new)


def _reason(metadata: TableMetadata) -> str:
    """Say why Java would refuse to load a table; nothing where it would not."""
    snapshots = [entry.timestamp_ms for entry in metadata.snapshot_log]
    files = [entry.timestamp_ms for entry in metadata.metadata_log]
    for what, times in (("snapshot log", snapshots), ("metadata log", files)):
        for before, after in pairwise((*times, metadata.last_updated_ms)):
            if after < before - MINUTE_MS:
                return f"the {what} goes from {before} to {after}"
    return ""
