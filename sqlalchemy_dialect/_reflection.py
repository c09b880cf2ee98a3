"""
What is in a catalog: schemas, tables, views, columns, comments, and the keys that are kept.

One SHOW CREATE TABLE tells all of a table; it is asked once per table and Inspector.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import exc
from sqlalchemy.engine import default, reflection

from sqlalchemy_txns._ddl import CONSTRAINT, INDEX
from sqlalchemy_txns.types import of_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXT = r"'(?:[^'\\]|\\.)*'"
_QUOTED = re.compile(rf"{_TEXT}|`(?:[^`]|``)*`|[<>(),]")
_COLUMN = re.compile(
    rf"\s*(?P<name>`(?:[^`]|``)*`|\S+)\s+(?P<type>.*?)(?P<required>\s+NOT NULL)?"
    rf"(?:\s+COMMENT\s+(?P<comment>{_TEXT}))?\s*\Z",
    re.DOTALL,
)
_PROPERTY = re.compile(rf"({_TEXT})\s*=\s*({_TEXT})")
_COMMENT = re.compile(rf"^COMMENT ({_TEXT})$", re.MULTILINE)
_PARTITIONS = re.compile(r"^PARTITIONED BY \((.*)\)$", re.MULTILINE)
_VIEW_TEXT = re.compile(r"\nAS\n(.*)\Z", re.DOTALL)
_MISSING = frozenset({"42P01", "42704", "42000", "3F000"})
# What Spark and Iceberg add by themselves.
_OWN_PROPERTIES = ("current-snapshot-id", "format", "txns.", "sqlalchemy.", "snapshot-")


class Described(NamedTuple):
    """A table or view: columns as SQLAlchemy's dicts, comment, properties, SQL of a view."""

    columns: list[dict[str, Any]]
    comment: str | None
    properties: dict[str, str]
    partition_by: list[str]
    view_text: str | None

    def kept(self, kind: str) -> list[dict[str, Any]]:
        """Return the kept constraints of a kind."""
        found = [
            json.loads(text)
            for key, text in sorted(self.properties.items())
            if key.startswith(CONSTRAINT)
        ]
        return [constraint for constraint in found if constraint.get("kind") == kind]


class TxnsReflection(default.DefaultDialect):
    """The Inspector's questions."""

    @reflection.cache
    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        rows = self._ask(connection, "SHOW NAMESPACES")
        return [str(row[0]) for row in rows]

    def has_schema(self, connection: Any, schema_name: str, **kw: Any) -> bool:
        return schema_name in self.get_schema_names(connection, **kw)

    @reflection.cache
    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        rows = self._ask_schema(connection, "SHOW TABLES", schema)
        views = set(self.get_view_names(connection, schema, **kw))
        return [str(row[1]) for row in rows if not row[2] and row[1] not in views]

    @reflection.cache
    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        rows = self._ask_schema(connection, "SHOW VIEWS", schema)
        return [str(row[1]) for row in rows if not row[2]]

    @reflection.cache
    def get_temp_view_names(
        self, connection: Any, schema: str | None = None, **kw: Any
    ) -> list[str]:
        rows = self._ask_schema(connection, "SHOW VIEWS", schema)
        return [str(row[1]) for row in rows if row[2]]

    def get_temp_table_names(self, connection: Any, schema: Any = None, **kw: Any) -> list[str]:
        return []

    def get_materialized_view_names(
        self, connection: Any, schema: Any = None, **kw: Any
    ) -> list[str]:
        return []

    def get_sequence_names(self, connection: Any, schema: Any = None, **kw: Any) -> list[str]:
        return []

    def has_sequence(
        self, connection: Any, sequence_name: str, schema: Any = None, **kw: Any
    ) -> bool:
        return False

    @reflection.cache
    def has_table(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        self._ensure_has_table_connection(connection)
        name = self._name(table_name, schema)
        # A statement first, which begins the transaction: whoever creates the table has to clash
        # with this one. The table itself not by a statement that fails, which takes far longer.
        if table_name in self.get_view_names(connection, schema, **kw):
            return True
        found = connection.connection.dbapi_connection.has_table(name)
        return self._described(connection, name) is not None if found is None else bool(found)

    @reflection.cache
    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[dict[str, Any]]:
        return self._table(connection, table_name, schema, **kw).columns

    @reflection.cache
    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> dict[str, Any]:
        found = self._table(connection, table_name, schema, **kw).kept("primary_key")
        if not found:
            return {"constrained_columns": [], "name": None}
        return {
            "constrained_columns": found[0]["columns"],
            "name": found[0]["name"],
            "comment": found[0].get("comment"),
        }

    @reflection.cache
    def get_foreign_keys(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[dict[str, Any]]:
        return [
            {
                "name": key["name"],
                "constrained_columns": key["columns"],
                "referred_schema": key["schema"],
                "referred_table": key["table"],
                "referred_columns": key["referred"],
                "options": {
                    name: value
                    for name, value in key.get("options", {}).items()
                    # What SQL does anyway, which SQLAlchemy does not want to hear of.
                    if value != "NO ACTION"
                },
                "comment": key.get("comment"),
            }
            for key in self._table(connection, table_name, schema, **kw).kept("foreign_key")
        ]

    @reflection.cache
    def get_unique_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[dict[str, Any]]:
        return [
            {"name": key["name"], "column_names": key["columns"], "comment": key.get("comment")}
            for key in self._table(connection, table_name, schema, **kw).kept("unique")
        ]

    @reflection.cache
    def get_check_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[dict[str, Any]]:
        return [
            {"name": check["name"], "sqltext": check["sqltext"]}
            for check in self._table(connection, table_name, schema, **kw).kept("check")
        ]

    @reflection.cache
    def get_indexes(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[dict[str, Any]]:
        properties = self._table(connection, table_name, schema, **kw).properties
        return [
            _index(key.removeprefix(INDEX), json.loads(text))
            for key, text in sorted(properties.items())
            if key.startswith(INDEX)
        ]

    @reflection.cache
    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> dict[str, Any]:
        return {"text": self._table(connection, table_name, schema, **kw).comment}

    @reflection.cache
    def get_table_options(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> dict[str, Any]:
        found = self._table(connection, table_name, schema, **kw)
        options: dict[str, Any] = {}
        if found.partition_by:
            options["txns_partition_by"] = tuple(found.partition_by)
        properties = {
            key: value
            for key, value in found.properties.items()
            if not key.startswith(_OWN_PROPERTIES)
        }
        if properties:
            options["txns_properties"] = properties
        return options

    @reflection.cache
    def get_view_definition(
        self, connection: Any, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        text = self._table(connection, view_name, schema, **kw).view_text
        if text is None:
            raise exc.NoSuchTableError(self._full(view_name, schema))
        return text

    # One question per table

    def _table(self, connection: Any, name: str, schema: str | None, **kw: Any) -> Described:
        cache = kw.get("info_cache")
        key = ("txns_described", schema, name)
        if cache is not None and key in cache:
            return cache[key]
        found = self._described(connection, self._name(name, schema))
        if found is None:
            raise exc.NoSuchTableError(self._full(name, schema))
        if cache is not None:
            cache[key] = found
        return found

    def _described(self, connection: Any, name: str) -> Described | None:
        try:
            [(text,)] = self._ask(connection, f"SHOW CREATE TABLE {name}")
        except exc.DBAPIError as error:
            sqlstate = getattr(error.orig, "sqlstate", None)
            if sqlstate in _MISSING:
                return None
            # By the condition, not by the text: that names the table, which may be "templates".
            if sqlstate == "42K0E" or "TEMP" in (getattr(error.orig, "condition", None) or ""):
                return self._described_view(connection, name, None)
            if "does not exist" in str(error.orig):
                return None
            raise
        if str(text).startswith("CREATE VIEW"):
            found = _VIEW_TEXT.search(text)
            return self._described_view(connection, name, found[1].strip() if found else "")
        return parse_create_table(text)

    def _described_view(self, connection: Any, name: str, text: str | None) -> Described:
        columns = []
        for column, kind, comment in self._ask(connection, f"DESCRIBE TABLE {name}"):
            if not column or column.startswith("#"):
                break
            columns.append(_column(column, kind, nullable=True, comment=comment or None))
        return Described(columns, None, {}, [], text)

    def _name(self, name: str, schema: str | None) -> str:
        quoted = str(self.identifier_preparer.quote_identifier(name))
        if schema is None:
            return quoted
        return f"{self.identifier_preparer.quote_schema(schema)}.{quoted}"

    def _full(self, name: str, schema: str | None) -> str:
        return name if schema is None else f"{schema}.{name}"

    def _ask_schema(self, connection: Any, sql: str, schema: str | None) -> list[Any]:
        """Ask about a schema; the current one may be missing, too, before its first table."""
        if schema is not None:
            sql = f"{sql} IN {self.identifier_preparer.quote_schema(schema)}"
        try:
            return self._ask(connection, sql)
        except exc.DBAPIError as error:
            if "does not exist" in str(error.orig) or "cannot be found" in str(error.orig):
                return []
            raise

    def _ask(self, connection: Any, sql: str) -> list[Any]:
        return list(connection.exec_driver_sql(sql).fetchall())


def parse_create_table(text: str) -> Described:
    """Take the answer of SHOW CREATE TABLE apart."""
    # A table's name stands there without quotes, and may have brackets.
    start = text.index("(\n") + 1
    parts = list(_split(text, start))
    columns = []
    for part in parts:
        found = _COLUMN.fullmatch(part)
        assert found is not None, part
        name = found["name"]
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        comment = found["comment"]
        columns.append(
            _column(
                name,
                found["type"],
                nullable=found["required"] is None,
                comment=None if comment is None else _unquoted(comment),
            )
        )
    rest = text[start + sum(len(part) + 1 for part in parts) :]
    head, _, properties = rest.partition("\nTBLPROPERTIES (")
    comment_found, partitions = _COMMENT.search(head), _PARTITIONS.search(head)
    return Described(
        columns,
        (_unquoted(comment_found[1]) or None) if comment_found else None,
        {_unquoted(key): _unquoted(value) for key, value in _PROPERTY.findall(properties)},
        [part.strip() for part in _split(partitions[1] + ")", 0)] if partitions else [],
        None,
    )


def _split(text: str, start: int) -> Iterator[str]:
    """Yield what commas part, up to the bracket that closes."""
    depth = 0
    begin = start
    for token in _QUOTED.finditer(text, start):
        if token[0] in "<(":
            depth += 1
        elif token[0] in ">)":
            depth -= 1
        if depth < 0 or (depth == 0 and token[0] == ","):
            yield text[begin : token.start()]
            begin = token.end()
        if depth < 0:
            return


def _column(name: str, kind: str, *, nullable: bool, comment: str | None) -> dict[str, Any]:
    return {
        "name": name,
        "type": of_text(kind),
        "nullable": nullable,
        "default": None,
        "comment": comment,
    }


def _index(name: str, kept: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": name,
        "column_names": kept["columns"],
        "unique": kept["unique"],
        "dialect_options": {},
    }
    if "expressions" in kept:
        found["expressions"] = kept["expressions"]
    if "sorting" in kept:
        found["column_sorting"] = {
            column: tuple(words) for column, words in kept["sorting"].items()
        }
    return found


def _unquoted(text: str) -> str:
    return re.sub(r"\\(['\\])", r"\1", text[1:-1])
