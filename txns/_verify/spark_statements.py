"""The model's statements as Spark SQL, which says the same in the words of its users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._verify.model import AMOUNTS
from txns._verify.workloads import ACCOUNT_TABLES

if TYPE_CHECKING:
    from txns._verify.model import Row, Rows, Step

_COLUMNS = "id, day, amount"
_NEXT = f"amount = (amount + 1) % {AMOUNTS}"


def query(step: Step, table: str) -> str:
    """Give the query of the rows that a statement looks at."""
    return f"SELECT {_COLUMNS} FROM {table} WHERE {step.where}"  # noqa: S608 -- numbers


def count(step: Step, table: str) -> str:
    """Give the query of how many rows there are, in a column `found`."""
    return f"SELECT count(*) AS found FROM {table} WHERE {step.where}"  # noqa: S608 -- numbers


def write(step: Step, table: str) -> str:
    """
    Give the statement that writes.

    To overwrite a row by its key is a MERGE; but of accounts, which are all there, an UPDATE.

    Raises:
        KeyError: There is none for its verb.
    """
    overwrites = _set if step.table in ACCOUNT_TABLES else _merge
    return {
        "append": lambda: f"INSERT INTO {table} {_values(step.rows)}",
        "delete": lambda: f"DELETE FROM {table} WHERE {step.where}",  # noqa: S608 -- numbers
        "overwrite": lambda: overwrites(step, table),
        "update": lambda: f"UPDATE {table} SET {_NEXT} WHERE {step.where}",  # noqa: S608
        "upsert": lambda: _merge(step, table),
        "replace": lambda: f"INSERT OVERWRITE {table} {_values(step.rows)}",
    }[step.verb]()


def _set(step: Step, table: str) -> str:
    (row,) = step.rows
    return f"UPDATE {table} SET amount = {_number(row.amount)} WHERE {step.where}"  # noqa: S608


def _merge(step: Step, table: str) -> str:
    """Insert rows, or update those of their ids; who names ids and days touches fewer files."""
    source = f"(SELECT * FROM {_values(step.rows)} AS brought ({_COLUMNS}))"  # noqa: S608 -- numbers
    among = (
        f"t.{column} IN ({', '.join(map(str, sorted(values)))})"
        for column, values in (
            ("day", {row.day for row in step.rows}),
            ("id", {row.id for row in step.rows}),
        )
    )
    return (
        f"MERGE INTO {table} AS t USING {source} AS s ON t.id = s.id AND {' AND '.join(among)}"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def _values(rows: Rows) -> str:
    return f"VALUES {', '.join(map(_tuple, rows))}"


def _tuple(row: Row) -> str:
    return f"({', '.join(map(_number, row))})"


def _number(value: int | None) -> str:
    return "CAST(NULL AS BIGINT)" if value is None else f"{value}L"
