"""
Between which values the keys of new rows are, in literals.

A DELETE of the rows that have a key of the new ones names no value: Spark would read the whole
table for it, and it would clash with whoever writes anything there. With bounds it reads the files
that may hold such keys, and clashes with who changes those.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LONGEST_TEXT = 1000
# Ids drawn by lot lie between any two; and Iceberg has had two orders of its own type for them.
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_BY_TEXT = frozenset({"tinyint", "smallint", "int", "bigint", "date", "timestamp_ntz"})
_ROWS = "count(*)"
_ALIAS = "new_rows"
# Of a text with another one no setting of the session makes anything else: not backslashes, which
# are escapes in some, and not variables.
_PLAIN = re.compile(r"[\w .,:;/+@#=()-]*", re.ASCII)
_UNQUOTED = re.compile(r"\w+")


@dataclass(frozen=True)
class _Key:
    """
    A column whose bounds can be told.

    Attributes:
        name: As the model has it, perhaps quoted.
        kind: Spark's type.
    """

    name: str
    kind: str

    def asked(self) -> list[str]:
        """Give expressions over the new rows: the least and the greatest as text, how many."""
        text = "cast({}({}) as string)"
        if self.kind == "timestamp":
            # Its text is of the session's time zone, and there are hours that come twice.
            text = "cast(unix_micros({}({})) as string)"
        elif self.kind == "string":
            # A string of Spark's may be no UTF-8, and would arrive as another one.
            text = "hex({}({}))"
        # By the alias a name is a column's, and no literal's nor a function's without brackets.
        column = f"{_ALIAS}.{self.name}"
        return [*(text.format(which, column) for which in ("min", "max")), f"count({column})"]

    def bound(self, answer: str) -> str | None:
        """Give a value in SQL, of what was asked for; None if it is not worth a condition."""
        if self.kind == "timestamp":
            return f"timestamp_micros({answer})"
        return _string(answer) if self.kind == "string" else f"cast('{answer}' as {self.kind})"


def query(relation: str, keys: Sequence[str], types: Mapping[str, str]) -> str:
    """
    Give the SELECT whose row `predicates` takes.

    Args:
        relation: The new rows.
        keys: Names of their columns.
        types: Spark's types by names in small letters; none of names that are two columns'.
    """
    asked = [_ROWS, *(each for key in _told(keys, types) for each in key.asked())]
    return f"select {', '.join(asked)} from {relation} as {_ALIAS}"  # noqa: S608  (names)


def predicates(
    row: Sequence[Any],
    keys: Sequence[str],
    types: Mapping[str, str],
    *,
    prefix: str,
    nulls_match: bool,
) -> list[str] | None:
    """
    Give conditions that each row with a key of the new ones meets.

    Args:
        row: What `query` answers.
        keys: As it was asked.
        types: As it was asked.
        prefix: Of the columns, as "target.".
        nulls_match: Whether NULL is the same key as NULL.

    Returns:
        None where no row can have such a key.
    """
    rows = int(row[0])
    if not rows:
        return None
    found = []
    for at, key in enumerate(_told(keys, types)):
        least, greatest, known = row[1 + 3 * at : 4 + 3 * at]
        column = f"{prefix}{key.name}"
        nulls = f"{column} is null" if nulls_match and int(known) < rows else None
        if not int(known):
            if nulls is None:
                return None
            found.append(nulls)
        elif (low := key.bound(least)) and (high := key.bound(greatest)):
            within = f"{column} >= {low} and {column} <= {high}"
            found.append(f"({within}) or {nulls}" if nulls else within)
    return found


def _told(keys: Sequence[str], types: Mapping[str, str]) -> list[_Key]:
    """Give the keys that are columns of a type with an order, and values that text tells."""
    found = [_Key(key, types.get(_column(key), "")) for key in keys]
    return [
        key
        for key in found
        if key.kind in _BY_TEXT | {"string", "timestamp"} or key.kind.startswith("decimal(")
    ]


def _column(key: str) -> str:
    """Give the name of the column that a key is; an empty one where it is something else."""
    if key.startswith("`") and key.endswith("`"):
        return key[1:-1].lower()
    return key.lower() if _UNQUOTED.fullmatch(key) else ""


def _string(answer: str) -> str | None:
    """Give a string in SQL, of its bytes in hexadecimal digits."""
    try:
        text = bytes.fromhex(answer).decode("utf-8")
    except UnicodeDecodeError:
        return None
    if len(text) > _LONGEST_TEXT or _UUID.fullmatch(text):
        return None
    return f"'{text}'" if _PLAIN.fullmatch(text) else f"cast(X'{answer}' as string)"
