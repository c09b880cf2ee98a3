"""Configure a Spark session's builder for transactions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark import SparkConf
from pyspark.find_spark_home import _find_spark_home

from txns_spark import _catalog, _versions
from txns_spark._jar import JAR_NAME, jar_path
from txns_spark._settings import EXTENSIONS, JARS, PACKAGES, Settings, settings_of
from txns_spark.errors import ConfigurationError, SessionAlreadyRunning, UnsupportedVersion

try:
    from pyspark import SparkContext
except ImportError:  # pyspark-client is a Spark Connect client alone: it has no JVM
    _HAS_JVM = False
else:
    _HAS_JVM = True

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

CATALOG_CLASS = "io.txns.spark.TxnSparkCatalog"
ICEBERG_CATALOG_CLASS = "org.apache.iceberg.spark.SparkCatalog"
ICEBERG_EXTENSION = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
EXTENSION = "io.txns.spark.TxnSparkExtensions"
ICEBERG_PACKAGE = f"org.apache.iceberg:{_versions.ICEBERG_RUNTIME}:{_versions.ICEBERG}"
_OUR_JAR_PREFIX = "txns-spark-"


def configure(
    builder: SparkSession.Builder,
    catalog: str = "lake",
    uri: str | None = None,
    warehouse: str | None = None,
    **catalog_options: str | float | bool,
) -> SparkSession.Builder:
    """
    Make the sessions of a builder transactional, with one catalog.

    Without `uri` and `warehouse` it is the embedded default: a SQLite catalog with a namespace
    `default`, and files below ./txns-warehouse, which are made if missing; or the catalog of
    this name as it is configured already, if it says where it is. Call it again for another
    catalog.

    Nothing configured in the builder, in PYSPARK_SUBMIT_ARGS or in spark-defaults.conf is
    replaced: spark.sql.extensions, spark.jars and spark.jars.packages are appended to, and
    an Iceberg runtime that is there already stays the only one.

    The exception is a catalog that the builder has at another URI, or with another embedded
    warehouse: of its options only txns.* stay, as the secrets of one server are not for
    another. What the other two say of the catalog Spark reads by itself: for another server
    than theirs take another name.

    Args:
        builder: `SparkSession.builder`, also with options of its own.
        catalog: The catalog's name in SQL.
        uri: Where the catalog is: jdbc:..., http(s)://... (REST) or thrift://... (Hive).
            The drivers of SQLite and PostgreSQL are added; bring others yourself.
        warehouse: Where tables are stored: a folder or a URI. A JDBC catalog needs it.
        **catalog_options: Options of Iceberg and of txns under their own names, which hold
            dots and hyphens: `**{"io-impl": "...", "txns.apply": "next"}`.

    Returns:
        The builder.

    Raises:
        ConfigurationError: The message names the cure. SessionAlreadyRunning if a session
            without the extension runs in this process; UnsupportedVersion for another Spark
            or Iceberg than the jar's; JarNotFound if the package has no jar.
    """
    _versions.check_spark(pyspark.__version__)
    _check_names(catalog, catalog_options)
    options = {name: _text(value) for name, value in catalog_options.items()}
    _check_not_remote(builder)
    launched = _launched_settings(builder)
    settings = launched or settings_of(_options_of(builder), _spark_home())
    kept = _kept_options(settings, catalog, uri, warehouse)
    chosen = _choose_catalog(kept, catalog, uri, warehouse, options)
    if launched is None:
        _append(builder, settings, JARS, _jars(settings))
        _append(builder, settings, PACKAGES, _packages(settings, chosen.driver))
    _append(builder, settings, EXTENSIONS, _extensions(settings))
    _drop(builder, f"spark.sql.catalog.{catalog}.", kept)
    builder.config(f"spark.sql.catalog.{catalog}", CATALOG_CLASS)
    for name, value in chosen.options.items():
        builder.config(f"spark.sql.catalog.{catalog}.{name}", value)
    return builder


def _check_names(catalog: str, options: Mapping[str, object]) -> None:
    if not catalog.isidentifier():
        raise ConfigurationError(f"a catalog's name is one identifier: catalog={catalog!r}")
    if catalog == "spark_catalog":
        raise ConfigurationError(
            "spark_catalog holds Spark's own tables, too, and takes a class of its own: set "
            "spark.sql.catalog.spark_catalog to io.txns.spark.TxnSparkSessionCatalog by "
            "builder.config(...), and call configure() for another catalog"
        )
    # No option of Iceberg or txns is spelled like that; it would be ignored in silence.
    for name in options:
        if name.isidentifier() and "_" in name:
            raise ConfigurationError(
                f"options are given under their own names: not {name}=... but "
                f"**{{'{name.replace('_', '-')}': ...}} (or with dots, as documented)"
            )


def _spark_home() -> Path:
    return Path(_find_spark_home())  # type: ignore[no-untyped-call]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _options_of(builder: SparkSession.Builder) -> Mapping[str, str]:
    # There is no public way to read a builder.
    return builder._options  # noqa: SLF001


def _check_not_remote(builder: SparkSession.Builder) -> None:
    """Refuse a Spark Connect client: jar and extension belong to the server."""
    remote = _options_of(builder).get("spark.remote") or os.environ.get("SPARK_REMOTE", "")
    if remote.startswith("sc:") or not _HAS_JVM:
        raise ConfigurationError(
            "a Spark Connect client cannot configure its server: start the server with "
            f"--packages {ICEBERG_PACKAGE} --jars {jar_path()} "
            f"--conf {EXTENSIONS}={ICEBERG_EXTENSION},{EXTENSION} and the catalog's options; "
            f"spark.remote={remote or 'not set'}"
        )


def _launched_settings(builder: SparkSession.Builder) -> Settings | None:
    """
    Return the settings of the JVM that this process has already; None if it has none.

    Jars and packages are read only when a JVM is launched, and it outlives spark.stop();
    under spark-submit it is there before Python is.

    Raises:
        SessionAlreadyRunning: As `launched_conf`.
    """
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:  # noqa: SLF001
        return None
    conf = launched_conf()
    return Settings(builder=_options_of(builder), submit=dict(conf.getAll()), defaults={})


def launched_conf() -> SparkConf:
    """
    Return what the JVM of this process was launched with, and its Spark started.

    Raises:
        SessionAlreadyRunning: It was launched without the extension's jar, or its session
            was started without the extension.
    """
    context = SparkContext._active_spark_context  # noqa: SLF001
    SparkContext._ensure_initialized()  # noqa: SLF001
    conf = context.getConf() if context is not None else SparkConf()
    running = conf.get(EXTENSIONS, "") or ""
    if context is not None and EXTENSION not in running:
        raise SessionAlreadyRunning(
            "a Spark session runs in this process already, without the transactions' extension; "
            f"{EXTENSIONS} is static: call spark.stop() and start this Python process again, or "
            "call configure() before the first session is made"
        )
    missing = [name for name in (EXTENSION, ICEBERG_EXTENSION) if not _is_loadable(name)]
    if missing:
        raise SessionAlreadyRunning(
            f"this process has a JVM already, without {' and '.join(missing)}; jars are read only "
            "when a JVM is launched: call configure() before the first session of the process, or "
            f"give spark-submit --packages {ICEBERG_PACKAGE} --jars {jar_path()} (and the package "
            "of the catalog's JDBC driver, if it needs one)"
        )
    return conf


def _is_loadable(class_name: str) -> bool:
    jvm: Any = SparkContext._jvm  # noqa: SLF001
    return bool(getattr(jvm, "org.apache.spark.util.Utils").classIsLoadable(class_name))


def _choose_catalog(
    present: Mapping[str, str],
    name: str,
    uri: str | None,
    warehouse: str | None,
    options: dict[str, str],
) -> _catalog.Catalog:
    """Return the options to set for the catalog; those that are present stay."""
    if uri is not None:
        chosen = _catalog.from_uri(uri, warehouse or present.get("warehouse"))
        if _catalog.IMPLEMENTATION in {*present, *options}:  # which is told more closely
            kinds = {_catalog.TYPE, _catalog.IMPLEMENTATION}
            chosen = chosen._replace(
                options={key: chosen.options[key] for key in chosen.options if key not in kinds}
            )
    elif _catalog.says_where(present) or _catalog.says_where(options):
        driver = _catalog.driver_of(options.get("uri") or present.get("uri", ""))
        chosen = _catalog.Catalog({} if warehouse is None else {"warehouse": warehouse}, driver)
    else:
        chosen = _catalog.embedded(warehouse or present.get("warehouse"), name)
        kept = present.keys() - {"warehouse"}
        chosen = chosen._replace(
            options={key: chosen.options[key] for key in chosen.options if key not in kept}
        )
    return chosen._replace(options=chosen.options | options)


def _kept_options(
    settings: Settings, name: str, uri: str | None, warehouse: str | None
) -> dict[str, str]:
    """
    Return the catalog's options that are configured already, but for those of another lake.

    The warehouse of one lake in the catalog of another would mix their files, and the secrets of
    one server are not for another.
    """
    key = f"spark.sql.catalog.{name}"
    present_class = settings.value(key)
    if present_class not in {"", CATALOG_CLASS, ICEBERG_CATALOG_CLASS}:
        raise ConfigurationError(
            f"the catalog {name} is configured already, as another kind; choose another name: "
            f"configure(builder, catalog=...), {key}={present_class}"
        )
    own = settings.only_builder().below(f"{key}.")
    outer = settings.without_builder().below(f"{key}.")
    where = uri or own.get("uri"), warehouse or own.get("warehouse")
    present = own if _catalog.is_another(outer, *where) else settings.below(f"{key}.")
    if _catalog.is_another(present, uri, warehouse):
        return _catalog.of_any_lake(present)
    return present


def _drop(builder: SparkSession.Builder, prefix: str, kept: Mapping[str, str]) -> None:
    """Take a catalog's options that are not kept out of a builder, which has no way to do that."""
    options = builder._options  # noqa: SLF001
    for name in [name for name in options if name.startswith(prefix)]:
        if name.removeprefix(prefix) not in kept:
            del options[name]


def settings_outside() -> Settings:
    """Return what is configured for a session that has no options of its own."""
    launched = None
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:  # noqa: SLF001
        launched = dict(launched_conf().getAll())
    found = settings_of({}, _spark_home())
    return found if launched is None else Settings(builder={}, submit=launched, defaults={})


def settings_beside(
    settings: Settings, catalog: str, uri: str | None, warehouse: str | None
) -> dict[str, str]:
    """
    Return all settings of a catalog for one more session of a Spark that runs.

    Spark makes catalogs per session, when they are first needed: a session that gets these before
    it has a catalog of its own, whatever Spark was started with.

    Args:
        settings: What is configured: the session's own options as the builder's.
        catalog: The catalog's name in SQL.
        uri: As in `configure`.
        warehouse: As in `configure`.

    Raises:
        ConfigurationError: As `configure`; or the catalog is configured elsewhere, and only its
            warehouse is given; or the JVM that runs lacks the catalog's driver.
    """
    _check_names(catalog, {})
    launched_conf()
    kept = _kept_options(settings, catalog, uri, warehouse)
    if uri is None and _catalog.says_where(kept) and warehouse not in {None, kept.get("warehouse")}:
        raise ConfigurationError(
            "the catalog is configured with another warehouse; give its uri as well, or choose "
            f"another name: catalog={catalog}, configured={kept.get('warehouse')}, "
            f"warehouse={warehouse}, uri={kept.get('uri')}"
        )
    chosen = _choose_catalog(kept, catalog, uri, warehouse, {})
    _check_driver(chosen.driver)
    key = f"spark.sql.catalog.{catalog}"
    options = kept | chosen.options
    return {key: CATALOG_CLASS} | {f"{key}.{name}": value for name, value in options.items()}


def _check_driver(driver: str | None) -> None:
    """Refuse a driver that the JVM was launched without: packages are read only then."""
    if driver is not None and not _is_loadable(_catalog.DRIVER_CLASSES[driver]):
        raise SessionAlreadyRunning(
            "this process has a JVM already, without the driver of the catalog; packages are read "
            "only when a JVM is launched: give it to the first connection, or session, of the "
            f"process: config={{'{PACKAGES}': '{driver}'}}"
        )


def _append(
    builder: SparkSession.Builder, settings: Settings, key: str, additions: list[str]
) -> None:
    value = settings.appended(key, additions)
    if value is not None:
        builder.config(key, value)


def _extensions(settings: Settings) -> list[str]:
    """Return the extensions to add; ours stands behind Iceberg's, whose parser it wraps."""
    present = settings.items(EXTENSIONS)
    if EXTENSION in present and ICEBERG_EXTENSION not in present[: present.index(EXTENSION)]:
        raise ConfigurationError(
            f"{EXTENSIONS} has {EXTENSION} without {ICEBERG_EXTENSION} before it; "
            "leave both to configure(), or put them in this order"
        )
    return [ICEBERG_EXTENSION, EXTENSION]


def _jars(settings: Settings) -> list[str]:
    """Return our jar, unless it is configured already as a jar or a package."""
    names = [_file_name(entry) for entry in settings.items(JARS)]
    names += [package.replace(":", "/") for package in settings.items(PACKAGES)]
    ours = [name for name in names if _OUR_JAR_PREFIX in name and "iceberg" not in name]
    wanted = JAR_NAME.removesuffix(".jar")
    for name in ours:
        if wanted not in name.replace("/", "-"):
            raise UnsupportedVersion(
                f"another version of the Spark extension is configured: {name}; "
                f"use {JAR_NAME}, or leave it to configure()"
            )
    return [] if ours else [str(jar_path())]


def _packages(settings: Settings, driver: str | None) -> list[str]:
    """Return the Iceberg runtime and the driver, unless one of each is configured already."""
    home_jars = _spark_home() / "jars"
    installed = [str(path) for path in home_jars.glob("*.jar")]
    configured = [*settings.items(PACKAGES), *settings.items(JARS), *installed]
    runtimes = [entry for entry in configured if _versions.is_iceberg_runtime(entry)]
    for runtime in runtimes:
        _versions.check_iceberg(runtime)
    packages = [] if runtimes else [ICEBERG_PACKAGE]
    if driver is not None and not any(_is_same_artifact(entry, driver) for entry in configured):
        packages.append(driver)
    return packages


def _is_same_artifact(entry: str, coordinates: str) -> bool:
    """Tell whether a package or a jar is of the same artifact, in whatever version."""
    group, artifact, _ = coordinates.split(":")
    return entry.startswith(f"{group}:{artifact}:") or _file_name(entry).startswith(f"{artifact}-")


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]
