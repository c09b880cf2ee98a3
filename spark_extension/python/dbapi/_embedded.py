"""The Spark session of this process, which connections make theirs from."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

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


# The conditions of options that only the start of Spark sets.
_FIXED = "CANNOT_MODIFY_"


class _Asked(NamedTuple):
    """What the session that runs was asked for last: the same again is not worked out again."""

    catalog: str
    uri: str | None
    warehouse: str | None
    config: dict[str, str]


_last: tuple[_Asked, Any] | None = None


def root_session(
    catalog: str, uri: str | None, warehouse: str | None, config: Mapping[str, str]
) -> Any:
    """Return the session that runs, with the catalog; or start one, once for all threads."""
    global _last  # noqa: PLW0603  (one Spark runs in a process)
    asked = _Asked(catalog, uri, warehouse, dict(config))
    with _LOCK:
        if _last is not None and _last == (asked, _running()):
            return _last[1]
        session = _asked_for(asked)
        _last = asked, session
        return session


def _asked_for(asked: _Asked) -> Any:
    from pyspark.sql import SparkSession  # noqa: PLC0415  (Thrift and Connect need no JVM)

    running = _running()
    nowhere = asked.uri is None and asked.warehouse is None
    if (
        running is not None
        and nowhere
        and running.conf.get(f"spark.sql.catalog.{asked.catalog}", "")
    ):
        return running
    builder = SparkSession.builder
    options = asked.config if running is not None else _DEFAULTS | asked.config
    for name, value in options.items():
        builder.config(name, value)
    session = txns_spark.configure(
        builder, catalog=asked.catalog, uri=asked.uri, warehouse=asked.warehouse
    ).getOrCreate()
    if asked.uri is None:
        # The embedded default begins as an empty lake, where names need a schema.
        session.sql(f"CREATE NAMESPACE IF NOT EXISTS {identifier(asked.catalog)}.default")
    return session


def _running() -> Any:
    """Return the session that was started in this process, while it runs; else None."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  (see above)

    found = SparkSession._instantiatedSession  # noqa: SLF001
    return found if found is not None and found._sc._jsc is not None else None  # noqa: SLF001


def new_session(root: Any, config: Mapping[str, str]) -> Any:
    """
    Return a session of a connection's own, with its options if Spark was started without them.

    What only a start sets, such as spark.driver.memory, stays as it is.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415  (see above)

    session = root.newSession()
    for name, value in config.items():
        if session.conf.get(name, None) == value:
            continue
        try:
            session.conf.set(name, value)
        except PySparkException as error:
            if not (error.getCondition() or "").startswith(_FIXED):
                raise
    return session
