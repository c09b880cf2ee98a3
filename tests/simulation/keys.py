"""
Conditional writes of keys: what is written depends on what was found, if that was nothing.

A key is a row that several users may want in a table: there twice it is a violation, which
`rows` finds. pyiceberg's own upsert, overwrite and delete run, only Parquet is left out; of Java's
core the operation that a MERGE comes to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import schema_to_pyarrow

from tests.simulation.attempts import Operation
from tests.simulation.where import PART, part_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tests.simulation.rows import Row, Rows

KEYS = range(900_001, 900_004)
"""Few, so that users meet at them."""
VERBS = {"upsert": 5, "overwrite_where": 2, "delete_where": 2}
VALIDATED = ("overwrite_where", "delete_where")
"""Those that pyiceberg validates when it tries again by itself, as a single operation does: its
upsert puts the rows that are new there again without a look, on a plain table as well."""


def change(
    table: Any,
    verb: str,
    key: Row,
    found: Rows,
    meaning: Callable[[Operation], AbstractContextManager[None]],
) -> None:
    """
    Write or remove one key.

    Args:
        table: Where.
        verb: One of `VERBS`.
        key: What.
        found: The rows of the table, as the statement sees them.
        meaning: Records what the statement means, around it.
    """
    there = frozenset({key}) & found
    if verb == "upsert" and not (hasattr(table, "write_key") or _takes_upserts(table)):
        verb = "overwrite_where"
    if verb == ("upsert" if there else "delete_where"):
        _run(table, verb, key)  # it only reads
        return
    added = frozenset() if verb == "delete_where" else frozenset({key})
    with meaning(Operation(table.name(), "overwrite", added, there)):
        _run(table, verb, key)


def _run(table: Any, verb: str, key: Row) -> None:
    if hasattr(table, "write_key"):  # of Java's core, below engines that have statements
        table.write_key(key, adds=verb != "delete_where", replaces=verb != "upsert")
    elif verb == "delete_where":
        table.delete(EqualTo("id", key))
    elif verb == "upsert":
        table.upsert(_frame(table, key), join_cols=["id"])
    else:
        table.overwrite(_frame(table, key), EqualTo("id", key))


def _takes_upserts(table: Any) -> bool:
    """Whether pyiceberg can compare with rows that `main` has in another schema."""
    if "main" not in table.metadata.refs:
        return True
    columns = table.scan().use_ref("main").projection().column_names
    return bool(columns == table.schema().column_names)


def _frame(table: Any, key: Row) -> pa.Table:
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    return pa.Table.from_pylist([{"id": key, PART: part_of(key)}], schema=schema)
