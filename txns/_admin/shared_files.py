"""
Files below a table's location that another table of the catalog uses.

Locations go by names in most catalogs: after a rename two tables lie in one place, and somebody
who may write the log can give a table the place of another one (docs/spec.md 6.8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import TableProperties

from txns._admin.inventory import namespaces
from txns._iceberg import manifests, places
from txns._iceberg.manifest_entries import live_entries
from txns._identifier import dotted_name
from txns.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from txns._identifier import Identifier

_PLACES = (TableProperties.WRITE_METADATA_PATH, TableProperties.WRITE_DATA_PATH)


def used_by_others(catalog: Catalog, name: Identifier, location: str) -> set[str]:
    """
    Give the files that tables use whose places and a location lie in each other, or are one.

    Args:
        catalog: Whose tables are looked at.
        name: The table that is left out.
        location: Its.

    Returns:
        Paths as `places.plain` writes them.

    Raises:
        OSError: A file cannot be read that tells what another table uses.
        Unsupported: Another table cannot be loaded, though it is there.
    """
    used: set[str] = set()
    for table in _others(catalog, name):
        roots = (table.location(), *filter(None, map(table.properties.get, _PLACES)))
        if any(_overlap(root, location) for root in roots):
            used |= {places.plain(path) for path in _files(table)}
    return used


def _others(catalog: Catalog, name: Identifier) -> Iterator[Table]:
    for namespace in namespaces(catalog):
        for other in catalog.list_tables(namespace):
            if other == name:
                continue
            try:
                yield catalog.load_table(other)
            except (NoSuchTableError, FileNotFoundError):
                continue  # its metadata is gone: nobody reads anything of it
            except Exception as error:
                raise Unsupported(
                    "another table cannot be loaded, and may use files of this one, so nothing is"
                    " deleted: run it again in 10 minutes, with the right to read that one, or"
                    f" take it out of the catalog; table=`{dotted_name(name)}`"
                    f" other=`{dotted_name(other)}`"
                ) from error


def _overlap(one: str, other: str) -> bool:
    same = places.plain(one) == places.plain(other)
    return same or places.is_below(one, other) or places.is_below(other, one)


def _files(table: Table) -> Iterator[str]:
    """Give all files that a table's metadata leads to."""
    metadata = table.metadata
    yield table.metadata_location
    yield from (each.metadata_file for each in metadata.metadata_log)
    statistics = (*metadata.statistics, *metadata.partition_statistics)
    yield from (each.statistics_path for each in statistics)
    listed = {}
    for path in {each.manifest_list for each in metadata.snapshots}:
        yield path
        listed.update({each.manifest_path: each for each in manifests.manifests_of(table.io, path)})
    for path, manifest in listed.items():
        yield path
        for entry in live_entries(table.io, manifest):
            yield entry.data_file.file_path
