"""
Statements in Spark's SQL, and what an INSERT leaves to the database elsewhere.

Iceberg has no autoincrement and Spark's tables no defaults. So an INSERT that does not name an
integer primary key gets ids from the client, and one that does not name a column with
`server_default` gets that expression.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.sql import compiler, elements, operators, schema

from sqlalchemy_txns._ddl import dbapi_text
from sqlalchemy_txns._ids import Ids
from txns_spark import dbapi

FOR_UPDATE = "/* FOR UPDATE */"
# Random, because a query may make any number of them, anywhere in a cluster; 63 bits.
_SERVER_ID = "shiftrightunsigned(xxhash64(uuid()), 1)"


class TxnsCompiler(compiler.SQLCompiler):
    """Spark's dialect of SQL."""

    def visit_insert(self, insert_stmt: Any, visited_bindparam: Any = None, **kw: Any) -> str:
        # The same text serves all schemas that a map translates to, each with its own tables.
        ids = Ids() if self.schema_translate_map else self.dialect.ids
        completed = _completed(insert_stmt, self.column_keys, ids)
        return str(super().visit_insert(completed, visited_bindparam=visited_bindparam, **kw))

    def render_literal_value(self, value: Any, type_: Any) -> str:
        """Write a value as it would be bound: one printer serves literals and parameters."""
        if value is None and not type_.should_evaluate_none:
            return "NULL"
        if getattr(type_, "_has_literal_processor", False):
            own = type_.process_literal_param(value, self.dialect)
            return self.render_literal_value(own, type_.impl_instance)
        if isinstance(type_, sa.types.UserDefinedType):
            return str(super().render_literal_value(value, type_))
        processor = type_._cached_bind_processor(self.dialect)
        try:
            return dbapi.literal(processor(value) if processor else value)
        except Exception as error:
            raise exc.CompileError(
                f"the value cannot be written as a literal; bind it: type={type_!r}; {error}"
            ) from error

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        # Nobody waits for a row here, so `nowait` is what happens anyway. Spark has no such clause:
        # the dialect sees to it that what is read is validated at COMMIT, `of` one table or all.
        if select._for_update_arg.skip_locked:
            raise exc.CompileError(
                "with_for_update(skip_locked=True): no row is locked here, so none can be skipped,"
                " and two who take the first rows of a queue take the same; leave it out and run"
                " who loses (40001 at COMMIT) again, or give each its rows by a condition"
            )
        return f" {FOR_UPDATE}"

    def limit_clause(self, select: Any, **kw: Any) -> str:
        text = ""
        if select._limit_clause is not None:
            text += "\n LIMIT " + self._count(select._limit_clause, **kw)
        if select._offset_clause is not None:
            text += "\n OFFSET " + self._count(select._offset_clause, **kw)
        return text

    def _count(self, clause: Any, **kw: Any) -> str:
        # Spark wants an INT, and a parameter may arrive as BIGINT.
        return f"CAST({self.process(clause, **kw)} AS INT)"

    def fetch_clause(self, select: Any, **kw: Any) -> str:
        raise exc.CompileError("FETCH FIRST: Spark has LIMIT; use limit()")

    def visit_empty_set_expr(self, element_types: Any, **kw: Any) -> str:
        columns = ", ".join(
            f"CAST(NULL AS {self.dialect.type_compiler_instance.process(_known(kind))})"
            for kind in element_types or [sa.Integer()]
        )
        return f"SELECT {columns} WHERE 1 != 1"

    def _literal_execute_expanding_parameter(self, *args: Any, **kw: Any) -> Any:
        values, text = super()._literal_execute_expanding_parameter(*args, **kw)
        return values, _as_subquery(text)

    def _literal_execute_expanding_parameter_literal_binds(self, *args: Any, **kw: Any) -> Any:
        values, text = super()._literal_execute_expanding_parameter_literal_binds(*args, **kw)
        return values, _as_subquery(text)

    def visit_empty_set_op_expr(self, type_: Any, expand_op: Any, **kw: Any) -> str:
        if len(type_) == 1:
            return str(super().visit_empty_set_op_expr(type_, expand_op, **kw))
        # A tuple of untyped NULLs is comparable with no tuple of columns.
        nulls = ", ".join(
            f"CAST(NULL AS {self.dialect.type_compiler_instance.process(_known(kind))})"
            for kind in type_
        )
        if expand_op is operators.not_in_op:
            return f"SELECT {nulls}) OR (1 = 1"
        if expand_op is operators.in_op:
            return f"SELECT {nulls}) AND (1 != 1"
        return self.visit_empty_set_expr(type_, **kw)

    def visit_is_distinct_from_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return f"NOT ({self.process(binary.left, **kw)} <=> {self.process(binary.right, **kw)})"

    def visit_is_not_distinct_from_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return f"({self.process(binary.left, **kw)} <=> {self.process(binary.right, **kw)})"

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._matches(binary, "RLIKE", **kw)

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._matches(binary, "NOT RLIKE", **kw)

    def _matches(self, binary: Any, word: str, **kw: Any) -> str:
        pattern = self.process(binary.right, **kw)
        flags = (binary.modifiers or {}).get("flags")
        if flags is not None:
            pattern = f"'(?{flags})' || {pattern}"
        return f"{self.process(binary.left, **kw)} {word} {pattern}"

    def visit_regexp_replace_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        left = self.process(binary.left, **kw)
        clauses = list(binary.right.clauses)
        pattern, replacement = (self.process(clause, **kw) for clause in clauses)
        flags = (binary.modifiers or {}).get("flags")
        if flags is not None:
            pattern = f"'(?{flags})' || {pattern}"
        return f"regexp_replace({left}, {pattern}, {replacement})"

    def visit_bitwise_xor_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return f"{self.process(binary.left, **kw)} ^ {self.process(binary.right, **kw)}"

    def visit_bitwise_lshift_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return f"shiftleft({self.process(binary.left, **kw)}, {self.process(binary.right, **kw)})"

    def visit_bitwise_rshift_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return f"shiftright({self.process(binary.left, **kw)}, {self.process(binary.right, **kw)})"

    def visit_json_getitem_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._json(binary, **kw)

    def visit_json_path_getitem_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._json(binary, **kw)

    def _json(self, binary: Any, **kw: Any) -> str:
        """Return what stands at a path: a document again, or a value of the type that is wanted."""
        document, path = self.process(binary.left, **kw), self.process(binary.right, **kw)
        kind = binary.type
        if isinstance(kind, sa.JSON):
            return f"to_json(variant_get(parse_json({document}), {path}, 'variant'))"
        # By way of text, which keeps all digits.
        found = f"variant_get(parse_json({document}), {path}, 'string')"
        if isinstance(kind, (sa.Boolean, sa.Numeric, sa.Float, sa.Integer)):
            return f"CAST({found} AS {self.dialect.type_compiler_instance.process(kind)})"
        return found

    def visit_now_func(self, func: Any, **kw: Any) -> str:
        return "current_timestamp()"

    def visit_localtimestamp_func(self, func: Any, **kw: Any) -> str:
        return "localtimestamp()"

    def visit_char_length_func(self, func: Any, **kw: Any) -> str:
        return f"char_length{self.function_argspec(func, **kw)}"

    def visit_aggregate_strings_func(self, func: Any, **kw: Any) -> str:
        arguments = [self.process(clause, **kw) for clause in func.clauses]
        return f"listagg({', '.join(arguments)})"

    def visit_sequence(self, sequence: Any, **kw: Any) -> str:
        raise exc.CompileError(
            "Iceberg has no sequences; integer primary keys get ids by themselves"
        )

    def update_from_clause(self, *args: Any, **kw: Any) -> str:
        raise exc.CompileError("UPDATE ... FROM: Spark has none; use MERGE or a subquery in WHERE")

    def delete_extra_from_clause(self, *args: Any, **kw: Any) -> str:
        raise exc.CompileError("DELETE ... USING: Spark has none; use a subquery in WHERE")


def _as_subquery(text: str) -> str:
    """Return a list of tuples as a query: as a list, each would have to have the same types."""
    return f"SELECT * FROM {text}" if text.startswith("VALUES ") else text


def _known(kind: Any) -> Any:
    return sa.Integer() if kind._isnull else kind


def _completed(statement: Any, keys: Any, ids: Any) -> Any:
    """Return an INSERT with values for the columns that a database would fill in by itself."""
    table = statement.table
    if not isinstance(table, schema.Table):
        return statement
    if (
        keys is None
        and not statement._values
        and not statement._multi_values
        and (statement.select is None)
    ):
        # All columns, as when the statement is printed.
        return statement
    given = _given_columns(statement, keys)
    missing = {
        column: value
        for column in table.columns
        if column.key not in given and (value := _filling(column, table, ids)) is not None
    }
    if not missing:
        return statement
    if statement.select is not None:
        return _filled_select(statement, missing)
    if statement._multi_values:
        return _filled_rows(statement, missing)
    return statement.values({column: make() for column, make in missing.items()})


def _given_columns(statement: Any, keys: Any) -> set[str]:
    given = {getattr(key, "key", key) for key in keys or ()}
    given |= {getattr(key, "key", key) for key in statement._values or {}}
    for values in statement._multi_values:
        first = values[0]
        names = first if isinstance(first, dict) else statement.table.columns
        given |= {getattr(name, "key", name) for name, _ in zip(names, first, strict=False)}
    if statement.select is not None:
        given |= {getattr(name, "key", name) for name in statement._select_names}
    return given


def _filling(column: Any, table: Any, ids: Any) -> Any:
    """Return what makes a value for a column; None for one that may be NULL, or has a default."""
    default = column.default
    is_counted = column is table._autoincrement_column and default is None
    if column.identity is not None or is_counted or getattr(default, "is_sequence", False):
        schema_name, name = table.schema, table.name
        return lambda: elements.BindParameter(
            None,
            callable_=lambda: ids.new_id(schema_name, name),
            type_=column.type,
            unique=True,
        )
    server = column.server_default
    if default is None and isinstance(server, schema.DefaultClause):
        argument = server.arg
        return lambda: sa.text(argument_text(argument))
    return None


def argument_text(argument: Any) -> Any:
    """Return the SQL of a server_default; a plain string is a literal there."""
    if isinstance(argument, str):
        # A colon begins a parameter of text().
        return dbapi_text(argument).replace(":", "\\:")
    if isinstance(argument, elements.TextClause):
        return argument.text
    return str(argument.compile(compile_kwargs={"literal_binds": True}))


def _filled_rows(statement: Any, missing: dict[Any, Any]) -> Any:
    filled = statement._generate()
    names = [column.key for column in statement.table.columns]
    filled._multi_values = tuple(
        [
            {
                **(row if isinstance(row, dict) else dict(zip(names, row, strict=False))),
                **{column: make() for column, make in missing.items()},
            }
            for row in values
        ]
        for values in statement._multi_values
    )
    return filled


def _filled_select(statement: Any, missing: dict[Any, Any]) -> Any:
    source = statement.select.subquery()
    values = []
    for column, make in missing.items():
        value = make()
        is_id = isinstance(value, elements.BindParameter)
        values.append(sa.literal_column(_SERVER_ID) if is_id else value)
        assert column is not None
    names = [*statement._select_names, *(column.name for column in missing)]
    filled = statement._generate()
    filled._select_names = names
    filled.select = sa.select(*source.columns, *values)
    return filled
