from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from pyspark.sql import SparkSession

import txns_spark
from txns_spark import errors
from txns_spark._versions import UntestedVersionWarning, check_iceberg, check_spark

if TYPE_CHECKING:
    from collections.abc import Callable

RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
SQLITE = "org.xerial:sqlite-jdbc:3.54.1.0"
ICEBERG_EXTENSION = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
OUR_EXTENSION = "io.txns.spark.TxnSparkExtensions"
BOTH = f"{ICEBERG_EXTENSION},{OUR_EXTENSION}"


@pytest.fixture(autouse=True)
def _plain_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is configured outside the builder, and the working folder is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)


def builder(**options: str) -> SparkSession.Builder:
    made = SparkSession.Builder()
    for key, value in options.items():
        made.config(key, value)
    return made


def configured(made: SparkSession.Builder, *args: str, **options: object) -> dict[str, str]:
    assert txns_spark.configure(made, *args, **options) is made
    return dict(made._options)


def defaults(text: str) -> None:
    Path("conf").mkdir()
    Path("conf/spark-defaults.conf").write_text(text)


def test_another_warehouse_is_another_embedded_lake(tmp_path: Path) -> None:
    """Not the catalog of one lake over the files of another."""
    made = builder()
    txns_spark.configure(made, warehouse="a")
    options = configured(made, warehouse="b")
    assert str(tmp_path / "b") == options["spark.sql.catalog.lake.warehouse"]
    assert f"file:{tmp_path}/b/catalog.db" in options["spark.sql.catalog.lake.uri"]


def test_another_uri_takes_no_warehouse_of_the_one_before() -> None:
    made = builder()
    txns_spark.configure(made, uri="jdbc:sqlite:a.db", warehouse="a")
    with pytest.raises(errors.ConfigurationError, match="needs a warehouse"):
        txns_spark.configure(made, uri="jdbc:sqlite:b.db")


def test_another_server_gets_no_secrets_of_the_one_before() -> None:
    """Nor its warehouse, or what else was for it alone; what is ours is for any."""
    made = builder(**{"spark.sql.catalog.lake.header.x": "y", "spark.sql.catalog.other.token": "o"})
    first = {"token": "t", "jdbc.password": "p", "txns.apply": "next"}
    txns_spark.configure(made, uri="jdbc:sqlite:a.db", warehouse="a", **first)
    again = configured(made, uri="jdbc:sqlite:a.db")
    assert "t" == again["spark.sql.catalog.lake.token"]
    assert "y" == again["spark.sql.catalog.lake.header.x"]
    options = configured(made, uri="http://localhost:8181", **{"prefix": "x"})
    key = "spark.sql.catalog.lake."
    assert {
        "type": "rest",
        "uri": "http://localhost:8181",
        "prefix": "x",
        "txns.apply": "next",
    } == {name.removeprefix(key): v for name, v in options.items() if name.startswith(key)}
    assert "o" == options["spark.sql.catalog.other.token"]


@pytest.mark.parametrize(("kind", "is_kept"), [("rest", True), ("hadoop", False)])
def test_options_that_wait_for_their_uri_stay(kind: str, *, is_kept: bool) -> None:
    """They are of no other server; a catalog of another kind is another lake."""
    key = "spark.sql.catalog.lake."
    given = {f"{key}type": kind, f"{key}token": "t", f"{key}warehouse": "w"}
    options = configured(builder(**given), uri="http://localhost:8181")
    assert "rest" == options[f"{key}type"]
    assert is_kept == (f"{key}token" in options) == (f"{key}warehouse" in options)


def test_an_implementation_that_waits_for_its_uri_stays() -> None:
    """With what it needs, and without a kind: Iceberg takes one of the two."""
    key = "spark.sql.catalog.lake."
    given = {f"{key}catalog-impl": "org.apache.iceberg.rest.RESTCatalog", f"{key}credential": "c"}
    options = configured(builder(**given), uri="https://rest.example")
    assert given.items() <= options.items()
    assert f"{key}type" not in options


def test_a_server_is_the_same_with_a_slash_behind_it() -> None:
    made = builder()
    txns_spark.configure(made, uri="https://rest.example/", token="t")
    assert "t" == configured(made, uri="https://rest.example")["spark.sql.catalog.lake.token"]


def test_the_session_catalog_has_a_class_of_its_own() -> None:
    with pytest.raises(errors.ConfigurationError, match="TxnSparkSessionCatalog"):
        txns_spark.configure(builder(), catalog="spark_catalog")


def test_embedded_default(tmp_path: Path) -> None:
    """Without arguments it is a SQLite catalog and files below ./txns-warehouse."""
    warehouse = tmp_path / "txns-warehouse"
    uri = f"jdbc:sqlite:file:{warehouse}/catalog.db?journal_mode=WAL&busy_timeout=30000"
    expected = {
        "spark.jars": str(txns_spark.jar_path()),
        "spark.jars.packages": f"{RUNTIME},{SQLITE}",
        "spark.sql.extensions": BOTH,
        "spark.sql.catalog.lake": "io.txns.spark.TxnSparkCatalog",
        "spark.sql.catalog.lake.type": "jdbc",
        "spark.sql.catalog.lake.uri": uri,
        "spark.sql.catalog.lake.jdbc.schema-version": "V1",
        "spark.sql.catalog.lake.default-namespace": "default",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
    }
    assert expected == configured(builder())
    assert warehouse.is_dir()


def test_a_namespace_of_ones_own_to_begin_in_stays() -> None:
    key = "spark.sql.catalog.lake.default-namespace"
    assert "nyc" == configured(builder(**{key: "nyc"}))[key]


@pytest.mark.parametrize("given", ["elsewhere", "file://{here}/elsewhere", "{here}/elsewhere"])
def test_embedded_catalog_in_a_named_folder(given: str, tmp_path: Path) -> None:
    options = configured(builder(), warehouse=given.format(here=tmp_path))
    assert options["spark.sql.catalog.lake.warehouse"] == str(tmp_path / "elsewhere")
    assert f"{tmp_path}/elsewhere/catalog.db" in options["spark.sql.catalog.lake.uri"]


def test_special_characters_in_the_folder_are_quoted_for_sqlite(tmp_path: Path) -> None:
    options = configured(builder(), warehouse=str(tmp_path / "a b#c"))
    assert "/a%20b%23c/catalog.db?" in options["spark.sql.catalog.lake.uri"]


def test_remote_warehouse_needs_a_catalog() -> None:
    with pytest.raises(errors.ConfigurationError, match=r"give uri=\.\.\., warehouse=s3://bucket"):
        txns_spark.configure(builder(), warehouse="s3://bucket/warehouse")


@pytest.mark.parametrize(
    ("uri", "warehouse", "kind", "driver"),
    [
        ("jdbc:postgresql://host/db", "s3://b/w", "jdbc", "org.postgresql:postgresql:"),
        ("jdbc:sqlite:file:/c.db", "/w", "jdbc", SQLITE),
        ("jdbc:mysql://host/db", "/w", "jdbc", None),
        ("http://localhost:8181", None, "rest", None),
        ("https://host/catalog", "name", "rest", None),
        ("thrift://host:9083", "/w", "hive", None),
    ],
)
def test_the_uri_chooses_the_kind_of_catalog(
    uri: str, warehouse: str | None, kind: str, driver: str | None
) -> None:
    options = configured(builder(), "prod", uri, warehouse)
    assert options["spark.sql.catalog.prod.type"] == kind
    assert options["spark.sql.catalog.prod.uri"] == uri
    assert options.get("spark.sql.catalog.prod.warehouse") == warehouse
    packages = options["spark.jars.packages"].split(",")
    assert packages[0] == RUNTIME
    assert len(packages) == 1 + (driver is not None)
    assert packages[-1].startswith(driver or RUNTIME)


def test_unknown_scheme_is_refused_with_the_known_ones() -> None:
    with pytest.raises(errors.ConfigurationError, match=r"jdbc: .*http: .*thrift: .*uri=ftp://x"):
        txns_spark.configure(builder(), uri="ftp://x")


def test_jdbc_catalog_needs_a_warehouse() -> None:
    with pytest.raises(errors.ConfigurationError, match="needs a warehouse"):
        txns_spark.configure(builder(), uri="jdbc:postgresql://host/db")


def test_options_keep_their_own_names() -> None:
    given = {"txns.apply": "next", "io-impl": "x.FileIO", "cache-enabled": False, "clients": 3}
    options = configured(builder(), **given)
    assert options["spark.sql.catalog.lake.txns.apply"] == "next"
    assert options["spark.sql.catalog.lake.io-impl"] == "x.FileIO"
    assert options["spark.sql.catalog.lake.cache-enabled"] == "false"
    assert options["spark.sql.catalog.lake.clients"] == "3"


def test_options_choose_another_kind_of_catalog() -> None:
    """With a type or catalog-impl of its own, nothing of the embedded default is set."""
    options = configured(builder(), warehouse="/w", **{"type": "hadoop"})
    assert options["spark.sql.catalog.lake.type"] == "hadoop"
    assert "spark.sql.catalog.lake.uri" not in options
    assert options["spark.jars.packages"] == RUNTIME


def test_misspelt_option_is_refused() -> None:
    """Iceberg ignores unknown options, so io_impl=... would do nothing in silence."""
    with pytest.raises(errors.ConfigurationError, match=r"\*\*\{'io-impl': \.\.\.\}"):
        txns_spark.configure(builder(), io_impl="x.FileIO")


@pytest.mark.parametrize("name", ["", "a.b", "my-lake"])
def test_catalog_name_is_one_identifier(name: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="one identifier"):
        txns_spark.configure(builder(), name)


def test_builder_settings_are_appended_to() -> None:
    given = {
        "spark.jars": "/a.jar",
        "spark.jars.packages": "g:a:1",
        "spark.sql.extensions": "x.Extension",
        "spark.app.name": "mine",
    }
    options = configured(builder(**given))
    assert options["spark.jars"] == f"/a.jar,{txns_spark.jar_path()}"
    assert options["spark.jars.packages"] == f"g:a:1,{RUNTIME},{SQLITE}"
    assert options["spark.sql.extensions"] == f"x.Extension,{BOTH}"
    assert options["spark.app.name"] == "mine"


def test_defaults_file_is_appended_to() -> None:
    defaults("spark.jars /a.jar\nspark.jars.packages g:a:1\nspark.sql.extensions x.Extension\n")
    options = configured(builder())
    assert options["spark.jars"] == f"/a.jar,{txns_spark.jar_path()}"
    assert options["spark.jars.packages"] == f"g:a:1,{RUNTIME},{SQLITE}"
    assert options["spark.sql.extensions"] == f"x.Extension,{BOTH}"


def test_configuring_twice_changes_nothing() -> None:
    made = builder()
    assert configured(made) == configured(made)


def test_second_catalog_shares_jars_and_extensions() -> None:
    made = builder()
    first = configured(made)
    both = configured(made, "other", "http://localhost:8181")
    assert first.items() <= both.items()
    assert both["spark.sql.catalog.other.type"] == "rest"


def test_iceberg_extension_that_is_there_is_not_added_again() -> None:
    made = builder(**{"spark.sql.extensions": f"{ICEBERG_EXTENSION},x.Extension"})
    expected = f"{ICEBERG_EXTENSION},x.Extension,{OUR_EXTENSION}"
    assert configured(made)["spark.sql.extensions"] == expected


@pytest.mark.parametrize("present", [OUR_EXTENSION, f"{OUR_EXTENSION},{ICEBERG_EXTENSION}"])
def test_our_extension_before_icebergs_is_refused(present: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="in this order"):
        txns_spark.configure(builder(**{"spark.sql.extensions": present}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.jars.packages", RUNTIME),
        ("spark.jars", "/opt/iceberg-spark-runtime-4.1_2.13-1.11.0.jar"),
    ],
)
def test_configured_iceberg_runtime_stays_the_only_one(key: str, value: str) -> None:
    options = configured(builder(**{key: value}))
    everything = options["spark.jars"] + options["spark.jars.packages"]
    assert everything.count("iceberg-spark-runtime") == 1


def test_configured_driver_stays_the_only_one() -> None:
    options = configured(builder(**{"spark.jars": "/opt/sqlite-jdbc-3.50.3.0.jar"}))
    assert options["spark.jars.packages"] == RUNTIME


def test_configured_jar_of_ours_stays_the_only_one() -> None:
    jar = "s3://jars/txns-spark-4.1_2.13-0.1.0.jar"
    assert configured(builder(**{"spark.jars": jar}))["spark.jars"] == jar
    package = "io.txns:txns-spark-4.1_2.13:0.1.0"
    assert "spark.jars" not in configured(builder(**{"spark.jars.packages": package}))


def test_another_version_of_our_jar_is_refused_by_name() -> None:
    with pytest.raises(errors.UnsupportedVersion, match=r"txns-spark-4\.1_2\.13-0\.2\.0\.jar"):
        txns_spark.configure(builder(**{"spark.jars": "/txns-spark-4.1_2.13-0.2.0.jar"}))


def test_configured_catalog_keeps_its_place() -> None:
    """Two lines make a plain Iceberg catalog transactional; where it is stays as configured."""
    defaults(
        "spark.sql.catalog.lake org.apache.iceberg.spark.SparkCatalog\n"
        "spark.sql.catalog.lake.type jdbc\n"
        "spark.sql.catalog.lake.uri jdbc:postgresql://host/db\n"
        "spark.sql.catalog.lake.warehouse s3://b/w\n"
    )
    options = configured(builder())
    assert options["spark.sql.catalog.lake"] == "io.txns.spark.TxnSparkCatalog"
    assert "spark.sql.catalog.lake.uri" not in options
    assert "org.postgresql:postgresql:" in options["spark.jars.packages"]
    assert not Path("txns-warehouse").exists()


def test_catalog_of_another_kind_is_refused() -> None:
    taken = builder(**{"spark.sql.catalog.lake": "x.OtherCatalog"})
    with pytest.raises(errors.ConfigurationError, match="choose another name"):
        txns_spark.configure(taken)


def test_connect_client_is_told_what_the_server_needs() -> None:
    with pytest.raises(errors.ConfigurationError) as caught:
        txns_spark.configure(builder(**{"spark.remote": "sc://host"}))
    for needed in (RUNTIME, str(txns_spark.jar_path()), BOTH):
        assert needed in str(caught.value)


@pytest.mark.parametrize("version", ["3.5.8", "4.0.1", "4.2.0", "4.10.0"])
def test_another_spark_minor_version_is_refused_by_name(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    with pytest.raises(errors.UnsupportedVersion, match=f"pyspark {version} is not supported"):
        txns_spark.configure(builder())


def test_another_spark_patch_version_is_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.1.9")
    with pytest.warns(
        UntestedVersionWarning, match=r"4\.1\.9, only with 4\.1\.3 and 4\.1\.4"
    ) as seen:
        txns_spark.configure(builder())
    assert __file__ == seen[0].filename


@pytest.mark.parametrize("version", ["4.1.3", "4.1.4"])
def test_tested_spark_versions_pass_in_silence(version: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_spark(version)


@pytest.mark.parametrize(
    "runtime",
    [
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.10.1",
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.13.0",
        "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        "/opt/iceberg-spark-runtime-3.5_2.12-1.11.0.jar",
    ],
)
def test_another_iceberg_is_refused_by_name(runtime: str) -> None:
    with pytest.raises(errors.UnsupportedVersion) as caught:
        check_iceberg(runtime)
    assert runtime in str(caught.value)
    key = "spark.jars" if runtime.endswith(".jar") else "spark.jars.packages"
    with pytest.raises(errors.UnsupportedVersion):
        txns_spark.configure(builder(**{key: runtime}))


@pytest.mark.parametrize("version", ["1.11.0", "1.12.0"])
def test_tested_iceberg_versions_pass_in_silence(version: str) -> None:
    package = f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{version}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = configured(builder(**{"spark.jars.packages": package}))
    assert options["spark.jars.packages"] == f"{package},{SQLITE}"


def test_another_iceberg_patch_version_is_warned_about() -> None:
    package = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.1"
    with pytest.warns(
        UntestedVersionWarning, match=r"Iceberg 1\.11\.1, only with 1\.11\.0 and 1\.12\.0"
    ) as seen:
        options = configured(builder(**{"spark.jars.packages": package}))
    assert options["spark.jars.packages"] == f"{package},{SQLITE}"
    assert __file__ == seen[0].filename


def test_running_session_without_the_extension_is_refused(
    run_script: Callable[[str], str],
) -> None:
    """Also to a connection; and after spark.stop(): its JVM stays, and reads no further jars."""
    printed = run_script(
        """
        import txns_spark
        from pyspark.sql import SparkSession
        from txns_spark import dbapi

        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False)
        spark = spark.getOrCreate()
        for place in ({}, {"warehouse": "x"}):
            try:
                dbapi.connect(**place)
            except dbapi.OperationalError as error:
                print(error)
        dbapi.connect(catalog="spark_catalog", autocommit=True).close()
        for _ in range(2):
            try:
                txns_spark.configure(SparkSession.builder)
            except txns_spark.errors.SessionAlreadyRunning as error:
                print(error)
            spark.stop()
        """
    )
    *sessions, jvm = [line for line in printed.splitlines() if line]
    assert 3 == len(sessions)
    for session in sessions:
        assert "spark.sql.extensions is static: call spark.stop()" in session
    assert f"without {OUR_EXTENSION}" in jvm or f"without {ICEBERG_EXTENSION}" in jvm
    assert "--packages" in jvm
