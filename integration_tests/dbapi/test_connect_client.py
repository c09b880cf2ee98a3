"""What `txns_spark` offers where pyspark-client alone is installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration_tests.checks import count, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration_tests.servers import ConnectServer

_ROOT = Path(__file__).parents[2]


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


# What a test's code adds: a stream of one batch per file, and its callback over two tables.
STREAM = """
import txns_spark
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote({url!r}).create()

def write(batch, batch_id):
    batch.writeTo({sink!r}).append()
    batch.sparkSession.sql("UPDATE {table} SET v = v + 1").collect()

def run(checkpoint):
    writer = (
        spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", "1").json({source!r})
        .writeStream.option("checkpointLocation", {folder!r} + "/" + checkpoint)
        .trigger(availableNow=True)
        .foreachBatch(txns_spark.foreach_batch(write, query_id="nightly/{table}"))
    )
    while True:
        try:
            return writer.start()
        except Exception as error:
            # Spark waits ten seconds for its Python worker, which a busy machine may not have.
            if "Python worker failed to connect back" not in str(error):
                raise
"""


@pytest.fixture
def stream(
    connect_server: ConnectServer, spark: SparkSession, two_tables: tuple[str, str], tmp_path: Path
) -> str:
    """Code that starts a streaming query from a Connect client, into two tables."""
    table, _ = two_tables
    sink = f"{table}_sink"
    spark.sql(f"CREATE TABLE {sink} (id BIGINT) USING iceberg")
    source = tmp_path / "source"
    source.mkdir()
    for number in range(2):
        lines = (f'{{"id": {id_}}}\n' for id_ in range(10 * number, 10 * number + 10))
        (source / f"{number}.json").write_text("".join(lines))
    names = {"url": connect_server.url, "table": table, "sink": sink}
    return STREAM.format(**names, source=str(source), folder=str(tmp_path))


@pytest.mark.slow
def test_foreach_batch(
    stream: str, spark: SparkSession, two_tables: tuple[str, str], tmp_path: Path
) -> None:
    """A batch is one transaction over two tables; delivered again, it is not written again."""
    table, _ = two_tables
    _run(
        f"""{stream}
run("first").awaitTermination()
# Another checkpoint: the server delivers both batches again.
run("second").awaitTermination()
""",
        tmp_path,
    )
    assert 20 == count(spark, f"{table}_sink")
    assert [(1, 2), (2, 2)] == rows(spark, f"SELECT * FROM {table}")
    written = spark.sql("CALL lake.system.transactions()").where(
        f"table_name = '{table.removeprefix('lake.')}_sink' AND operation = 'append'"
    )
    ids = [row.txn_id for row in written.orderBy("commit_ts").collect()]
    assert [f"stream/nightly/{table}/{batch}" for batch in range(2)] == ids


def test_foreach_batch_beside_a_transaction(
    stream: str, spark: SparkSession, two_tables: tuple[str, str], tmp_path: Path
) -> None:
    """Its batches run in the client's session: what that has begun is refused, and not undone."""
    table, _ = two_tables
    printed = _run(
        f"""{stream}
spark.sql("BEGIN").collect()
spark.sql("INSERT INTO {table} VALUES (3, 0)").collect()
try:
    run("first").awaitTermination()
except Exception as error:
    print("needs a session of its own" in str(error) or error)
print(spark.sql("COMMIT").collect()[0].state)
""",
        tmp_path,
    )
    assert ["True", "committed"] == printed.splitlines()
    assert [(1, 0), (2, 0), (3, 0)] == rows(spark, f"SELECT * FROM {table}")
    assert 0 == count(spark, f"{table}_sink")


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
