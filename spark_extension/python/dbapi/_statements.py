"""What a statement does to a transaction, as far as its text tells."""

from __future__ import annotations

import re

from txns_spark.dbapi._markers import code_of

# Statements that begin no transaction before them: they begin, end or look at one themselves.
_OWN = re.compile(
    r"\s*(?:(?:COMMIT|END|ROLLBACK|ABORT|RELEASE|(?:START|SHOW|SET)\s+TRANSACTION"
    r"|SET\s+SESSION\s+CHARACTERISTICS)\b"
    r"|BEGIN\s*(?:;|\Z|(?:TRANSACTION|WORK|ATOMIC|READ|ISOLATION|ID|AS|BASIS|COMMENT(?!\s+ON))\b))",
    re.IGNORECASE,
)
# Those of them that commit.
_ENDS = re.compile(r"\A\s*(?:COMMIT|END|BEGIN\s+ATOMIC)\b", re.IGNORECASE)
_HEAD_CHARS = 1000
# Scripts hold statements whose answers nobody sees, and what a variable stands for, Spark knows.
_MAY_HIDE_STATEMENTS = re.compile(r"\b(?:BEGIN|EXECUTE)\b|\$\{", re.IGNORECASE)
# What writes nothing that outlives the session, and is no query.
_ONLY_LOOKS = re.compile(
    r"\s*(?:SHOW|DESC|DESCRIBE|EXPLAIN|SET|RESET|USE|REFRESH|CACHE|UNCACHE|SAVEPOINT)\b",
    re.IGNORECASE,
)
_QUERY_HEADS = frozenset({"SELECT", "VALUES", "TABLE", "FROM"})
_WITH_CHANGE = re.compile(r"\)\s*(?:INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)


def is_own(sql: str) -> bool:
    """Tell whether a statement begins, ends or looks at a transaction."""
    return _OWN.match(_code(sql)) is not None


def ends(sql: str) -> bool:
    """Tell whether a statement commits what is open, or itself."""
    return _ENDS.match(_code(sql)) is not None


def may_end(sql: str) -> bool:
    """Tell whether a statement may commit what was open before it, also where nobody sees that."""
    if is_own(sql):
        return ends(sql)
    if _MAY_HIDE_STATEMENTS.search(sql) is None:
        return False
    return "${" in sql or (
        _MAY_HIDE_STATEMENTS.search(code_of(sql)) is not None and not is_query(sql)
    )


def may_write(sql: str) -> bool:
    """Tell whether a statement may, where no transaction is open, commit something by itself."""
    if may_end(sql):
        return True
    return not (not sql or is_own(sql) or _ONLY_LOOKS.match(_code(sql)) or is_query(sql))


def is_query(sql: str) -> bool:
    """Tell a query from a change, by what follows the last of its WITH."""
    text = code_of(sql).lstrip("( \t\r\n\f\v")
    head = text[:8].split(None, 1)[0].upper() if text else ""
    if head == "WITH":
        return _WITH_CHANGE.search(text) is None
    return head.rstrip("(") in _QUERY_HEADS and not re.match(
        r"FROM\b.*\bINSERT\b", text, re.IGNORECASE | re.DOTALL
    )


def _code(sql: str) -> str:
    """Return a statement, of which only the beginning counts: nothing is quoted there."""
    head = sql[:_HEAD_CHARS]
    return code_of(sql) if "--" in head or "/*" in head else sql
