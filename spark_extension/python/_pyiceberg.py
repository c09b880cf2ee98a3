"""Find Spark's options for a catalog that is configured for pyiceberg."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from txns_spark._catalog import Catalog, from_uri, sqlite_uri
from txns_spark.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

_OWN = frozenset({"type", "uri", "warehouse", "echo", "pool_pre_ping", "init_catalog_tables"})
"""What means nothing to Iceberg's Java, or is said otherwise there."""
_RENAMED = {"s3.region": "client.region"}
_LOCK_WAIT_S = 30
# What psycopg2 and JDBC's driver call the same; the others are no words of both.
_OF_POSTGRESQL = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "options": "options",
    "connect_timeout": "connectTimeout",
    "application_name": "ApplicationName",
}
_CURE = "set spark.sql.catalog.<name> and its options yourself"


def spark_catalog_of(properties: Mapping[str, str]) -> Catalog:
    """
    Return Spark's options, and the driver that they need, for a catalog of pyiceberg's.

    Options of the storage have the same names in both, but for the region; what Iceberg's Java
    needs besides (`io-impl`, jars) is Spark's own to configure.

    Args:
        properties: pyiceberg's, with the catalog's `uri`.

    Raises:
        ConfigurationError: Iceberg's Java has no such catalog, or cannot reach it.
    """
    uri, warehouse = properties.get("uri", ""), properties.get("warehouse")
    kept = {
        _RENAMED.get(name, name): str(value)
        for name, value in properties.items()
        if name not in _OWN and not name.startswith("py-")
    }
    scheme = uri.partition(":")[0]
    if scheme in {"http", "https", "thrift"}:
        found = from_uri(uri, warehouse)
    elif scheme == "sqlite":
        found = from_uri(_of_sqlite(uri), warehouse)
    elif scheme.partition("+")[0] == "postgresql":
        found = _of_postgresql(urlsplit(uri), warehouse)
    else:
        raise ConfigurationError(
            f"Spark's options cannot be told from those of pyiceberg for such a catalog: {_CURE};"
            f" scheme={scheme or 'none'}"  # the rest may be a password
        )
    return found._replace(options=kept | found.options)


def _of_sqlite(uri: str) -> str:
    database, _, query = uri.removeprefix("sqlite:///").partition("?")
    if not database or database.startswith((":", "file:")):
        raise ConfigurationError(f"a database in memory is one process's alone; uri={uri}")
    wait_s = float(dict(parse_qsl(query)).get("timeout", _LOCK_WAIT_S))
    return sqlite_uri(Path(database).absolute(), f"busy_timeout={int(1000 * wait_s)}")


def _of_postgresql(uri: SplitResult, warehouse: str | None) -> Catalog:
    """Give user and password as options of their own: a URI is shown more often."""
    told = dict(parse_qsl(uri.query))
    host = uri.hostname or told.pop("host", "")
    if not host or host.startswith("/"):
        raise ConfigurationError(
            "JDBC reaches PostgreSQL by a host and a port, and by no socket: give"
            f" postgresql+psycopg2://user@host:port/database; host={host or 'none'}"
        )
    unknown = sorted(told.keys() - _OF_POSTGRESQL.keys())
    if unknown:
        raise ConfigurationError(
            f"it is not known what JDBC calls these parameters of the uri: {', '.join(unknown)};"
            f" leave them out, or {_CURE}"
        )
    place = f"[{host}]" if ":" in host else host
    port = f":{uri.port}" if uri.port else ""
    options = {f"jdbc.{_OF_POSTGRESQL[name]}": value for name, value in told.items()}
    for name, value in (("user", uri.username), ("password", uri.password)):
        if value:
            options[f"jdbc.{name}"] = unquote(value)
    found = from_uri(f"jdbc:postgresql://{place}{port}{uri.path}", warehouse)
    return found._replace(options=found.options | options)
