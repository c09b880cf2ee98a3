"""
Run statements: many rows in one statement.

An executemany of an ORM flush is one Spark job per row, if it is sent row by row. UPDATE by
key becomes one MERGE, DELETE by key one DELETE; INSERT becomes one with many rows, from a
temporary view of Arrow rows where the driver can make one.
"""

from __future__ import annotations

import itertools
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from sqlalchemy.engine import default
from sqlalchemy.sql import compiler, elements, operators

from txns_spark import dbapi

if TYPE_CHECKING:
    from collections.abc import Sequence

# From so many values on, Arrow is faster than parsing literals.
_UPLOAD_VALUES_MIN = 5_000
# One statement with so many values is parsed in about a second.
_STATEMENT_VALUES_MAX = 20_000
_VIEW = "txns_rows"
# What stands in a SET clause: a parameter, or what onupdate=func.now() makes.
_SET = re.compile(
    r"(?P<column>`(?:[^`]|``)*`|\w+)\s*=\s*"
    r"(?P<value>\?|(?:current_date|current_timestamp|localtimestamp)(?:\(\))?)",
    re.IGNORECASE,
)


class TxnsExecutionContext(default.DefaultExecutionContext):
    """What a statement keeps while it runs."""

    @classmethod
    def _init_compiled(cls, dialect: Any, connection: Any, *args: Any, **kw: Any) -> Any:
        # The ids of an INSERT are made while its parameters are put together.
        compiled = next(one for one in args if isinstance(one, compiler.SQLCompiler))
        table = _counted_table(compiled)
        if table is not None:
            dialect.ids.prepare(connection, table, table._autoincrement_column)
        made = super()._init_compiled(dialect, connection, *args, **kw)
        if table is not None:
            key = table._autoincrement_column.key
            for given in (row.get(key) for row in made.compiled_parameters):
                if isinstance(given, int):
                    dialect.ids.note(table, given)
        return made

    def create_server_side_cursor(self) -> Any:
        return self._dbapi_connection.cursor(streaming=True)

    def fire_sequence(self, seq: Any, type_: Any) -> Any:
        del seq, type_
        return None


def _counted_table(compiled: Any) -> Any:
    """Return the table of an INSERT that has a column of ids; None for other statements."""
    if not compiled.isinsert or compiled.compile_state is None:
        return None
    table = getattr(compiled.compile_state.statement, "table", None)
    return table if getattr(table, "_autoincrement_column", None) is not None else None


class ByKey(NamedTuple):
    """
    An UPDATE or DELETE whose WHERE compares columns with parameters, and nothing else.

    Attributes:
        table: The table's name in SQL.
        keys: Column in SQL, and its place among the parameters.
        sets: The same of the SET clause; empty for a DELETE.
        fixed: Columns of the SET clause that take the same for all rows, and what: now().
    """

    table: str
    keys: list[tuple[str, int]]
    sets: list[tuple[str, int]]
    fixed: list[tuple[str, str]]


def run_many(cursor: Any, statement: str, rows: Sequence[Any], context: Any) -> None:
    """Run an executemany in as few statements as it takes, with the true row count."""
    compiled = context.compiled if context is not None else None
    by_key = None
    if compiled is not None and (compiled.isupdate or compiled.isdelete):
        by_key = _by_key(context)
    if by_key is None or _needs_order(by_key, rows):
        if compiled is not None and compiled.isinsert and _inserted(cursor, statement, rows):
            return
        cursor.executemany(statement, rows)
        return
    _merge(cursor, by_key, rows)


def _by_key(context: Any) -> ByKey | None:
    """Return the parts of a statement by key; None if it is another kind."""
    compiled = context.compiled
    if not hasattr(compiled, "_txns_by_key"):
        compiled._txns_by_key = _parts(compiled)
    found: ByKey | None = compiled._txns_by_key
    if found is None or not compiled.schema_translate_map:
        return found
    translate = context.execution_options.get("schema_translate_map", {})
    table = compiled.preparer._render_schema_translates(found.table, translate)
    return found._replace(table=table)


def _parts(compiled: Any) -> ByKey | None:
    statement = compiled.compile_state.statement if compiled.compile_state else None
    table = getattr(statement, "table", None)
    places = compiled.positiontup
    if statement is None or table is None or places is None or len(set(places)) != len(places):
        return None
    preparer = compiled.preparer
    wheres = getattr(statement, "_where_criteria", ())
    keys: list[tuple[str, int]] = []
    for clause in itertools.chain.from_iterable(_anded(where) for where in wheres):
        place = _equals(clause, table, compiled)
        if place is None:
            return None
        keys.append((preparer.format_column(place[0]), place[1]))
    if not keys:
        return None
    changes = _changes(compiled.string) if compiled.isupdate else ([], [])
    if changes is None or len(changes[0]) + len(keys) != len(places):
        return None
    return ByKey(preparer.format_table(table), keys, *changes)


def _changes(update: str) -> tuple[list[tuple[str, int]], list[tuple[str, str]]] | None:
    """Return what an UPDATE sets, as in ByKey; None if there is more than that can say."""
    # The text is the only place that tells which parameter stands for which column.
    head = re.fullmatch(r"UPDATE .*? SET (.*?)\s+WHERE .*", update, re.DOTALL)
    found = [_SET.fullmatch(part) for part in head[1].split(", ")] if head else [None]
    sets: list[tuple[str, int]] = []
    fixed: list[tuple[str, str]] = []
    for change in found:
        if change is None:
            return None
        if change["value"] == "?":
            sets.append((change["column"], len(sets)))
        else:
            fixed.append((change["column"], change["value"]))
    return sets, fixed


def _anded(clause: Any) -> list[Any]:
    if isinstance(clause, elements.BooleanClauseList) and clause.operator is operators.and_:
        return [inner for one in clause.clauses for inner in _anded(one)]
    return [clause]


def _equals(clause: Any, table: Any, compiled: Any) -> tuple[Any, int] | None:
    """Return column and place of `column = parameter`; None for anything else."""
    if not isinstance(clause, elements.BinaryExpression) or clause.operator is not operators.eq:
        return None
    column, value = clause.left, clause.right
    if not isinstance(value, elements.BindParameter) or value.type._has_bind_expression:
        return None
    found = next((one for one in table.columns if column.compare(one)), None)
    name = compiled.bind_names.get(value)
    if found is None or name not in compiled.positiontup:
        return None
    return found, compiled.positiontup.index(name)


def _needs_order(by_key: ByKey, rows: Sequence[Any]) -> bool:
    """Tell whether only one by one is right: a key stands twice, is NULL, or is set by a row."""
    keys = [tuple(row[place] for _, place in by_key.keys) for row in rows]
    sets = dict(by_key.sets)
    set_to = [tuple(row[sets.get(name, place)] for name, place in by_key.keys) for row in rows]
    try:
        found = set(keys)
        return (
            len(found) != len(keys)
            or any(part is None for key in keys for part in key)
            or any(new != key and new in found for key, new in zip(keys, set_to, strict=True))
        )
    except TypeError:
        return True


def _merge(cursor: Any, by_key: ByKey, rows: Sequence[Any]) -> None:
    columns = [*by_key.keys, *by_key.sets]
    names = [f"k{i}" for i in range(len(by_key.keys))] + [f"v{i}" for i in range(len(by_key.sets))]
    places = [place for _, place in columns]
    counts = []
    size = max(1, _STATEMENT_VALUES_MAX // len(columns))
    for group in dbapi.alike(rows):
        is_uploaded = _upload(cursor, names, places, group)
        step = len(group) if is_uploaded else size
        for start in range(0, len(group), step):
            some = None if is_uploaded else group[start : start + step]
            cursor.execute(_of_key(by_key, names, places, some))
            counts.append(cursor.rowcount)
    cursor.rowcount = -1 if -1 in counts else sum(counts)


def _of_key(by_key: ByKey, names: list[str], places: list[int], rows: Sequence[Any] | None) -> str:
    """Return the statement that changes rows by their keys; without any, those of the view."""
    source = _VIEW
    sets = [f"t.{name} = s.v{i}" for i, (name, _) in enumerate(by_key.sets)]
    sets += [f"t.{name} = {value}" for name, value in by_key.fixed]
    if rows is not None:
        if not sets and len(by_key.keys) == 1:
            [(key, place)] = by_key.keys
            listed = ", ".join(dbapi.literal(row[place]) for row in rows)
            return f"DELETE FROM {by_key.table} WHERE {key} IN ({listed})"
        values = ", ".join(
            f"({', '.join(dbapi.literal(row[place]) for place in places)})" for row in rows
        )
        # MERGE takes no names for the columns of its source, so the source brings them.
        source = f"(SELECT * FROM VALUES {values} AS r({', '.join(names)}))"
    on = " AND ".join(f"t.{key} = s.k{i}" for i, (key, _) in enumerate(by_key.keys))
    action = f"UPDATE SET {', '.join(sets)}" if sets else "DELETE"
    return f"MERGE INTO {by_key.table} AS t USING {source} AS s ON {on} WHEN MATCHED THEN {action}"


def _inserted(cursor: Any, statement: str, rows: Sequence[Any]) -> bool:
    """Insert many rows by a view; False if there are few, or it cannot be done."""
    insert = dbapi.insert_rows(statement)
    if insert is None or not rows or len(rows) * len(rows[0]) < _UPLOAD_VALUES_MIN:
        return False
    names = [f"c{i}" for i in range(len(rows[0]))]
    head, row = (part.strip() for part in insert)
    chosen = dbapi.fill_markers(row, names).removeprefix("(").removesuffix(")")
    counts = []
    for group in dbapi.alike(rows):
        if _upload(cursor, names, list(range(len(names))), group):
            cursor.execute(f"{head.removesuffix('VALUES')} SELECT {chosen} FROM {_VIEW}")
        else:
            cursor.executemany(statement, group)
        counts.append(cursor.rowcount)
    cursor.rowcount = -1 if -1 in counts else sum(counts)
    return True


def _upload(cursor: Any, names: list[str], places: list[int], rows: Sequence[Any]) -> bool:
    if len(rows) * len(names) < _UPLOAD_VALUES_MIN:
        return False
    # What Arrow cannot tell the type of (maps, structs) goes as literals; and what no type of
    # Spark holds, of which a literal says so: numbers with too many digits, half a character.
    with suppress(pa.ArrowException, TypeError, OverflowError, UnicodeEncodeError):
        arrays = [pa.array([row[place] for row in rows]) for place in places]
        if not any(
            pa.types.is_nested(array.type) or pa.types.is_decimal256(array.type) for array in arrays
        ):
            table = pa.Table.from_arrays(arrays, names=names)
            return bool(cursor.connection.upload(_VIEW, table))
    return False
