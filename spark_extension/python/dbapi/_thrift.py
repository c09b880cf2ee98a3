"""
A connection's session of a Spark Thrift server.

The Thrift protocol of HiveServer2 has neither parameters nor all of Spark's types: values go
as literals, and of nested columns the rows come as JSON.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
import threading
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txns_spark.dbapi import errors
from txns_spark.dbapi._literals import inlined
from txns_spark.dbapi._session import Answer
from txns_spark.dbapi._statements import is_query
from txns_spark.dbapi._types import TypeText, arrow_type, parse_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_NESTED = frozenset({"ARRAY_TYPE", "MAP_TYPE", "STRUCT_TYPE"})
# What the protocol's names do not tell: zone or none, precision, which interval.
_VAGUE = frozenset({"TIMESTAMP_TYPE", "DECIMAL_TYPE"})
_NAMES = {
    "BOOLEAN_TYPE": "boolean",
    "TINYINT_TYPE": "tinyint",
    "SMALLINT_TYPE": "smallint",
    "INT_TYPE": "int",
    "BIGINT_TYPE": "bigint",
    "FLOAT_TYPE": "float",
    "DOUBLE_TYPE": "double",
    "BINARY_TYPE": "binary",
    "DATE_TYPE": "date",
    "NULL_TYPE": "void",
    "INTERVAL_DAY_TIME_TYPE": "interval day to second",
}
_HIVE_PREFIX = re.compile(r"^(?:[\w.]+HiveSQLException: )?(?:Error running query: )?")
# Numbers of the protocol's TOperationState.
_FINISHED = 2
_UNDER_WAY = frozenset({0, 1, 7})
_INTERVAL = re.compile(r"(-?)(\d+) (\d+):(\d+):(\d+)\.(\d+)")
_FRACTION_DIGITS = 6


class ThriftSession:
    """A session of a Thrift server, through PyHive's client."""

    driver = "thrift"

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._running: Any = None
        # The client answers one thread at a time; another one cancels between two questions.
        self._lock = threading.Lock()
        # Instants arrive as text in the session's zone, without naming it.
        self.run("SET spark.sql.session.timeZone = UTC", ())

    def run(self, sql: str, parameters: Sequence[Any]) -> Answer:
        answer = self.stream(sql, parameters, 10_000)
        tables = [answer.columns, *(answer.rest or ())]
        return Answer(pa.concat_tables(tables), answer.is_command)

    def stream(self, sql: str, parameters: Sequence[Any], batch_rows: int) -> Answer:
        text = inlined(sql, parameters) if parameters else sql
        is_command = not is_query(text)
        cursor = self._execute(text)
        columns = [(column[0], column[1]) for column in cursor.description or ()]
        if is_command:
            types = [parse_type(_command_type(kind)) for _, kind in columns]
            if columns == [("Result", "STRING_TYPE")]:
                columns, types = [], []
        elif {kind for _, kind in columns} & (_NESTED | _VAGUE):
            types = self._types_of(text)
            if any(kind in _NESTED for _, kind in columns):
                cursor.close()
                cursor = self._execute(_with_json(text, columns, types))
        else:
            types = [parse_type(_NAMES.get(kind, "string")) for _, kind in columns]
        fields = [(name, arrow_type(t)) for (name, _), t in zip(columns, types, strict=True)]
        schema = pa.schema(fields)
        nested = _raw if is_command else _json
        rest = _batches(cursor, schema, types, batch_rows, nested)
        if is_command:
            # Its rows say what it did, and who sent it looks at them at once.
            rows = pa.concat_tables([schema.empty_table(), *(rest if columns else ())])
            return Answer(rows, is_command=True)
        return Answer(schema.empty_table(), is_command=False, rest=rest)

    def upload(self, name: str, rows: pa.Table) -> bool:
        del name, rows
        return False

    def has_table(self, name: str) -> None:
        del name

    def use(self, catalog: str, schema: str) -> bool:
        del catalog, schema
        return False

    def cancel(self) -> None:
        with self._lock:
            running = self._running
            if running is not None and running._operationHandle is not None:  # noqa: SLF001
                running.cancel()

    def close(self) -> None:
        self._connection.close()

    def _execute(self, sql: str) -> Any:
        from pyhive.exc import Error  # noqa: PLC0415  (only Thrift needs it)

        cursor = self._connection.cursor()
        try:
            with self._lock:
                cursor.execute(sql, async_=True)
                self._running = cursor
            self._wait(cursor)
        except Error as error:
            raise _translated(error) from error
        finally:
            self._running = None
        return cursor

    def _wait(self, cursor: Any) -> None:
        """Wait for the end of a statement; the waits grow with it, to a tenth of a second."""
        waited = 0.001
        while True:
            with self._lock:
                status = cursor.poll(get_progress_update=False)
            if status.operationState == _FINISHED:
                return
            if status.operationState not in _UNDER_WAY:
                raise _of_status(status.errorMessage or "cancelled", status.sqlState or "HY008")
            time.sleep(waited)  # noqa: TID251  (the same)
            waited = min(waited * 1.5, 0.1)

    def _types_of(self, query: str) -> list[TypeText]:
        described = self._execute(f"DESCRIBE QUERY {query}").fetchall()
        return [parse_type(row[1]) for row in described]


def _translated(error: Exception) -> errors.Error:
    """Return what an answer of the server means; its SQLSTATE is in the response's status."""
    status = getattr(error.args[0], "status", None) if error.args else None
    if status is None:
        return errors.of_spark(error)
    return _of_status(status.errorMessage or "", status.sqlState)


def _of_status(text: str, sqlstate: str | None) -> errors.Error:
    message = _HIVE_PREFIX.sub("", text.partition("\n\tat ")[0])
    found = re.match(r"\[([A-Z_0-9.]+)\]\s+\S+:\s*", message)
    condition = found[1] if found else None
    message = message[found.end() :] if found else message
    if condition is None and errors.is_lost_text(message):
        return errors.ConnectionLost(message)
    return errors.of_named(message, sqlstate, condition)


def _command_type(kind: str) -> str:
    if kind == "TIMESTAMP_TYPE":
        return "timestamp"
    if kind == "ARRAY_TYPE":  # the lists of names in a transaction's row
        return "array<string>"
    return _NAMES.get(kind, "string")


def _with_json(query: str, columns: list[tuple[str, str]], types: list[TypeText]) -> str:
    """Return the query with its nested columns as JSON, by position: names may be double."""
    names = [f"c{number}" for number in range(len(columns))]
    chosen = [
        f"to_json({name}, map('ignoreNullFields', 'false'))" if kind in _NESTED else name
        for name, (_, kind) in zip(names, columns, strict=True)
    ]
    assert len(types) == len(columns)
    return f"SELECT {', '.join(chosen)} FROM ({query}) AS t({', '.join(names)})"


def _batches(
    cursor: Any,
    schema: pa.Schema,
    types: list[TypeText],
    batch_rows: int,
    nested: Callable[[Any, TypeText], Any],
) -> Iterator[pa.Table]:
    converters = [_converter(kind, nested) for kind in types]
    while rows := cursor.fetchmany(batch_rows):
        arrays = [
            pa.array([None if v is None else convert(v) for v in column], field.type)
            for column, convert, field in zip(
                zip(*rows, strict=True), converters, schema, strict=True
            )
        ]
        yield pa.Table.from_arrays(arrays, schema=schema)
    cursor.close()


def _converter(kind: TypeText, nested: Callable[[Any, TypeText], Any]) -> Callable[[Any], Any]:
    if kind.name in {"array", "map", "struct"}:
        return lambda value: nested(value, kind)
    if kind.name == "date":
        return dt.date.fromisoformat
    if kind.name == "timestamp":
        return lambda value: _moment(value).replace(tzinfo=dt.UTC)
    if kind.name == "timestamp_ntz":
        return _moment
    if kind.name == "decimal":
        return lambda value: Decimal(str(value))
    if kind.name.startswith("interval"):
        return _interval
    return lambda value: value


def _moment(value: Any) -> dt.datetime:
    return value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(str(value))


def _interval(text: str) -> Any:
    found = _INTERVAL.fullmatch(text)
    if found is None:
        return text
    sign, days, hours, minutes, seconds, fraction = found.groups()
    amount = dt.timedelta(
        days=int(days),
        hours=int(hours),
        minutes=int(minutes),
        seconds=int(seconds),
        microseconds=int(fraction[:_FRACTION_DIGITS].ljust(_FRACTION_DIGITS, "0")),
    )
    return -amount if sign else amount


def _raw(text: str, _kind: TypeText) -> Any:
    return json.loads(text)


def _json(text: str, kind: TypeText) -> Any:
    return _of_json(json.loads(text, parse_float=Decimal), kind)


def _of_json(value: Any, kind: TypeText) -> Any:
    """Return a value of parsed JSON as Arrow takes it for the type."""
    if value is None:
        return None
    if kind.name == "array":
        return [_of_json(element, kind.fields[0][1]) for element in value]
    if kind.name == "map":
        (_, key), (_, content) = kind.fields
        return [(_of_json(k, key), _of_json(v, content)) for k, v in value.items()]
    if kind.name == "struct":
        return {name: _of_json(value.get(name), field) for name, field in kind.fields}
    if kind.name == "binary":
        return base64.b64decode(value)
    if kind.name in {"float", "double"}:
        return float(value)
    if kind.name in {"tinyint", "smallint", "int", "bigint"}:
        return int(value)
    if kind.name == "boolean":
        return value if isinstance(value, bool) else value == "true"
    if kind.name == "timestamp":
        return dt.datetime.fromisoformat(value)
    return _converter(kind, _raw)(value)
