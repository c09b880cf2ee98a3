"""The driver `thrift`: a Spark Thrift server. `txns+thrift://user@host:10000/catalog/schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy_txns.base import TxnsDialect, check_known, common_arguments, split_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import URL

_OPTIONS = ("auth", "kerberos_service_name")


class ThriftDialect(TxnsDialect):
    """A Spark Thrift server; no Spark in this process."""

    driver = "thrift"
    supports_statement_cache = True

    def connect(self, *cargs: Any, **cparams: Any) -> Any:
        """Open a connection."""
        return self.loaded_dbapi.connect_thrift(*cargs, **cparams)

    def create_connect_args(self, url: URL) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return what `dbapi.connect_thrift` takes."""
        config, options = split_query(url)
        arguments = common_arguments(url, options)
        check_known(options, ("isolation_level", *_OPTIONS))
        if url.username:
            options["username"] = url.username
        if url.password:
            options["password"] = str(url.password)
        return (url.host or "localhost", url.port), arguments | options | {"config": config}


dialect = ThriftDialect
