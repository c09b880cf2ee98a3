"""The dialect `txns`: what all drivers share."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from sqlalchemy import exc, pool, schema
from sqlalchemy.engine import URL
from sqlalchemy.util import immutabledict

from sqlalchemy_txns import _orm, types
from sqlalchemy_txns._compiler import FOR_UPDATE, TxnsCompiler
from sqlalchemy_txns._ddl import TxnsDDLCompiler, TxnsIdentifierPreparer
from sqlalchemy_txns._execution import TxnsExecutionContext, run_many
from sqlalchemy_txns._ids import Ids
from sqlalchemy_txns._reflection import TxnsReflection
from txns_spark import dbapi
from txns_spark._secrets import HIDDEN, is_secret, masked

if importlib.util.find_spec("alembic") is not None:
    from sqlalchemy_txns import _alembic  # noqa: F401  (alembic finds it by its class)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.engine import Engine

AUTOCOMMIT = "AUTOCOMMIT"
VALIDATES_READS = ("STRICT SERIALIZABLE", "SERIALIZABLE")
_CONFIG_PREFIX = "spark."

assert _orm is not None


class ShownURL(URL):
    """An engine's URL, which hides the secrets of its query where SQLAlchemy hides the password."""

    def render_as_string(self, hide_password: bool = True) -> str:  # noqa: FBT001, FBT002  (its own)
        if not hide_password:
            return super().render_as_string(hide_password=False)
        # A value may be a URI with a secret in it, which is written in escapes.
        query: immutabledict[str, tuple[str, ...] | str] = immutabledict(
            {name: _hidden(name, values) for name, values in self.normalized_query.items()}
        )
        shown = URL(*self._replace(query=query)).render_as_string()
        return shown.replace(quote_plus(HIDDEN), HIDDEN)


def _hidden(name: str, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(HIDDEN if is_secret(name) else masked(value) for value in values)


class TxnsDialect(TxnsReflection):
    """Iceberg tables in Spark, with transactions that commit or do not."""

    name = "txns"
    statement_compiler = TxnsCompiler
    ddl_compiler = TxnsDDLCompiler
    type_compiler_cls = types.TxnsTypeCompiler
    preparer: Any = TxnsIdentifierPreparer
    execution_ctx_cls = TxnsExecutionContext
    colspecs = types.COLSPECS
    construct_arguments = [
        (schema.Table, {"partition_by": None, "properties": None, "location": None})
    ]

    default_paramstyle = "qmark"
    supports_statement_cache = True
    supports_schemas = True
    supports_views = True
    supports_alter = True
    supports_comments = True
    inline_comments = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_enum = False
    supports_sequences = False
    supports_identity_columns = False
    supports_default_values = False
    supports_empty_insert = False
    supports_multivalues_insert = True
    supports_server_side_cursors = True
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = True
    supports_is_distinct_from = True
    supports_constraint_comments = True
    postfetch_lastrowid = False
    insert_returning = False
    update_returning = False
    delete_returning = False
    use_insertmanyvalues = False
    tuple_in_values = True
    cte_follows_insert = True
    div_is_floordiv = False
    # File names, and catalogs in databases, take so many.
    max_identifier_length = 128
    default_schema_name = "default"

    def __init__(
        self, json_serializer: Any = None, json_deserializer: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        # SQLAlchemy's JSON type looks for them here.
        self._json_serializer = json_serializer
        self._json_deserializer = json_deserializer
        self.ids = Ids()

    @classmethod
    def import_dbapi(cls) -> Any:
        """Return the module of PEP 249."""
        return dbapi

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        """Return the pool: a connection is a session, and costs some."""
        del url
        return pool.QueuePool

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        """Have the engine show no secret of its URL."""
        engine.url = ShownURL(*engine.url)

    def create_connect_args(self, url: URL) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return what the driver's connect takes; each driver reads the URL in its own way."""
        raise NotImplementedError

    # Transactions

    def get_isolation_level_values(self, dbapi_connection: Any) -> tuple[str, ...]:
        del dbapi_connection
        return (*dbapi.LEVELS, AUTOCOMMIT)

    def get_default_isolation_level(self, dbapi_conn: Any) -> str:
        return str(self.get_isolation_level(dbapi_conn))

    def get_isolation_level(self, dbapi_connection: Any) -> str:
        if dbapi_connection.autocommit:
            return AUTOCOMMIT
        return dbapi_connection.isolation_level or dbapi_connection.default_isolation_level()

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        if level == AUTOCOMMIT:
            dbapi_connection.autocommit = True
            return
        dbapi_connection.autocommit = False
        dbapi_connection.isolation_level = level

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        return bool(dbapi_conn.autocommit)

    def do_commit(self, dbapi_connection: Any) -> None:
        used = _of_driver(dbapi_connection)
        try:
            dbapi_connection.commit()
        except dbapi.Error:
            self.ids.rolled_back(used)
            raise
        self.ids.committed(used)

    def do_rollback(self, dbapi_connection: Any) -> None:
        self.ids.rolled_back(_of_driver(dbapi_connection))
        super().do_rollback(dbapi_connection)

    def do_close(self, dbapi_connection: Any) -> None:
        # One that was lost, or invalidated, ends without a rollback.
        self.ids.rolled_back(_of_driver(dbapi_connection))
        super().do_close(dbapi_connection)

    def do_ping(self, dbapi_connection: Any) -> bool:
        with dbapi_connection.cursor() as cursor:
            # Begins no transaction, and runs no job.
            cursor.execute("SHOW TRANSACTION")
        return True

    def do_rollback_to_savepoint(self, connection: Any, name: str) -> None:
        self.ids.rolled_back(connection.connection.dbapi_connection)
        super().do_rollback_to_savepoint(connection, name)

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        del connection, cursor
        # Of a session that is lost in COMMIT, the outcome is unknown besides.
        return isinstance(e, dbapi.ConnectionLost) or isinstance(e.__cause__, dbapi.ConnectionLost)

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        version = str(connection.exec_driver_sql("SELECT version()").scalar()).split()[0]
        return tuple(int(part) for part in version.split(".") if part.isdigit())

    def _get_default_schema_name(self, connection: Any) -> str:
        return str(connection.exec_driver_sql("SELECT current_schema()").scalar())

    # Statements

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        if FOR_UPDATE in statement and context is not None and context.compiled is not None:
            self._validate_reads(cursor.connection)
        cursor.execute(statement, parameters)

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        self.do_execute(cursor, statement, (), context)

    def _validate_reads(self, connection: Any) -> None:
        """See to it that COMMIT looks at what FOR UPDATE has read, at every level."""
        level = connection.isolation_level or connection.default_isolation_level()
        if level not in VALIDATES_READS:
            connection.validate_reads()

    def do_executemany(
        self, cursor: Any, statement: str, parameters: Sequence[Any], context: Any = None
    ) -> None:
        run_many(cursor, statement, parameters, context)


def _of_driver(connection: Any) -> Any:
    """Return the driver's connection of one that SQLAlchemy's pool has wrapped, or that is one."""
    return getattr(connection, "dbapi_connection", connection)


def split_query(url: URL) -> tuple[dict[str, str], dict[str, str]]:
    """Return a URL's query in two: options of Spark, and those of the driver."""
    query: Mapping[str, Any] = url.normalized_query
    pairs = {name: values[-1] for name, values in query.items()}
    config = {name: value for name, value in pairs.items() if name.startswith(_CONFIG_PREFIX)}
    return config, {name: value for name, value in pairs.items() if name not in config}


def common_arguments(url: URL, options: dict[str, str]) -> dict[str, Any]:
    """Return catalog, schema and isolation level, taken out of `options`."""
    catalog, _, schema_name = (url.database or "").strip("/").partition("/")
    arguments: dict[str, Any] = {}
    if catalog:
        arguments["catalog"] = catalog
    if schema_name:
        arguments["schema"] = schema_name.replace("/", ".")
    if "isolation_level" in options:
        arguments["isolation_level"] = options.pop("isolation_level")
    return arguments


def check_known(options: dict[str, str], known: Sequence[str]) -> None:
    """
    Refuse an option of the URL that means nothing.

    Raises:
        ArgumentError: It names the option and those that there are.
    """
    for name in options:
        if name not in known:
            raise exc.ArgumentError(
                f"the URL has an option that means nothing; there are {', '.join(known)}, and "
                f"options of Spark (spark....): {name}"
            )
