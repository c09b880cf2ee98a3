"""
Choose a catalog's options from its URI.

Imports: errors. Used by: _configure.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from txns_spark.errors import ConfigurationError

WAREHOUSE = "txns-warehouse"
SQLITE = "org.xerial:sqlite-jdbc:3.54.1.0"
POSTGRESQL = "org.postgresql:postgresql:42.7.14"

# WAL: readers and the one writer do not lock each other out. 30 s: writers queue.
_SQLITE_OPTIONS = "journal_mode=WAL&busy_timeout=30000"
# V1 is the only layout with views, and what pyiceberg shares.
_JDBC = {"type": "jdbc", "jdbc.schema-version": "V1"}
_DRIVERS = {"jdbc:sqlite:": SQLITE, "jdbc:postgresql:": POSTGRESQL}


class Catalog(NamedTuple):
    """A catalog's options, and the Maven coordinates of the driver that it needs."""

    options: dict[str, str]
    driver: str | None = None


def embedded(warehouse: str | None) -> Catalog:
    """Return a SQLite catalog and files below a local folder, which is made if missing."""
    if warehouse is not None and "://" in warehouse.removeprefix("file://"):
        raise ConfigurationError(
            f"a warehouse outside the local disk needs a catalog: give uri=..., "
            f"warehouse={warehouse}"
        )
    folder = Path((warehouse or WAREHOUSE).removeprefix("file:").replace("///", "/"))
    folder = folder.expanduser().absolute()
    # SQLite makes its file but not the folder around it.
    folder.mkdir(parents=True, exist_ok=True)
    database = quote(str(folder / "catalog.db"))
    options = {"uri": f"jdbc:sqlite:file:{database}?{_SQLITE_OPTIONS}", "warehouse": str(folder)}
    return Catalog(_JDBC | options, SQLITE)


def from_uri(uri: str, warehouse: str | None) -> Catalog:
    """
    Return the options of the kind of catalog that the URI's scheme names.

    Raises:
        ConfigurationError: No kind of catalog has this scheme; or a JDBC catalog without
            a warehouse.
    """
    options = {"uri": uri} | ({"warehouse": warehouse} if warehouse is not None else {})
    scheme = uri.partition(":")[0].lower()
    if scheme in {"http", "https"}:
        return Catalog({"type": "rest"} | options)
    if scheme == "thrift":
        return Catalog({"type": "hive"} | options)
    if scheme != "jdbc":
        raise ConfigurationError(
            "the uri of a catalog starts with jdbc: (SQL database), http: or https: (REST), or "
            f"thrift: (Hive); for others give its options, **{{'type': ...}}: uri={uri}"
        )
    if warehouse is None:
        raise ConfigurationError(f"a JDBC catalog needs a warehouse: give warehouse=..., uri={uri}")
    return Catalog(_JDBC | options, driver_of(uri))


def driver_of(uri: str) -> str | None:
    """Return the coordinates of a JDBC URI's driver; None if it is not one of ours to know."""
    return next((driver for start, driver in _DRIVERS.items() if uri.startswith(start)), None)
