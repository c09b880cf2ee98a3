"""Alembic's implementation for the dialect."""

from __future__ import annotations

from typing import Any

from alembic.ddl import base, impl
from sqlalchemy.ext.compiler import compiles

from sqlalchemy_txns._ddl import refused


class TxnsImpl(impl.DefaultImpl):
    """
    Migrations of Iceberg tables.

    CREATE, ALTER and DROP TABLE are part of the transaction, with the row of alembic_version:
    a migration happens or does not. Schemas and views are made at once, RENAME is refused.
    """

    __dialect__ = "txns"
    transactional_ddl = True

    def compare_server_default(self, *_: Any) -> bool:
        """Find no difference: the dialect fills in defaults, and the catalog keeps none."""
        return False


@compiles(base.ColumnDefault, "txns")
def _column_default(element: Any, _compiler: Any, **_: Any) -> str:
    raise refused(
        f"ALTER TABLE {element.table_name} ALTER COLUMN {element.column_name} SET or DROP DEFAULT",
        "the catalog keeps no defaults; say server_default= in the Table, "
        "and the dialect fills it in",
    )


@compiles(base.ColumnType, "txns")
def _column_type(element: Any, compiler: Any, **_: Any) -> str:
    return (
        f"{base.alter_table(compiler, element.table_name, element.schema)} "
        f"{base.alter_column(compiler, element.column_name)} "
        f"TYPE {base.format_type(compiler, element.type_)}"
    )


@compiles(base.ColumnName, "txns")
def _column_name(element: Any, compiler: Any, **_: Any) -> str:
    return (
        f"{base.alter_table(compiler, element.table_name, element.schema)} "
        f"RENAME COLUMN {base.format_column_name(compiler, element.column_name)} "
        f"TO {base.format_column_name(compiler, element.newname)}"
    )
