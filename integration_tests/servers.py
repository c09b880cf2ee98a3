"""
Start Spark's servers with our jar, for clients that have no JVM of their own.

Both are started as docs/spark.md says, by spark-submit from the installed pyspark, listen on
the loopback address alone, and are killed when their block ends. Each has the embedded
catalog `lake` below a folder; several servers and sessions may share one.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import urlsplit

import pyspark
from pyspark import SparkContext

from integration_tests import local_files, sessions

if TYPE_CHECKING:
    from types import TracebackType

CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
THRIFT = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
SPARK_SQL = "org.apache.spark.sql.hive.thriftserver.SparkSQLCLIDriver"

_START_S = 120
_LOOPBACK = "127.0.0.1"
_EXTENSIONS = (
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "io.txns.spark.TxnSparkExtensions",
)


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int


def spark_submit(main_class: str, folder: Path, **settings: str) -> list[str]:
    """
    Return the command that starts a Spark program over the catalog `lake` below a folder.

    Args:
        main_class: The program.
        folder: The warehouse of `lake`; made if missing.
        **settings: Settings of Spark, by their own names.
    """
    home = Path(pyspark.__file__).parent
    catalog = sessions.catalog_settings(folder)
    settings = {
        **sessions.SMALL,
        # The state of the session catalog in memory: no Derby in the working directory.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": ",".join(_EXTENSIONS),
        "spark.sql.catalog.lake": sessions.TXNS,
        **{f"spark.sql.catalog.lake.{key}": value for key, value in catalog.items()},
        **settings,
    }
    # It would stand above --driver-class-path.
    del settings[sessions.CLASS_PATH]
    confs = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    return [
        str(home / "bin" / "spark-submit"),
        *("--class", main_class, "--master", "local[2]", "--driver-memory", "1g"),
        # Not by --jars: the first session of Hive's that ends closes their class loader.
        *("--driver-class-path", ":".join([str(local_files.jar()), *_jars()])),
        *confs,
    ]


def _jars() -> list[str]:
    """Return our jar, Iceberg's and the JDBC driver's, as the test's own session has them."""
    context = SparkContext._active_spark_context
    assert context is not None, "start a session of sessions.start() first"
    urls = context.getConf().get("spark.repl.local.jars") or ""
    return [urlsplit(url).path for url in urls.split(",")]


def environment() -> dict[str, str]:
    """Return the environment for commands of `spark_submit`; their Python has our packages."""
    home = str(Path(pyspark.__file__).parent)
    return os.environ | {"SPARK_HOME": home, "PYSPARK_PYTHON": sys.executable}


class Server:
    """
    A server of Spark that runs until its block ends: ConnectServer or ThriftServer.

    Attributes:
        address: Where it listens.
        pid: The process of its JVM, for tests that kill it.
    """

    def __init__(self, main_class: str, folder: Path, log: Path, **settings: str) -> None:
        self.address = Address(_LOOPBACK, _free_port())
        self._log = log
        command = spark_submit(main_class, folder, **settings, **self._where())
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def _where(self) -> dict[str, str]:
        raise NotImplementedError

    def __enter__(self) -> Self:
        deadline = time.monotonic() + _START_S
        while not self._listens():
            assert self._process.poll() is None, f"it has ended: {self.log_text()}"
            if time.monotonic() > deadline:
                self.kill()
                raise TimeoutError(f"it does not listen: {self.log_text()}")
            time.sleep(0.2)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill -9 it."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def log_text(self) -> str:
        """Return the end of what it has logged."""
        return self._log.read_text(errors="replace")[-8000:]

    def _listens(self) -> bool:
        try:
            socket.create_connection(self.address, timeout=1).close()
        except OSError:
            return False
        return True


class ConnectServer(Server):
    """A Spark Connect server; `url` is for clients: sc://127.0.0.1:15002."""

    def __init__(self, folder: Path, log: Path, **settings: str) -> None:
        super().__init__(CONNECT, folder, log, **settings)
        self.url = f"sc://{self.address.host}:{self.address.port}"

    def _where(self) -> dict[str, str]:
        return {
            "spark.connect.grpc.binding.address": self.address.host,
            "spark.connect.grpc.binding.port": str(self.address.port),
        }


class ThriftServer(Server):
    """A Spark Thrift server; every client that knows HiveServer2's protocol may log in."""

    def __init__(self, folder: Path, log: Path, **settings: str) -> None:
        super().__init__(THRIFT, folder, log, **settings)

    def _where(self) -> dict[str, str]:
        return {
            "spark.hive.server2.thrift.bind.host": self.address.host,
            "spark.hive.server2.thrift.port": str(self.address.port),
        }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        return int(probe.getsockname()[1])
