"""What loads through the dialect: pandas, Alembic, dlt, and a delete-insert in one transaction."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
import sqlalchemy as sa

from integration_tests import migrations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

_SCHEMAS = itertools.count(1)

pytestmark = pytest.mark.filterwarnings("ignore:keys, checks and indexes")


@pytest.fixture
def engine(root_session: SparkSession) -> Iterator[sa.Engine]:
    """An engine over a schema that no other test sees."""
    schema = f"tools{next(_SCHEMAS)}"
    root_session.sql(f"CREATE NAMESPACE lake.{schema}")
    made = sa.create_engine(f"txns:///lake/{schema}")
    yield made
    made.dispose()


def test_pandas_replaces_rows_at_once(engine: sa.Engine) -> None:
    """A reader sees the old rows or the new ones, also when the load fails half-way."""
    old = pd.DataFrame({"id": [1, 2], "name": ["a", "b"], "at": pd.to_datetime(["2020-01-01"] * 2)})
    old.to_sql("t", engine, index=False)
    new = pd.DataFrame({"id": [3], "name": ["c"], "at": pd.to_datetime(["2020-01-02"])})
    with pytest.raises(RuntimeError), engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM t")
        new.to_sql("t", connection, index=False, if_exists="append")
        seen = pd.read_sql("SELECT * FROM t", engine)
        assert [1, 2] == sorted(seen["id"])
        raise RuntimeError
    pd.testing.assert_frame_equal(
        old, pd.read_sql("SELECT * FROM t ORDER BY id", engine), check_dtype=False
    )
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM t")
        new.to_sql("t", connection, index=False, if_exists="append")
    assert [3] == list(pd.read_sql_table("t", engine)["id"])


def test_many_rows_have_the_values_that_each_would_have_alone(engine: sa.Engine) -> None:
    """Neither Arrow nor a VALUES makes one type of numbers of two, or fails for a large one."""
    metadata = sa.MetaData()
    numbers = sa.Table(
        "numbers",
        metadata,
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("v", sa.Numeric(38, 10)),
    )
    metadata.create_all(engine)
    exact = Decimal("1234567890123456789012345678.0123456789")
    values = [exact, 0.5, 2**70, 7, None]
    rows = [{"id": i, "v": values[i % len(values)]} for i in range(2600)]
    first = sa.select(numbers.c.v).where(numbers.c.id < len(values)).order_by(numbers.c.id)
    expected = [exact, Decimal("0.5"), Decimal(2**70), Decimal(7), None]
    with engine.begin() as connection:
        assert len(rows) == connection.execute(sa.insert(numbers), rows).rowcount
        assert expected == connection.execute(first).scalars().all()
        update = sa.update(numbers).where(numbers.c.id == sa.bindparam("key"))
        update = update.values(v=sa.bindparam("new"))
        changed = [{"key": i, "new": values[-1 - i]} for i in range(len(values))]
        assert len(values) == connection.execute(update, changed).rowcount
        assert expected[::-1] == connection.execute(first).scalars().all()
        large = [{"id": 10_000 + i, "v": 2**70 + i} for i in range(2600)]
        assert len(large) == connection.execute(sa.insert(numbers), large).rowcount
        of_large = sa.select(sa.func.max(numbers.c.v)).where(numbers.c.id >= 10_000)
        assert Decimal(2**70 + 2599) == connection.execute(of_large).scalar()
    with engine.begin() as connection, pytest.raises(sa.exc.DataError, match="digits"):
        connection.execute(sa.insert(numbers), [{"id": i, "v": 10**40} for i in range(2600)])


def test_many_rows_go_as_arrow(engine: sa.Engine) -> None:
    frame = pd.DataFrame({"id": range(10_000), "text": [f"t'{i}" for i in range(10_000)]})
    assert 10_000 == frame.to_sql("t", engine, index=False)
    found = pd.read_sql("SELECT count(*) AS n, max(text) AS text FROM t", engine)
    assert [(10_000, "t'9999")] == list(found.itertuples(index=False, name=None))


def test_a_migration_happens_or_does_not(engine: sa.Engine, tmp_path: Path) -> None:
    """
    The tables and alembic_version change together.

    1. Two migrations run, and one fails after it has added a column.
    2. Neither the column nor its version is there.
    3. Down again.
    """
    from alembic import command  # noqa: PLC0415  (its import registers plugins)

    folder = tmp_path / "migrations"
    migrations.write(folder, migrations.ONE, migrations.TWO, migrations.FAILS)
    config = migrations.config(folder, str(engine.url))
    command.upgrade(config, "r2")
    assert ["id", "name"] == [c["name"] for c in sa.inspect(engine).get_columns("t")]
    with pytest.raises(RuntimeError):
        command.upgrade(config, "head")
    assert ["id", "name"] == [c["name"] for c in sa.inspect(engine).get_columns("t")]
    with engine.connect() as connection:
        assert [("r2",)] == connection.exec_driver_sql("SELECT * FROM alembic_version").all()
    command.downgrade(config, "base")
    assert not sa.inspect(engine).has_table("t")


def test_a_pod_that_lost_the_race_has_nothing_to_do(engine: sa.Engine, tmp_path: Path) -> None:
    """Somebody else has upgraded before our COMMIT: ours ends well, and has changed nothing."""
    from alembic import command  # noqa: PLC0415  (its import registers plugins)

    folder = tmp_path / "migrations"
    migrations.write(folder, migrations.ONE)
    ours = migrations.config(folder, str(engine.url))
    attempts = []

    def lose() -> None:
        attempts.append(len(attempts))
        if len(attempts) == 1:
            migrations.upgrade_beside(ours, engine)

    ours.attributes["before_commit"] = lose
    command.upgrade(ours, "head")
    assert [0, 1] == attempts
    assert ["id"] == [c["name"] for c in sa.inspect(engine).get_columns("t")]
    with engine.connect() as connection:
        assert [("r1",)] == connection.exec_driver_sql("SELECT * FROM alembic_version").all()


def test_a_load_deletes_and_inserts_in_one_transaction(engine: sa.Engine) -> None:
    """As loaders merge a staging table: delete what comes again, insert all of it."""
    metadata = sa.MetaData()
    columns = (sa.Column("id", sa.BigInteger), sa.Column("v", sa.Text))
    target = sa.Table("target", metadata, *columns)
    staging = sa.Table("staging", metadata, *(column.copy() for column in columns))
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(sa.insert(target), [{"id": i, "v": "old"} for i in range(3)])
        connection.execute(sa.insert(staging), [{"id": i, "v": "new"} for i in range(2, 5)])
    with engine.begin() as connection:
        matches = sa.exists().where(staging.c.id == target.c.id)
        assert 1 == connection.execute(sa.delete(target).where(matches)).rowcount
        rows = sa.select(staging.c.id, staging.c.v)
        connection.execute(sa.insert(target).from_select(["id", "v"], rows))
    with engine.connect() as connection:
        found = connection.execute(sa.select(target).order_by(target.c.id)).all()
    assert [(0, "old"), (1, "old"), (2, "new"), (3, "new"), (4, "new")] == found


@pytest.mark.slow
def test_dlt_merges_by_delete_and_insert(
    engine: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its `sqlalchemy` destination works unmodified over the engine's URL."""
    import dlt  # noqa: PLC0415  (it reads its settings from the working directory)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
    pipeline = dlt.pipeline(
        "flights",
        pipelines_dir=str(tmp_path),
        # dlt wants to know where the data is: a host, or a file of SQLite.
        destination=dlt.destinations.sqlalchemy(str(engine.url.set(host="localhost"))),
        dataset_name=f"{engine.url.database.partition('/')[2]}_dlt",
    )

    @dlt.resource(name="flights", primary_key="id", write_disposition="merge")
    def flights(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        yield from rows

    pipeline.run(flights([{"id": 1, "carrier": "UA"}, {"id": 2, "carrier": "AA"}]))
    pipeline.run(flights([{"id": 2, "carrier": "DL"}, {"id": 3, "carrier": "B6"}]))
    with engine.connect() as connection:
        found = connection.exec_driver_sql(
            f"SELECT id, carrier FROM {pipeline.dataset_name}.flights ORDER BY id"
        ).all()
    assert [(1, "UA"), (2, "DL"), (3, "B6")] == found
