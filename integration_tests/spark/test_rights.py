"""A user who may read and not write: the log is laid over the tables, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from integration_tests import sessions
from integration_tests.checks import affected, count, one, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_a_reader_without_the_right_to_write(
    own_lake: Callable[..., SparkSession], new_session: Callable[[], SparkSession], tmp_path: Path
) -> None:
    """It reads what has committed and nobody has applied, at one moment, and changes nothing."""
    writer = own_lake(txns_apply="next")
    for name in ("a", "b"):
        writer.sql(f"CREATE TABLE own.db.{name} (id BIGINT) USING iceberg")
    writer.sql("BEGIN")
    for name in ("a", "b"):
        affected(writer, f"INSERT INTO own.db.{name} VALUES (1), (2)")
    assert not one(writer, "COMMIT").applied

    folder = tmp_path / "own"
    reader = new_session()
    # The catalog refuses its writes, as one does whose user has no right to write.
    read_only = f"jdbc:sqlite:file:{folder}/catalog.db?mode=ro&busy_timeout=30000"
    sessions.add_catalog(reader, "own", folder, sessions.TXNS, uri=read_only)
    joined = "SELECT count(*) FROM own.db.a JOIN own.db.b USING (id)"
    assert [(2,)] == rows(reader, joined)
    reader.sql("BEGIN READ ONLY")
    assert [(2,)] == rows(reader, joined)  # of two catalogs, the first that is touched
    affected(writer, "DELETE FROM own.db.a")
    assert [(2,)] == rows(reader, joined)
    reader.sql("COMMIT")
    assert [(0,)] == rows(reader, joined)
    with pytest.raises((PySparkException, Py4JJavaError), match="readonly database"):
        reader.sql("INSERT INTO own.db.b VALUES (3)")
    assert 2 == count(writer, "own.db.b")
