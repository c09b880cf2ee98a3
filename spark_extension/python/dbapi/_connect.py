"""Open connections: in this process, to a Spark Connect server, to a Thrift server."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from txns_spark.dbapi import errors
from txns_spark.dbapi._connection import Connection
from txns_spark.dbapi._literals import identifier, path
from txns_spark.dbapi._spark import ClassicSession, ConnectSession

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from txns_spark.dbapi._session import Session

_CONNECT_PORT = 15002
_THRIFT_PORT = 10000
_DEFAULT_SCHEMA = "default"


def connect(
    spark: Any = None,
    *,
    catalog: str = "lake",
    schema: str | None = None,
    uri: str | None = None,
    warehouse: str | None = None,
    config: Mapping[str, str] | None = None,
    isolation_level: str | None = None,
    autocommit: bool = False,
) -> Connection:
    """
    Open a connection in this process, with a Spark session of its own.

    Args:
        spark: A session that runs, and whose catalogs are used. Without it, the session that
            runs in this process, or one that `txns_spark.configure(builder, catalog, uri,
            warehouse)` makes: without arguments SQLite and files below ./txns-warehouse.
            It is left as it is: a catalog with a place of its own is this connection's alone.
        catalog: The current catalog; a name without one is looked up there.
        schema: The current schema; "default", if the catalog has it, if not told.
        uri: Where the catalog is, see `txns_spark.configure`.
        warehouse: Where tables are stored, see `txns_spark.configure`.
        config: Settings of Spark, for a session that is made here, and options of the new one.
        isolation_level: Of its transactions; the catalog's default if not told.
        autocommit: Whether each statement is a transaction of its own.

    Raises:
        ProgrammingError: There is no such catalog or schema; the message names the cure.
        OperationalError: Spark cannot be started.
    """
    from txns_spark.dbapi import _embedded  # noqa: PLC0415  (for a Spark of this process alone)

    lake = _embedded.Lake(catalog, uri, warehouse, config or {})

    def start() -> Session:
        return ClassicSession(_embedded.session_of(lake, spark))

    # Options of another's Spark are set by statements, so that one that cannot be set is an error;
    # but for its catalog's where the connection says itself where that is.
    settings = None
    if spark is not None:
        settings = lake.others(lake.config) if lake.is_told else lake.config
    return _opened(start, (catalog, schema), settings, isolation_level, autocommit=autocommit)


def connect_remote(
    host: str = "localhost",
    port: int | None = None,
    *,
    catalog: str = "lake",
    schema: str | None = None,
    parameters: Mapping[str, str] | None = None,
    config: Mapping[str, str] | None = None,
    isolation_level: str | None = None,
    autocommit: bool = False,
) -> Connection:
    """
    Open a connection to a Spark Connect server, with a session of its own; needs no JVM here.

    Args:
        host: Of the server.
        port: Of the server; 15002 if not told.
        catalog: The current catalog.
        schema: The current schema; "default", if the catalog has it, if not told.
        parameters: Of Spark Connect's connection string: token, use_ssl, user_id, ...
        config: Options of the session (spark.sql...).
        isolation_level: Of its transactions; the catalog's default if not told.
        autocommit: Whether each statement is a transaction of its own.

    Raises:
        ProgrammingError: There is no such catalog or schema; the message names the cure.
        OperationalError: The server does not answer.
    """
    from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415  (needs grpcio)

    url = remote_url(host, port, parameters or {})

    def start() -> Session:
        return ConnectSession(SparkSession.builder.remote(url).create())

    return _opened(start, (catalog, schema), config, isolation_level, autocommit=autocommit)


def remote_url(host: str, port: int | None, parameters: Mapping[str, str]) -> str:
    """Return Spark Connect's connection string: a token may end with "==", or hold a semicolon."""
    encoded = {name: quote(str(value), safe="") for name, value in parameters.items()}
    options = "".join(f";{name}={value}" for name, value in encoded.items())
    return f"sc://{host}:{port or _CONNECT_PORT}/{options}"


def connect_thrift(
    host: str = "localhost",
    port: int | None = None,
    *,
    catalog: str = "lake",
    schema: str | None = None,
    username: str | None = None,
    password: str | None = None,
    auth: str | None = None,
    kerberos_service_name: str | None = None,
    transport: Any = None,
    config: Mapping[str, str] | None = None,
    isolation_level: str | None = None,
    autocommit: bool = False,
) -> Connection:
    """
    Open a connection to a Spark Thrift server, with a session of its own; needs no Spark here.

    Args:
        host: Of the server.
        port: Of the server; 10000 if not told.
        catalog: The current catalog.
        schema: The current schema; "default", if the catalog has it, if not told.
        username: Who asks; the process's user if not told.
        password: For auth LDAP or CUSTOM.
        auth: NONE, NOSASL, LDAP, CUSTOM or KERBEROS; the server's hive.server2.authentication.
        kerberos_service_name: For auth KERBEROS.
        transport: A transport of Thrift, such as one with TLS, that knows the server and how to
            log in; host, port, password, auth and kerberos_service_name are not used then.
        config: Options of the session (spark.sql...).
        isolation_level: Of its transactions; the catalog's default if not told.
        autocommit: Whether each statement is a transaction of its own.

    Raises:
        ProgrammingError: There is no such catalog or schema; the message names the cure.
        OperationalError: The server does not answer.
    """
    from pyhive import hive  # noqa: PLC0415  (only Thrift needs it)

    from txns_spark.dbapi._thrift import ThriftSession  # noqa: PLC0415  (the same)

    server: dict[str, Any] = {
        "host": host,
        "port": port or _THRIFT_PORT,
        "password": password,
        "auth": auth,
        "kerberos_service_name": kerberos_service_name,
    }
    if transport is not None:
        server = {"thrift_transport": transport}

    def start() -> Session:
        return ThriftSession(hive.connect(username=username, **server))

    return _opened(start, (catalog, schema), config, isolation_level, autocommit=autocommit)


def _opened(
    start: Callable[[], Session],
    place: tuple[str, str | None],
    config: Mapping[str, str] | None,
    isolation_level: str | None,
    *,
    autocommit: bool,
) -> Connection:
    """Return a connection over the session that `start` makes, in a catalog and its schema."""
    try:
        session = start()
    except Exception as error:
        raise errors.of_startup(error) from error
    made = Connection(session, autocommit=True)
    try:
        with made.cursor() as cursor:
            # Transactions tell errors of types and ranges only where Spark reports them.
            for name, value in (config or {}).items():
                cursor.execute(f"SET {identifier(name)}={identifier(str(value))}")
        catalog, schema = place
        if not session.use(catalog, schema or _DEFAULT_SCHEMA):
            _choose(made, catalog, schema)
        made.isolation_level = isolation_level
        made.autocommit = autocommit
    except BaseException:
        # A Spark without the extension knows no ROLLBACK; what was wrong before tells more.
        with suppress(errors.Error):
            made.close()
        raise
    return made


def _choose(made: Connection, catalog: str, schema: str | None) -> None:
    """Make catalog and schema the current ones by statements, whose errors tell what is wrong."""
    cursor = made.cursor()
    # Catalogs are loaded, and listed, when they are first named.
    try:
        cursor.execute(f"SHOW NAMESPACES IN {identifier(catalog)}")
    except errors.DatabaseError as error:
        if isinstance(error, errors.ConnectionLost):
            raise
        place = "give uri=... or warehouse=..., " if made.driver == "session" else ""
        raise errors.ProgrammingError(
            f"the session has no catalog of this name; name another in the URL or in catalog=..., "
            f"{place}or start Spark with "
            f"spark.sql.catalog.{catalog}=io.txns.spark.TxnSparkCatalog and its options: "
            f"catalog={catalog}, known={', '.join(_catalogs(made))}; {error}",
            sqlstate="3D000",
        ) from error
    schemas = [str(row[0]) for row in cursor.fetchall()]
    if schema is None and _DEFAULT_SCHEMA not in schemas:
        # Connecting makes nothing: without a schema, names have to say theirs.
        cursor.execute(f"USE {identifier(catalog)}")
        return
    schema = schema or _DEFAULT_SCHEMA
    if schema not in schemas:
        _check_nested(made, catalog, schema, schemas)
    cursor.execute(f"USE {identifier(catalog)}.{path(schema)}")


def _check_nested(made: Connection, catalog: str, schema: str, schemas: list[str]) -> None:
    """Accept "a.b" that stands below "a"; refuse what is nowhere."""
    parent, _, _ = schema.rpartition(".")
    if parent:
        cursor = made.cursor()
        try:
            cursor.execute(f"SHOW NAMESPACES IN {identifier(catalog)}.{path(parent)}")
        except errors.ProgrammingError:
            pass
        else:
            if schema in {str(row[0]) for row in cursor.fetchall()}:
                return
    raise errors.ProgrammingError(
        f"the catalog has no schema of this name; create it (CREATE NAMESPACE {catalog}.{schema}) "
        f"or name another: schema={schema}, known={', '.join(schemas) or 'none'}",
        sqlstate="3F000",
    )


def _catalogs(made: Connection) -> list[str]:
    cursor = made.cursor()
    cursor.execute("SET")
    prefix = "spark.sql.catalog."
    names = {str(row[0]).removeprefix(prefix) for row in cursor if str(row[0]).startswith(prefix)}
    return sorted(name for name in names if "." not in name)
