"""
The Spark session of a connection in this process, and its catalogs.

One Spark runs in a process, whose sessions know what it was started with and nothing of what
another session has set. Spark makes catalogs per session, when they are first needed, by that
session's settings: so connections to several lakes stand side by side.
"""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from txns_spark import _catalog
from txns_spark._settings import Settings
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
_CATALOGS = "spark.sql.catalog."
# It is there without any options.
_SPARKS_OWN = "spark_catalog"


class Lake(NamedTuple):
    """What a connection asks for: a catalog, and where it is; as of `connect`."""

    catalog: str
    uri: str | None
    warehouse: str | None
    config: Mapping[str, str]

    @property
    def key(self) -> str:
        """The setting that has the catalog's class, and that its options begin with."""
        return f"{_CATALOGS}{self.catalog}"

    @property
    def is_told(self) -> bool:
        """Whether the connection itself names a place."""
        return self.uri is not None or self.warehouse is not None

    @property
    def is_configured(self) -> bool:
        """Whether its options of Spark name a place."""
        own = Settings(builder=self.config, submit={}, defaults={}).below(f"{self.key}.")
        return _catalog.says_where(own)

    def others(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return settings but for those of the lake's catalog."""
        return {k: v for k, v in settings.items() if not f"{k}.".startswith(f"{self.key}.")}


class _Started(NamedTuple):
    """The session with which a connection has started Spark, and what was configured before."""

    session: Any
    before: Settings


_started: _Started | None = None


def session_of(lake: Lake, spark: Any = None) -> Any:
    """
    Return a session of a connection's own, made from one that runs, or from Spark started for it.

    Its catalogs are those of the session that it is made from, but for one whose place the
    connection names.

    Args:
        lake: What it is to have. The options of its `config` are set where Spark runs already;
            what only a start sets, such as spark.driver.memory, stays as it is.
        spark: The session; that of this process if not told.

    Raises:
        ConfigurationError: As `configure`; SessionAlreadyRunning also where the Spark that runs
            has neither the catalog nor the extension.
    """
    from txns_spark import _configure  # noqa: PLC0415  (Thrift and Connect need no JVM)

    if spark is not None:
        session = spark.newSession()
        _give_catalogs(session, spark, lake, is_own=lake.is_told)
        return session
    root = _root(lake)
    session = root.newSession()
    is_own = lake.is_told or lake.is_configured
    _give_catalogs(session, root, lake, is_own=is_own)
    # Of a lake of its own they are there, but for those that its place has put aside.
    _set(session, lake.others(lake.config) if is_own else lake.config)
    if lake.catalog != _SPARKS_OWN and not session.conf.get(lake.key, ""):
        # Where Spark has no extension either, options of the catalog would not help.
        _configure.launched_conf()
    return session


def _root(lake: Lake) -> Any:
    """Return the session that was started in this process; or start it, once for all threads."""
    global _started  # noqa: PLW0603  (one Spark runs in a process)
    with _LOCK:
        running = _running()
        if running is None:
            _started = _start(lake)
            running = _started.session
        return running


def _start(lake: Lake) -> _Started:
    from pyspark.sql import SparkSession  # noqa: PLC0415  (Thrift and Connect need no JVM)

    from txns_spark import _configure  # noqa: PLC0415  (the same)

    builder = SparkSession.builder
    for name, value in (_DEFAULTS | dict(lake.config)).items():
        builder.config(name, value)
    _configure.configure(builder, lake.catalog, lake.uri, lake.warehouse)
    before = _configure.settings_outside()
    session = builder.getOrCreate()
    _make_default(session, lake, _catalog_settings(session))
    return _Started(session, before)


def _make_default(session: Any, lake: Lake, settings: Mapping[str, str]) -> None:
    """Make the namespace that an embedded lake begins with, where names need a schema."""
    found = Settings(builder=settings, submit={}, defaults={}).below(f"{lake.key}.")
    if lake.uri is None and not lake.is_configured and _catalog.is_embedded(found):
        session.sql(f"CREATE NAMESPACE IF NOT EXISTS {identifier(lake.catalog)}.default")


def _running() -> Any:
    """Return the session that was started in this process, while it runs; else None."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  (see above)

    found = SparkSession._instantiatedSession  # noqa: SLF001
    return found if found is not None and found._sc._jsc is not None else None  # noqa: SLF001


def _give_catalogs(session: Any, root: Any, lake: Lake, *, is_own: bool) -> None:
    """Give a new session, which has used none, the catalogs of another, and a lake of its own."""
    fresh, wanted = _catalog_settings(session), _catalog_settings(root)
    if is_own:
        wanted = _with_lake(wanted, root, lake)
    for name in fresh.keys() - wanted.keys():
        session.conf.unset(name)
    for name, value in wanted.items():
        if fresh.get(name) != value:
            session.conf.set(name, value)
    if is_own:
        _make_default(session, lake, wanted)


def _with_lake(configured: dict[str, str], root: Any, lake: Lake) -> dict[str, str]:
    from txns_spark import _configure  # noqa: PLC0415  (see above)

    before = Settings(builder={}, submit=configured, defaults={})
    if _started is not None and _started.session is root:
        # What the first connection has asked for is not for the others.
        before = _started.before
    settings = replace(before, builder=dict(lake.config))
    own = _configure.settings_beside(settings, lake.catalog, lake.uri, lake.warehouse)
    return lake.others(configured) | own


def _catalog_settings(session: Any) -> dict[str, str]:
    """Return what a session has set of catalogs; in one answer of the JVM, not one for each."""
    mapper = session._jvm.com.fasterxml.jackson.databind.ObjectMapper()  # noqa: SLF001
    text = mapper.writeValueAsString(session._jsparkSession.conf().getAllAsJava())  # noqa: SLF001
    found: dict[str, str] = json.loads(text)
    return {name: value for name, value in found.items() if name.startswith(_CATALOGS)}


def _set(session: Any, config: Mapping[str, str]) -> None:
    from pyspark.errors import PySparkException  # noqa: PLC0415  (see above)

    for name, value in config.items():
        if session.conf.get(name, None) == value:
            continue
        try:
            session.conf.set(name, value)
        except PySparkException as error:
            if not (error.getCondition() or "").startswith(_FIXED):
                raise
