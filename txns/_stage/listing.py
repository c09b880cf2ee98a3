"""What a namespace lists for a transaction that has staged tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txns._identifier import folded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from uuid import UUID

    from txns._identifier import Identifier
    from txns._stage.staged_table import StagedTable


def with_staged(
    listed: Iterable[Identifier],
    namespace: Identifier,
    staged: Mapping[Identifier, StagedTable],
    uuid_of: Callable[[Identifier], UUID | None],
) -> list[Identifier]:
    """
    Take away what is dropped of a list, and add what is created.

    Args:
        listed: The tables of the namespace as of `read_ts`, by the catalog's own letters.
        namespace: Which one is listed.
        staged: What the transaction has staged, of all namespaces.
        uuid_of: Asks the catalog whose table a name is; None where there is none any more.
    """
    tables = dict.fromkeys(listed)
    for name, table in staged.items():
        if name[:-1] != namespace:
            continue
        same = {each for each in tables if _is_listed_as(name, table, each, uuid_of)}
        if table.dropped:
            tables = dict.fromkeys(each for each in tables if each not in same)
        elif not same:
            tables[name] = None
    return list(tables)


def _is_listed_as(
    name: Identifier,
    table: StagedTable,
    listed: Identifier,
    uuid_of: Callable[[Identifier], UUID | None],
) -> bool:
    """Whether a name of the list is a staged table's: a catalog may have its own letters."""
    return listed == name or (
        folded(listed) == folded(name) and uuid_of(listed) == table.base.table_uuid
    )
