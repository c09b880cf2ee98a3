"""Looks through tables under care for what strangers have appended, and adopts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from txns._admin.inventory import table_names
from txns._iceberg.known_tables import load_table
from txns._logger import fields, logger
from txns._table.loaded import Registered
from txns._table.mark import mark_of
from txns.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.table.metadata import TableMetadata

    from txns._identifier import Identifier
    from txns._log.entry import Entry
    from txns._services import Parts

_LOG = logger(__name__)


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


def adopt_all(parts: Parts, is_over: Callable[[], bool]) -> Iterator[Adopted]:
    """
    Adopt what strangers have appended to every table under care.

    A table that does more than lack an adoption, one in quarantine or that cannot be read, is
    passed over.

    Args:
        parts: Of the handle.
        is_over: Asked whether to stop, before each table, of which there may be thousands, and
            while it is waited for others.

    Raises:
        Exception: The log, or the catalog's list of tables, cannot be read.
    """
    for name in sorted(table_names(parts, parts.log.load())):
        if is_over():
            return
        try:
            due = _due(parts, name)
        except Exception:  # noqa: BLE001 -- `txns status` names what is broken
            _LOG.debug("not looked at", exc_info=True, extra=fields(table=name))
            continue
        if due:
            yield from _adopted(parts, name, due, is_over)


def adopt_named(
    parts: Parts, names: Iterable[Identifier], is_over: Callable[[], bool]
) -> Iterator[Adopted]:
    """
    Adopt what strangers have appended to some tables; whatever is wrong with one is told.

    Raises:
        Exception: The log cannot be read.
    """
    head = parts.log.load()
    for name in names:
        if is_over():
            return
        try:
            loaded = parts.tables.load(name, head, head.upper)
            if loaded.stranger or not isinstance(loaded, Registered):
                loaded.writable()  # nobody writes it for nothing: its format does not count
            due = _due(parts, name)
        except Exception as error:  # noqa: BLE001 -- one that is broken keeps no other from it
            yield Adopted(name, None, error)
            continue
        if due:
            yield from _adopted(parts, name, due, is_over)


def _due(parts: Parts, name: Identifier) -> TableMetadata | None:
    """
    Look at what the catalog has, with nothing of the log: most tables have nothing to adopt.

    Returns:
        The table, where something may be.

    Raises:
        Exception: It cannot be read.
    """
    try:
        metadata = load_table(parts.catalog, name).metadata
    except NoSuchTableError:
        return None  # it is logged and not created yet, or gone
    mark = mark_of(metadata)
    ours = mark is not None and mark.commit_table == ".".join(parts.log.identifier)
    return metadata if ours and parts.adoption.is_due(metadata) else None


def _adopted(
    parts: Parts, name: Identifier, due: TableMetadata, is_over: Callable[[], bool]
) -> Iterator[Adopted]:
    """Adopt what is due of a table; tell of each branch that is left to a person for its rows."""
    try:
        for entry in parts.committer.adopting(name, is_over):
            yield Adopted(name, entry)
        for why in parts.adoption.why_left(due):
            yield Adopted(name, None, Unsupported(why))
    except Exception as error:  # noqa: BLE001 -- one that is broken keeps no other from it
        yield Adopted(name, None, error)
