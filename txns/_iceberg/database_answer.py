"""What a catalog's database has told its driver."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

_CODES = ("pgcode", "sqlstate", "sqlite_errorname")
"""psycopg2 and psycopg name it differently; sqlite3 has names of its own."""


def codes_of(error: BaseException) -> list[str]:
    """Give the codes that a database has told its driver of an error; none for any other one."""
    if not isinstance(error, DBAPIError) or error.orig is None:
        return []
    return [told for name in _CODES if (told := getattr(error.orig, name, None))]
