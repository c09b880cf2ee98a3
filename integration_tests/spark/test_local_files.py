"""Over Hadoop's own local file system, which users have, and other tests do not: it is slow."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration_tests import sessions

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

HADOOPS_OWN = {
    "hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "hadoop.fs.file.impl.disable.cache": "true",
}
DAYS = "(1, 'a', 1), (2, 'b', 1), (3, 'c', 2)"


def _has_checksums(file: Path) -> bool:
    return file.with_name(f".{file.name}.crc").exists()


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_what_a_transaction_writes_itself_is_written_without_hadoop(
    new_session: Callable[[], SparkSession], tmp_path: Path, mode: str
) -> None:
    """Metadata, manifests and their lists; data files are the tasks', and all read all."""
    ours, plain = new_session(), new_session()
    folder = tmp_path / "lake"
    sessions.add_catalog(ours, "own", folder, sessions.TXNS, **HADOOPS_OWN)
    sessions.add_catalog(plain, "own", folder, sessions.PLAIN, **HADOOPS_OWN)
    modes = ", ".join(f"'write.{each}.mode' = '{mode}'" for each in ("delete", "update", "merge"))
    for name in "ab":
        ours.sql(
            f"CREATE TABLE own.db.{name} (id BIGINT, v STRING, day INT) USING iceberg"
            f" PARTITIONED BY (day) TBLPROPERTIES ({modes})"
        )
    before = set(folder.rglob("*"))
    ours.sql("BEGIN")
    for name in "ab":
        ours.sql(f"INSERT INTO own.db.{name} VALUES {DAYS}")
    ours.sql("UPDATE own.db.a SET v = 'z' WHERE id = 2")
    ours.sql("DELETE FROM own.db.b WHERE id = 1")
    ours.sql(
        "MERGE INTO own.db.b t USING own.db.a s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    ours.sql("COMMIT")
    made = set(folder.rglob("*")) - before
    own = [path for path in made if path.suffix in {".avro", ".json"}]
    assert own
    assert not [path for path in own if _has_checksums(path)]
    assert all(_has_checksums(path) for path in made if path.suffix == ".parquet")

    for day in range(3, 10):
        ours.sql(f"INSERT INTO own.db.a VALUES ({day}, 'n', {day})")
    ours.sql("CALL own.system.tidy()")
    ours.sql("CALL own.system.rewrite_data_files(table => 'db.b')")
    for session in (ours, plain):
        found = session.sql("SELECT id, v FROM own.db.b ORDER BY id").collect()
        assert [(1, "a"), (2, "z"), (3, "c")] == [tuple(row) for row in found]
        assert 10 == session.table("own.db.a").count()
    # Iceberg gives tasks the files of a table's operations there.
    ours.sql("CREATE TABLE own.db.c USING iceberg AS SELECT * FROM own.db.a")
    assert 10 == ours.table("own.db.c").count()
    assert 0 < ours.table("own.db.c.files").count()
    data = [*(folder / "db" / "c").rglob("*.parquet")]
    assert data
    assert all(_has_checksums(path) for path in data)

    with closing(sqlite3.connect(folder / "catalog.db")) as database:
        named = database.execute("SELECT metadata_location FROM iceberg_tables").fetchall()
    files = [Path(location.removeprefix("file:")) for (location,) in named]
    assert all(0o644 == path.stat().st_mode & 0o777 for path in files)
