"""PostgreSQL servers, for catalogs: started here alone, by tests and benchmarks."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlparse

import pgserver
import psycopg2

if TYPE_CHECKING:
    from collections.abc import Iterator


class Postgres:
    """A server of the package pgserver that can be hurt; see `running_postgres`."""

    def __init__(self, folder: Path) -> None:
        self._server: Any = pgserver.get_server(folder)
        [self.socket_folder] = parse_qs(urlparse(self._server.get_uri()).query)["host"]

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return Path(self.socket_folder, ".s.PGSQL.5432")

    def jdbc_uri(self, database: str, *, port: int, user: str = "postgres") -> str:
        """Give JDBC's URI of a database, by a port on loopback."""
        return f"jdbc:postgresql://127.0.0.1:{port}/{database}?user={user}&sslmode=disable"

    def create_database(self, name: str) -> None:
        """Create a database."""
        self.run(f"CREATE DATABASE {name}")

    def uri(self, database: str, *, port: int | None = None, user: str = "postgres") -> str:
        """Give pyiceberg's URI of a database, by the server's socket, or a port on loopback."""
        if port is None:
            return f"postgresql+psycopg2://{user}:@/{database}?host={self.socket_folder}"
        return f"postgresql+psycopg2://{user}:@127.0.0.1:{port}/{database}"

    def run(self, *statements: str, database: str = "postgres") -> None:
        """Run statements, each by itself, also where writing is turned off."""
        connection = psycopg2.connect(
            host=self.socket_folder,
            user="postgres",
            dbname=database,
            options="-c default_transaction_read_only=off",
        )
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        finally:
            connection.close()

    def stop_at_once(self) -> None:
        """Stop it as a crash does: connections are cut, and what it has begun is undone."""
        self._pg_ctl("-w", "-m", "immediate", "stop")

    def start(self) -> None:
        """Start it again; it recovers first."""
        listens = f"-h '' -k {self.socket_folder}"
        self._pg_ctl("-w", "-o", listens, "-l", str(self._server.log), "start")

    def set_read_only(self, value: bool) -> None:
        """Have new transactions refuse to write, or not."""
        setting = "ON" if value else "OFF"
        self.run(
            f"ALTER SYSTEM SET default_transaction_read_only = {setting}",
            "SELECT pg_reload_conf()",
        )

    def log_statements(self) -> None:
        """Have it write each statement into its log."""
        self.run("ALTER SYSTEM SET log_statement = 'all'", "SELECT pg_reload_conf()")

    def log(self) -> str:
        """What it has logged."""
        return Path(self._server.log).read_text("utf-8", errors="replace")

    def _pg_ctl(self, *args: str) -> None:
        server = self._server
        pgserver.pg_ctl(list(args), pgdata=server.pgdata, user=server.system_user, timeout=60)


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """
    Run a server until the block ends; whoever hurts it has one of its own: others would feel it.

    Its folder is none of pytest's: another run closes those to other users, which the server is.
    """
    with tempfile.TemporaryDirectory(prefix="txns-postgres-") as folder:
        server = Postgres(Path(folder))
        try:
            yield server
        finally:
            server.stop_at_once()
