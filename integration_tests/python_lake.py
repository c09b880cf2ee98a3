"""
The tables of a Spark session's catalog `lake`, seen from Python.

Both languages find the same rows of the SQL catalog only under the same catalog name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.sql import SqlCatalog

import txns

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog import Catalog


def plain(folder: Path) -> Catalog:
    """Return the catalog of a folder as an engine sees it that knows no txns."""
    # As long as txns_spark's busy_timeout; WAL is a property of the file.
    return SqlCatalog(
        "lake", uri=f"sqlite:///{folder}/catalog.db?timeout=30", warehouse=str(folder)
    )


def open_lake(folder: Path, **options: Any) -> txns.Handle:
    """
    Open the protocol over the catalog of a folder, with a catalog object of its own.

    It applies what it commits, or leaves that to others: so is the log set then.
    """
    if options.get("apply") == "next":
        txns.open(plain(folder)).change_settings(apply="next")
    return txns.open(plain(folder), **{"apply": "inline", **options})


def rows(catalog: Catalog, table: str) -> list[tuple[Any, ...]]:
    """Return a table's rows as tuples, sorted as `checks.rows` does."""
    found = catalog.load_table(table).scan().to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)
