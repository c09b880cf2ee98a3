"""
How numbers, words, names and ids stand in the texts of the log, and in those of tables under care.

Docs/spec.md 1, 3.1 and 4.6. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from enum import Enum
from typing import TypeVar

from txns._identifier import Identifier, dotted_name
from txns.errors import CorruptLog

E = TypeVar("E", bound=Enum)

INT64_MAX = (1 << 63) - 1
INT64_MIN = -INT64_MAX - 1
TXN_ID_MAX_CHARACTERS = 255
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_IDS = re.compile(r"-?[0-9]{1,19}(,-?[0-9]{1,19})*", re.ASCII)


def number(stored: str, key: str) -> int:
    """
    Decode a number of a summary or a property: the decimal digits of an int64 not below 0.

    Raises:
        CorruptLog: Naming the key.
    """
    if _NUMBER.fullmatch(stored) is None or int(stored) > INT64_MAX:
        raise CorruptLog(f"not decimal digits of an int64; {key}=`{stored}`")
    return int(stored)


def snapshot_ids(stored: str, key: str) -> set[int]:
    """
    Decode ids of snapshots that a summary lists, separated by commas; an empty text is none.

    Raises:
        CorruptLog: Naming the key.
    """
    ids = {int(each) for each in stored.split(",")} if _IDS.fullmatch(stored) else set()
    if (stored and not ids) or any(not INT64_MIN <= each <= INT64_MAX for each in ids):
        raise CorruptLog(f"not ids of snapshots; {key}=`{stored}`")
    return ids


def word(words: type[E], stored: str, key: str) -> E:
    """
    Decode a stored word.

    Raises:
        CorruptLog: Naming the key.
    """
    try:
        return words(stored)
    except ValueError:
        raise CorruptLog(f"unknown word, upgrade this program; {key}=`{stored}`") from None


def table_of(parts: str) -> Identifier:
    """Parse a name as `dotted_name` writes it: dots split, backticks quote."""
    found = re.findall(r"(?:^|\.)(?:`((?:[^`]|``)*)`|([^.`]*))", parts)
    return tuple(quoted.replace("``", "`") if quoted else plain for quoted, plain in found)


def archived_name(stored: str) -> Identifier:
    """
    Parse a name as the archive stores it.

    Raises:
        CorruptLog: It is none that `dotted_name` writes of a table's.
    """
    parts = table_of(stored)
    if not stored or dotted_name(parts) != stored:
        raise CorruptLog(f"the archive has a name that is none; table_name=`{stored}`")
    check_name(parts)
    return parts


def check_name(parts: Identifier) -> None:
    """Check that catalogs take a name."""
    if not parts[-1] or any("\0" in part for part in parts):
        raise CorruptLog(f"a table has a name, without null characters; table=`{parts}`")


def is_txn_id(txn_id: str) -> bool:
    """Whether the log can hold a transaction id."""
    if len(txn_id) > TXN_ID_MAX_CHARACTERS:
        return False
    unprintable = any(unicodedata.category(character) in {"Cc", "Cs"} for character in txn_id)
    return not unprintable and bool(txn_id.strip())
