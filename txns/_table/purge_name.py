"""
Names of tables that a purger has moved aside, to drop what nobody else can stand under.

Docs/spec.md 6.8. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txns._identifier import Identifier

_INFIX = "__txns_purge_"
_APART = re.compile(rf"(.+){_INFIX}[0-9a-f]{{12}}", re.DOTALL)


def name_apart(table: Identifier, unique: str) -> Identifier:
    """Give the name that one purger moves a table to; `unique` is a UUID of its own."""
    return (*table[:-1], f"{table[-1]}{_INFIX}{unique.replace('-', '')[-12:]}")


def is_apart(table: Identifier) -> bool:
    """Whether a purger has moved a table here."""
    return _APART.fullmatch(table[-1]) is not None


def name_before(apart: Identifier) -> Identifier:
    """Give the name that a table was moved from."""
    match = _APART.fullmatch(apart[-1])
    assert match is not None
    return (*apart[:-1], match[1])
