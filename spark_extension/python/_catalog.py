"""Choose a catalog's options from its URI."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from txns_spark.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

WAREHOUSE = "txns-warehouse"
_DATABASE = "catalog.db"
SQLITE = "org.xerial:sqlite-jdbc:3.54.1.0"
POSTGRESQL = "org.postgresql:postgresql:42.7.14"

# WAL: readers and the one writer do not lock each other out. 30 s: writers queue.
_SQLITE_OPTIONS = "journal_mode=WAL&busy_timeout=30000"
# V1 is the only layout with views, and what pyiceberg shares.
_JDBC = {"type": "jdbc", "jdbc.schema-version": "V1"}
# What USE lake begins in.
_NAMESPACE = {"default-namespace": "default"}
# As JdbcCatalog of Iceberg makes it, and pyiceberg; each makes what is missing beside it.
_NAMESPACES = """
    CREATE TABLE IF NOT EXISTS iceberg_namespace_properties(
        catalog_name VARCHAR(255) NOT NULL,
        namespace VARCHAR(255) NOT NULL,
        property_key VARCHAR(255) NOT NULL,
        property_value VARCHAR(1000) NOT NULL,
        PRIMARY KEY (catalog_name, namespace, property_key))
"""
_DRIVERS = {"jdbc:sqlite:": SQLITE, "jdbc:postgresql:": POSTGRESQL}
DRIVER_CLASSES = {SQLITE: "org.sqlite.JDBC", POSTGRESQL: "org.postgresql.Driver"}
_KINDS = {"http": "rest", "https": "rest", "thrift": "hive", "jdbc": "jdbc"}
TYPE = "type"
IMPLEMENTATION = "catalog-impl"
_WHERE_OPTIONS = frozenset({TYPE, IMPLEMENTATION, "uri"})


class Catalog(NamedTuple):
    """A catalog's options, and the Maven coordinates of the driver that it needs."""

    options: dict[str, str]
    driver: str | None = None


def embedded(warehouse: str | None, name: str) -> Catalog:
    """
    Return a SQLite catalog and files below a local folder; both are made if missing.

    A new one has a namespace `default`, which `USE name` begins in. `txns init` makes the same.
    """
    if warehouse is not None and "://" in warehouse.removeprefix("file://"):
        raise ConfigurationError(
            f"a warehouse outside the local disk needs a catalog: give uri=..., "
            f"warehouse={warehouse}"
        )
    folder = _folder(warehouse)
    # SQLite makes its file but not the folder around it.
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / _DATABASE
    if not database.exists():
        _make(database, name)
    uri = sqlite_uri(database, _SQLITE_OPTIONS)
    return Catalog(_JDBC | _NAMESPACE | {"uri": uri, "warehouse": str(folder)}, SQLITE)


def _folder(warehouse: str | None) -> Path:
    folder = Path((warehouse or WAREHOUSE).removeprefix("file:").replace("///", "/"))
    return folder.expanduser().absolute()


def says_where(options: Mapping[str, str]) -> bool:
    """Tell whether a catalog's options say where it is."""
    return bool(_WHERE_OPTIONS & options.keys())


def is_another(options: Mapping[str, str], uri: str | None, warehouse: str | None) -> bool:
    """
    Tell whether a URI, or a warehouse alone, is of another lake than a catalog's options are.

    A URI is not, where they have none and name no other kind of catalog: that completes them.
    A warehouse alone is, where the options are those of an embedded lake, whose catalog stands
    in its warehouse.
    """
    if uri is not None:
        if "uri" in options:
            return _one(options["uri"]) != _one(uri)
        return options.get(TYPE, _kind(uri)) != _kind(uri)
    if warehouse is None or not is_embedded(options):
        return False
    return _folder(warehouse) != _folder(options["warehouse"])


def _one(uri: str) -> str:
    """Return a URI as all that name the same server write it."""
    return uri.rstrip("/") if _kind(uri) == "rest" else uri


def is_embedded(options: Mapping[str, str]) -> bool:
    """Tell whether a catalog's options are what `embedded` returns."""
    if "uri" not in options or "warehouse" not in options:
        return False
    database = _folder(options["warehouse"]) / _DATABASE
    return options["uri"] == sqlite_uri(database, _SQLITE_OPTIONS)


def of_any_lake(options: Mapping[str, str]) -> dict[str, str]:
    """Return those of a catalog's options that are for another lake, too: ours."""
    return {name: value for name, value in options.items() if name.startswith("txns.")}


def sqlite_uri(database: Path, options: str) -> str:
    """Return JDBC's URI of a database in a file, with the driver's options."""
    return f"jdbc:sqlite:file:{quote(str(database))}?{options}"


def _make(database: Path, name: str) -> None:
    """Make a database with the namespace `default`; two processes at once make one."""
    with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
        connection.execute(_NAMESPACES)
        row = (name, "default", "exists", "true")
        connection.execute(
            "INSERT OR IGNORE INTO iceberg_namespace_properties VALUES (?,?,?,?)", row
        )


def from_uri(uri: str, warehouse: str | None) -> Catalog:
    """
    Return the options of the kind of catalog that the URI's scheme names.

    Raises:
        ConfigurationError: No kind of catalog has this scheme; or a JDBC catalog without
            a warehouse.
    """
    options = {"uri": uri} | ({"warehouse": warehouse} if warehouse is not None else {})
    kind = _kind(uri)
    if kind is None:
        raise ConfigurationError(
            "the uri of a catalog starts with jdbc: (SQL database), http: or https: (REST), or "
            f"thrift: (Hive); for others give its options, **{{'type': ...}}: uri={uri}"
        )
    if kind != "jdbc":
        return Catalog({"type": kind} | options)
    if warehouse is None:
        raise ConfigurationError(f"a JDBC catalog needs a warehouse: give warehouse=..., uri={uri}")
    return Catalog(_JDBC | options, driver_of(uri))


def _kind(uri: str) -> str | None:
    """Return the kind of catalog that a URI's scheme names; None if it names none."""
    return _KINDS.get(uri.partition(":")[0].lower())


def driver_of(uri: str) -> str | None:
    """Return the coordinates of a JDBC URI's driver; None if it is not one of ours to know."""
    return next((driver for start, driver in _DRIVERS.items() if uri.startswith(start)), None)
