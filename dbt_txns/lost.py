"""What dbt says of a lost race: who came first, and what keeps the two apart from now on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txns_spark import dbapi

# Of the comment that a scope writes, which an error may cut short.
_OF_COMMENT = re.compile(r'"(invocation_id|node_id)": "([^"]*)')
_CUT = "..."
_REHEARSED = "this is a rehearsal"
# What the protocol itself advises, in the words of SQL: dbt says it in those of its configuration.
_ADVICE = re.compile(r"; (what would help: .*?)(?=; table=`|$)")
_BATCHES = (
    "`partition_by` the event_time, as in days(at), keeps the files of batches apart,"
    " `concurrent_batches: false` the batches themselves"
)
_BY_PARTITION = (
    "`partition_by` what tells the two apart, and let `incremental_predicates` name that column"
)
_NAMED = (
    "let `incremental_predicates` name a column of `partition_by`, as in"
    " DBT_INTERNAL_DEST.day >= ..., and so the model's own queries of the table"
)
_ALTERED = "the table was altered or replaced meanwhile: let what does so run alone"
_WHOLE = "(filter true"
# All that Spark knows of a condition that it cannot push down: which columns it needs.
_NOT_NULL = "[^()=<>'\"]+ is not null"
_NEARLY_WHOLE = re.compile(rf"\(filter \(*{_NOT_NULL}( and {_NOT_NULL})*\)*(?=[,)])")
# The first whose words are in the error: what Spark says of what met what.
_CURES = (
    (
        "a table that it creates was created",
        "both build the table for the first time: let one of them do so",
    ),
    ("metadata it read and that it appended to was altered", _ALTERED),
    ("has another schema", _ALTERED),
    (
        "partitioning the table by a column that the filters",
        f"it has read the whole table: {_BY_PARTITION}",
    ),
    (_WHOLE, f"it has read the whole table: {_NAMED}"),
    ("filters that compare ", f"both were in one file: {_NAMED}"),
    ("(filter ", f"both were in one file: {_BY_PARTITION}"),
    (
        "were compacted by others",
        "a compaction has rewritten files that the model changes: let it run when no model does",
    ),
    ("files that it replaced", f"both changed one file: {_BY_PARTITION}"),
    (
        "a table that it wrote over",
        "one of them replaces or alters the table as a whole: let one run at a time build it",
    ),
)
# Of another table than the model's own, which its configuration says nothing of.
_ONLY_READ = "a table that it read was written"
_LESS = "let the model's query of that table name a column that it is partitioned by"
_WROTE = ("it wrote", "it replaced", "it append", "it read and append", "nothing to change")
_BESIDE = (
    "that is not the table that the model builds: let the hook that writes it append only, or name"
    " what it changes in its WHERE by a column that the table is partitioned by"
)
_LOWER = "or `isolation: SNAPSHOT`, where what the model only reads may change meanwhile"
_ALWAYS = (
    "or more `retries`; or `transaction: none`, where nobody minds to see half of it"
    " (docs/dbt.md#when-a-model-loses-a-race)"
)


def is_sibling(conflict: dbapi.TransactionConflict, comment: str) -> bool:
    """Say whether who came first has a scope's own comment: another batch of its model."""
    other = conflict.other_comment or ""
    if other.endswith(_CUT):
        return comment.startswith(other.removesuffix(_CUT))
    return bool(other) and other == comment


def without_advice(message: str) -> str:
    """Give what an error says but for what would help, which `explanation` says."""
    return _ADVICE.sub("", message, count=1)


def explanation(conflict: dbapi.TransactionConflict, comment: str, builds: str) -> str:
    """
    Give the lines that follow an error: which node of which run came first, and what to change.

    Args:
        conflict: What Spark said.
        comment: That of the transaction that has lost.
        builds: The table that its node builds, as an error names it; empty where it is not known.

    Returns:
        Each line after a line break; none of a node where it was none of dbt's that came first,
        and none at all after a rehearsal.
    """
    message = str(conflict)
    if _REHEARSED in message:
        return ""
    sibling = is_sibling(conflict, comment)
    lines = [
        _winner(conflict.other_comment or "", sibling=sibling),
        *([_BESIDE] if _is_beside(conflict, builds) else _cures(message, sibling=sibling)),
        _ALWAYS,
    ]
    return "".join(f"\n  {line}" for line in lines if line)


def _is_beside(conflict: dbapi.TransactionConflict, builds: str) -> bool:
    """Say whether it has lost over a table that it wrote, and that is not the model's own."""
    table, message = (conflict.table or "").lower(), str(conflict)
    wrote = any(words in message for words in _WROTE)
    return wrote and bool(builds and table) and table != builds.lower()


def _cures(message: str, *, sibling: bool) -> list[str]:
    """Say what keeps the two apart from now on."""
    message = _NEARLY_WHOLE.sub(_WHOLE, message)
    if _ONLY_READ in message:
        return [_LESS, _LOWER]
    cures = [cure for told, cure in _CURES if told in message][:1] or _ADVICE.findall(message)
    if not sibling:
        return cures
    # Batches whose files are apart meet all the same where the model reads the whole table.
    return [_BATCHES, *(cures if _WHOLE in message else [])]


def _winner(other_comment: str, *, sibling: bool) -> str:
    """Say which node of which run came first; nothing where it was none of dbt's."""
    found = dict(_OF_COMMENT.findall(other_comment))
    if "node_id" not in found:
        return ""
    if sibling:
        return f"another batch of {found['node_id']} came first"
    return f"{found['node_id']} came first, in the run {found.get('invocation_id', 'of dbt')}"
