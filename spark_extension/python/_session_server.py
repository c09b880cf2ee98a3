"""
Run statements of several sessions in one Spark driver: `python -m txns_spark._session_server`.

A line of JSON each way. The first one says which catalog is meant, with pyiceberg's properties and
our options, the numbers of the sessions, and a folder for what Spark leaves; it is answered by
`ready`, or by `error`. Each one after that is a statement of a session, answered by its rows or by
its error, session by session in order. It ends with its input, or with its JVM, without which each
statement would get an error: `txns verify-isolation` starts it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TextIO

from txns_spark._pyiceberg import spark_catalog_of
from txns_spark._secrets import masked
from txns_spark.errors import translation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_SMALL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""For few rows; what else a session needs is in spark-defaults.conf."""


class Answers:
    """Writes answers, from any thread."""

    def __init__(self, file: TextIO) -> None:
        """Write to a file, line by line."""
        self._file = file
        self._lock = Lock()

    def give(self, **line: Any) -> None:
        """Write one."""
        with self._lock:
            self._file.write(json.dumps(line, default=str) + "\n")
            self._file.flush()


class _Session:
    """One session, whose statements run one after the other, in a thread of its own."""

    def __init__(self, number: int, spark: SparkSession, answers: Answers) -> None:
        self.statements: SimpleQueue[str] = SimpleQueue()
        self._number = number
        self._spark = spark
        self._answers = answers
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            statement = self.statements.get()
            self._answers.give(session=self._number, **self._answer(statement))

    def _answer(self, statement: str) -> Mapping[str, Any]:
        try:
            return {"rows": [row.asDict() for row in self._spark.sql(statement).collect()]}
        except Exception as error:  # noqa: BLE001 -- whoever has sent it is told
            found = translation(error)
            if found is None:
                first = masked(str(error)).strip().splitlines()
                return {"error": f"{type(error).__name__}: {first[0] if first else ''}"}
            return {"error": found.message, "sqlstate": found.sqlstate}


def main() -> None:
    """Answer what stands in standard input, until it ends."""
    # What anybody else prints goes to where errors go.
    answers = Answers(os.fdopen(os.dup(sys.stdout.fileno()), "w"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    wanted = json.loads(sys.stdin.readline())
    try:
        spark = _started(wanted)
    except Exception as error:  # noqa: BLE001 -- whoever has asked is told
        answers.give(error=f"{type(error).__name__}: {masked(str(error))}")
        return
    Thread(target=_end_with_jvm, args=(spark,), daemon=True).start()
    sessions = {
        number: _Session(number, spark.newSession(), answers) for number in wanted["sessions"]
    }
    answers.give(ready=True)
    for line in sys.stdin:
        asked = json.loads(line)
        sessions[asked["session"]].statements.put(asked["statement"])
    spark.stop()


def _end_with_jvm(spark: SparkSession) -> None:
    gateway = spark.sparkContext._gateway  # noqa: SLF001
    assert gateway is not None
    code = gateway.proc.wait()
    sys.stderr.write(f"Spark's JVM has ended, with exit code {code}\n")
    sys.stderr.flush()
    os._exit(1)


def _started(wanted: Mapping[str, Any]) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415  (its lack is told as an answer)

    from txns_spark._configure import configure  # noqa: PLC0415  (imports pyspark)

    name = wanted["catalog"]
    builder = SparkSession.builder.master("local[2]").appName("txns verify-isolation")
    own = {
        **_SMALL,
        "spark.sql.defaultCatalog": name,
        "spark.sql.warehouse.dir": str(Path(wanted["folder"], "spark-warehouse").absolute()),
    }
    for key, value in own.items():
        builder = builder.config(key, value)
    told = spark_catalog_of(wanted["properties"]).options | wanted["options"]
    uri, warehouse = told.pop("uri"), told.pop("warehouse", None)
    spark = configure(builder, catalog=name, uri=uri, warehouse=warehouse, **told).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main()
