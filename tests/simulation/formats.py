"""Tables of format 3, which pyiceberg reads and does not write (apache/iceberg-python#1551)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.table.metadata import TableMetadataV2, TableMetadataV3

if TYPE_CHECKING:
    from tests.simulation.catalogs import Identifier, Registry

NEWEST = 3


def replaced() -> list[tuple[Any, str, Any]]:
    """Give what lets storage and servers hold such tables, as (owner, name, with what)."""
    return [(TableMetadataV3, "model_dump_json", TableMetadataV2.model_dump_json)]


def upgrade(registry: Registry, name: Identifier) -> None:
    """Upgrade a table's format as Iceberg does: its rows get ids when it is written next."""
    at, before = registry.pointers[name], registry.metadata(name)
    upgraded = {**before.model_dump(by_alias=True), "format-version": NEWEST, "next-row-id": 0}
    location = at.replace(".metadata.json", "-upgraded.metadata.json")
    registry.storage.files[location] = TableMetadataV3.model_validate(upgraded)
    registry.swap(name, at, location)
