"""
Files of the commit table that somebody may be reading: those of what was its head of late.

Whoever removes what is superseded, or what nothing refers to, leaves them for ten minutes
(docs/spec.md 3.3, 10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.scheduler import MINUTE_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table.metadata import TableMetadata

    from tests.simulation.catalogs import Identifier, Registry
    from tests.simulation.contents import Contents

GRACE_MS = 10 * MINUTE_MS


def files_of_late_heads(registry: Registry, contents: Contents, name: Identifier) -> set[str]:
    """Give what the head of a commit table names, and what was its head in the grace period."""
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
    since_ms = registry.storage.world.now_ms - GRACE_MS
    for moved_ms, location in reversed(registry.past.get(name, ())):
        if moved_ms <= since_ms:
            return
        metadata = registry.storage.files.get(location)
        if metadata is not None and not isinstance(metadata, bytes):
            yield location, metadata
