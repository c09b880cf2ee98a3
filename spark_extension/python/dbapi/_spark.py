"""A connection's Spark session in this process, or behind Spark Connect."""

from __future__ import annotations

import json
import logging
import re
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txns_spark.dbapi._literals import bound, path
from txns_spark.dbapi._markers import code_of
from txns_spark.dbapi._session import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Tags are a session's own, so one name serves all.
_TAG = "txns-dbapi"
_HEAD_CHARS = 1000
_CACHE = re.compile(
    r"\s*CACHE\s+(?:LAZY\s+)?TABLE\s+((?:`[^`]*`|\w+)(?:\.(?:`[^`]*`|\w+))*)", re.IGNORECASE
)
_NO_ESCAPES = "spark.sql.parser.escapedStringLiterals"


class _DataFrameSession:
    """What both ways share: statements make data frames."""

    def __init__(self, session: Any) -> None:
        _log_no_errors()
        self._spark = session

    def run(self, sql: str, parameters: Sequence[Any]) -> Answer:
        frame = self._frame(sql, parameters)
        command = self._command_rows(frame)
        if command is not None:
            return Answer(command, is_command=True)
        return Answer(frame.toArrow(), is_command=False)

    def stream(self, sql: str, parameters: Sequence[Any], batch_rows: int) -> Answer:
        frame = self._frame(sql, parameters)
        command = self._command_rows(frame)
        if command is not None:
            return Answer(command, is_command=True)
        schema = _arrow_schema(frame)
        rest = _row_batches(frame, schema, batch_rows)
        return Answer(schema.empty_table(), is_command=False, rest=rest)

    def upload(self, name: str, rows: pa.Table) -> bool:
        self._spark.createDataFrame(rows, schema=_spark_schema(rows)).createOrReplaceTempView(name)
        return True

    def has_table(self, name: str) -> bool:
        return bool(self._spark.catalog.tableExists(name))

    def use(self, catalog: str, schema: str) -> bool:
        try:
            self._spark.catalog.setCurrentCatalog(catalog)
            self._spark.catalog.setCurrentDatabase(path(schema))
        except Exception:  # noqa: BLE001  (the statements that are tried next tell what is wrong)
            return False
        return True

    def _frame(self, sql: str, parameters: Sequence[Any]) -> Any:
        text, values = bound(sql, parameters, self._has_escapes)
        return self._spark.sql(text, args=values) if values else self._spark.sql(text)

    def _has_escapes(self) -> bool:
        """Tell whether string literals know escapes in the session, as they do by default."""
        return str(self._spark.conf.get(_NO_ESCAPES, "false")).lower() != "true"

    def _command_rows(self, frame: Any) -> pa.Table | None:
        """Return the rows of a command, which has run already; None for a query."""
        raise NotImplementedError


class ClassicSession(_DataFrameSession):
    """A session of the JVM of this process."""

    driver = "session"

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._cached: list[Any] = []

    def cancel(self) -> None:
        # By the tag that all jobs of a session carry: tags of one's own belong to a thread here,
        # and another one could not name them.
        self._spark.interruptAll()

    def has_table(self, name: str) -> bool:
        with self._active():
            return super().has_table(name)

    def use(self, catalog: str, schema: str) -> bool:
        with self._active():
            return super().use(catalog, schema)

    @contextmanager
    def _active(self) -> Iterator[None]:
        """
        Make it the thread's session, as statements do by themselves.

        Spark makes a catalog, when it is first named, by the options of the thread's session.
        """
        sessions = self._spark._get_j_spark_session_class(self._spark._jvm)  # noqa: SLF001
        before = sessions.getActiveSession()
        sessions.setActiveSession(self._spark._jsparkSession)  # noqa: SLF001
        try:
            yield
        finally:
            if before.isDefined():
                sessions.setActiveSession(before.get())
            else:
                sessions.clearActiveSession()

    def close(self) -> None:
        # A session of the JVM has no end of its own; what it holds is dropped with it, but for
        # the cache, which all sessions share.
        while self._cached:
            self._cached.pop().unpersist()

    def _frame(self, sql: str, parameters: Sequence[Any]) -> Any:
        frame = super()._frame(sql, parameters)
        name = _cached_name(sql)
        if name is not None:
            # By its name alone, UNCACHE TABLE would drop what others have of the same one.
            self._cached.append(self._spark.table(name))
        return frame

    def _command_rows(self, frame: Any) -> pa.Table | None:
        # Commands have run when spark.sql() returns, and stand there as their result.
        plan = frame._jdf.queryExecution().commandExecuted()  # noqa: SLF001
        if str(plan.getClass().getSimpleName()) != "CommandResult":
            return None
        schema = _known_schema(plan.schema().json())
        # Asking for the rows runs one more query, and most commands have none.
        rows = frame.collect() if plan.rows().nonEmpty() else []
        columns = [[row[i] for row in rows] for i in range(len(schema))]
        arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)


class ConnectSession(_DataFrameSession):
    """A session of a Spark Connect server."""

    driver = "connect"

    def cancel(self) -> None:
        self._spark.interruptTag(_TAG)

    def close(self) -> None:
        self._spark.stop()
        # pyspark closes the client once more when the session is collected, which can happen
        # inside a lock that closing waits for: that hung for ever.
        self._spark.client.close = _nothing

    def _frame(self, sql: str, parameters: Sequence[Any]) -> Any:
        self._spark.addTag(_TAG)
        return super()._frame(sql, parameters)

    def _command_rows(self, frame: Any) -> pa.Table | None:
        relation = frame._plan._plan  # noqa: SLF001  (no public way asks only once)
        if relation.WhichOneof("rel_type") != "local_relation":
            return None
        data = relation.local_relation.data
        return pa.ipc.open_stream(data).read_all() if data else pa.table({})


def _cached_name(sql: str) -> str | None:
    """Return the name behind CACHE TABLE; None for other statements."""
    if "CACHE" not in sql[:_HEAD_CHARS].upper():
        return None
    found = _CACHE.match(code_of(sql))
    return None if found is None else sql[found.start(1) : found.end(1)]


def _nothing() -> None:
    """Do what is left to do for what has been closed."""


def _log_no_errors() -> None:
    """Keep pyspark from printing each error that a statement answers with, and we raise."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # noqa: TID251 -- theirs


@lru_cache(maxsize=256)
def _known_schema(text: str) -> pa.Schema:
    """Return the Arrow schema for Spark's as JSON; commands answer with few different ones."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  (Thrift needs no pyspark)
    from pyspark.sql.types import StructType  # noqa: PLC0415  (the same)

    schema: pa.Schema = to_arrow_schema(StructType.fromJson(json.loads(text)))
    return schema


def _arrow_schema(frame: Any) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  (see above)

    schema: pa.Schema = to_arrow_schema(frame.schema)
    return schema


def _spark_schema(rows: pa.Table) -> Any:
    """Return the schema of uploaded rows; a time without zone stays one."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  (see above)

    return from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)


def _row_batches(frame: Any, schema: pa.Schema, batch_rows: int) -> Iterator[pa.Table]:
    from pyspark.sql.types import StructType  # noqa: PLC0415  (see above)

    types = [field.dataType for field in frame.schema]
    assert isinstance(frame.schema, StructType)
    batch: list[Any] = []
    for row in frame.toLocalIterator():
        batch.append([_plain(value, kind) for value, kind in zip(row, types, strict=True)])
        if len(batch) >= batch_rows:
            yield _table(batch, schema)
            batch = []
    if batch:
        yield _table(batch, schema)


def _table(rows: list[Any], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(list(c), field.type) for c, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _plain(value: Any, kind: Any) -> Any:
    """Return a value of a Row as Arrow takes it; pyspark gives instants in local time."""
    from pyspark.sql.types import ArrayType, MapType, StructType, TimestampType  # noqa: PLC0415

    if value is None:
        return None
    if isinstance(kind, TimestampType):
        return value.astimezone()
    if isinstance(kind, ArrayType):
        return [_plain(element, kind.elementType) for element in value]
    if isinstance(kind, MapType):
        return [(_plain(k, kind.keyType), _plain(v, kind.valueType)) for k, v in value.items()]
    if isinstance(kind, StructType):
        return {f.name: _plain(v, f.dataType) for f, v in zip(kind, value, strict=True)}
    return bytes(value) if isinstance(value, bytearray) else value
