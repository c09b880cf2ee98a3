"""What `txns_spark` offers where pyspark-client alone is installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from integration_tests.servers import ConnectServer

_ROOT = Path(__file__).parent.parent


def _run(code: str, folder: Path) -> str:
    """Run code in the Connect client's environment, with our packages on its path."""
    (folder / "txns_spark").symlink_to(_ROOT / "spark_extension" / "python")
    (folder / "sqlalchemy_txns").symlink_to(_ROOT / "sqlalchemy_dialect")
    done = subprocess.run(
        [str(_ROOT / ".venv-connect" / "bin" / "python"), "-c", code],
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_without_a_jvm(tmp_path: Path) -> None:
    """Errors and foreach_batch work there, and configure says where to configure instead."""
    code = """
import txns_spark
from pyspark.sql import SparkSession
print(txns_spark.foreach_batch(lambda batch, number: None, query_id="q").__name__)
print(txns_spark.errors.TransactionConflict.__name__)
try:
    txns_spark.configure(SparkSession.builder)
except txns_spark.errors.ConfigurationError as error:
    print(error)
"""
    printed = _run(code, tmp_path).splitlines()
    assert ["<lambda>", "TransactionConflict"] == printed[:2]
    assert "start the server with" in printed[2]


def test_the_db_api_needs_no_jvm(connect_server: ConnectServer, table: str, tmp_path: Path) -> None:
    """A service's own environment: transactions, conflicts, rows as Arrow, a streamed query."""
    code = f"""
from txns_spark import dbapi

def connect():
    return dbapi.connect_remote(*{tuple(connect_server.address)!r}, schema="db")

with connect() as one, connect() as other:
    cursor = one.cursor()
    cursor.execute("CREATE TABLE {table} (id BIGINT, text STRING) USING iceberg")
    cursor.executemany("INSERT INTO {table} VALUES (?, ?)", [(i, "it's") for i in range(3)])
    one.commit()
    for connection in (one, other):
        connection.cursor().execute("UPDATE {table} SET text = 'new' WHERE id = ?", (1,))
    one.commit()
    try:
        other.commit()
    except dbapi.TransactionConflict as conflict:
        print(conflict.sqlstate, conflict.table)
    print(cursor.execute("SELECT * FROM {table} ORDER BY id").fetch_arrow_table().to_pylist()[1])
    print(len(list(one.cursor(streaming=True).execute("SELECT * FROM {table}"))))
"""
    assert [f"40001 {table.removeprefix('lake.')}", "{'id': 1, 'text': 'new'}", "3"] == _run(
        code, tmp_path
    ).splitlines()


def test_the_dialect_needs_no_jvm(connect_server: ConnectServer, tmp_path: Path) -> None:
    """The ORM over Spark Connect, many rows through Arrow among them."""
    host, port = connect_server.address
    code = f"""
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import registry

# What an installation does by its entry points.
registry.register("txns.connect", "sqlalchemy_txns.connect", "ConnectDialect")
import sqlalchemy_txns

class Base(orm.DeclarativeBase):
    pass

class Thing(Base):
    __tablename__ = "thing_of_a_client"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str]

engine = sa.create_engine("txns+connect://{host}:{port}/lake/db")
Base.metadata.create_all(engine)
Session = orm.sessionmaker(engine)
sqlalchemy_txns.run_transaction(
    Session, lambda session: session.add_all(Thing(name=str(i)) for i in range(3000))
)
with Session() as session:
    print(session.scalar(sa.select(sa.func.count()).select_from(Thing)), session.get(Thing, 7).name)
"""
    assert ["3000 6"] == _run(code, tmp_path).splitlines()
