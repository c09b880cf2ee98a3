"""What `dbt debug` looks at: Spark, the jar, the catalog and its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.txns.connections import StatementError
from dbt_common.exceptions import DbtRuntimeError

from txns_spark import JAR_VERSION

if TYPE_CHECKING:
    from dbt.adapters.spark.impl import SparkAdapter

logger = AdapterLogger("txns")


def check(adapter: SparkAdapter) -> None:
    """
    Check that a profile's Spark and catalog have transactions, and say what was found.

    Raises:
        DbtRuntimeError: What is missing, and what to do.
    """
    credentials = adapter.config.credentials
    _, version = adapter.execute("select version()", fetch=True)
    try:
        adapter.execute("show transaction", fetch=True)
    except StatementError as error:
        raise DbtRuntimeError(
            "Spark runs without transactions: start it with spark.sql.extensions=org.apache."
            "iceberg.spark.extensions.IcebergSparkSessionExtensions,io.txns.spark."
            f"TxnSparkExtensions and the jar of txns_spark; {error}"
        ) from error
    jar = _jar_version(adapter)
    name = f"spark.sql.catalog.{credentials.database}"
    _, kind = adapter.execute(f"set `{name}`", fetch=True)
    if not kind[0][1].startswith("io.txns.spark."):
        raise DbtRuntimeError(
            f"the catalog has no transactions: set {name}=io.txns.spark.TxnSparkCatalog; "
            f"it is {kind[0][1]}"
        )
    _, commits = adapter.execute(f"set `{name}.txns.commit-table`", fetch=True)
    commit_table = commits[0][1] if commits[0][1] != "<undefined>" else "txns.commits"
    # BEGIN reads the log: it fails where the commit table is not one, or is of a newer format.
    with adapter.connections.exception_handler("BEGIN"):
        handle = adapter.connections.get_thread_connection().handle
        handle.begin(credentials.isolation, "", credentials.database)
        handle.rollback()
    logger.info(
        f"Spark {version[0][0].split()[0]}, jar of txns_spark {jar},"
        f" catalog {credentials.database} with transactions,"
        f" commit table {commit_table}; transaction: {credentials.transaction},"
        f" isolation: {credentials.isolation}, retries: {credentials.retries}"
    )


def _jar_version(adapter: SparkAdapter) -> str:
    """Give the version of the jar that Spark runs, and warn if it is not this package's."""
    _, found = adapter.execute("select txns_version()", fetch=True)
    version = str(found[0][0])
    if version != JAR_VERSION:
        logger.warning(
            f"Spark runs the jar of txns_spark {version}, and this is {JAR_VERSION}:"
            " install the same version on both sides"
        )
    return version
