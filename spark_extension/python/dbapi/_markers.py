"""Find a statement's markers: the question marks that Spark's own lexer takes for parameters."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from txns_spark.dbapi.errors import ProgrammingError

if TYPE_CHECKING:
    from collections.abc import Sequence

# The tokens of Spark's SqlBaseLexer.g4 that may hold a question mark, and those in which one of
# these seems to begin. What stands behind a character that begins no token does not matter:
# Spark refuses the statement.
_TOKENS = re.compile(
    r"""
      (?P<path>[^\W\d_]+://[\w/\-.?=&#%]+)
    | (?P<raw>[rR](?:'[^']*'|"[^"]*"))  # a raw string knows no escapes
    | [0-9]+[eE][+-][0-9]+
    | \w+
    | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`)
    | (?P<line>--(?:\\\n|[^\r\n])*)
    | \*/  # the end of a hint, in which a comment does not begin
    | (?P<comment>/\*(?!\+))  # with a plus it is a hint, and Spark reads it
    """,
    re.VERBOSE | re.DOTALL,
)
_NESTING = re.compile(r"/\*(?!\+)|\*/")
# The rows of an INSERT ... VALUES, with nothing in them that looks at the table.
_INSERT_ROWS = re.compile(
    r"\s*(INSERT\s+INTO\s+(?:TABLE\s+)?(?:[\w.]|`(?:[^`]|``)*`)+\s*(?:\((?:[\w\s,]|`(?:[^`]|``)*`)*\))?\s*VALUES\s*)"
    r"(\(.*\))\s*;?\s*\Z",
    re.IGNORECASE | re.DOTALL,
)
_SELECT = re.compile(r"\bSELECT\b", re.IGNORECASE)


def code_of(sql: str) -> str:
    """
    Return a statement, each character at its place, with blanks for comments and quoted text.

    The quotes stay, and each question mark that is left is a marker.
    """
    parts = []
    place = 0
    while (found := _TOKENS.search(sql, place)) is not None:
        start, end, kind = found.start(), found.end(), found.lastgroup
        if kind == "comment":
            end = _comment_end(sql, end)
        parts += [sql[place:start], _without_text(sql[start:end], kind)]
        place = end
    return "".join([*parts, sql[place:]])


def _comment_end(sql: str, place: int) -> int:
    """Return where a comment ends that begins before a place: comments hold comments."""
    depth = 1
    for found in _NESTING.finditer(sql, place):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return len(sql)


def _without_text(token: str, kind: str | None) -> str:
    if kind in {"line", "comment"}:
        return " " * len(token)
    if kind in {"raw", "text"}:
        return token[0] + " " * (len(token) - 2) + token[-1]
    return "_" * len(token) if kind == "path" else token


def fill_markers(sql: str, texts: Sequence[str]) -> str:
    """
    Return a statement with texts in the place of its markers, each set apart by blanks.

    Without them, `-?` and a negative number would begin a comment. Spark writes what is bound to
    a marker into its place, too. Parentheses would not do: INTERVAL ? DAY takes none.

    Raises:
        ProgrammingError: There are more markers than texts, or fewer.
    """
    places = [place for place, char in enumerate(code_of(sql)) if char == "?"]
    if len(places) != len(texts):
        raise ProgrammingError(
            f"the statement has another number of markers than there are parameters; "
            f"markers={len(places)}, parameters={len(texts)}"
        )
    starts = [0, *(place + 1 for place in places)]
    between = [sql[a:b] for a, b in zip(starts, [*places, len(sql)], strict=True)]
    filled = "".join(f"{before} {text} " for before, text in zip(between, texts, strict=False))
    return filled + between[-1]


def insert_rows(sql: str) -> tuple[str, str] | None:
    """
    Return an INSERT ... VALUES in two: up to VALUES, and the row behind it; None for others.

    The row may be repeated: `(?, 'new', now())` has no query in it, which could see the rows
    before.
    """
    found = _INSERT_ROWS.fullmatch(sql)
    if found is None:
        return None
    code = code_of(found[2])
    depths = list(itertools.accumulate((c == "(") - (c == ")") for c in code))
    if _SELECT.search(code) or depths[-1] != 0 or 0 in depths[:-1]:
        return None
    return found[1], found[2]
