"""
What a record may hold at most, refused before it is written, and when it is read.

So one record costs everybody a bounded amount of work. Docs/spec.md 4.7. Pure.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from txns.errors import TOO_MUCH, InvalidUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMIT_TS_LE = 253_402_300_799_999
"""The last ms of the year 9999."""
COMMIT_TS_EARLY_LE = COMMIT_TS_LE - 365 * 24 * 3600 * 1000
"""Above it lies the last year."""

LENGTH_MS_LE = 36_500 * 24 * 3600 * 1000
"""A hundred years: nothing is set to last longer, so that each end of it is a time."""

COMMENT_MAX_BYTES = 4 * 1024
TABLES_MAX = 1_000
NESTING_MAX = 64
PAYLOAD_MAX_BYTES = 64 * 1024 * 1024
HEAD_MAX_BYTES = 8 * 1024 * 1024
HEAD_TABLE_MAX_BYTES = HEAD_MAX_BYTES // 2
"""Of records of one table, so that a table which cannot be applied stops its own writers alone."""
HEAD_BYTES = 2 * 1024 * 1024
"""Who appends to a larger head applies and tidies first (docs/spec.md, 10)."""
HEAD_ENTRIES = 256
"""The same, of a head of more entries."""
_RECORD_BYTES = 1024
"""What a record counts for beside the words of its summary."""
INLINE_MAX_BYTES = 64 * 1024
VALUES_MAX = 2_000_000
"""Of JSON; what is counted are its commas and opening brackets, those in texts, too."""

TEXT_MAX_CHARACTERS = 10_000_000
NUMBER_MAX_CHARACTERS = 100


@overload
def whole(value: SupportsIndex, name: str, *, sqlstate: str = "42000") -> int: ...
@overload
def whole(value: SupportsIndex | None, name: str, *, sqlstate: str = "42000") -> int | None: ...
def whole(value: SupportsIndex | None, name: str, *, sqlstate: str = "42000") -> int | None:
    """
    Give a caller's number as the int that a record holds, also where it is NumPy's.

    What is written as 5.0 nobody reads: the log would be corrupt.

    Args:
        value: The number; None where it is not given.
        name: Of the argument, for the message.
        sqlstate: Of the error.

    Raises:
        InvalidUsage: It is not whole: a float, a text, a truth value; round it.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise InvalidUsage(
            sqlstate,
            "a whole number is wanted, an int, since the log holds no others: round it;"
            f" {name}=`{value!r}`",
        )
    return value.__index__()


def check_comment(comment: str) -> None:
    """
    Refuse a comment that the log does not hold.

    Raises:
        InvalidUsage: 54000 with its size; shorten it.
    """
    size = len(comment.encode(errors="replace"))
    if size > COMMENT_MAX_BYTES:
        raise InvalidUsage(
            TOO_MUCH,
            f"a comment has at most {COMMENT_MAX_BYTES} bytes of UTF-8, shorten it; bytes=`{size}`",
        )


def cut_comment(stored: str) -> str:
    """Give a comment as far as it is held: words for people keep nobody from the log."""
    return unicode(stored)[:COMMENT_MAX_BYTES].decode(errors="ignore")


def unicode(words: str) -> bytes:
    """Give words for people as UTF-8: halves of pairs, which no file holds, are question marks."""
    return words.encode(errors="replace")


def is_late(commit_ts: int) -> bool:
    """Whether a timestamp in ms lies in the last year, or after it: recoveries take that back."""
    return commit_ts > COMMIT_TS_EARLY_LE


def check_commit_ts(commit_ts: int) -> None:
    """
    Refuse a timestamp in ms that the archive cannot hold as a time.

    Raises:
        InvalidUsage: 54000; set the clock right.
    """
    if commit_ts > COMMIT_TS_LE:
        raise InvalidUsage(
            TOO_MUCH,
            "the log ends with the year 9999: the clock of this host is wrong, or that of one that"
            " has committed was, whose entry `txns log` shows: stop what writes the lake, take it"
            " out with `txns recover --void`, and give the log another time with `txns recover`;"
            f" commit_ts=`{commit_ts}`",
        )


def check_tables(count: int) -> None:
    """
    Refuse more tables than an entry may name.

    Raises:
        InvalidUsage: 54000; divide the transaction.
    """
    if count > TABLES_MAX:
        raise InvalidUsage(
            TOO_MUCH,
            f"a transaction writes at most {TABLES_MAX} tables, divide it; tables=`{count}`",
        )


def record_bytes(summary: Mapping[str, str]) -> int:
    """Give what a record counts for in its head, by its summary without the operation."""
    words = (word for pair in summary.items() for word in pair)
    return _RECORD_BYTES + sum(len(word.encode(errors="replace")) for word in words)


def check_payload(text: str) -> None:
    """
    Refuse a payload that is larger, or nested more deeply, than anybody reads.

    Raises:
        InvalidUsage: 54000; divide the transaction, or flatten the schema.
    """
    size = len(text.encode())
    if size > PAYLOAD_MAX_BYTES:
        raise InvalidUsage(
            TOO_MUCH,
            f"the changes of a transaction have at most {PAYLOAD_MAX_BYTES} bytes as JSON, divide"
            f" it; bytes=`{size}`",
        )
    if '"add-schema"' in text or size > INLINE_MAX_BYTES:  # nothing else in it nests, or is long
        try:
            parsed(text)
        except ValueError as error:
            raise InvalidUsage(
                TOO_MUCH,
                "the schema of a table cannot be logged, flatten it, or divide the transaction:"
                f" {error}",
            ) from error


def parsed(stored: str | bytes) -> Any:
    """
    Parse JSON of a record: what every implementation takes for the same JSON.

    Raises:
        ValueError: It is none, or above a limit.
    """
    text = stored if isinstance(stored, str) else stored.decode("utf-8")
    if sum(map(text.count, ",[{")) > VALUES_MAX:
        raise ValueError(f"JSON of the log has at most {VALUES_MAX} values")
    try:
        value = json.loads(text, parse_int=_int, parse_float=_float, parse_constant=_refused)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    level, depth = [value], 0
    while level := [each for one in level for each in _inside(one)]:
        depth += 1
        if depth > NESTING_MAX:
            raise ValueError(_TOO_DEEP)
    return value


_TOO_DEEP = f"JSON of the log is nested at most {NESTING_MAX} times"


def _inside(value: object) -> tuple[object, ...]:
    """Give what is in an object or a list; nothing for what is neither."""
    if isinstance(value, dict):
        return (*value, *value.values()) or (None,)
    if isinstance(value, list):
        return tuple(value) or (None,)
    if isinstance(value, str):
        _check_text(value)
    return ()


def _check_text(text: str) -> None:
    if len(text) > TEXT_MAX_CHARACTERS:
        raise ValueError(f"a text in JSON of the log has at most {TEXT_MAX_CHARACTERS} characters")
    text.encode()  # halves of pairs are no characters, and stand in no UTF-8


def _int(digits: str) -> int:
    return int(_short(digits))


def _float(digits: str) -> float:
    return float(_short(digits))


def _short(digits: str) -> str:
    if len(digits) > NUMBER_MAX_CHARACTERS:
        raise ValueError(f"a number in JSON has at most {NUMBER_MAX_CHARACTERS} characters")
    return digits


def _refused(constant: str) -> None:
    raise ValueError(f"`{constant}` is no JSON")
