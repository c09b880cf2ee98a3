"""A cursor: one statement after the other, and the rows of the last one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import pyarrow as pa

from txns_spark.dbapi import errors
from txns_spark.dbapi._alike import alike
from txns_spark.dbapi._markers import code_of, insert_rows
from txns_spark.dbapi._types import type_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from txns_spark.dbapi._session import Answer

_AFFECTED = "num_affected_rows"
# One statement with so many rows is parsed in about a second.
_VALUES_MAX = 20_000
# What has no order, or names, or is one value: no set of parameters.
_NO_ROWS = (Mapping, AbstractSet, str, bytes)


class Runs(Protocol):
    """What a cursor needs of its `Connection`."""

    def _execute(
        self,
        sql: str,
        parameters: Sequence[Any],
        batch_rows: int | None,
        *,
        inline: bool = False,
    ) -> Answer:
        """
        Run a statement in the connection's session.

        Args:
            sql: With question marks.
            parameters: A value for each.
            batch_rows: How many rows a batch has; None for all in one.
            inline: Whether values are written into the statement.
        """

    def cancel(self) -> None:
        """Stop the statement that runs."""

    def _translating(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield batches as they arrive; what goes wrong meanwhile, in our classes."""


class Column(NamedTuple):
    """One column of `Cursor.description`; only name and type code are known."""

    name: str
    type_code: str
    display_size: None = None
    internal_size: None = None
    precision: int | None = None
    scale: int | None = None
    null_ok: bool | None = None


class Cursor:
    """
    PEP 249's cursor over the connection's session; made by `Connection.cursor`.

    Statements run to their end in `execute`. A streaming cursor takes a query's rows in
    batches of `arraysize` instead; it ends with its transaction.

    Attributes:
        arraysize: How many rows `fetchmany` returns if not told; rows of a streamed batch.
        rowcount: Rows of the last query, or rows that the last INSERT, UPDATE, DELETE or
            MERGE changed; -1 if nobody knows (DDL, a streamed query, a statement whose
            `num_affected_rows` is NULL).
        description: The columns of the last query; None after a statement without rows.
        lastrowid: None; rows have no ids.
    """

    def __init__(self, connection: Runs, *, streaming: bool) -> None:
        self.connection = connection
        self.arraysize = 1000 if streaming else 1
        self.rowcount = -1
        self.description: list[Column] | None = None
        self.lastrowid = None
        self._streaming = streaming
        self._closed = False
        self._table: pa.Table | None = None
        self._rest: Iterator[pa.Table] | None = None
        self._rows: Iterator[tuple[Any, ...]] = iter(())
        self._fetched = 0

    # Statements

    def execute(self, operation: str, parameters: Sequence[Any] | None = None) -> Self:
        """
        Run a statement; the first one begins a transaction, unless the connection autocommits.

        Args:
            operation: A statement of Spark SQL, without a semicolon inside.
            parameters: One value for each `?`; None if there is none.

        Raises:
            Error: In one of its classes, by SQLSTATE.
        """
        self._check_open()
        self._forget_rows()
        row = () if parameters is None else _row_of(parameters)
        batch_rows = self.arraysize if self._streaming else None
        self._take(self.connection._execute(operation, row, batch_rows))  # noqa: SLF001
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Sequence[Any]]) -> Self:
        """
        Run a statement for each set of parameters; `rowcount` is the sum, -1 if one is unknown.

        INSERT ... VALUES (...) runs as one statement with many rows, or one for all that have
        values of the same types, of which NULL is any; an int beside floats is one of them.

        Raises:
            ProgrammingError: A set of parameters is none, or has another number of values than
                the statement has markers. Nothing has run.
            Error: The statements before the failed one have run; roll back.
        """
        self._check_open()
        self._forget_rows()
        rows = _rows_of(operation, seq_of_parameters)
        insert = insert_rows(operation)
        counts = []
        if insert and rows:
            for text, values in _multi_row(*insert, rows):
                self._take(self.connection._execute(text, values, None, inline=True))  # noqa: SLF001
                counts.append(self.rowcount)
        else:
            for parameters in rows:
                self._take(self.connection._execute(operation, parameters, None))  # noqa: SLF001
                counts.append(self.rowcount)
        self._forget_rows()
        self.rowcount = -1 if -1 in counts else sum(counts)
        return self

    # Rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None after the last."""
        self._check_rows()
        return next(self._rows, None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return the next `size` rows, `arraysize` if not told; an empty list after the last."""
        self._check_rows()
        count = self.arraysize if size is None else size
        return [row for _, row in zip(range(count), self._rows, strict=False)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows that are left."""
        self._check_rows()
        return list(self._rows)

    def fetch_arrow_table(self) -> pa.Table:
        """
        Return all rows of the query as an Arrow table.

        Raises:
            InterfaceError: Rows have been fetched one by one already.
        """
        self._check_rows()
        self._check_none_fetched()
        assert self._table is not None
        found = pa.concat_tables([self._table, *self._batches()])
        self._rows, self._rest = iter(()), None
        return found

    def fetch_record_batches(self) -> Iterator[pa.RecordBatch]:
        """
        Yield all rows of the query as Arrow batches; as they arrive if streaming.

        Raises:
            InterfaceError: Rows have been fetched one by one already.
        """
        self._check_rows()
        self._check_none_fetched()
        assert self._table is not None
        table, rest = self._table, self._batches()
        self._rows, self._rest = iter(()), None
        yield from table.to_batches()
        for more in rest:
            yield from more.to_batches()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Iterate over the rows that are left."""
        while (row := self.fetchone()) is not None:
            yield row

    # The rest of PEP 249

    def cancel(self) -> None:
        """Stop the statement that runs; called by another thread. It raises OperationalError."""
        self.connection.cancel()

    def close(self) -> None:
        """Give up the rows; the connection and its transaction go on. `rowcount` stays."""
        rowcount = self.rowcount
        self._forget_rows()
        self.rowcount = rowcount
        self._closed = True

    def setinputsizes(self, sizes: object) -> None:
        """Do nothing: values carry their types."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing: columns are fetched whole."""

    def __enter__(self) -> Self:
        """Return the cursor."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _take(self, answer: Answer) -> None:
        names = answer.columns.column_names
        self.rowcount, self.description = -1, None
        if answer.is_command and names[:1] == [_AFFECTED]:
            affected = answer.columns.column(0)[0].as_py()
            self.rowcount = -1 if affected is None else affected
            return
        if not names:
            return
        self.description = [
            Column(field.name, type_text(field.type), None, None, *_precision(field.type))
            for field in answer.columns.schema
        ]
        self._table, self._rest = answer.columns, answer.rest
        if answer.rest is None:
            self.rowcount = answer.columns.num_rows
        self._rows = self._each_row()

    def _each_row(self) -> Iterator[tuple[Any, ...]]:
        assert self._table is not None
        yield from self._of(self._table)
        for more in self._batches():
            yield from self._of(more)

    def _batches(self) -> Iterator[pa.Table]:
        """Return the batches of a streamed query that are left."""
        return self.connection._translating(self._rest or iter(()))  # noqa: SLF001

    def _of(self, table: pa.Table) -> Iterator[tuple[Any, ...]]:
        columns = [_python_values(table.column(i)) for i in range(table.num_columns)]
        for row in zip(*columns, strict=True):
            self._fetched += 1
            yield row

    def _forget_rows(self) -> None:
        self._table, self._rest, self._rows = None, None, iter(())
        self._fetched, self.rowcount, self.description = 0, -1, None

    def _check_open(self) -> None:
        if self._closed:
            raise errors.InterfaceError("the cursor is closed; ask the connection for another")

    def _check_rows(self) -> None:
        self._check_open()
        if self._table is None:
            raise errors.InterfaceError("there are no rows: the last statement was no query")

    def _check_none_fetched(self) -> None:
        if self._fetched:
            raise errors.InterfaceError("rows have been fetched already; execute the query again")


def _rows_of(operation: str, sets: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return the sets of parameters, each of which has a value for each marker."""
    if isinstance(sets, (Mapping, str, bytes)):
        raise errors.ProgrammingError(
            f"executemany takes a sequence of sets of parameters: class={type(sets).__name__}"
        )
    markers = code_of(operation).count("?")
    rows = []
    for number, parameters in enumerate(sets):
        row = _row_of(parameters, number)
        if len(row) != markers:
            raise errors.ProgrammingError(
                "a row has another number of values than the statement has markers; nothing has "
                f"run: row={number}, counted from 0, values={len(row)}, markers={markers}"
            )
        rows.append(row)
    return rows


def _row_of(parameters: Any, number: int | None = None) -> tuple[Any, ...]:
    """Return a set of parameters, which go by their places: names, or letters, are no values."""
    if isinstance(parameters, _NO_ROWS) or not isinstance(parameters, Iterable):
        row = "" if number is None else f"row={number}, counted from 0, "
        raise errors.ProgrammingError(
            "parameters are a sequence with one value for each question mark, in their order "
            f"(paramstyle qmark); give a list or a tuple: {row}class={type(parameters).__name__}"
        )
    return tuple(parameters)


def _multi_row(
    head: str, row_text: str, rows: list[tuple[Any, ...]]
) -> Iterator[tuple[str, list[Any]]]:
    size = max(1, _VALUES_MAX // max(1, len(rows[0])))
    for group in alike(rows):
        for start in range(0, len(group), size):
            some = group[start : start + size]
            values = [value for row in some for value in row]
            yield head + ", ".join([row_text] * len(some)), values


def _precision(kind: pa.DataType) -> tuple[int | None, int | None]:
    return (kind.precision, kind.scale) if pa.types.is_decimal(kind) else (None, None)


def _python_values(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    convert = _converter(column.type)
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def _converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return what makes dicts of a map's pairs, at any depth; None where there is no map."""
    if pa.types.is_map(kind):
        key, content = _converter(kind.key_type), _converter(kind.item_type)
        return lambda pairs: {_each(key, k): _each(content, v) for k, v in pairs}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _converter(kind.value_type)
        return element and (lambda values: [_each(element, value) for value in values])
    if pa.types.is_struct(kind):
        fields = {
            kind.field(i).name: _converter(kind.field(i).type) for i in range(kind.num_fields)
        }
        if any(fields.values()):
            return lambda value: {name: _each(f, value[name]) for name, f in fields.items()}
    return None


def _each(convert: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)
