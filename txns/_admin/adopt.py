"""Looks through tables under care for what strangers have appended, and adopts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from txns._admin.inventory import survey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from txns._identifier import Identifier
    from txns._log.entry import Entry
    from txns._services import Parts


@dataclass(frozen=True, slots=True)
class Adopted:
    """
    One adoption, or a table that has none.

    Attributes:
        identifier: The table's name.
        entry: The adoption; None where there was to be one, and is not.
        error: Why not.
    """

    identifier: Identifier
    entry: Entry | None
    error: Exception | None = None


def adopt(parts: Parts, names: Iterable[Identifier] | None = None) -> Iterator[Adopted]:
    """
    Adopt what strangers have appended to every table under care, or to those of some names.

    A table that does more than lack an adoption, one in quarantine, is passed over.

    Raises:
        Exception: The log, or the catalog's list of tables, cannot be read.
    """
    for each in survey(parts, parts.log.load(), names):
        table = each.loaded.table if each.loaded else None
        if table is None or each.dropped:
            continue
        try:
            if not parts.adoption.is_due(table.metadata):
                continue
            entries = parts.committer.adopt(each.identifier)
        except Exception as error:  # noqa: BLE001 -- one that is broken keeps no other from it
            yield Adopted(each.identifier, None, error)
            continue
        yield from (Adopted(each.identifier, entry) for entry in entries)
