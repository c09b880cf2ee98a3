"""
Ways to put one row into each of five tables, for `small_transactions`, on SQLite as well.

Each is set up in a database and a folder of its own, and writes as a process of its own.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import duckdb_extension_ducklake
import duckdb_extension_postgres_scanner
import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq
from _duck import connect
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException

import txns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.catalog import Catalog

SCHEMA = pa.schema([("process", pa.int64()), ("number", pa.int64())])


@dataclass(frozen=True)
class Place:
    """
    Where a way keeps what it writes.

    Attributes:
        folder: Its files'.
        uri: Its database's, as SQLAlchemy has it.
        database: The name of that.
        socket_folder: Where the server listens.
    """

    folder: str
    uri: str
    database: str
    socket_folder: str

    @property
    def properties(self) -> dict[str, str]:
        """A catalog's, over both."""
        return {"type": "sql", "uri": self.uri, "warehouse": f"file://{self.folder}"}


class Way(ABC):
    """
    One way to write.

    Attributes:
        place: Where to.
        deletes: Whether each transaction deletes the row before, in the first of its tables.
    """

    def __init__(self, place: Place, *, deletes: bool) -> None:
        self.place = place
        self.deletes = deletes

    @abstractmethod
    def set_up(self, tables: list[str]) -> None:
        """Make tables, before any process writes."""

    @abstractmethod
    def writer(self, tables: list[str], process: int) -> Callable[[int], None]:
        """Give what a process does for its transaction of a number, from 0 on, until it is done."""

    @abstractmethod
    def numbers(self, table: str, process: int) -> list[int] | None:
        """Give the numbers of a process's rows that a table has; None where nothing tells."""


class Bare(Way):
    """pyiceberg by itself: five commits, which nothing holds together."""

    def set_up(self, tables: list[str]) -> None:
        catalog = self._catalog()
        catalog.create_namespace("shop")
        for table in tables:
            catalog.create_table(f"shop.{table}", SCHEMA)

    def writer(self, tables: list[str], process: int) -> Callable[[int], None]:
        catalog = self._catalog()

        def write(number: int) -> None:
            row = _row(process, number)
            if self.deletes and number:
                self._until(lambda: _delete(catalog.load_table(f"shop.{tables[0]}"), row))
            for table in tables:
                self._until(lambda name=table: catalog.load_table(f"shop.{name}").append(row))

        return write

    def numbers(self, table: str, process: int) -> list[int]:
        rows = self._catalog().load_table(f"shop.{table}").scan(f"process = {process}").to_arrow()
        return sorted(rows["number"].to_pylist())

    def _catalog(self) -> Catalog:
        return load_catalog("lake", **self.place.properties)

    @staticmethod
    def _until(commit: Callable[[], None]) -> None:
        while True:
            with suppress(CommitFailedException):
                commit()
                return


class Txns(Bare):
    """As one transaction of ours."""

    apply: str

    def set_up(self, tables: list[str]) -> None:
        super().set_up(tables)
        handle = txns.open(self._catalog())
        for table in tables:
            handle.register(f"shop.{table}")

    def writer(self, tables: list[str], process: int) -> Callable[[int], None]:
        handle = txns.open(self._catalog(), apply=self.apply, isolation="snapshot")

        def write(number: int) -> None:
            row = _row(process, number)

            def all_of_it(txn: txns.Transaction) -> None:
                if self.deletes and number:
                    _delete(txn.load_table(f"shop.{tables[0]}"), row)
                for table in tables:
                    txn.load_table(f"shop.{table}").append(row)

            txns.run_transaction(handle, all_of_it, max_attempts=1000)

        return write


class Inline(Txns):
    """Whose tables are applied after it."""

    apply = "inline"


class Atomic(Txns):
    """Which moves them with the log."""

    apply = "atomic"


class DuckLake(Way):
    """As one transaction of DuckLake, whose rows are files (no inlining)."""

    def set_up(self, tables: list[str]) -> None:
        lake = self._attached()
        lake.execute("CREATE SCHEMA lake.shop")
        for table in tables:
            lake.execute(f"CREATE TABLE lake.shop.{table} (process BIGINT, number BIGINT)")
        lake.close()

    def writer(self, tables: list[str], process: int) -> Callable[[int], None]:
        lake = self._attached()

        def write(number: int) -> None:
            while True:
                try:
                    lake.execute("BEGIN")
                    for statement in self._statements(tables, process, number):
                        lake.execute(statement)
                    lake.execute("COMMIT")
                except duckdb.Error:  # it has tried ten times
                    with suppress(duckdb.Error):
                        lake.execute("ROLLBACK")
                    continue
                return

        return write

    def _statements(self, tables: list[str], process: int, number: int) -> Iterator[str]:
        if self.deletes and number:
            before = f"process = {process} AND number = {number - 1}"
            yield f"DELETE FROM lake.shop.{tables[0]} WHERE {before}"
        for table in tables:
            yield f"INSERT INTO lake.shop.{table} VALUES ({process}, {number})"

    def numbers(self, table: str, process: int) -> list[int]:
        lake = self._attached()
        asked = f"SELECT number FROM lake.shop.{table} WHERE process = {process} ORDER BY 1"
        found = [number for (number,) in lake.execute(asked).fetchall()]
        lake.close()
        return found

    def _attached(self) -> duckdb.DuckDBPyConnection:
        lake = connect(duckdb_extension_postgres_scanner, duckdb_extension_ducklake)
        place = self.place
        where = f"dbname={place.database} host={place.socket_folder} user=postgres"
        options = f"DATA_PATH '{place.folder}/', DATA_INLINING_ROW_LIMIT 0"
        lake.execute(f"ATTACH 'ducklake:postgres:{where}' AS lake ({options})")
        return lake


class Floor(Way):
    """
    The bare floor: the files of a transaction written, and one database transaction, nothing else.

    Data is encoded anew each time, the others have the bytes of such files, with a snapshot more in
    the metadata each time. Nobody could read it.
    """

    def set_up(self, tables: list[str]) -> None:
        with psycopg2.connect(self._dsn) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE tables (name text PRIMARY KEY, location text)")
            for table in [*tables, *(f"log_of_{table}" for table in tables)]:
                cursor.execute("INSERT INTO tables VALUES (%s, '')", (table,))
                Path(self.place.folder, table).mkdir(parents=True)

    def writer(self, tables: list[str], process: int) -> Callable[[int], None]:
        connection = psycopg2.connect(self._dsn)
        log = f"log_of_{tables[0]}"

        def write(number: int) -> None:
            for table in tables:
                self._write_table(table, process, number)
            if self.deletes and number:
                Path(self.place.folder, tables[0], f"{process}-{number}-d").write_bytes(_AVRO)
            metadata = Path(self.place.folder, log, f"{process}-{number}.json")
            metadata.write_bytes(_metadata(16))
            with connection, connection.cursor() as cursor:
                for table in sorted([*tables, log]):
                    cursor.execute(
                        "UPDATE tables SET location = %s WHERE name = %s", (str(metadata), table)
                    )

        return write

    def _write_table(self, table: str, process: int, number: int) -> None:
        folder = Path(self.place.folder, table)
        name = f"{process}-{number}"
        pq.write_table(_row(process, number), folder / f"{name}.parquet", compression="zstd")
        (folder / f"{name}-m0.avro").write_bytes(_AVRO)
        (folder / f"snap-{name}.avro").write_bytes(_AVRO[:2048])
        (folder / f"{name}.metadata.json").write_bytes(_metadata(number))

    def numbers(self, table: str, process: int) -> None:
        del table, process

    @property
    def _dsn(self) -> str:
        place = self.place
        return f"dbname={place.database} host={place.socket_folder} user=postgres"


_AVRO = bytes(range(256)) * 16
_SNAPSHOT = json.dumps({"snapshot": "s" * 600}).encode()


def _metadata(snapshots: int) -> bytes:
    return b"%s[%s]" % (_AVRO[:1500], b",".join([_SNAPSHOT] * snapshots))


def _row(process: int, number: int) -> pa.Table:
    return pa.table({"process": [process], "number": [number]}, schema=SCHEMA)


def _delete(table: Any, row: pa.Table) -> None:
    """Delete the row before one."""
    [process], [number] = row["process"].to_pylist(), row["number"].to_pylist()
    table.delete(f"process = {process} AND number = {number - 1}")


WAYS: dict[str, type[Way]] = {
    "pyiceberg": Bare,
    "inline": Inline,
    "atomic": Atomic,
    "DuckLake": DuckLake,
    "floor": Floor,
}
"""By their names."""


def work(write: Callable[[int], None], lasts_s: float, first: int = 0) -> tuple[float, list[float]]:
    """Write from a number on for some seconds; give how many, and what each transaction took."""
    latencies: list[float] = []
    began = time.perf_counter()
    while time.perf_counter() - began < lasts_s:
        started = time.perf_counter()
        write(first + len(latencies))
        latencies.append(time.perf_counter() - started)
    return time.perf_counter() - began, latencies
