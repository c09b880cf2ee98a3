"""
DDL: CREATE TABLE for Iceberg, and keys that are kept and not enforced.

Spark's catalogs know neither keys nor checks nor indexes. What a Table says about them is kept
in table properties, `sqlalchemy.constraint.NAME` and `sqlalchemy.index.NAME`, from where
reflection takes it.
"""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

from sqlalchemy import exc, schema
from sqlalchemy.sql import compiler, elements, operators

from sqlalchemy_txns._ids import TOKEN
from txns_spark import dbapi

if TYPE_CHECKING:
    from collections.abc import Mapping

CONSTRAINT = "sqlalchemy.constraint."
INDEX = "sqlalchemy.index."
_SORTING = {
    operators.asc_op: "asc",
    operators.desc_op: "desc",
    operators.nulls_first_op: "nulls_first",
    operators.nulls_last_op: "nulls_last",
}
_NOT_ENFORCED = (
    "keys, checks and indexes are kept as table properties and not enforced: Iceberg knows none"
)


class TxnsDDLCompiler(compiler.DDLCompiler):
    """Statements that Iceberg tables in Spark take."""

    def get_column_specification(self, column: Any, **kw: Any) -> str:
        text = f"{self.preparer.format_column(column)} {self._type(column)}"
        if column.computed is not None:
            raise refused(
                f"CREATE TABLE {column.table.fullname} ({column.name} GENERATED ALWAYS AS ...)",
                "Iceberg has no computed columns; use a view",
            )
        if not column.nullable:
            text += " NOT NULL"
        if column.comment is not None:
            text += f" COMMENT {dbapi_text(column.comment)}"
        return text

    def visit_create_column(self, create: Any, **kw: Any) -> str | None:
        """Return a column without its checks, which are kept with the table's."""
        return None if create.element.system else self.get_column_specification(create.element)

    def _type(self, column: Any) -> str:
        return str(self.dialect.type_compiler_instance.process(column.type, type_expression=column))

    def create_table_constraints(self, table: Any, **kw: Any) -> str:
        return ""

    def post_create_table(self, table: Any) -> str:
        options = table.dialect_options[self.dialect.name]
        parts = ["", "USING iceberg"]
        partition_by = options["partition_by"]
        if partition_by:
            fields = [partition_by] if isinstance(partition_by, str) else partition_by
            parts.append(f"PARTITIONED BY ({', '.join(self._field(field) for field in fields)})")
        if options["location"]:
            parts.append(f"LOCATION {dbapi_text(options['location'])}")
        if table.comment is not None:
            parts.append(f"COMMENT {dbapi_text(table.comment)}")
        properties = dict(options["properties"] or {}) | kept_constraints(table, self)
        if table._autoincrement_column is not None and not self.schema_translate_map:
            properties[TOKEN] = self.dialect.ids.token(table)
        if properties:
            parts.append(f"TBLPROPERTIES ({_pairs(properties)})")
        return "\n".join(parts)

    def _field(self, field: Any) -> str:
        name = getattr(field, "name", None)
        return self.preparer.quote(name) if name is not None else str(field)

    def visit_create_index(self, create: Any, **kw: Any) -> str:
        index = create.element
        self._verify_index_table(index)
        _warn_once()
        kept = json.dumps(kept_index(index, self))
        return self._set(index.table, {INDEX + str(index.name): kept})

    def visit_drop_index(self, drop: Any, **kw: Any) -> str:
        return self._unset(drop.element.table, INDEX + str(drop.element.name))

    def visit_add_constraint(self, create: Any, **kw: Any) -> str:
        constraint = create.element
        name = constraint.name or f"{constraint.__visit_name__}_{len(constraint.table.constraints)}"
        kept = kept_constraint(constraint, self)
        _warn_once()
        return self._set(constraint.table, {f"{CONSTRAINT}{name}": json.dumps(kept)})

    def visit_drop_constraint(self, drop: Any, **kw: Any) -> str:
        constraint = drop.element
        if constraint.name is None:
            raise exc.CompileError("DROP CONSTRAINT needs the constraint's name")
        return self._unset(constraint.table, CONSTRAINT + str(constraint.name))

    def _set(self, table: Any, properties: Mapping[str, str]) -> str:
        name = self.preparer.format_table(table)
        return f"ALTER TABLE {name} SET TBLPROPERTIES ({_pairs(properties)})"

    def _unset(self, table: Any, key: str) -> str:
        name = self.preparer.format_table(table)
        return f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ({dbapi_text(key)})"

    def visit_set_table_comment(self, create: Any, **kw: Any) -> str:
        name = self.preparer.format_table(create.element)
        return f"COMMENT ON TABLE {name} IS {dbapi_text(create.element.comment)}"

    def visit_drop_table_comment(self, drop: Any, **kw: Any) -> str:
        return f"COMMENT ON TABLE {self.preparer.format_table(drop.element)} IS NULL"

    def visit_set_column_comment(self, create: Any, **kw: Any) -> str:
        column = create.element
        return (
            f"ALTER TABLE {self.preparer.format_table(column.table)} ALTER COLUMN "
            f"{self.preparer.format_column(column)} COMMENT {dbapi_text(column.comment or '')}"
        )

    def visit_create_schema(self, create: Any, **kw: Any) -> str:
        text = "CREATE NAMESPACE " + ("IF NOT EXISTS " if create.if_not_exists else "")
        return text + self.preparer.format_schema(create.element)

    def visit_drop_schema(self, drop: Any, **kw: Any) -> str:
        text = "DROP NAMESPACE " + ("IF EXISTS " if drop.if_exists else "")
        return text + self.preparer.format_schema(drop.element) + (" CASCADE" * drop.cascade)

    def visit_create_sequence(self, create: Any, **kw: Any) -> str:
        raise refused(
            f"CREATE SEQUENCE {create.element.name}",
            "Iceberg has no sequences; integer primary keys get ids by themselves",
        )

    def visit_drop_sequence(self, drop: Any, **kw: Any) -> str:
        raise refused(f"DROP SEQUENCE {drop.element.name}", "Iceberg has no sequences")


class TxnsIdentifierPreparer(compiler.IdentifierPreparer):
    """Names in backticks, and schemas of several parts: "catalog.schema"."""

    reserved_words = set(
        """
        all analyze and anti any array as asc at authorization between both by case cast
        check collate column columns comment constraint create cross current
        current_catalog current_date current_time current_timestamp current_user day
        delete desc describe distinct drop else end escape except exists extract false
        fetch filter for foreign from full function grant group having hour in inner
        insert int integer intersect interval into is join lateral leading left like
        limit map merge minus minute month natural not null of offset on only or order
        outer overlaps partition percent primary range references right row rows second
        select semi session_user set show some struct table temporary then time
        timestamp to trailing transaction true union unique unknown update use user
        using values view when where window with within year
        """.split()  # noqa: SIM905  (a list of a hundred lines says no more)
    )

    def __init__(self, dialect: Any, **kw: Any) -> None:
        super().__init__(dialect, initial_quote="`", final_quote="`", escape_quote="`", **kw)

    def quote_schema(self, schema: str, force: Any = None) -> str:
        del force
        if getattr(schema, "quote", None):
            return self.quote_identifier(schema)
        return ".".join(self.quote(part) for part in schema.split("."))

    def format_schema(self, name: Any) -> str:
        return self.quote_schema(name)


def kept_constraints(table: Any, ddl: Any) -> dict[str, str]:
    """Return the properties that keep a table's keys and checks."""
    kept = {}
    number = 0
    of_columns = [inner for column in table.columns for inner in column.constraints]
    for constraint in [*table._sorted_constraints, *of_columns]:
        made = kept_constraint(constraint, ddl)
        if made is None or getattr(constraint, "use_alter", False):
            continue
        if isinstance(constraint.name, str):
            key = str(ddl.preparer.format_constraint(constraint) or number).strip("`")
            made["name"] = key
        else:
            key = str(number)
            number += 1
        kept[CONSTRAINT + key] = json.dumps(made)
        if made["kind"] != "primary_key":
            _warn_once()
    return kept


def kept_constraint(constraint: Any, ddl: Any) -> dict[str, Any] | None:
    """Return what is kept of a constraint; None for one without a meaning of its own."""
    columns = [column.name for column in getattr(constraint, "columns", ())]
    name = constraint.name if isinstance(constraint.name, str) else None
    made: dict[str, Any] = {"name": name, "columns": columns}
    if getattr(constraint, "comment", None):
        made["comment"] = constraint.comment
    if isinstance(constraint, schema.PrimaryKeyConstraint):
        return made | {"kind": "primary_key"} if columns else None
    if isinstance(constraint, schema.ForeignKeyConstraint):
        referred = constraint.referred_table
        options = {
            name: getattr(constraint, name)
            for name in ("onupdate", "ondelete", "deferrable", "initially", "match")
            if getattr(constraint, name) is not None
        }
        # One column may stand in it twice.
        made["columns"] = [element.parent.name for element in constraint.elements]
        return made | {
            "kind": "foreign_key",
            "schema": referred.schema,
            "table": referred.name,
            "referred": [element.column.name for element in constraint.elements],
            "options": options,
        }
    if isinstance(constraint, schema.UniqueConstraint):
        return made | {"kind": "unique"}
    if isinstance(constraint, schema.CheckConstraint):
        text = ddl.sql_compiler.process(constraint.sqltext, include_table=False, literal_binds=True)
        return {"name": name, "kind": "check", "sqltext": text}
    return None


def kept_index(index: Any, ddl: Any) -> dict[str, Any]:
    """Return what is kept of an index: columns in their order, and the SQL of expressions."""
    columns: list[str | None] = []
    expressions: list[str] = []
    sorting: dict[str, list[str]] = {}
    for expression in index.expressions:
        words, inner = _sorted(expression)
        name = inner.name if isinstance(inner, schema.Column) else None
        columns.append(name)
        if name is not None and words:
            sorting[name] = words
        text = name or ddl.sql_compiler.process(inner, include_table=False, literal_binds=True)
        expressions.append(text)
    kept: dict[str, Any] = {"unique": bool(index.unique), "columns": columns}
    if None in columns:
        kept["expressions"] = expressions
    return kept | ({"sorting": sorting} if sorting else {})


def _sorted(expression: Any) -> tuple[list[str], Any]:
    """Return the words that sort an index's column, and the column or expression."""
    words: list[str] = []
    while isinstance(expression, elements.UnaryExpression) and expression.modifier in _SORTING:
        words.insert(0, _SORTING[expression.modifier])
        expression = expression.element
    return words, expression


def refused(statement: str, why: str) -> exc.NotSupportedError:
    """Return the error of a statement that is not sent, as the database itself would refuse it."""
    cause = dbapi.NotSupportedError(f"{statement}: {why}", sqlstate="0A000")
    return exc.NotSupportedError(statement, None, cause)


def dbapi_text(text: str) -> str:
    """Return text as a literal that DDL takes, which allows no function around it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    # Spark replaces variables before it parses.
    return "'" + escaped.replace("${", "\\u0024{") + "'"


def _pairs(properties: Mapping[str, Any]) -> str:
    return ", ".join(f"{dbapi_text(k)} = {dbapi_text(_text(v))}" for k, v in properties.items())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Warned:
    """Whether this process has been told."""

    done = False


def _warn_once() -> None:
    if not _Warned.done:
        _Warned.done = True
        warnings.warn(_NOT_ENFORCED, exc.SAWarning, stacklevel=4)
