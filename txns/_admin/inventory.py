"""Looks at every table under care, also at those that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from txns._log.change import Operation
from txns._table import mark as _mark
from txns.errors import Conflict, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.catalog import Catalog

    from txns._identifier import Identifier
    from txns._log.head import Head
    from txns._services import Parts
    from txns._table.loaded import Loaded


@dataclass(frozen=True, slots=True)
class Surveyed:
    """
    One table under care.

    Attributes:
        identifier: Its name.
        loaded: As of the head's upper; None where it cannot be read.
        error: Why it cannot.
    """

    identifier: Identifier
    loaded: Loaded | None
    error: Exception | None = None

    @property
    def dropped(self) -> bool:
        """Whether a drop has hidden it."""
        return bool(self.loaded and self.loaded.dropped)

    @property
    def foreign(self) -> bool:
        """Whether it shows something that a stranger did, or cannot be read."""
        return self.loaded is None or self.loaded.stranger is not None


def survey(parts: Parts, head: Head, names: Iterable[Identifier] | None = None) -> list[Surveyed]:
    """Give every table under care in every namespace, or of names; dropped ones, too; by name."""
    found = []
    for name in sorted(table_names(parts, head) if names is None else names):
        try:
            loaded = parts.tables.load_with_dropped(name, head, head.upper)
        except NoSuchTableError:
            continue
        except Conflict:
            continue  # created after the head was loaded
        except Exception as error:  # noqa: BLE001 -- one table that is broken hides no other
            if not (isinstance(error, Unsupported) and _is_elsewhere(parts, name)):
                found.append(Surveyed(name, None, error))
            continue
        if loaded.registered:
            found.append(Surveyed(name, loaded))
    return found


def table_names(parts: Parts, head: Head) -> set[Identifier]:
    """Give the names of the catalog's tables but the log, and of those that that is to create."""
    names = {
        change.table
        for entry in head.state.entries
        for change in entry.changes
        if change.operation is Operation.CREATE
    }
    for namespace in namespaces(parts.catalog):
        names.update(parts.catalog.list_tables(namespace))
    return names - {parts.log.identifier}


def _is_elsewhere(parts: Parts, name: Identifier) -> bool:
    """Whether another commit table cares for a table."""
    mark = _mark.mark_of(parts.catalog.load_table(name).metadata)
    return mark is not None and mark.commit_table != ".".join(parts.log.identifier)


def namespaces(catalog: Catalog) -> list[Identifier]:
    """Give every namespace that has a name of a catalog, nested ones included, by name."""
    found: list[Identifier] = []
    waiting = [each for each in catalog.list_namespaces() if _is_named(each)]
    while waiting:
        namespace = waiting.pop()
        found.append(namespace)
        deeper = catalog.list_namespaces(namespace)
        waiting += [each for each in deeper if each not in found and each != namespace]
    return sorted(found)


def has_nameless(catalog: Catalog) -> bool:
    """Say whether tables have no namespace: other engines make such, pyiceberg loads none."""
    return not all(map(_is_named, catalog.list_namespaces()))


def _is_named(namespace: Identifier) -> bool:
    return bool(namespace) and all(namespace)
