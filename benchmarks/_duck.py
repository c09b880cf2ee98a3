"""DuckDB with extensions out of packages, which bring them as files: nothing is downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    from types import ModuleType


def connect(*extensions: ModuleType) -> duckdb.DuckDBPyConnection:
    """Open a database in memory that has the extensions of some packages, loaded in order."""
    database = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    database.execute("SET enable_progress_bar = false")
    for extension in extensions:
        [file] = Path(extension.__path__[0]).rglob("*.duckdb_extension")
        database.execute(f"LOAD '{file}'")
    return database
