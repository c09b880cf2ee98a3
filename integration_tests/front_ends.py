"""
The ways in which users send SQL to Spark, behind one face for tests.

A client runs statements and returns rows of text, as `spark-sql` prints them: so a test can
say what it expects once. An error arrives as SqlError, made of what that client tells.
"""

from __future__ import annotations

import json
import re
import subprocess
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pyhive import hive
from pyspark.errors import PySparkException

from integration_tests import servers
from txns_spark.errors import translation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_ROOT = Path(__file__).parent.parent
_CONNECT_PYTHON = _ROOT / ".venv-connect" / "bin" / "python"
# What a client of JDBC sets to get an error's parameters; spark-sql prints the same.
_ERRORS_AS_JSON = ("spark.sql.error.messageFormat", "MINIMAL")


class SqlError(Exception):
    """What a client is told of a statement that failed; None where it is not told."""

    def __init__(
        self,
        sqlstate: str | None,
        condition: str | None,
        parameters: Mapping[str, str],
        message: str,
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.condition = condition
        self.parameters = dict(parameters)


class Client(Protocol):
    """One session of Spark, as a user has it."""

    def run(self, statement: str) -> list[tuple[str, ...]]:
        """Run a statement and return its rows; raises SqlError."""

    def close(self) -> None:
        """End the session, as this front end does."""


def affected(client: Client, statement: str) -> int:
    """Run a statement and return the number that it answers with."""
    return int(client.run(statement)[0][0])


class FrontEnd(Protocol):
    """Something that gives clients."""

    def client(self) -> Client:
        """Return a client of a session of its own."""

    def close(self) -> None:
        """End all of it."""


def _text(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return json.dumps([str(item) for item in value], separators=(",", ":"))
    return str(value)


def _texts(rows: list[Any]) -> list[tuple[str, ...]]:
    return [tuple(_text(value) for value in row) for row in rows]


class Classic:
    """Sessions in the test's own JVM."""

    def __init__(self, root: SparkSession) -> None:
        self._root = root

    def client(self) -> Client:
        """Return a client of a session of its own."""
        return ClassicClient(self._root.newSession())

    def close(self) -> None:
        """Leave the root session alone."""


class ClassicClient:
    """A session of pyspark."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def run(self, statement: str) -> list[tuple[str, ...]]:
        """Run a statement and return its rows."""
        try:
            return _texts(self._session.sql(statement).collect())
        except PySparkException as error:
            found = translation(error)
            condition = error.getCondition()
            sqlstate = found.sqlstate if found else error.getSqlState()
            raise SqlError(
                sqlstate, condition, error.getMessageParameters() or {}, str(error)
            ) from error

    def close(self) -> None:
        """Leave its transaction: a classic session has no end of its own but the driver's."""
        self.run("ROLLBACK")


class Connect:
    """Sessions of a Connect server, by a process that has pyspark-client and nothing else."""

    def __init__(self, server: servers.ConnectServer) -> None:
        self._numbers = count(1)
        self._process = subprocess.Popen(
            [str(_CONNECT_PYTHON), str(Path(__file__).parent / "connect_program.py"), server.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def client(self) -> Client:
        """Return a client of a session of its own."""
        return ConnectClient(self, next(self._numbers))

    def ask(self, **request: object) -> dict[str, Any]:
        """Send a request and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the Connect client has ended; its error is above"
        return dict(json.loads(line))

    def close(self) -> None:
        """End the process, as a client's does that forgets to close its sessions."""
        self._process.kill()
        self._process.communicate()


class ConnectClient:
    """A session of the Connect server."""

    def __init__(self, connect: Connect, number: int) -> None:
        self._connect = connect
        self._number = number
        connect.ask(open=number)

    def run(self, statement: str) -> list[tuple[str, ...]]:
        """Run a statement and return its rows."""
        answer = self._connect.ask(session=self._number, sql=statement)
        if error := answer.get("error"):
            raise SqlError(
                error["sqlstate"], error["condition"], error["parameters"], error["message"]
            )
        return _texts(answer["rows"])

    def close(self) -> None:
        """Stop the session: the server releases it."""
        self._connect.ask(close=self._number)


class Thrift:
    """Connections to a Thrift server."""

    def __init__(self, server: servers.ThriftServer) -> None:
        self._address = server.address

    def client(self) -> Client:
        """Return a client of a connection of its own."""
        return ThriftClient(hive.connect(self._address.host, self._address.port))

    def close(self) -> None:
        """Leave the server alone."""


class ThriftClient:
    """A connection to the Thrift server; PyHive hands on what the server says."""

    def __init__(self, connection: hive.Connection) -> None:
        self._connection = connection
        self.run("SET {}={}".format(*_ERRORS_AS_JSON))

    def run(self, statement: str) -> list[tuple[str, ...]]:
        """Run a statement and return its rows."""
        with self._connection.cursor() as cursor:
            try:
                cursor.execute(statement)
            except hive.OperationalError as error:
                status = error.args[0].status
                found = _error_in(status.errorMessage)
                raise SqlError(
                    status.sqlState,
                    found.get("errorClass"),
                    found.get("messageParameters", {}),
                    status.errorMessage,
                ) from error
            return _texts(cursor.fetchall()) if cursor.description else []

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class SparkSql:
    """Processes of the command line `spark-sql`; the one that is asked for again stays the same."""

    def __init__(self, folder: Path, log: Path) -> None:
        self._folder = folder
        self._log = log
        self._client: SparkSqlClient | None = None

    def client(self) -> Client:
        """Return the client, in a process of its own; starting one takes long."""
        if self._client is None or self._client.ended():
            self._client = SparkSqlClient(self._folder, self._log)
        return self._client

    def close(self) -> None:
        """End the process."""
        if self._client is not None:
            self._client.close()


class SparkSqlClient:
    """A process of `spark-sql`, fed line by line as if somebody typed."""

    _NOISE = re.compile(r"spark-sql \(|Time taken: |\d\d/\d\d/\d\d \d\d:\d\d:\d\d ")

    def __init__(self, folder: Path, log: Path) -> None:
        settings = {_ERRORS_AS_JSON[0]: _ERRORS_AS_JSON[1], "spark.log.level": "ERROR"}
        self._log = log.open("a")
        self._numbers = count(1)
        self._process = subprocess.Popen(
            servers.spark_submit(servers.SPARK_SQL, folder, **settings),
            cwd=folder,
            env=servers.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Rows and errors in the order in which they are printed.
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.run("SELECT 1")

    def run(self, statement: str) -> list[tuple[str, ...]]:
        """Run a statement and return its rows."""
        assert self._process.stdin is not None
        end = f"--done-{next(self._numbers)}--"
        line = " ".join(statement.split("\n")) + ";"
        # jline reads some characters ahead before it hands on a line; the mark is printed by the
        # shell, because in an aborted transaction SQL is refused.
        self._process.stdin.write(f"{line}\n!echo {end};\n" + "\n" * 8)
        self._process.stdin.flush()
        printed = _behind_echo(self._read_until(end), line)
        if error := _error_in("\n".join(printed)):
            raise SqlError(
                error.get("sqlState"),
                error.get("errorClass"),
                error.get("messageParameters", {}),
                "\n".join(printed),
            )
        return [tuple(text.split("\t")) for text in printed if not self._NOISE.match(text)]

    def _read_until(self, end: str) -> list[str]:
        assert self._process.stdout is not None
        lines: list[str] = []
        for line in self._process.stdout:
            self._log.write(line)
            self._log.flush()
            if line.rstrip(";\n") == end:
                return lines
            lines.append(line.rstrip("\n"))
        raise AssertionError(f"spark-sql has ended: {self._log.name}")

    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End its input, and wait until it has ended."""
        if not self.ended():
            self._process.communicate()
        self._log.close()


def _behind_echo(printed: list[str], line: str) -> list[str]:
    """Return what was printed after a line that was typed; its echo may be wrapped."""
    text = ""
    for number, part in enumerate(printed):
        text += "".join(part.split())
        if text.endswith("".join(line.split())):
            return printed[number + 1 :]
    raise AssertionError(f"no echo of {line} in {printed}")


def _error_in(text: str) -> dict[str, Any]:
    """Return the error that Spark has written as JSON into a text; empty without one."""
    found = re.search(r"\{\s*\"errorClass\".*\}", text, re.DOTALL)
    return dict(json.loads(found[0])) if found else {}
