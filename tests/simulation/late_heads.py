"""
Files of the commit table that somebody may be reading: those of what was its head of late.

Whoever removes what is superseded, or what nothing refers to, leaves them for an hour, and those of
the last version of each minute for seven days (docs/spec.md 3.3, 10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.scheduler import DAY_MS, HOUR_MS, MINUTE_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table.metadata import TableMetadata

    from tests.simulation.catalogs import Identifier, Registry
    from tests.simulation.contents import Contents

GRACE_MS = HOUR_MS
KEPT_MS = 7 * DAY_MS


def files_of_late_heads(registry: Registry, contents: Contents, name: Identifier) -> set[str]:
    """Give what the head of a commit table names, was its head of late, or is kept."""
    found = set[str]()
    for location, metadata in _late(registry, name):
        found.add(location)
        for snapshot in metadata.snapshots:
            found.add(snapshot.manifest_list)
            found.update(contents.manifest_paths(snapshot.manifest_list))
            found.update(contents.files(snapshot))
            summary = snapshot.summary.additional_properties if snapshot.summary else {}
            found.add(summary.get("txns.payload-location", ""))
    return found


def _late(registry: Registry, name: Identifier) -> Iterator[tuple[str, TableMetadata]]:
    yield registry.pointers[name], registry.metadata(name)
    now_ms = registry.storage.world.now_ms
    next_upper = registry.uppers[registry.pointers[name]]
    for moved_ms, location in reversed(registry.past.get(name, ())):
        if moved_ms <= now_ms - KEPT_MS:
            return
        upper = registry.uppers[location]
        # Where a log was set back, what stood between is not the last of its minute.
        is_kept = upper // MINUTE_MS < next_upper // MINUTE_MS
        next_upper = upper
        if not is_kept and moved_ms <= now_ms - GRACE_MS:
            continue
        metadata = registry.storage.files.get(location)
        if metadata is not None and not isinstance(metadata, bytes):
            yield location, metadata
