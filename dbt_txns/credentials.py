"""What a profile says: where Spark is, which catalog, and how models are committed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from dbt.adapters.contracts.connection import Credentials
from dbt_common.dataclass_schema import StrEnum
from dbt_common.exceptions import DbtRuntimeError

from txns_spark import dbapi
from txns_spark._secrets import masked

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_CATALOG = "lake"
RETRIES_DEFAULT = 3
_ANSI = "spark.sql.ansi.enabled"


class Method(StrEnum):
    """How Spark is reached."""

    SESSION = "session"
    CONNECT = "connect"
    THRIFT = "thrift"


_KEYS = {
    Method.SESSION: {"uri", "warehouse", "commit_table", "config"},
    Method.CONNECT: {"host", "port", "token", "use_ssl"},
    Method.THRIFT: {
        *("host", "port", "use_ssl", "user"),
        *("password", "auth", "kerberos_service_name"),
    },
}
"""What each method takes besides the keys that all of them take."""


class TransactionScope(StrEnum):
    """What is one transaction."""

    MODEL = "model"
    NONE = "none"


@dataclass
class TxnsCredentials(Credentials):
    """
    A target of a profile; docs/dbt.md lists the keys.

    Attributes:
        database: The catalog; `catalog` is an alias. "lake" if not told.
        schema: Where models go by default.
        method: session (Spark in this process), connect or thrift.
        uri: Method session: where the catalog is; SQLite below ./txns-warehouse if not told.
        warehouse: Method session: where tables are stored.
        commit_table: Method session: the commit table of this target.
        host: Methods connect and thrift: the server.
        port: Of the server; 15002 for connect, 10000 for thrift if not told.
        user: Method thrift.
        password: Method thrift, for auth LDAP or CUSTOM.
        auth: Method thrift: the server's hive.server2.authentication.
        kerberos_service_name: Method thrift, for auth KERBEROS.
        token: Method connect.
        use_ssl: Methods connect and thrift.
        config: Method session: settings of the Spark that is started (spark...).
        server_side_parameters: Settings of each session (spark.sql...).
        transaction: "model": each model is a transaction; "none": each statement is.
        isolation: Level of the models' transactions.
        retries: How often a model is run again that lost a race or its session.
    """

    database: str = DEFAULT_CATALOG
    schema: str = "default"
    method: Method = Method.SESSION
    uri: str | None = field(default=None, repr=False)
    warehouse: str | None = None
    commit_table: str | None = None
    host: str | None = None
    port: int | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    auth: str | None = None
    kerberos_service_name: str | None = None
    token: str | None = field(default=None, repr=False)
    use_ssl: bool = False
    config: dict[str, Any] = field(default_factory=dict, repr=False)
    server_side_parameters: dict[str, Any] = field(default_factory=dict, repr=False)
    transaction: TransactionScope = TransactionScope.MODEL
    isolation: str = "SNAPSHOT"
    retries: int = RETRIES_DEFAULT
    connect_retries: int = 0
    connect_timeout: int = 10

    _ALIASES: ClassVar[dict[str, str]] = {"catalog": "database"}

    def __post_init__(self) -> None:
        """
        Check what belongs together.

        Raises:
            DbtRuntimeError: The message names the key of the profile.
        """
        if self.method != Method.SESSION and not self.host:
            raise DbtRuntimeError(f"method: {self.method} needs `host` in the profile")
        own = _KEYS[Method(self.method)]
        others = [key for keys in _KEYS.values() for key in keys - own if getattr(self, key)]
        if others:
            raise DbtRuntimeError(
                f"{', '.join(sorted(set(others)))}: not for method: {self.method}; remove it. The "
                f"method takes {', '.join(sorted(own))}; where a server's catalog is, its own "
                f"configuration says (spark.sql.catalog.{self.database}...)"
            )
        self.isolation = checked_level(self.isolation)
        self.retries = checked_retries(self.retries)
        # dbt-spark turns ANSI off; a transaction should not commit what silently became NULL.
        self.server_side_parameters = {
            _ANSI: "true",
            **{str(key): _text(value) for key, value in self.server_side_parameters.items()},
        }
        self.config = {str(key): _text(value) for key, value in self.config.items()}

    @property
    def type(self) -> str:
        """The adapter's name in a profile."""
        return "txns"

    @property
    def unique_field(self) -> str:
        """What tells one installation from another; dbt hashes it."""
        return self.host or self.uri or "embedded"

    def _connection_keys(self) -> tuple[str, ...]:
        """Name what `dbt debug` shows."""
        return (
            "method",
            "host",
            "port",
            "database",
            "schema",
            "uri",
            "warehouse",
            "commit_table",
            "transaction",
            "isolation",
            "retries",
        )

    def connection_info(self, *, with_aliases: bool = False) -> Iterator[tuple[str, Any]]:
        """Give what `dbt debug` shows, and `target` in Jinja; a URI without its password."""
        for key, value in super().connection_info(with_aliases=with_aliases):
            yield key, masked(value) if isinstance(value, str) else value


def checked_level(value: str) -> str:
    """
    Give an isolation level as Spark's statements spell it.

    Raises:
        DbtRuntimeError: There is no such level.
    """
    level = " ".join(str(value).upper().replace("_", " ").split())
    if level not in dbapi.LEVELS:
        raise DbtRuntimeError(
            f"there is no such isolation level; choose one of {', '.join(dbapi.LEVELS)}: "
            f"isolation={value}"
        )
    return level


def checked_retries(value: object) -> int:
    """
    Give a number of retries.

    Raises:
        DbtRuntimeError: It is none.
    """
    # A bool is an int to Python, but no number to who wrote it.
    if isinstance(value, bool) or not re.fullmatch(r"\d+", str(value)):
        raise DbtRuntimeError(f"retries must be a whole number, 0 or more: retries={value}")
    return int(str(value))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
