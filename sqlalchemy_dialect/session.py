"""The driver `session`: Spark in this process. `txns://`, `txns+session:///catalog/schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy_txns.base import TxnsDialect, check_known, common_arguments, split_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import URL

_OPTIONS = ("uri", "warehouse")


class SessionDialect(TxnsDialect):
    """Spark in this process."""

    driver = "session"
    supports_statement_cache = True

    def create_connect_args(self, url: URL) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return what `dbapi.connect` takes."""
        config, options = split_query(url)
        arguments = common_arguments(url, options)
        check_known(options, ("isolation_level", *_OPTIONS))
        return (), arguments | options | ({"config": config} if config else {})


dialect = SessionDialect
