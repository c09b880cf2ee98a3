"""
The Spark session of this process, which connections make theirs from.

Imports: _literals, txns_spark. Used by: _connect.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import txns_spark
from txns_spark.dbapi._literals import identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOCK = threading.Lock()
# For a process that starts Spark itself: an application's own driver, on one machine.
_DEFAULTS = {
    "spark.app.name": "txns",
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}


def root_session(
    catalog: str, uri: str | None, warehouse: str | None, config: Mapping[str, str]
) -> Any:
    """Return the session that runs, with the catalog; or start one, once for all threads."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  (Thrift and Connect need no JVM)

    with _LOCK:
        running = SparkSession._instantiatedSession  # noqa: SLF001
        is_running = running is not None and running._jsc is not None  # noqa: SLF001
        if (
            running is not None
            and is_running
            and running.conf.get(f"spark.sql.catalog.{catalog}", "") != ""
            and uri is None
            and warehouse is None
        ):
            return running
        builder = SparkSession.builder
        options = dict(config) if is_running else _DEFAULTS | dict(config)
        for name, value in options.items():
            builder.config(name, value)
        session = txns_spark.configure(
            builder, catalog=catalog, uri=uri, warehouse=warehouse
        ).getOrCreate()
        if uri is None:
            # The embedded default begins as an empty lake, where names need a schema.
            session.sql(f"CREATE NAMESPACE IF NOT EXISTS {identifier(catalog)}.default")
        return session
