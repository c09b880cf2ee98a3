"""A load through SQLAlchemy that is killed half-way: no reader sees half, a rerun is right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests import migrations, sessions
from integration_tests.background import Background
from integration_tests.checks import rows
from integration_tests.drivers import LoadDriver
from integration_tests.load_program import ROWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

# pandas has `delete_rows` from 3.0 on; Spark 4.1's own Arrow path is not made for it.
_PANDAS_3 = Path(__file__).parents[2] / ".venv-pandas3" / "bin" / "python"
# Between two looks of a reader.
_PAUSE_S = 0.3
_STATE = "SELECT id, run FROM lake.db.t"


@pytest.fixture
def lake(new_session: Callable[[], SparkSession], tmp_path: Path) -> SparkSession:
    """A session over a lake of its own, in whose schema `db` the loaders work."""
    made = new_session()
    sessions.add_catalog(made, "lake", tmp_path / "lake", sessions.TXNS)
    made.sql("CREATE NAMESPACE lake.db")
    return made


def _load(folder: Path, what: str, run: int, **options: Any) -> LoadDriver:
    python = str(_PANDAS_3) if what == "pandas" else None
    log = folder / "load.log"
    return LoadDriver(what, folder / "lake", str(run), log, python=python, **options)


def _kill_at(folder: Path, what: str, run: int, stop: str) -> None:
    with _load(folder, what, run, stop=stop) as load:
        assert ["ready", "stopped"] == [load.wait_for_line() for _ in range(2)]


def _run(folder: Path, what: str, run: int) -> None:
    with _load(folder, what, run) as load:
        assert ["ready", "done"] == load.read_to_end()[:2]


@pytest.mark.parametrize(
    ("what", "stops"),
    [
        # After the DELETE, between two INSERTs, before the COMMIT.
        ("pandas", [r"^INSERT INTO t\b", "^COMMIT$"]),
        ("dlt", [r"^INSERT INTO `?db`?\.`?t`? ", r"^DELETE FROM `?db`?\.`?t`? "]),
    ],
)
def test_rows_are_replaced_at_once(
    lake: SparkSession, tmp_path: Path, what: str, stops: list[str]
) -> None:
    """
    A reader sees one run's rows, always.

    1. A first run loads.
    2. Each next run is killed at one of its statements, while a reader looks.
    3. A last run, undisturbed, replaces the rows while the reader looks.
    """

    def whole(run: int) -> list[tuple[int, int]]:
        return sorted(((number, run) for number in range(ROWS)), key=repr)

    _run(tmp_path, what, 0)
    assert whole(0) == rows(lake, _STATE)
    reader = lake.newSession()
    sessions.add_catalog(reader, "lake", tmp_path / "lake", sessions.TXNS)
    last = len(stops) + 1

    def look(_turn: int) -> None:
        assert rows(reader, _STATE) in (whole(0), whole(last))

    with Background(look, pause_s=_PAUSE_S) as readers:
        for run, stop in enumerate(stops, 1):
            _kill_at(tmp_path, what, run, stop)
            readers.wait_for_turns(1)
            assert whole(0) == rows(lake, _STATE)
        _run(tmp_path, what, last)
        readers.stop()
    assert whole(last) == rows(lake, _STATE)


def _migrated(session: SparkSession) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns of t and the revisions, of one moment: in one transaction."""
    session.sql("BEGIN READ ONLY")
    columns = session.sql("SELECT * FROM lake.db.t").columns
    revisions = rows(session, "SELECT version_num FROM lake.db.alembic_version")
    session.sql("COMMIT")
    return columns, revisions


def test_a_migration_is_killed(lake: SparkSession, tmp_path: Path) -> None:
    """
    The column and its revision come together.

    1. A first revision makes the table; a second one, which adds a column, is killed after it
       has added it, and before its COMMIT.
    2. It runs again. A reader looks all the time.
    """
    migrations.write(tmp_path / "migrations", migrations.ONE)
    _run(tmp_path, "alembic", 0)
    (before, after) = (["id"], [("r1",)]), (["id", "name"], [("r2",)])
    assert before == _migrated(lake)
    migrations.write(tmp_path / "migrations", migrations.ONE, migrations.TWO)
    reader = lake.newSession()
    sessions.add_catalog(reader, "lake", tmp_path / "lake", sessions.TXNS)

    def look(_turn: int) -> None:
        assert _migrated(reader) in (before, after)

    with Background(look, pause_s=_PAUSE_S) as readers:
        for stop in (r"^UPDATE alembic_version", "^COMMIT$"):
            _kill_at(tmp_path, "alembic", 0, stop)
            readers.wait_for_turns(1)
            assert before == _migrated(lake)
        _run(tmp_path, "alembic", 0)
        readers.stop()
    assert after == _migrated(lake)


def test_pods_upgrade_at_once(lake: SparkSession, tmp_path: Path) -> None:
    """Three processes run `upgrade head` at once: one applies, the others have nothing to do."""
    migrations.write(tmp_path / "migrations", migrations.ONE, migrations.TWO)
    pods = [_load(tmp_path, "alembic", 0, waits=True) for _ in range(3)]
    try:
        assert ["ready"] * 3 == [pod.wait_for_line() for pod in pods]
        for pod in pods:
            pod.say("go")
        assert [["ready", "done"]] * 3 == [pod.read_to_end() for pod in pods]
    finally:
        for pod in pods:
            pod.kill()
    assert (["id", "name"], [("r2",)]) == _migrated(lake)
    entries = lake.sql("CALL lake.system.transactions()").filter("table_name = 'db.t'")
    created = entries.filter("operation = 'create'").count()
    assert 1 == created
