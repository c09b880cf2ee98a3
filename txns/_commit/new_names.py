"""
Names of new tables that a catalog may take for those of others, since they differ in letters alone.

Docs/spec.md 6.4. Which letters it folds a catalog tells once it has one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._identifier import dotted_name, folded
from txns.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable

    from txns._stage.staged_table import StagedTable


def refuse_alike(writes: Iterable[StagedTable]) -> None:
    """
    Refuse to write two tables that may be one: both are new, or stand on one that was dropped.

    Raises:
        Unsupported: The second one might never be carried out.
    """
    by_letters: dict[str, list[StagedTable]] = {}
    for write in writes:
        others = by_letters.setdefault(folded(write.identifier), [])
        for other in others:
            if (write.create and other.create) or write.base.table_uuid == other.base.table_uuid:
                raise Unsupported(
                    "the names of two tables that it creates differ in letters alone, and the"
                    " catalog may take both for one: create one of them in a transaction of its"
                    f" own; table=`{dotted_name(write.identifier)}`"
                    f" other=`{dotted_name(other.identifier)}`"
                )
        others.append(write)
