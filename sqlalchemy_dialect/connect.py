"""The driver `connect`: a Spark Connect server. `txns+connect://host:15002/catalog/schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy_txns.base import TxnsDialect, check_known, common_arguments, split_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import URL

_PARAMETERS = ("token", "use_ssl", "user_id", "user_agent", "grpc_max_message_size")


class ConnectDialect(TxnsDialect):
    """A Spark Connect server; no JVM in this process."""

    driver = "connect"
    supports_statement_cache = True

    def connect(self, *cargs: Any, **cparams: Any) -> Any:
        """Open a connection."""
        return self.loaded_dbapi.connect_remote(*cargs, **cparams)

    def create_connect_args(self, url: URL) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return what `dbapi.connect_remote` takes."""
        config, options = split_query(url)
        arguments = common_arguments(url, options)
        check_known(options, ("isolation_level", *_PARAMETERS))
        if url.username:
            options["user_id"] = url.username
        if url.password:
            options["token"] = str(url.password)
        arguments |= {"parameters": options, "config": config}
        return (url.host or "localhost", url.port), arguments


dialect = ConnectDialect
