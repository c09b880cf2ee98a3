"""Iceberg's REST catalog fixture, run on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
START_TIMEOUT_S = 60


@dataclass(frozen=True)
class Server:
    """A running REST catalog: where it answers, and where it keeps its files."""

    uri: str
    warehouse: Path


def class_path(folder: Path) -> str:
    """Resolve the server's jars with Maven."""
    target = folder / "class-path"
    command = ["mvn", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={target}"]
    subprocess.run(command, cwd=ROOT / "integration_tests" / "rest_fixture", check=True)
    return target.read_text()


def free_port() -> int:
    """Ask the system for a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_up(uri: str, process: subprocess.Popen[bytes]) -> None:
    """Wait for the server's configuration endpoint to answer."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with urllib.request.urlopen(f"{uri}/v1/config") as answer:
                assert answer.status == 200
                return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("the REST catalog did not start") from error
            time.sleep(0.2)


@contextmanager
def running_server(folder: Path) -> Iterator[Server]:
    """Run Iceberg's REST fixture over SQLite and a folder."""
    port = free_port()
    running = Server(f"http://127.0.0.1:{port}", folder / "files")
    running.warehouse.mkdir()
    database = f"jdbc:sqlite:file:{folder}/catalog.db?journal_mode=WAL&busy_timeout=30000"
    environment = {
        **os.environ,
        "CATALOG_URI": database,
        "CATALOG_WAREHOUSE": str(running.warehouse),
        "CATALOG_JDBC_USER": "user",
        "CATALOG_JDBC_PASSWORD": "password",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_REST_PORT": str(port),
    }
    command = [
        "java",
        "-Xmx512m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        class_path(folder),
        "org.apache.iceberg.rest.RESTCatalogServer",
    ]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        wait_until_up(running.uri, process)
        yield running
    finally:
        process.kill()
        process.wait()
